"""Figures that compare policies, loaders, and numbers of nodes."""
