"""What rules ask of an experiment: its files, where they lie, what jobs need."""
