"""Folders of chunks: written whole, by whoever started last, and removed."""

import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tierscope.core.files import LONGEST_S, errors_named, is_torn, write_back

UNREAD = "unread_logs"  # the table of a chunk's refused logs
_OF_A_CHUNK = re.compile(r"\.?\d{4}([-.]|$)")  # which is of a year, month or day
# The file with the time at which the writer of a folder started, and its files' names.
_STARTED = ".started"


@contextmanager
def folder_written_whole(path: Path, started_ns: int | None = None) -> Iterator[Path]:
    """Give a new folder beside a path, and rename it if no error occurs.

    An older folder at the path is replaced, and what killed processes left is removed.
    What was made by work that started later, as after a kill that missed this process,
    stays; `started_ns` is when this work started, by default now. All is synced before.
    Nobody can know the name of the new folder before, so several can write the same
    path.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    temporary.mkdir(parents=True)
    started_ns = started_ns or time.time_ns()
    try:
        with errors_named(path):
            (temporary / _STARTED).write_text(str(started_ns), encoding="utf-8")
            yield temporary
            with suppress(FileNotFoundError):  # a later writer has removed it
                lines = [str(started_ns), *sorted(os.listdir(temporary))]
                (temporary / _STARTED).write_text("\n".join(lines), encoding="utf-8")
            write_back(path.parent)
            if _started_ns(path) <= started_ns:
                _replace(temporary, path)
                for left in path.parent.glob(f".{path.name}.*"):
                    if _started_ns(left) < started_ns:
                        shutil.rmtree(left, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _started_ns(path: Path) -> int:
    """Return when the writer of a folder started, 0 if there is none."""
    with suppress(OSError, ValueError):
        return int(_noted(path)[0])
    return 0


def _noted(path: Path) -> list[str]:
    """Return the lines of the writer of a folder."""
    return (path / _STARTED).read_text(encoding="utf-8").splitlines() or [""]


def _replace(temporary: Path, path: Path) -> None:
    """Rename a folder to the path of another one, which is removed."""
    old = temporary.with_name(f"{temporary.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if path.exists():
        path.rename(old)
    temporary.rename(path)
    shutil.rmtree(old, ignore_errors=True)


def remove_others(folder: Path, kept: set[str]) -> None:
    """Remove chunks from a folder, other than some and what is being written.

    What has a temporary name and has not changed for a day, a killed process has left.
    """
    for path in filter(lambda path: _OF_A_CHUNK.match(path.name), folder.iterdir()):
        is_left = path.stem not in kept
        if path.name.startswith("."):
            is_left = _age_s(path) > LONGEST_S
        if is_left and path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif is_left:
            path.unlink(missing_ok=True)


def _age_s(path: Path) -> float:
    """Return for how long a file or folder has not changed, 0 if it is gone."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0


def damaged_chunks(folder: Path) -> list[str]:
    """Return the chunks of a folder that lack a file, or the end of one, sorted."""
    return [one.name for one in sorted(folder.glob("[!.]*")) if _is_damaged(one)]


def _is_damaged(chunk: Path) -> bool:
    """Return whether a chunk lacks a file that its writer has noted, or its end.

    Earlier versions noted no files.
    """
    if not chunk.is_dir():
        return False
    try:
        files = [chunk / name for name in _noted(chunk)[1:]]
    except (FileNotFoundError, UnicodeError):
        return True
    whole = [one for one in files if one.exists() and not is_torn(one)]
    return not files or whole != files


def to_be_tried_again(folder: Path) -> frozenset[str]:
    """Return the logs that chunks have refused for a reason that may pass.

    `folder` has a folder of tables of each chunk.
    """
    found: list[bytes] = []
    for table in folder.glob(f"[!.]*/{UNREAD}.parquet"):
        with suppress(OSError, pa.ArrowException):  # broken or of an earlier version
            rows = pq.read_table(table, columns=["log", "may_pass"])
            found += rows.filter(rows["may_pass"])["log"].to_pylist()
    return frozenset(map(os.fsdecode, found))
