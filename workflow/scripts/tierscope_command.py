"""The command of a clone: `make setup` makes `.venv/bin/tierscope`, which runs it."""

import sys

from tierscope.jobs.command import main

if __name__ == "__main__":
    sys.exit(main())
