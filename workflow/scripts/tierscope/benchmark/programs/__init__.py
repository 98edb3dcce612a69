"""A program of the user in place of our loaders: its nodes, its ranks, its runs."""
