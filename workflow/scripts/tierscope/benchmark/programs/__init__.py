"""Runs of a user's program, whose opens go to the tier that a policy says."""
