"""What joins the logs of jobs: arrays of all logs, columns of tables, and words."""
