"""Figures of what a training waits for."""
