"""Write Darshan logs, which Darshan's own tools read as well."""

import os
import struct
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from tierscope.core.files import written_whole
from tierscope.core.words import as_bytes
from tierscope.trace.darshan.container import (
    FORMATS,
    JOB,
    JOB_REGION_BYTES,
    LITTLE,
    MAGIC,
    ZLIB,
    Region,
)
from tierscope.trace.darshan.module_records import RECORD_TYPES

_FORMAT = "3.41"
_HEADER = struct.Struct(LITTLE + FORMATS[_FORMAT].header)
_MODULES = FORMATS[_FORMAT].modules
_N_MODULES = 64  # for which the header has room
_TEXT_BYTES = JOB_REGION_BYTES - JOB.itemsize - 1  # command line and mounts
_LONGEST_EXE_BYTES = 2048
METADATA_BYTES = 1024  # of all lines `key=value`, and a byte 0
_ROWS_AT_ONCE = 1 << 10  # 0.7 MB of records
_ID = struct.Struct("<Q")
_NOT_IN_EXE = bytes.maketrans(b"\n\0", b"  ")  # mounts follow in lines, then a zero


@dataclass(frozen=True)
class LoggedJob:
    """What a log says of its job.

    Parameters
    ----------
    n_processes : int
    exe : str
        Command line, cut after 2048 bytes.
    mounts : mapping of str to str
        Type of the file system by mount point; mounts that do not fit are omitted.
    started_s, ended_s : float
        Seconds since 1970, stored with nanoseconds.
    metadata : mapping of str to str
        For example ``{"lib_ver": "3.5.0"}``.
    uid, job_id : int
        By default those of this process.
    partial : collection of str
        Interfaces whose module is marked as incomplete.
    """

    n_processes: int
    exe: str
    mounts: Mapping[str, str]
    started_s: float
    ended_s: float
    metadata: Mapping[str, str] = field(default_factory=dict)
    uid: int = field(default_factory=os.getuid)
    job_id: int = field(default_factory=os.getpid)
    partial: Collection[str] = ()


def write_log(
    path: str | Path,
    records: Mapping[str, np.ndarray],
    names: Mapping[int, str | bytes],
    job: LoggedJob,
) -> None:
    """Write a log of the current format, whole or not at all.

    Like those of Darshan, it has no module without records, and records may have no
    name. Texts are bytes that `tierscope.core.words.as_text` has read.

    Parameters
    ----------
    path : path
        The log; an existing one is replaced.
    records : mapping of str to ndarray, shape (n_records,)
        By interface: ``POSIX``, ``STDIO``, ``MPI-IO``; of one of the layouts in
        `tierscope.trace.darshan.module_records.RECORD_TYPES`.
    names : mapping of int to str or bytes
        Path of each record id.
    job : LoggedJob
        The job of the records.

    Raises
    ------
    ValueError
        If arguments contradict each other or do not fit into the format.
    OSError
        If the log cannot be written.
    """
    if unknown := ({*records, *job.partial}) - RECORD_TYPES.keys():
        raise ValueError(
            f"records: got interfaces {sorted(unknown)}, expected some of "
            f"{sorted(RECORD_TYPES)}."
        )
    start, end = (
        divmod(round(time_s * 1e9), 10**9) for time_s in (job.started_s, job.ended_s)
    )
    row = job.uid, *start, *end, job.n_processes, job.job_id, _lines(job.metadata)
    text = as_bytes(job.exe).translate(_NOT_IN_EXE)[:_LONGEST_EXE_BYTES]
    text += _mounts(job.mounts, _TEXT_BYTES - len(text)) + b"\0"
    with written_whole(path) as temporary, temporary.open("wb") as log:
        _write(log, np.array(row, JOB).tobytes() + text, names, records, job.partial)


def _write(
    log: BinaryIO,
    job: bytes,
    names: Mapping[int, str | bytes],
    records: Mapping[str, np.ndarray],
    partial: Collection[str],
) -> None:
    """Write the regions, and then the header, which says where they are."""
    numbers = {_MODULES.index(name): name for name in records if len(records[name])}
    versions, regions = [0] * _N_MODULES, [Region(0, 0)] * (1 + _N_MODULES)
    log.write(bytes(_HEADER.size))
    _put(log, [job])
    if names:
        regions[0] = _put(log, _name_blocks(names))
    for number, name in sorted(numbers.items()):
        versions[number] = _version(name, records[name])
        regions[1 + number] = _put(log, _blocks(records[name]))
    flags = sum(1 << _MODULES.index(name) for name in set(partial))
    head = _FORMAT.encode(), MAGIC, ZLIB, flags
    log.seek(0)
    log.write(_HEADER.pack(*head, *chain.from_iterable(regions), *versions))


def _lines(metadata: Mapping[str, str]) -> bytes:
    """Return the metadata as the job's record has them."""
    lines = as_bytes("".join(f"{key}={value}\n" for key, value in metadata.items()))
    if len(lines) >= METADATA_BYTES:
        raise ValueError(
            f"metadata: got {len(lines)} bytes, expected fewer than {METADATA_BYTES}."
        )
    return lines


def _mounts(mounts: Mapping[str, str], left_bytes: int) -> bytes:
    """Return a line of each mount that fits, with blanks as in /proc/mounts."""
    lines: list[bytes] = []
    for point, fs_type in mounts.items():
        row = (
            as_bytes(text).replace(b" ", b"\\040").replace(b"\n", b"\\012")
            for text in (fs_type, point)
        )
        line = b"\n" + b"\t".join(row)
        left_bytes -= len(line)
        if left_bytes <= 0:
            break
        lines.insert(0, line)  # Darshan writes the last one first
    return b"".join(lines)


def _version(interface: str, records: np.ndarray) -> int:
    """Return the version of a module whose records have this layout."""
    for version, layout in reversed(RECORD_TYPES[interface].items()):
        if records.dtype == layout:
            return version
    raise ValueError(
        f"records: got {records.dtype} for {interface}, expected one of RECORD_TYPES."
    )


def _name_blocks(names: Mapping[int, str | bytes]) -> Iterator[bytes]:
    """Yield some names at a time: id, path, zero."""
    pairs = iter(names.items())
    while some := list(islice(pairs, _ROWS_AT_ONCE)):
        yield b"".join([_ID.pack(id_) + _path(name) + b"\0" for id_, name in some])


def _path(name: str | bytes) -> bytes:
    """Return the bytes of a path, which have no zero."""
    path = name if isinstance(name, bytes) else as_bytes(name)
    if b"\0" in path:
        raise ValueError(f"names: got {path!r}, expected a path without zeros.")
    return path


def _blocks(records: np.ndarray) -> Iterator[np.ndarray]:
    """Yield some records at a time, one behind the other in memory."""
    for first in range(0, len(records), _ROWS_AT_ONCE):
        yield np.ascontiguousarray(records[first : first + _ROWS_AT_ONCE])


def _put(log: BinaryIO, blocks: Iterable[bytes | np.ndarray]) -> Region:
    """Append a region of one compressed stream, and return where it is."""
    packer, start = zlib.compressobj(), log.tell()
    for block in blocks:
        log.write(packer.compress(block))
    log.write(packer.flush())
    return Region(start, log.tell() - start)
