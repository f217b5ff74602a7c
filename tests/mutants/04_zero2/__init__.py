"""Wrong solutions of unit 04."""
