"""Read logs of our own runs: job, names and POSIX counters; every defect is an error.

What a run of ours cannot have is refused as well: partial modules, other byte orders.
`tierscope.trace.any_log` reads logs of other jobs.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tierscope.trace.darshan.container import (
    BIG,
    ZLIB,
    Container,
    JobRecord,
    LogError,
    open_container,
)
from tierscope.trace.darshan.module_records import FOPENS, RECORD_TYPES
from tierscope.trace.darshan.names import Names, read_names
from tierscope.trace.posix_records import POSIX_MODULE

__all__ = ["COLUMNS", "WRITE_COLUMNS", "JobRecord", "LogError", "Names", "read_posix"]

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


def read_posix(
    path: str | Path, columns: Mapping[str, str] = COLUMNS
) -> tuple[JobRecord, dict[str, np.ndarray], Names]:
    """Read the job, some counters and the names of a log.

    Parameters
    ----------
    path : path
        A Darshan log with a POSIX module that is not marked as partial.
    columns : mapping of str to str
        Counters by column name.

    Returns
    -------
    job : JobRecord
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
    version, layouts = log.versions[POSIX_MODULE], RECORD_TYPES["POSIX"]
    known = [of for of in layouts if FOPENS not in layouts[of].names]
    if version not in known:
        raise log.error(
            f"has POSIX records of version {version}, expected one of {known}."
        )
    layout = layouts[version]
    if log.content is not None:  # a small log
        names = read_names(log)
        return job, _read_columns(log, columns, layout), names
    from concurrent.futures import ThreadPoolExecutor  # small logs do not need it

    with ThreadPoolExecutor(1) as pool:  # one thread computes while the other inflates
        found = pool.submit(_read_columns, log, columns, layout)
        names = read_names(log)
    return job, found.result(), names


def _open(path: str | Path) -> Container:
    """Open a log that may be of our own runs."""
    log = open_container(path)
    if log.order == BIG:
        raise log.error("was written on a big-endian machine, not supported.")
    if log.compression != ZLIB:
        kind = log.compression
        raise log.error(f"has compression type {kind}, expected zlib ({ZLIB}).")
    return log


def _read_columns(
    log: Container, columns: Mapping[str, str], layout: np.dtype
) -> dict[str, np.ndarray]:
    """Read the columns of the records block by block."""
    parts = {column: [np.empty(0, layout[columns[column]])] for column in columns}
    for records in log.records("POSIX", layout):
        for column, counter in columns.items():
            parts[column].append(records[counter].copy())
    return {column: np.concatenate(parts.pop(column)) for column in columns}
