"""Any command under our tracer: `tierscope trace`."""
