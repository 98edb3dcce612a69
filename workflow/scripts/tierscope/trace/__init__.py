"""Tracers, Darshan logs, and what these say per epoch, tier and file."""
