"""Figures of jobs whose Darshan logs were given."""
