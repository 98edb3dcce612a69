"""The command of an installed package: ``python -m tierscope``."""

import sys

from tierscope.command.main import main

if __name__ == "__main__":
    sys.exit(main())
