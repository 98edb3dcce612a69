"""What a program that has ended did: its notes become the tables of its run."""
