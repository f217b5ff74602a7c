"""Wrong solutions of unit 11."""
