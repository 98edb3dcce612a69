"""Read Darshan logs of any job: every module that counts, partial and shared records.

`tierscope.trace.log` reads the logs of our own runs and refuses what a run must not
have. This module reads what other jobs left.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tierscope.trace.log import Names

# Counters by column name that all three interfaces have.
COUNTS = ("opens", "reads", "writes", "bytes_read", "bytes_written")
TIMES = ("read_time_s", "write_time_s", "meta_time_s")
# Of a record that all processes share: what the reduction keeps of single processes.
RANK_COUNTS = ("slowest_rank", "slowest_bytes", "fastest_rank", "fastest_bytes")
RANK_TIMES = ("slowest_time_s", "fastest_time_s", "time_variance_s2")
SHARED = -1  # rank of a shared record


@dataclass(frozen=True)
class Records:
    """The records of one interface; arrays have one entry a record.

    Parameters
    ----------
    ids : ndarray of uint64
    ranks : ndarray of int64
        `SHARED` for a record that all processes share.
    columns : dict of str to ndarray
        `COUNTS` and `RANK_COUNTS` (int64), `TIMES` and `RANK_TIMES` (float64). The last
        of each mean something in shared records only.
    read_sizes, write_sizes : ndarray of int64, shape (n_records, 10), or None
        Calls by size, in the order of `tierscope.trace.posix_records.SIZE_COUNTERS`;
        None if the interface does not count them.
    """

    ids: np.ndarray
    ranks: np.ndarray
    columns: dict[str, np.ndarray]
    read_sizes: np.ndarray | None = None
    write_sizes: np.ndarray | None = None


@dataclass(frozen=True)
class AnyLog:
    """All that an analysis needs of a log.

    Parameters
    ----------
    path : Path
    reader : {"tierscope", "PyDarshan"}
    log_format : str
        Version of the log's format, such as ``3.41``.
    uid, job_id, n_processes : int
    started_s, ended_s : float
        Seconds since 1970; with nanoseconds where the format has them.
    exe : str
        The command line.
    metadata : dict of str to str
        For example ``lib_ver``, the version of the runtime.
    mounts : dict of str to str
        Type of the file system by mount point.
    modules, partial : tuple of str
        Modules that have data, and those of them that lost records.
    records : dict of str to Records
        By interface: ``POSIX``, ``STDIO``, ``MPI-IO``; those that have data.
    names : Names
        Path of each record id; a record may have none if the runtime ran out of memory.
    """

    path: Path
    reader: str
    log_format: str
    uid: int
    job_id: int
    n_processes: int
    started_s: float
    ended_s: float
    exe: str
    metadata: dict[str, str]
    mounts: dict[str, str]
    modules: tuple[str, ...]
    partial: tuple[str, ...]
    records: dict[str, Records]
    names: Names
