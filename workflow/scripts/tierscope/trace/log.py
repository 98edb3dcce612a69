"""Read logs of our own runs: job, names and POSIX counters; every defect is an error.

What a run of ours cannot have is refused as well: partial modules, other byte orders.
`tierscope.trace.any_log` reads logs of other jobs.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tierscope.trace.container import BIG, ZLIB, Container, Job, open_container
from tierscope.trace.container import LogError as LogError
from tierscope.trace.names import Names, read_names
from tierscope.trace.posix_records import (
    POSIX_MODULE,
    POSIX_RECORD,
    POSIX_VERSION,
    RECORD_BYTES,
)

COLUMNS = {
    "id": "id",
    "rank": "rank",
    "opens": "POSIX_OPENS",
    "reads": "POSIX_READS",
    "bytes_read": "POSIX_BYTES_READ",
    "read_time_s": "POSIX_F_READ_TIME",
    "meta_time_s": "POSIX_F_META_TIME",
}
WRITE_COLUMNS = {
    "writes": "POSIX_WRITES",
    "bytes_written": "POSIX_BYTES_WRITTEN",
    "write_time_s": "POSIX_F_WRITE_TIME",
}

CACHED_RECORDS = 512  # few enough that they stay in a cache for all columns
_CHILD_TIMEOUT_S = 1800


def read_posix(
    path: str | Path, columns: Mapping[str, str] = COLUMNS
) -> tuple[Job, dict[str, np.ndarray], Names]:
    """Read the job, some counters and the names of a log.

    Parameters
    ----------
    path : path
        A Darshan log with a POSIX module that is not marked as partial.
    columns : mapping of str to str
        Counters by column name; old logs have only `COLUMNS`.

    Returns
    -------
    job : Job
    columns : dict of str to ndarray, shape (n_records,)
        The keys of `columns`.
    names : Names

    Raises
    ------
    LogError
        If anything is missing, truncated or corrupt.
    """
    log = _open(path)
    job = log.read_job()
    if not log.regions[POSIX_MODULE].length:
        raise log.error(f"has no POSIX module, it has {log.modules or 'none'}.")
    if "POSIX" in log.partial:
        raise log.error("is partial: Darshan ran out of memory for POSIX records.")
    version = log.versions[POSIX_MODULE]
    if version not in RECORD_BYTES:
        raise log.error(
            f"has POSIX records of version {version}, expected one of "
            f"{sorted(RECORD_BYTES)}."
        )
    names = read_names(log)
    if version == POSIX_VERSION:
        return job, _read_columns(log, columns), names
    if columns is not COLUMNS:
        raise log.error(f"has POSIX records of version {version}, without {columns}.")
    return job, _read_old_columns(log, RECORD_BYTES[version]), names


def _open(path: str | Path) -> Container:
    """Open a log that may be of our own runs."""
    log = open_container(path)
    if log.order == BIG:
        raise log.error("was written on a big-endian machine, not supported.")
    if log.compression != ZLIB:
        kind = log.compression
        raise log.error(f"has compression type {kind}, expected zlib ({ZLIB}).")
    return log


def _read_columns(log: Container, columns: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Read the columns from records of the current version, block by block."""
    parts = {column: [np.empty(0, POSIX_RECORD[columns[column]])] for column in columns}
    for records in log.records("POSIX", POSIX_RECORD):
        for start in range(0, len(records), CACHED_RECORDS):
            cached = records[start : start + CACHED_RECORDS]
            for column, counter in columns.items():
                parts[column].append(cached[counter].copy())
    return {column: np.concatenate(parts.pop(column)) for column in columns}


def _read_old_columns(log: Container, record_bytes: int) -> dict[str, np.ndarray]:
    """Read the columns of older records with PyDarshan, which converts them.

    PyDarshan runs in a child process because libdarshan-util may crash. It runs only if
    the region is intact because it treats an error as the end of the records.
    """
    n_bytes = sum(map(len, log.pieces(log.regions[POSIX_MODULE], "POSIX records")))
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "columns.npy")
        _run_pydarshan(log, output)
        records = np.load(output)
    if len(records) * record_bytes != n_bytes:
        raise log.error(
            f"corrupt in its POSIX records: got {len(records)} of "
            f"{n_bytes / record_bytes:g}."
        )
    return {column: records[column] for column in COLUMNS}


def _run_pydarshan(log: Container, output: Path) -> None:
    """Run `pydarshan_route` on a log, or raise a LogError."""
    command = [sys.executable, "-m", "tierscope.trace.pydarshan_route"]
    try:
        done = subprocess.run(
            [*command, str(log.path.absolute()), str(output)],
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_CHILD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise log.error(f"PyDarshan took more than {_CHILD_TIMEOUT_S} s.") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
        raise log.error(f"PyDarshan cannot read it: {lines[-1]}")
