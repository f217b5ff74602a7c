"""Wrong solutions of unit 09."""
