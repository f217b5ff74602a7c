"""Wrong solutions of unit 10."""
