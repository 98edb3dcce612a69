"""The report: an experiment in one page."""
