"""Wrong solutions of unit 08."""
