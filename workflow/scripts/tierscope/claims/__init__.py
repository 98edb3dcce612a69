"""What papers claim, and whether our tables agree."""
