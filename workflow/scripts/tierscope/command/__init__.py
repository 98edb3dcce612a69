"""The command line: `tierscope sweep`, `trace`, `tables` and `table`."""
