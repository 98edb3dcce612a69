"""What the machine did while a launch measured: page cache, drift, its software."""
