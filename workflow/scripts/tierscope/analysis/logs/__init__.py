"""Questions to the tables of logged jobs, of any number."""
