"""Emulated devices: their parameters, their scale and their library."""
