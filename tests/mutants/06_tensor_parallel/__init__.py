"""Wrong solutions of unit 06."""
