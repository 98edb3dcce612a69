"""Pages of jobs whose Darshan logs were given: one of each job, one of all."""
