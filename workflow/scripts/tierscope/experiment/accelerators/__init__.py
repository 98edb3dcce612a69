"""How many accelerators a storage feeds: the configuration, and what is simulated."""
