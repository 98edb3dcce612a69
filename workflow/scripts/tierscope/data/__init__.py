"""Datasets, and the order in which processes read them."""
