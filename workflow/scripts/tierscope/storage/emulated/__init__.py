"""Emulated devices: their parameters, their scale and the library that plays them."""
