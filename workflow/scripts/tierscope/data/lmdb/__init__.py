"""Datasets in one LMDB file: writing them, and a loader's reads of them."""
