"""Folders that are written whole."""

import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def folder_written_whole(path: Path) -> Iterator[Path]:
    """Give a new folder beside a path, and rename it if no error occurs.

    An older folder at the path is replaced. The name holds node and process, so several
    can write the same path.
    """
    temporary = path.with_name(f".{path.name}.{platform.node()}.{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)  # of a process that was killed
    temporary.mkdir(parents=True)
    try:
        yield temporary
        shutil.rmtree(path, ignore_errors=True)
        temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
