"""The processes of a machine: which live, who has started them, how they end."""
