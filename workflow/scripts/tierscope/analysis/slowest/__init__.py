"""Times of processes, and what improvements make of the slowest one."""
