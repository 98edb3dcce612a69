"""How many accelerators a storage feeds, by the simulator."""
