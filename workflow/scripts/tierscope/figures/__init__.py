"""Figures: each module draws one."""
