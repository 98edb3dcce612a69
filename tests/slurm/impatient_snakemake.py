"""Snakemake as it is, but asking Slurm for the state of jobs every half a second.

Its Slurm plugin asks ever more rarely, up to every three minutes; tests would wait.
Where there is a file `answer-slowly`, it writes `asking` and waits for the answer.
"""

import asyncio
import sys
from pathlib import Path

from snakemake.cli import main
from snakemake_executor_plugin_slurm import Executor

Executor.next_seconds_between_status_checks = property(
    lambda executor: 0.5, lambda executor, seconds: None
)
check_active_jobs = Executor.check_active_jobs


async def check_slowly(executor, active_jobs):
    """Check the state of jobs, and take a second for it where a test wants that."""
    if active_jobs and Path("answer-slowly").exists():
        Path("asking").touch()
        await asyncio.sleep(1)
    async for job in check_active_jobs(executor, active_jobs):
        yield job


Executor.check_active_jobs = check_slowly

if __name__ == "__main__":
    sys.exit(main())
