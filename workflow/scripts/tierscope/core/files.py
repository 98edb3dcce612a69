"""Write files whole, and the logs of scripts line by line."""

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """Give a temporary name beside a path, and rename that file if no error occurs.

    The name holds node and process, so several can write the same path.

    Parameters
    ----------
    path : path
        The final name; its folder is made if it does not exist.

    Raises
    ------
    OSError
        If the file cannot be written or renamed; then an older one is still there. It
        names a file.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{platform.node()}.{os.getpid()}")
    temporary.unlink(missing_ok=True)  # of a process that was killed
    try:
        yield temporary
        temporary.replace(path)
    except OSError as error:
        if error.errno and not error.filename:  # of a write, as to a full file system
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def overlap(folder: str | Path, other: str | Path) -> bool:
    """Return whether one of two folders holds the other, or both are the same."""
    places = os.path.realpath(folder), os.path.realpath(other)
    return os.path.commonpath(places) in places


def write_text(path: str | Path, text: str) -> None:
    """Write a text in UTF-8 whole, or raise an OSError and leave the file as it was."""
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def log_to(path: str) -> None:
    """Send all that a script prints, errors included, to the log of its rule.

    A line is there as soon as it is printed, so a log can be read meanwhile.
    """
    sys.stdout = sys.stderr = open(path, "w", buffering=1, encoding="utf-8")


def say_step(line: str) -> None:
    """Print a step of a fit so that the terminal shows it while the script runs."""
    print(f"fit: {line}")
