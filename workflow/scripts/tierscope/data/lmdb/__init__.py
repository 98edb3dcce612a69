"""Datasets in one LMDB file: how they are written, and what a loader reads of them."""
