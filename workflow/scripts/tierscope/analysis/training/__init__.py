"""What a training that computes waits for: the storage, or the processor."""
