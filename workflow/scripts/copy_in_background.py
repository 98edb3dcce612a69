"""Copy files of a dataset to a node's LFS, as the node's keeper orders.

    TIERSCOPE_LINKS=DIR python copy_in_background.py --copies DIR --threads N [--cold]

The folder of the tiers' names is on no command line, as all users see these.
An order is a line of standard input, JSON: file id, epoch, path below the dataset, size
in bytes and time in nanoseconds. Its answer is a line of standard output: file id, and
null or the number and the words of the error.
"""

import argparse
import os
import signal
from pathlib import Path

from tierscope.benchmark.programs.copier import LINKS, serve


def main() -> None:
    """Carry out orders until standard input ends."""
    parser = argparse.ArgumentParser(description="Copy files in the background.")
    parser.add_argument("--copies", type=Path, required=True, help="folder of copies")
    parser.add_argument("--threads", type=int, required=True, help="copies at a time")
    parser.add_argument("--cold", action="store_true", help="pages leave the memory")
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all
    serve(os.environ[LINKS], given.copies, given.threads, cold=given.cold)


if __name__ == "__main__":
    main()
