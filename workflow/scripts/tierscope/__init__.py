"""Measure, break down and estimate the I/O time of training on two storage tiers."""
