"""Reports on a unit's marks: records in, tables, figure, CSV files and a page out."""
