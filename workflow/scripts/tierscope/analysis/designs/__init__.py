"""Answers of a study of designs: what to buy, and what limits it."""
