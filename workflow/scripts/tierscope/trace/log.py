"""Read Darshan logs: those of any job, and those of our own runs, which must be whole.

`read_any_log` reads every module that counts, partial and shared records, of all
formats, record versions and byte orders that Darshan 3 wrote. `read_posix` reads a log
of ours and refuses what a run cannot have.
"""

import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce
from operator import add
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tierscope.trace.darshan.container import (
    BIG,
    ZLIB,
    Container,
    JobRecord,
    LogError,
    open_container,
)
from tierscope.trace.darshan.inflation import OURS, USUAL, Inflation
from tierscope.trace.darshan.module_records import FOPENS, MMAPS, RECORD_TYPES
from tierscope.trace.darshan.names import Names, read_names
from tierscope.trace.posix_records import SIZES

__all__ = [
    "COLUMNS",
    "COUNTS",
    "DUPLICATES",
    "FLAWS",
    "LANES",
    "MAPPINGS",
    "MPI_IO",
    "RANK_COUNTS",
    "RANK_TIMES",
    "SHARED",
    "SUM_NAME",
    "TIMES",
    "WRITE_COLUMNS",
    "AnyLog",
    "JobRecord",
    "LogError",
    "Names",
    "Records",
    "read_any_log",
    "read_posix",
]

# Counters by column name that all three interfaces have.
COUNTS = ("opens", "reads", "writes", "bytes_read", "bytes_written")
# Calls, bytes and time of reading, and of writing.
LANES = (
    ("reads", "bytes_read", "read_time_s"),
    ("writes", "bytes_written", "write_time_s"),
)
TIMES = ("read_time_s", "write_time_s", "meta_time_s")
# Of a record that all processes share: what the reduction keeps of single processes.
RANK_COUNTS = ("slowest_rank", "slowest_bytes", "fastest_rank", "fastest_bytes")
RANK_TIMES = ("slowest_time_s", "fastest_time_s", "time_variance_s2")
# Times and counters below zero, which are zero here, and records with bytes but no
# reads or writes, or with these but no time for them.
FLAWS = ("negative_times", "negative_counters", "bytes_alone", "calls_alone")
MAPPINGS, DUPLICATES = "mappings", "duplicates"
SHARED = -1  # rank of a shared record
MPI_IO = "MPI-IO"  # its calls reach POSIX, so its times are not counted
# What our tracer names a sum of calls on files of no tier: epoch, thread, call, type of
# file system and mount point.
SUM_NAME = re.compile(
    r"(-1|\d+)/(beside|main|loop)/(read|write|fsync|other|map)/([^:]*):(.*)", re.DOTALL
)


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
        of each are zero in records that are not shared. Where they are counted there
        are `MAPPINGS` of files into memory and `DUPLICATES`, which are opens by dup,
        fileno and fdopen, and among ``opens``. A counter that was not
        monitored (-1) is zero, and so is a time below zero, which old runtimes wrote
        where the calls of threads overlapped. A rank below zero is not known.
    read_sizes, write_sizes : ndarray of int32 or int64, shape (n_records, 10), or None
        Calls by size, in the order of `tierscope.trace.posix_records.SIZES`; None if
        the interface does not count them.
    """

    ids: np.ndarray
    ranks: np.ndarray
    columns: dict[str, np.ndarray]
    read_sizes: np.ndarray | None = None
    write_sizes: np.ndarray | None = None


@dataclass(frozen=True)
class AnyLog(JobRecord):
    """All that an analysis needs of a log: its job data, and what follows.

    A log that a runtime could not finish may end before it starts.

    Parameters
    ----------
    path : Path
    log_format : str
        Version of the log's format, such as ``3.41``.
    modules, partial : tuple of str
        Modules that have data, and modules that lost records.
    records : dict of str to Records
        By interface: ``POSIX``, ``STDIO``, ``MPI-IO``; those that have data.
    names : Names
        Path of each record id; a record may have none if the runtime ran out of memory.
    flaws : dict of str to dict of str to int
        By interface, how many values make its sums lower bounds, by `FLAWS`.
    sums : dict of str to dict of str to float
        `COUNTS` and `TIMES` of what our tracer has summed up, by `SUM_NAME`; these are
        no files, and stand in neither `records` nor `names`.
    """

    path: Path
    log_format: str
    modules: tuple[str, ...]
    partial: tuple[str, ...]
    records: dict[str, Records]
    names: Names
    flaws: dict[str, dict[str, int]] = field(default_factory=dict)
    sums: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def n_mappings(self) -> int:
        """Return how often files were mapped; what is read so is in no record."""
        posix = self.records.get("POSIX")
        return int(np.sum(posix.columns.get(MAPPINGS, 0))) if posix else 0


class _Counters(NamedTuple):
    """The counters of an interface by column; a column is the sum of its counters."""

    prefix: str
    opens: list[str]
    reads: list[str]
    writes: list[str]
    sizes: str | None  # stands between ``SIZE_READ`` and a size; None without sizes


_COUNTERS = {
    "POSIX": _Counters("POSIX", ["OPENS"], ["READS"], ["WRITES"], ""),
    # These opens are those of fdopen as well.
    "STDIO": _Counters("STDIO", ["OPENS"], ["READS"], ["WRITES"], None),
    "MPI-IO": _Counters(
        "MPIIO",
        ["INDEP_OPENS", "COLL_OPENS"],
        ["INDEP_READS", "COLL_READS", "SPLIT_READS", "NB_READS"],
        ["INDEP_WRITES", "COLL_WRITES", "SPLIT_WRITES", "NB_WRITES"],
        "_AGG",
    ),
}
_OTHER_COLUMNS = {
    "bytes_read": "BYTES_READ",
    "bytes_written": "BYTES_WRITTEN",
    "read_time_s": "F_READ_TIME",
    "write_time_s": "F_WRITE_TIME",
    "meta_time_s": "F_META_TIME",
    "slowest_rank": "SLOWEST_RANK",
    "slowest_bytes": "SLOWEST_RANK_BYTES",
    "fastest_rank": "FASTEST_RANK",
    "fastest_bytes": "FASTEST_RANK_BYTES",
    "slowest_time_s": "F_SLOWEST_RANK_TIME",
    "fastest_time_s": "F_FASTEST_RANK_TIME",
    "time_variance_s2": "F_VARIANCE_RANK_TIME",
}
# Counters of our own runs by column name.
_OF_POSIX = {"opens": "OPENS", "reads": "READS", "writes": "WRITES"} | _OTHER_COLUMNS
_READS = ("opens", "reads", "bytes_read", "read_time_s", "meta_time_s")
_WRITES = ("writes", "bytes_written", "write_time_s")
COLUMNS = {"id": "id", "rank": "rank"}
COLUMNS |= {name: f"POSIX_{_OF_POSIX[name]}" for name in _READS}
WRITE_COLUMNS = {name: f"POSIX_{_OF_POSIX[name]}" for name in _WRITES}
_SIZE_COLUMNS = {"read_sizes": "SIZE_READ", "write_sizes": "SIZE_WRITE"}
_FURTHER = {
    MAPPINGS: [MMAPS],
    DUPLICATES: ["POSIX_DUPS", "POSIX_FILENOS", "STDIO_FDOPENS"],
}
_SHARED_COLUMNS = {*RANK_COUNTS, *RANK_TIMES}
_RANKS = ("slowest_rank", "fastest_rank")  # below 0: not known
# Sums over all records that no job can have.
_MOST_COUNT = 1 << 62
_MOST_S = 1e15


class _Selection(NamedTuple):
    """The part of a record that is read, and the counters of each column in it."""

    layout: np.dtype
    columns: dict[str, list[str]]
    has_sizes: bool


@cache
def _selection(interface: str, version: int, order: str) -> _Selection:
    """Return what is read of the records of an interface."""
    record = RECORD_TYPES[interface][version]
    prefix, opens, reads, writes, sizes = _COUNTERS[interface]
    columns = {"opens": opens, "reads": reads, "writes": writes}
    columns |= {column: [name] for column, name in _OTHER_COLUMNS.items()}
    columns = {
        column: [f"{prefix}_{name}" for name in names]
        for column, names in columns.items()
    }
    for column, counters in _FURTHER.items():
        if found := [name for name in counters if name in record.names]:
            columns[column] = found
    fields = ["id", "rank", *(name for names in columns.values() for name in names)]
    fields += [FOPENS] if FOPENS in record.names else []
    formats = [record[field].newbyteorder(order) for field in fields]
    offsets = [record.fields[field][1] for field in fields]
    if sizes is not None:
        for column, name in _SIZE_COLUMNS.items():
            first = f"{prefix}_{name}{sizes}_{SIZES[0]}"  # the others follow it
            fields.append(column)
            formats.append(np.dtype((f"{order}i8", len(SIZES))))
            offsets.append(record.fields[first][1])
    layout = np.dtype(
        {
            "names": fields,
            "formats": formats,
            "offsets": offsets,
            "itemsize": record.itemsize,
        }
    )
    return _Selection(layout, columns, sizes is not None)


def read_any_log(
    path: str | Path, inflation: Inflation = USUAL, *, may_be_empty: bool = False
) -> AnyLog:
    """Read a Darshan log of any job.

    Parameters
    ----------
    path : path
        A log of Darshan 3, partial or not, of any byte order and compression.
    inflation : Inflation
        What its parts may inflate to; `OURS` if nobody else can have made it.
    may_be_empty : bool
        Whether it may have no records, as that of a process whose workers read.

    Returns
    -------
    AnyLog

    Raises
    ------
    LogError
        If the log is truncated or corrupt, if a version of it is not known, or if it
        has records of none of the interfaces, unless it may be empty.
    """
    log = open_container(path, inflation)
    job = log.read_job()
    names = read_names(log)
    found = {name: _read_interface(log, name, job.n_processes) for name in _COUNTERS}
    records = {name: of.records for name, of in found.items() if of.records}
    modules = log.modules
    if not records and not may_be_empty:
        raise log.error(
            "has no POSIX, STDIO or MPI-IO records, "
            f"it has {', '.join(modules) if modules else 'no modules'}."
        )
    sums: dict[str, dict[str, float]] = {}
    if "tracer" in job.metadata and "POSIX" in records:
        records["POSIX"], names, sums = _without_sums(records["POSIX"], names)
    omitted = [name for name, of in found.items() if of.n_omitted]
    return AnyLog(
        **vars(job),
        path=log.path,
        log_format=log.version,
        modules=tuple(modules),
        partial=tuple(dict.fromkeys([*log.partial, *omitted])),
        records=records,
        names=names,
        flaws={name: of.flaws for name, of in found.items() if of.flaws},
        sums=sums,
    )


def _without_sums(
    records: Records, names: Names
) -> tuple[Records, Names, dict[str, dict[str, float]]]:
    """Return records and names of files, and apart from these `AnyLog.sums`."""
    folders = [
        bool(SUM_NAME.match(f"{os.fsdecode(one.as_py())}/")) for one in names.folders
    ]
    is_sum_name = np.array([*folders, False])[names.folder_of]  # -1: no folder
    if not is_sum_name.any():
        return records, names, {}
    at = names.positions(records.ids)
    is_sum = is_sum_name[at] & (names.ids[at] == records.ids)
    columns = {name: records.columns[name] for name in (*COUNTS, *TIMES)}
    sums = {
        names.path(int(at[row])): {name: of[row].item() for name, of in columns.items()}
        for row in np.flatnonzero(is_sum)
    }
    return _chosen(records, ~is_sum), names.chosen(~is_sum_name), sums


def _chosen(records: Records, rows: np.ndarray) -> Records:
    """Return some of the records."""
    sizes = {
        name: None if (of := getattr(records, name)) is None else of[rows]
        for name in _SIZE_COLUMNS
    }
    columns = {name: of[rows] for name, of in records.columns.items()}
    return Records(records.ids[rows], records.ranks[rows], columns, **sizes)


def read_posix(
    path: str | Path, columns: Mapping[str, str] = COLUMNS
) -> tuple[JobRecord, dict[str, np.ndarray], Names]:
    """Read the job, some counters and the names of a log of ours.

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
    log = open_container(path, OURS)
    _refuse_packing(log)
    job = log.read_job()
    layout = _layout_of_ours(log)
    if log.content is not None:  # a small log
        names = read_names(log)
        return job, _counters(log, columns, layout), names
    from concurrent.futures import ThreadPoolExecutor  # small logs do not need it

    with ThreadPoolExecutor(1) as pool:  # one thread computes while the other inflates
        found = pool.submit(_counters, log, columns, layout)
        names = read_names(log)
    return job, found.result(), names


def _refuse_packing(log: Container) -> None:
    """Refuse a byte order or a compression that logs of ours do not have."""
    if log.order == BIG:
        raise log.error("was written on a big-endian machine, not supported.")
    if log.compression != ZLIB:
        kind = log.compression
        raise log.error(f"has compression type {kind}, expected zlib ({ZLIB}).")


def _layout_of_ours(log: Container) -> np.dtype:
    """Return the layout of POSIX records; refuse a log that lacks some."""
    if not _has_data(log, "POSIX"):
        raise log.error(f"has no POSIX module, it has {log.modules or 'none'}.")
    if "POSIX" in log.partial:
        raise log.error("is partial: Darshan ran out of memory for POSIX records.")
    layouts = RECORD_TYPES["POSIX"]
    known = [of for of in layouts if FOPENS not in layouts[of].names]
    return layouts[_version(log, "POSIX", known)]


def _counters(
    log: Container, columns: Mapping[str, str], layout: np.dtype
) -> dict[str, np.ndarray]:
    """Return some counters of POSIX records as they are."""
    growing = {column: _Column(layout[name]) for column, name in columns.items()}
    n_records = 0
    for records in log.records("POSIX", layout):
        for column, counter in columns.items():
            growing[column].put(n_records, records[counter].copy())
        n_records += len(records)
    return {column: of.values(n_records) for column, of in growing.items()}


class _Interface(NamedTuple):
    """The records of an interface, and what cannot be used as it is."""

    records: Records | None = None
    n_omitted: int = 0
    flaws: dict[str, int] | None = None


def _read_interface(log: Container, interface: str, n_processes: int) -> _Interface:
    """Read the records of an interface."""
    if not _has_data(log, interface):
        return _Interface()
    growing: dict[str, _Column] = defaultdict(_Column)
    n_records = n_omitted = n_negative = 0
    version = _version(log, interface, [*RECORD_TYPES[interface]])
    selection = _selection(interface, version, log.order)
    for found in log.records(interface, selection.layout):
        if FOPENS in selection.layout.names:
            # Calls of POSIX and STDIO are not told apart; PyDarshan omits it as well.
            is_posix = found[FOPENS] <= 0
            n_omitted += len(found) - np.count_nonzero(is_posix)
            found = found[is_posix]
        if not len(found):
            continue
        of_part, n_of_part = _columns(found, selection)
        n_negative += n_of_part
        for column, values in of_part.items():
            growing[column].put(n_records, values)
        n_records += len(found)
    if not n_records:
        return _Interface(None, n_omitted)
    columns = {column: of.values(n_records) for column, of in growing.items()}
    _check(log, interface, columns, n_processes)
    flaws = {"negative_counters": n_negative} | _without_calls_or_time(columns)
    flaws["negative_times"] = _raise_to_zero(columns)
    if not _SHARED_COLUMNS & columns.keys():  # no record is shared
        zeros = np.broadcast_to(np.int64(0), n_records)
        columns |= dict.fromkeys(RANK_COUNTS, zeros)
        zeros = np.broadcast_to(np.float64(0), n_records)
        columns |= dict.fromkeys(RANK_TIMES, zeros)
    records = Records(
        columns.pop("ids"),
        columns.pop("ranks"),
        read_sizes=columns.pop("read_sizes", None),
        write_sizes=columns.pop("write_sizes", None),
        columns=columns,
    )
    flaws = {name: flaws[name] for name in FLAWS if flaws[name]}
    return _Interface(records, n_omitted, flaws)


def _without_calls_or_time(columns: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Return how many records have bytes without calls, and calls without time."""
    bytes_alone = calls_alone = False
    for calls, n_bytes, time_s in LANES:
        has_calls = columns[calls] > 0
        bytes_alone |= (columns[n_bytes] > 0) & ~has_calls
        calls_alone |= has_calls & (columns[time_s] == 0)
    counts = {"bytes_alone": bytes_alone, "calls_alone": calls_alone}
    return {name: int(np.count_nonzero(found)) for name, found in counts.items()}


def _raise_to_zero(columns: dict[str, np.ndarray]) -> int:
    """Replace times below zero by zero, and return their number."""
    n_negative = 0
    for column in columns.keys() & {*TIMES, *RANK_TIMES}:
        is_negative = columns[column] < 0
        if n := int(np.count_nonzero(is_negative)):
            columns[column][is_negative] = 0
            n_negative += n
    return n_negative


class _Column:
    """Values put part after part, else zero, in memory that grows without a copy."""

    def __init__(self, dtype: np.dtype | type = float) -> None:
        self._values = np.empty(0, dtype)

    def put(self, start: int, part: np.ndarray) -> None:
        """Put values from a position on."""
        if not start:
            self._values = part
            return
        if not len(self._values):
            self._values = np.zeros((start, *part.shape[1:]), part.dtype)
        if part.dtype.itemsize > self._values.dtype.itemsize:
            self._values = self._values.astype(part.dtype)
        end = start + len(part)
        if end > len(self._values):
            self._resize(max(end, len(self._values) * 9 // 8))
        self._values[start:end] = part

    def values(self, n_records: int) -> np.ndarray:
        """Return the values of all records."""
        if n_records != len(self._values):
            self._resize(n_records)
        return self._values

    def _resize(self, n_records: int) -> None:
        """Cut the values or add zeros."""
        self._values.resize((n_records, *self._values.shape[1:]), refcheck=False)


def _has_data(log: Container, interface: str) -> bool:
    """Return whether a log has records of an interface."""
    return log.regions[log.position(interface)].length > 0


def _version(log: Container, interface: str, known: Sequence[int]) -> int:
    """Return the version of an interface's records, which must be a known one."""
    version = log.versions[log.position(interface)]
    if version not in known:
        raise log.error(
            f"has {interface} records of version {version}, expected one of {known}."
        )
    return version


def _columns(
    records: np.ndarray, selection: _Selection
) -> tuple[dict[str, np.ndarray], int]:
    """Return copies of a few records' columns, and how many counters are below 0."""
    found = {
        "ids": records["id"].astype(np.uint64),
        "ranks": records["rank"].astype(np.int64),
    }
    n_negative = 0
    shared = found["ranks"] == SHARED
    has_shared = shared.any()
    for column, counters in selection.columns.items():
        if column in _SHARED_COLUMNS and not has_shared:
            continue
        if column in (*TIMES, *RANK_TIMES):
            found[column] = records[counters[0]].astype(np.float64)
        elif column in _RANKS:
            found[column] = records[counters[0]].astype(np.int64)
        else:
            values, n_below = zip(
                *(_from_zero(records[name]) for name in counters), strict=True
            )
            found[column] = reduce(add, values, 0)
            n_negative += sum(n_below) if column in COUNTS else 0
        if column in _SHARED_COLUMNS:
            found[column][~shared] = 0
    if selection.has_sizes:
        for column in _SIZE_COLUMNS:
            sizes, n_below = _from_zero(records[column])
            fits = sizes.max(initial=0) <= np.iinfo(np.int32).max
            found[column] = sizes.astype(np.int32 if fits else np.int64)
            n_negative += n_below
    return found, n_negative


def _from_zero(counters: np.ndarray) -> tuple[np.ndarray, int]:
    """Return counters with 0 instead of those below it, and how many these are."""
    if counters.min(initial=0) >= 0:  # mostly
        return counters, 0
    return np.maximum(counters, 0), int(np.count_nonzero(counters < 0))


def _check(
    log: Container, interface: str, columns: dict[str, np.ndarray], n_processes: int
) -> None:
    """Raise a LogError if a record cannot be of this job."""
    ranks = columns["ranks"]
    for rank in (int(ranks.min()), int(ranks.max())):
        if not SHARED <= rank < n_processes:
            raise log.error(
                f"corrupt in its {interface} records: got rank {rank} of "
                f"{n_processes} processes."
            )
    for column in (*COUNTS, *TIMES, *_SIZE_COLUMNS):
        if column not in columns:
            continue
        most = _MOST_S if column in TIMES else _MOST_COUNT
        total = np.abs(columns[column]).sum(dtype=float)
        if not total <= most:
            raise log.error(
                f"corrupt in its {interface} records: got {total:g} as the sum of "
                f"{column}."
            )
