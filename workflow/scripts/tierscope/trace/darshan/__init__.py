"""The format of Darshan logs: regions, names, records of modules."""
