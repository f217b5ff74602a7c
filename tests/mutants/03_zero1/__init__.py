"""Wrong solutions of unit 03."""
