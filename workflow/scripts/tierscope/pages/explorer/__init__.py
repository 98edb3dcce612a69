"""The explorer: a page in which a reader tries improvements."""
