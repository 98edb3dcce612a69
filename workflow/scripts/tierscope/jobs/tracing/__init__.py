"""Any command under our tracer: one Darshan log a process."""
