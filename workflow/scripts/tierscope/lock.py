"""A lock on an experiment that ends with its process, even if that is killed."""

import atexit
import fcntl
import os
import platform
import sys
from pathlib import Path
from typing import TextIO


class LockedError(RuntimeError):
    """Another process works on the experiment."""


def lock_experiment(results: Path) -> TextIO:
    """Hold the lock of an experiment as long as the returned file is open.

    Parameters
    ----------
    results : Path
        Folder of the experiment; made if it is missing.

    Raises
    ------
    LockedError
        If another process holds it. Where locks do not reach other machines, the file
        names the machine of the process that has not given it back.
    """
    results.mkdir(parents=True, exist_ok=True)
    path = results / ".lock"
    lock = path.open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LockedError(
            f"{path}: another snakemake is working on this experiment; wait until it "
            "has ended."
        ) from None
    except OSError as error:
        print(f"tierscope: {path}: cannot lock: {error.strerror}.", file=sys.stderr)
    lock.seek(0)
    host, _, process = lock.read().partition(" ")
    if host and host != platform.node():
        raise LockedError(
            f"{path}: snakemake {process} on {host} works on this experiment, or was "
            "killed there; if it does not run any more, remove this file."
        )
    lock.truncate(0)
    lock.write(f"{platform.node()} {os.getpid()}")
    lock.flush()
    atexit.register(_give_back, lock)
    return lock


def _give_back(lock: TextIO) -> None:
    """Empty the lock's file, so that nobody on another machine waits for us."""
    if not lock.closed:
        lock.truncate(0)
