"""Turn the spools of the preload tracer into one Darshan log.

The layout is that of ``workflow/native/trace/trace.h``: a header, then entries of a
record and its path. A process has one spool in a run. A rank has several spools if its
child processes read.
"""

import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tierscope.core.files import read_regular
from tierscope.storage.room import memory_bytes
from tierscope.trace.darshan.container import LogError
from tierscope.trace.log_writer import LoggedJob, write_log
from tierscope.trace.posix_records import (
    ACCESS_COUNTS,
    ACCESS_SIZES,
    COUNTERS,
    END_TIMES,
    POSIX_RECORD,
    START_TIMES,
    TIMERS,
)

_MAGIC = b"tierscope-trace"
SPOOL_VERSION = 4
_HEADER_BYTES = 4096
_MOST_BYTES = 4 << 30  # the records of some million files; more with much memory
_HEADER = np.dtype(
    [
        ("magic", "S16"),
        ("version", "<u4"),
        ("record_bytes", "<u4"),
        ("rank", "<i4"),
        ("process_id", "<i4"),
        ("origin_ns", "<i8"),
        ("used_bytes", "<u8"),
        ("incomplete", "<u4"),
        ("mapped_bytes", "<u8"),
        ("device_bytes", "<i8"),
        ("drops", "<u8", 3),
    ],
    align=True,
)
_LAST_ERRNO = 4095  # of Linux
_ENTRY = struct.Struct("<II")  # bytes of the entry, bytes of its path

_UNMONITORED = -1
_MAX_TIMES = {
    "POSIX_MAX_READ_TIME_SIZE": "POSIX_F_MAX_READ_TIME",
    "POSIX_MAX_WRITE_TIME_SIZE": "POSIX_F_MAX_WRITE_TIME",
}
# Counters that are those of the record in which another one is largest.
_OF_LARGEST = _MAX_TIMES | {"POSIX_RENAMED_FROM": "POSIX_RENAME_TARGETS"}
_LARGEST = {
    "POSIX_MODE",
    "POSIX_MAX_BYTE_READ",
    "POSIX_MAX_BYTE_WRITTEN",
    *_MAX_TIMES.values(),
    *END_TIMES,
}


@dataclass(frozen=True)
class Spool:
    """What a process has left.

    Parameters
    ----------
    path : Path
    records : ndarray of POSIX_RECORD, shape (n_records,)
    names : list of bytes
        Path of each record.
    origin_ns : int
        Nanoseconds since 1970 at time stamp 0.
    lost : int
        Why some calls could not be recorded: an errno, 0 if all were.
    mapped_bytes : int
        Bytes of traced files that were mapped into memory.
    device_bytes : int
        Bytes that block devices had read for the process before its first traced call.
    drops : tuple of int
        Calls to drop pages of traced files: made, failed and swallowed ones.
    """

    path: Path
    records: np.ndarray
    names: list[bytes]
    origin_ns: int
    lost: int
    mapped_bytes: int
    device_bytes: int
    drops: tuple[int, int, int]


def write_log_from_spools(
    spool_dir: str | Path, path: str | Path, job: LoggedJob
) -> None:
    """Write one log of all spools in a folder, and keep the spools.

    Records of one rank's processes for one path are merged as if one process had made
    the calls, but overlapping times of processes add up. Time stamps count from the
    start of the rank's first process. A rank without a spool made no call
    below the traced prefixes.

    Parameters
    ----------
    spool_dir : path
        Argument of ``tierscope_trace_begin``.
    path : path
        The log.
    job : LoggedJob
        The job, whose processes are the ranks.

    Raises
    ------
    LogError
        If a spool is damaged, incomplete or of another version, a rank is out of
        range, two paths have one record id, or nothing was traced.
    OSError
        If the log cannot be written.
    """
    spool_dir = Path(spool_dir)
    if lost := sorted(spool_dir.glob("*.incomplete")):
        raise LogError(lost[0], "calls were lost: the tracer could not make a spool.")
    records, names = join_spools(_spools_of_ranks(spool_dir, job.n_processes))
    if not len(records):
        raise LogError(spool_dir, "has no record: nothing was traced.")
    write_log(path, {"POSIX": records}, names, job)


def _spools_of_ranks(spool_dir: Path, n_processes: int) -> Iterator[Spool]:
    """Yield the spools of a folder; each must be whole and of one of the ranks."""
    for path in sorted(spool_dir.glob("*.spool")):
        spool = open_spool(path, must_be_whole=True)
        records = spool.records
        if len(records) and not (0 <= records["rank"][0] < n_processes):
            raise LogError(
                path,
                f"has rank {records['rank'][0]}, expected 0 to {n_processes - 1}.",
            )
        yield spool


def open_spool(path: str | Path, *, must_be_whole: bool = False) -> Spool:
    """Read one process's spool, of a process that has ended or was killed.

    Raises
    ------
    LogError
        If the spool is damaged or of another version, or if calls were lost and it
        `must_be_whole`.
    OSError
        If it is no regular file, as of another user, or cannot be read.
    """
    path = Path(path)
    data = read_regular(path, max(_MOST_BYTES, memory_bytes() // 4))
    if len(data) < _HEADER_BYTES or not data.startswith(_MAGIC + b"\0"):
        raise LogError(path, "is not a spool, or its process ended while making it.")
    header = np.frombuffer(data, _HEADER, 1)[0]
    if (
        header["version"] != SPOOL_VERSION
        or header["record_bytes"] != POSIX_RECORD.itemsize
    ):
        raise LogError(
            path,
            f"has version {header['version']} with records of "
            f"{header['record_bytes']} bytes, expected version {SPOOL_VERSION} with "
            f"{POSIX_RECORD.itemsize}; compile the tracer again.",
        )
    starts, paths = _entries(path, data, int(header["used_bytes"]))
    size = POSIX_RECORD.itemsize
    found = bytearray().join(data[start : start + size] for start in starts)
    records = np.frombuffer(found, POSIX_RECORD)
    if np.any(records["rank"] != header["rank"]):
        raise LogError(path, f"has records of other ranks than {header['rank']}.")
    names = ("origin_ns", "incomplete", "mapped_bytes", "device_bytes")
    facts = [int(header[name]) for name in names]
    if facts[1] > _LAST_ERRNO:
        raise LogError(path, f"is damaged: got errno {facts[1]}.")
    spool = Spool(path, records, paths, *facts, tuple(header["drops"].tolist()))
    if must_be_whole and spool.lost:
        raise LogError(
            path,
            "is incomplete: some calls could not be recorded "
            f"({os.strerror(spool.lost)}).",
        )
    return spool


def join_spools(spools: Iterable[Spool]) -> tuple[np.ndarray, dict[int, bytes]]:
    """Return one record per rank and path, and the path of each record id.

    Time stamps count from the earliest origin of a rank's spools.

    Raises
    ------
    LogError
        If two paths have one record id.
    """
    names: dict[int, bytes] = {}
    parts, origins = [np.empty(0, POSIX_RECORD)], [np.empty(0, np.int64)]
    for spool in spools:
        for record_id, name in zip(
            spool.records["id"].tolist(), spool.names, strict=True
        ):
            if names.setdefault(record_id, name) != name:
                raise LogError(
                    spool.path,
                    f"has one record id for {names[record_id]!r} and {name!r}.",
                )
        parts.append(spool.records)
        origins.append(np.full(len(spool.records), spool.origin_ns))
    return merge_records(np.concatenate(parts), np.concatenate(origins)), names


def _entries(
    path: str | Path, data: bytes, used_bytes: int
) -> tuple[list[int], list[bytes]]:
    """Return the offsets of the records, and their paths."""
    smallest = _ENTRY.size + POSIX_RECORD.itemsize
    starts, paths = [], []
    position = _HEADER_BYTES
    while position + _ENTRY.size <= min(used_bytes, len(data)):
        n_bytes, path_bytes = _ENTRY.unpack_from(data, position)
        name_start = position + smallest
        name = data[name_start : name_start + path_bytes]
        if path_bytes:
            starts.append(position + _ENTRY.size)
            paths.append(name)
        least_bytes = smallest + path_bytes if path_bytes else _ENTRY.size
        if n_bytes < least_bytes or b"\0" in name:
            raise LogError(path, f"is damaged at byte {position}.")
        position += n_bytes
    if position != used_bytes or used_bytes > len(data):
        raise LogError(
            path,
            f"is damaged: got {len(data)} bytes, but its header says that "
            f"{used_bytes} are used.",
        )
    return starts, paths


def merge_records(records: np.ndarray, origins_ns: np.ndarray) -> np.ndarray:
    """Return one record per rank and path, sorted by rank and id.

    `origins_ns` has the origin of each record's time stamps.
    """
    order = np.lexsort([origins_ns, records["id"], records["rank"]])
    records, origins_ns = records[order], origins_ns[order]
    _shift_time_stamps(records, origins_ns)
    changes = np.ones(len(records), bool)
    changes[1:] = (records["rank"][1:] != records["rank"][:-1]) | (
        records["id"][1:] != records["id"][:-1]
    )
    if changes.all():
        return records
    first = np.flatnonzero(changes)
    last = np.append(first[1:], len(records)) - 1
    merged = records[first]
    for field in COUNTERS + TIMERS:
        merged[field] = _merge_field(field, records[field], first)
    group = np.cumsum(changes) - 1
    for field, of_largest in _OF_LARGEST.items():
        largest = np.lexsort([records[of_largest], group])[last]
        merged[field] = records[field][largest]
    for target in np.flatnonzero(last > first):
        _merge_access_sizes(
            merged[target : target + 1], records[first[target] : last[target] + 1]
        )
    return merged


def _shift_time_stamps(records: np.ndarray, origins_ns: np.ndarray) -> None:
    """Let time stamps count from the rank's earliest origin; 0 means none."""
    ranks, rank_of = np.unique(records["rank"], return_inverse=True)
    earliest = np.full(len(ranks), np.iinfo(np.int64).max)
    np.minimum.at(earliest, rank_of, origins_ns)
    shift_s = (origins_ns - earliest[rank_of]) * 1e-9
    for field in START_TIMES + END_TIMES:
        records[field] += np.where(records[field] == 0, 0, shift_s)


def _merge_field(field: str, values: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Merge one counter or timer of consecutive records."""
    if field in START_TIMES:
        earliest = np.minimum.reduceat(np.where(values == 0, np.inf, values), first)
        return np.where(np.isinf(earliest), 0, earliest)
    if field in _LARGEST:
        return np.maximum.reduceat(values, first)
    sums = np.add.reduceat(values, first)
    unmonitored = np.minimum.reduceat(values, first) == _UNMONITORED
    return np.where(unmonitored, _UNMONITORED, sums)


def _merge_access_sizes(merged: np.ndarray, records: np.ndarray) -> None:
    """Keep the four most frequent access sizes of all records."""
    counts: dict[int, int] = {}
    for size, count in zip(ACCESS_SIZES, ACCESS_COUNTS, strict=True):
        for one, number in zip(
            records[size].tolist(), records[count].tolist(), strict=True
        ):
            if number > 0:
                counts[one] = counts.get(one, 0) + number
    ranking = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:4]
    ranking += [(0, 0)] * (4 - len(ranking))
    for size, count, values in zip(ACCESS_SIZES, ACCESS_COUNTS, ranking, strict=True):
        merged[size], merged[count] = values
