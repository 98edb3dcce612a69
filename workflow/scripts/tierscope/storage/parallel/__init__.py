"""Parallel file systems: which of their servers holds each file."""
