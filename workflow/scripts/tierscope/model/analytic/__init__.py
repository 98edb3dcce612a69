"""Closed forms: bounds, order statistics and mean value analysis."""
