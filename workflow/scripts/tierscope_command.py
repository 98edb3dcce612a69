"""The command of a clone: `make setup` makes `.venv/bin/tierscope`, which runs it."""

import signal
import sys
from pathlib import Path

# Not left to Python, which PYTHONSAFEPATH tells not to do it.
sys.path.insert(0, str(Path(__file__).parent))

from tierscope.storage.children import listen

if __name__ == "__main__":
    listen(signal.SIG_DFL, [signal.SIGINT])  # Ctrl-C ends it without a traceback
    from tierscope.logs.command import main

    sys.exit(main())
