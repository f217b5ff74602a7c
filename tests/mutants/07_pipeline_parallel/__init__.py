"""Wrong solutions of unit 07."""
