"""Limits of a node's copies, in the benchmark and in its simulation."""

HELD_BYTES = 256 << 20  # of handed-over files; above it, files are read again
READ_BYTES = 1 << 20  # size of a copy's read call
