"""Tracers, Darshan logs, and the records of logs by epoch, tier and file."""
