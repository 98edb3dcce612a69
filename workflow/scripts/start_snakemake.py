"""Snakemake as `tierscope sweep` and `make run` start it: it ends when they do.

A signal that comes before it listens (`tierscope.experiment.ending`) ends it silently.
"""

import os
import signal
import sys
from pathlib import Path

# Not left to Python, which PYTHONSAFEPATH tells not to do it.
sys.path.insert(0, str(Path(__file__).parent))

from tierscope.core.processes.children import HELD_BACK, end_with_parent, listen
from tierscope.storage.own_folder import close_umask

if __name__ == "__main__":
    listen(signal.SIG_DFL, [signal.SIGINT])
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)  # by `tierscope sweep`
    end_with_parent(os.getppid(), signal.SIGTERM)
    close_umask()  # Snakemake makes its folder before it reads the rules
    from snakemake.cli import main

    main()
