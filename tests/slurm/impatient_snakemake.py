"""Snakemake as it is, but asking Slurm for the state of jobs every half a second.

Its Slurm plugin asks ever more rarely, up to every three minutes; tests would wait.
"""

import sys

from snakemake.cli import main
from snakemake_executor_plugin_slurm import Executor

Executor.next_seconds_between_status_checks = property(
    lambda executor: 0.5, lambda executor, seconds: None
)

if __name__ == "__main__":
    sys.exit(main())
