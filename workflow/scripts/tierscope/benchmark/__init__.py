"""One launch of the benchmark: its processes, their storage and what they leave."""
