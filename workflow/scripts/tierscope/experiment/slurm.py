"""Tasks that the executor plugin for Slurm leaves to us: jobs of a killed snakemake.

A waiting job is known by the mark that Snakemake puts on its outputs. The mark of a
running job is lost, so each job notes its own id in a folder of the experiment: a
launch in its shell lines, a generation by `note_job`.
(The executor plugin for PJM continues to watch such jobs instead.)
"""

import os
import re
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

_GONE_TIMEOUT_S = 180.0  # Slurm kills a job that ignores SIGTERM for half a minute
_COMMAND_TIMEOUT_S = 60
_POLL_S = 1.0
_LONGEST_CHECK_INTERVAL_S = 180  # of the plugin, which lengthens it step by step


class SlurmError(RuntimeError):
    """Slurm cannot do what is needed."""


def note_job(folder: str | None) -> None:
    """Note the Slurm job that this process runs in, if there is a folder of notes."""
    if folder and (job_id := os.environ.get("SLURM_JOB_ID")):
        Path(folder).mkdir(parents=True, exist_ok=True)
        Path(folder, job_id).touch()


def check_memory_of_ended_jobs() -> None:
    """Refuse a Slurm whose squeue may forget an ended job before the plugin asks.

    Raises
    ------
    SlurmError
        With the time and the remedy.
    """
    settings = _slurm("scontrol", "show", "config")
    match = re.search(r"^MinJobAge\s*=\s*(\d+)", settings, re.MULTILINE)
    if match and int(match[1]) <= _LONGEST_CHECK_INTERVAL_S:
        raise SlurmError(
            f"squeue forgets ended jobs after {match[1]} s (MinJobAge), expected more "
            f"than {_LONGEST_CHECK_INTERVAL_S} s; if the site has accounting, set "
            "slurm-status-command: sacct in the profile."
        )


def cancel_forgotten_jobs(folder: Path, marked: Iterable[str]) -> None:
    """Cancel the jobs of a start that ends, without waiting; as for `cancel_left_jobs`.

    An interrupted Snakemake forgets the jobs whose status it is asking for.
    """
    if left := _active(_known_jobs(folder, marked)):
        _scancel(left)


def cancel_left_jobs(folder: Path, marked: Iterable[str]) -> list[str]:
    """Cancel the jobs of an earlier start and wait until they have ended.

    Parameters
    ----------
    folder : Path
        Folder in which jobs have noted their ids; the notes of ended jobs are removed.
    marked : iterable of str
        Ids with which Snakemake has marked unfinished outputs.

    Returns
    -------
    list of str
        The ids of the jobs that were cancelled.

    Raises
    ------
    SlurmError
        If Slurm cannot be asked, or a job does not end.
    """
    known = _known_jobs(folder, marked)
    left = _active(known)
    end = time.monotonic() + _GONE_TIMEOUT_S
    remaining = left
    while remaining:
        _scancel(remaining)  # repeated: it fails if one of the jobs has ended meanwhile
        time.sleep(_POLL_S)
        remaining = _active(left)
        if remaining and time.monotonic() > end:
            raise SlurmError(
                f"Slurm jobs {', '.join(remaining)} of an earlier start do not end "
                f"{_GONE_TIMEOUT_S:.0f} s after scancel; see squeue."
            )
    for job in known:
        (folder / job).unlink(missing_ok=True)
    return left


def _known_jobs(folder: Path, marked: Iterable[str]) -> list[str]:
    """Return the jobs that have noted their ids or that Snakemake has marked."""
    noted = [path.name for path in folder.glob("*")]
    return sorted({job for job in [*noted, *marked] if job.isdecimal()}, key=int)


def _scancel(jobs: list[str]) -> None:
    """Tell Slurm to cancel jobs; ignore errors, as for jobs that have ended."""
    subprocess.run(["scancel", *jobs], capture_output=True, check=False)


def _active(jobs: list[str]) -> list[str]:
    """Return the jobs of this folder that wait, run or are ending."""
    if not jobs:
        return []
    listed = set()
    for line in _slurm("squeue", "--me", "--noheader", "--format=%A %Z").splitlines():
        job, _, folder = line.partition(" ")
        if folder == os.getcwd():  # after a reset, Slurm uses ids again
            listed.add(job)
    return [job for job in jobs if job in listed]


def _slurm(*command: str) -> str:
    """Run a Slurm command and return its output."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=_COMMAND_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SlurmError(f"{command[0]}: {error}") from error
    if done.returncode:
        words = " ".join(done.stderr.split())
        raise SlurmError(f"{' '.join(command)}: exit code {done.returncode}: {words}")
    return done.stdout
