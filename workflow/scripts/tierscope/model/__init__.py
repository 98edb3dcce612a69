"""Models of the I/O time: the storage as a network of queues, simulated or solved."""
