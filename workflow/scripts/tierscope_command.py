"""The command of a clone: `make setup` makes `.venv/bin/tierscope`, which runs it."""

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # first: no traceback of an import

import sys
from pathlib import Path

# Not left to Python, which PYTHONSAFEPATH tells not to do it.
sys.path.insert(0, str(Path(__file__).parent))

from tierscope.command.main import main

if __name__ == "__main__":
    sys.exit(main())
