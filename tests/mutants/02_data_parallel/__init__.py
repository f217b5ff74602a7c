"""Wrong solutions of unit 02."""
