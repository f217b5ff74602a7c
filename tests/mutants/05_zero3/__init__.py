"""Wrong solutions of unit 05."""
