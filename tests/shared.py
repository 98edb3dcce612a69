"""What is made once for all processes of pytest-xdist: libraries, projects to copy."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

_VARIABLE = "TIERSCOPE_TESTS_SHARED"
_LOCK = "running.lock"  # which the process that made the folder holds while it lives
_held: list[TextIO] = []


def begin() -> bool:
    """Make the folder; return whether it is new, so that the caller has to `end`."""
    if _VARIABLE in os.environ:
        return False
    folder = tempfile.mkdtemp(prefix="tierscope-tests-")
    os.environ[_VARIABLE] = folder
    lock = Path(folder, _LOCK).open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    _held.append(lock)
    return True


def end() -> None:
    """Remove the folder."""
    shutil.rmtree(os.environ.pop(_VARIABLE), ignore_errors=True)
    _held.pop().close()


def has_ended() -> bool:
    """Return whether the process that made the folder has ended, killed or not."""
    try:
        with Path(os.environ[_VARIABLE], _LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except FileNotFoundError:
        return True
    return True


def made_once(name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder that the first process that asks for it has made."""
    folder = Path(os.environ[_VARIABLE]) / name
    done = folder.with_name(f"{name}.done")
    with folder.with_name(f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of who has failed
            folder.mkdir()
            make(folder)
            done.touch()
    return folder
