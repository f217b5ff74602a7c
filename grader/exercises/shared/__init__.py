"""What several exercises have in common."""
