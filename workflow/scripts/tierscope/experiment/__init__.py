"""The experiment: its configuration, its system and the jobs that it submits."""
