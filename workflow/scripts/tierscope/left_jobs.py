"""Slurm jobs that a killed snakemake left: found and cancelled at the next start.

A job that still waits is known by the mark that Snakemake puts on its outputs. A
running job's mark is lost, so each job notes its own id in a folder of the experiment.
(The executor plugin for PJM watches such jobs on instead.)
"""

import os
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

_GONE_TIMEOUT_S = 180.0  # a job is killed when it ignores SIGTERM for half a minute
_COMMAND_TIMEOUT_S = 60
_POLL_S = 1.0


class LeftJobsError(RuntimeError):
    """Jobs of an earlier start are in the way."""


def note_job(folder: Path) -> None:
    """Note the Slurm job that this process runs in."""
    if job_id := os.environ.get("SLURM_JOB_ID"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / job_id).touch()


def cancel_left_jobs(folder: Path, marked: Iterable[str]) -> list[str]:
    """Cancel the jobs of an earlier start and wait until they are gone.

    Parameters
    ----------
    folder : Path
        Where jobs have noted their ids; the notes of ended jobs are removed.
    marked : iterable of str
        Ids that Snakemake has marked unfinished outputs with.

    Returns
    -------
    list of str
        The ids of the jobs that were cancelled.

    Raises
    ------
    LeftJobsError
        If Slurm cannot be asked, or a job does not end.
    """
    noted = [path.name for path in folder.glob("*")] if folder.is_dir() else []
    known = sorted({job for job in [*noted, *marked] if job.isdecimal()}, key=int)
    left = _active(known)
    if left:
        _slurm("scancel", *left)
        end = time.monotonic() + _GONE_TIMEOUT_S
        while remaining := _active(left):
            if time.monotonic() > end:
                raise LeftJobsError(
                    f"Slurm jobs {', '.join(remaining)} of an earlier start do not end "
                    f"{_GONE_TIMEOUT_S:.0f} s after scancel; see squeue."
                )
            time.sleep(_POLL_S)
    for job in noted:
        (folder / job).unlink(missing_ok=True)
    return left


def _active(jobs: list[str]) -> list[str]:
    """Return those of some jobs that wait, run or are being ended."""
    if not jobs:
        return []
    listed = _slurm("squeue", "--me", "--noheader", "--format=%A")
    return [job for job in jobs if job in listed.split()]


def _slurm(*command: str) -> str:
    """Run a command of Slurm's and return what it prints."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_COMMAND_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LeftJobsError(f"{command[0]}: {error}") from error
    if done.returncode:
        words = " ".join(done.stderr.split())
        raise LeftJobsError(
            f"{' '.join(command)}: exit code {done.returncode}: {words}"
        )
    return done.stdout
