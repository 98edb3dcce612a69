"""How many accelerators a storage feeds: the configuration and its workloads."""
