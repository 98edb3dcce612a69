"""The simulator: the network of queues, event by event."""
