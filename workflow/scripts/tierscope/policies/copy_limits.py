"""What bounds a node's copies, in the benchmark and in simulations of it."""

HELD_BYTES = 256 << 20  # of files handed over; beyond it they are read again
READ_BYTES = 1 << 20  # a copy's read call
