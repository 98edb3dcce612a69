"""Fit the parameters of a machine to measurements."""
