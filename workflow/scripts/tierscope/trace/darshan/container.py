"""Open Darshan logs of all formats and byte orders; every defect is an error.

A log is a header with a table of regions (job, names, one per module), each a
sequence of compressed streams. The streams have checksums but the table has none, so
the table is checked as well: the regions must fill the file without gaps. So a
truncated or damaged file is detected before any number is used. Only logs that are not
compressed may have gaps: a runtime that maps its log into memory leaves them. This
module reads the container itself because libdarshan-util treats damaged files as short
ones, or crashes.
"""

import bz2
import os
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tierscope.core.files import os_errors_as
from tierscope.core.words import as_text
from tierscope.trace.darshan.inflation import USUAL, Inflation

MAGIC = 6567223
_GZIP = b"\x1f\x8b"
ZLIB, _BZIP2, _NONE = 0, 1, 2
LITTLE, BIG = "<", ">"


def _job_type(*fields: str) -> np.dtype:
    """Return the job record's layout."""
    return np.dtype([(field, "<i8") for field in fields] + [("metadata", "S1024")])


_OLD_JOB = _job_type("uid", "start_s", "end_s", "n_processes", "job_id")
JOB = _job_type(
    "uid", "start_s", "start_ns", "end_s", "end_ns", "n_processes", "job_id"
)

# Modules by their position in the header's table. H5D came with format 3.20, the
# second module of PnetCDF with 3.41.
_FIRST_MODULES = [
    "NULL",
    "POSIX",
    "MPI-IO",
    "H5F",
    "PNETCDF",
    "BG/Q",
    "LUSTRE",
    "STDIO",
    "DXT_POSIX",
    "DXT_MPIIO",
    "MDHIM",
    "APXC",
    "APMPI",
    "HEATMAP",
]
_OLD_MODULES = [*_FIRST_MODULES[:4], "H5D", *_FIRST_MODULES[4:]]
_MODULES = [
    *_OLD_MODULES[:5],
    "PNETCDF_FILE",
    "PNETCDF_VAR",
    *_OLD_MODULES[6:],
    "DFS",
    "DAOS",
]


class _Format(NamedTuple):
    """Layout of a log: its header without byte order, its job and its modules."""

    # Version, magic, compression, partial modules, regions (offset, length), versions.
    header: str
    job: np.dtype
    modules: list[str]


_OLD_HEADER, _HEADER = "8sqB3xI34Q16I", "8sqB7xQ130Q64I"
FORMATS = {
    "3.00": _Format(_OLD_HEADER, _OLD_JOB, _FIRST_MODULES),
    "3.10": _Format(_OLD_HEADER, _OLD_JOB, _FIRST_MODULES),
    "3.20": _Format(_OLD_HEADER, _OLD_JOB, _OLD_MODULES),
    "3.21": _Format(_OLD_HEADER, _OLD_JOB, _OLD_MODULES),
    "3.41": _Format(_HEADER, JOB, _MODULES),
}

# What a part of a log may inflate to however small it is, besides its `Inflation`.
_MOST_INFLATED = {"data": 1 << 13, "names": 1 << 20, "records": 4 << 20}
_READ_BYTES = 1 << 18
_FED_BYTES = 1 << 14  # at once: what is behind a stream is copied
_BLOCK_BYTES = 1 << 22
_CACHED_RECORDS = 512
_MOST_PROCESSES = 1 << 24  # more than the largest machines have cores
_LAST_S = 253_402_300_799  # the year 9999 ends
# What follows a job's record: a command line, then the mounts that have room.
JOB_REGION_BYTES = 4096
_CUT_EXE = b"<TRUNCATED>"
_MOUNT, _HALF_MOUNT = re.compile(rb"(\S+)\t(/.*)"), re.compile(rb"\S*")
_LONGEST_MOUNT_BYTES = 255  # a longer one is left out; with the line break before it
_MOST_MOUNTS = 64
_NS_PER_S = 1_000_000_000


class LogError(ValueError):
    """A log cannot be used; the message names the file and the reason."""

    def __init__(self, path: str | Path, reason: str):
        super().__init__(f"{path}: {reason}".replace("\n", "\\n"))


class Region(NamedTuple):
    """Where a part of a log is, in bytes of the file."""

    offset: int
    length: int


@dataclass(frozen=True)
class JobRecord:
    """The job data of a log; times are seconds since 1970.

    `exe` is the command line, in which bytes that are no UTF-8 are escapes, and
    `is_exe_cut` tells whether it had no room. `mounts` is the type of the file system
    by mount point, and `may_lack_mounts` tells whether others may have had no room.
    `clock_s` is the unit of the times of start and end if they are cut to it: 1 in old
    formats, before 3.41, else 0. `metadata` has for example ``lib_ver``, the version of
    the runtime.
    """

    uid: int
    job_id: int
    n_processes: int
    start_time_s: int
    end_time_s: int
    started_s: float
    ended_s: float
    clock_s: float
    exe: str
    is_exe_cut: bool
    metadata: dict[str, str]
    mounts: dict[str, str]
    may_lack_mounts: bool


@dataclass(frozen=True)
class Container:
    """A log with checked regions.

    Its format's `version` is such as ``3.41``, `order` is ``<`` or ``>``, and
    `partial_flags` has a bit of each module that lost records. Regions of modules
    without data have no length. A small file is kept whole (`content`).
    """

    path: Path
    version: str
    order: str
    compression: int
    partial_flags: int
    job_region: Region
    names_region: Region
    regions: list[Region]
    versions: tuple[int, ...]
    content: bytes | None
    inflation: Inflation

    def error(self, reason: str) -> LogError:
        """Return an error that names this log."""
        return LogError(self.path, reason)

    def position(self, module: str) -> int:
        """Return the position of a module in the header's table."""
        return FORMATS[self.version].modules.index(module)

    @property
    def modules(self) -> list[str]:
        """Return the names of the modules that have data."""
        return [self._name(i) for i, (_, length) in enumerate(self.regions) if length]

    @property
    def partial(self) -> list[str]:
        """Return the names of the modules that lost records."""
        flags = self.partial_flags
        return [self._name(i) for i in range(len(self.regions)) if flags >> i & 1]

    def _name(self, position: int) -> str:
        """Return the name of the module at a position."""
        known = FORMATS[self.version].modules
        return known[position] if position < len(known) else f"module {position}"

    def blocks(self, region: Region, what: str) -> Iterator[bytes]:
        """Yield the decompressed bytes of a region in blocks of a few MiB."""
        pieces, n_bytes = [], 0
        for piece in self.pieces(region, what):
            pieces.append(piece)
            n_bytes += len(piece)
            if n_bytes >= _BLOCK_BYTES:
                yield b"".join(pieces)
                pieces, n_bytes = [], 0
        yield b"".join(pieces)

    def pieces(self, region: Region, what: str) -> Iterator[bytes]:
        """Yield the decompressed bytes of a region's streams, not more than it may."""
        kind = what.rpartition(" ")[2]
        factor = getattr(self.inflation, kind, 0)
        left = most = _MOST_INFLATED[kind] + factor * region.length
        for piece in self._unpacked(region, what):
            left -= len(piece)
            if left < 0:
                raise self.error(
                    f"corrupt in its {what}: {region.length} bytes inflate to more "
                    f"than {most}{_how_to_raise(kind, factor)}."
                )
            yield piece

    def _unpacked(self, region: Region, what: str) -> Iterator[bytes]:
        """Yield the decompressed bytes of a region's streams."""
        if self.compression == _NONE:
            return self._compressed(region, what)
        if self.compression == _BZIP2:
            return self._unzipped(region, what)
        return self._inflated(region, what)

    def _inflated(self, region: Region, what: str) -> Iterator[bytes]:
        """Yield the decompressed bytes of zlib's streams."""
        inflater = zlib.decompressobj()
        for data in self._fed(region, what):
            while data:
                if inflater.eof:
                    inflater = zlib.decompressobj()
                try:
                    yield inflater.decompress(data, _BLOCK_BYTES)
                except zlib.error as error:
                    raise self.error(f"corrupt in its {what}: {error}.") from error
                data = inflater.unused_data or inflater.unconsumed_tail
        while not inflater.eof:  # the last input may give more than a block
            piece = inflater.decompress(b"", _BLOCK_BYTES)
            if not piece and not inflater.eof:
                raise self.error(f"corrupt in its {what}: it ends too early.")
            yield piece

    def _unzipped(self, region: Region, what: str) -> Iterator[bytes]:
        """Yield the decompressed bytes of bzip2's streams."""
        unzipper = bz2.BZ2Decompressor()
        for data in self._fed(region, what):
            while data:
                if unzipper.eof:
                    unzipper = bz2.BZ2Decompressor()
                try:
                    yield unzipper.decompress(data, _BLOCK_BYTES)
                    while not (unzipper.eof or unzipper.needs_input):
                        yield unzipper.decompress(b"", _BLOCK_BYTES)
                except OSError as error:  # no error of a call, which may pass
                    raise self.error(f"corrupt in its {what}: {error}.") from None
                data = unzipper.unused_data
        if not unzipper.eof:
            raise self.error(f"corrupt in its {what}: it ends too early.")

    def _fed(self, region: Region, what: str) -> Iterator[bytes]:
        """Yield the bytes of a region, few at a time."""
        for data in self._compressed(region, what):
            for start in range(0, len(data), _FED_BYTES):
                yield data[start : start + _FED_BYTES]

    def _compressed(self, region: Region, what: str) -> Iterator[bytes]:
        """Yield the bytes of a region as they are in the file."""
        offset, left = region
        if self.content is not None:
            yield self.content[offset : offset + left]
            return
        with os_errors_as(self.error, "cannot be read"), self.path.open("rb") as file:
            file.seek(offset)
            while left and (data := file.read(min(_READ_BYTES, left))):
                left -= len(data)
                yield data
        if left:
            raise self.error(f"truncated in its {what}.")

    def records(self, module: str, layout: np.dtype) -> Iterator[np.ndarray]:
        """Yield a module's records, so few at a time that they stay in a cache."""
        for records in self._whole_records(module, layout):
            for start in range(0, len(records), _CACHED_RECORDS):
                yield records[start : start + _CACHED_RECORDS]

    def _whole_records(self, module: str, layout: np.dtype) -> Iterator[np.ndarray]:
        """Yield a module's records; only records cut by a block are copied."""
        what = f"{module} records"
        size, rest = layout.itemsize, b""
        region = self.regions[self.position(module)]
        for piece in filter(None, self.pieces(region, what)):
            start = 0
            if rest:
                start = size - len(rest)
                rest += piece[:start]
                if len(rest) < size:
                    continue
                yield np.frombuffer(rest, layout)
            n_records = max(0, len(piece) - start) // size
            yield np.frombuffer(piece, layout, n_records, min(start, len(piece)))
            rest = piece[start + n_records * size :]
        if rest:
            raise self.error(f"corrupt in its {what}: the last one is cut.")

    def read_job(self) -> JobRecord:
        """Read the job region: record, command line and mounts."""
        layout = FORMATS[self.version].job
        if self.order == BIG:
            layout = layout.newbyteorder(BIG)
        data = b"".join(self.blocks(self.job_region, "job data"))
        if len(data) < layout.itemsize:
            raise self.error("corrupt in its job data: it is too short.")
        names = layout.names[:-1]
        values = np.frombuffer(data, layout, 1)[0].tolist()
        job = dict(zip(names, values[:-1], strict=True))
        if not 1 <= (n_processes := job["n_processes"]) <= _MOST_PROCESSES:
            raise self.error(
                f"has {n_processes} processes, expected 1 to {_MOST_PROCESSES}."
            )
        for name in ("start_s", "end_s"):
            if not 0 <= job[name] <= _LAST_S:
                raise self.error(
                    f"corrupt in its job data: got {name} {job[name]}, expected "
                    "seconds since 1970."
                )
        for name in ("start_ns", "end_ns"):
            if not 0 <= job.get(name, 0) < _NS_PER_S:
                raise self.error(
                    f"corrupt in its job data: got {name} {job[name]}, expected less "
                    "than a second."
                )
        metadata = data[8 * len(names) : layout.itemsize].split(b"\0")[0]
        text = data[layout.itemsize :].split(b"\0")[0]
        exe, mounts = _exe_and_mounts(text)
        left_bytes = JOB_REGION_BYTES - layout.itemsize - 1 - len(text)
        lines = metadata.decode("utf-8", "replace").split("\n")
        return JobRecord(
            uid=job["uid"],
            job_id=job["job_id"],
            n_processes=n_processes,
            start_time_s=job["start_s"],
            end_time_s=job["end_s"],
            started_s=job["start_s"] + job.get("start_ns", 0) / 1e9,
            ended_s=job["end_s"] + job.get("end_ns", 0) / 1e9,
            clock_s=0.0 if "start_ns" in job else 1.0,
            exe=exe.rstrip().decode("utf-8", "backslashreplace"),
            is_exe_cut=exe.endswith(_CUT_EXE),
            metadata=dict(line.split("=", 1) for line in lines if "=" in line),
            mounts=mounts,
            may_lack_mounts=left_bytes < _LONGEST_MOUNT_BYTES
            or len(mounts) >= _MOST_MOUNTS,
        )


def _exe_and_mounts(text: bytes) -> tuple[bytes, dict[str, str]]:
    """Return the command line, and the type of the file system by mount point."""
    exe, *lines = text.rstrip(b"\n").split(b"\n")
    # A command line may have line breaks. Each line behind it is a mount, or half one.
    first = len(lines)
    for at in reversed(range(len(lines))):
        if _MOUNT.fullmatch(lines[at]):
            first = at
        elif first == len(lines) or not _HALF_MOUNT.fullmatch(lines[at]):
            break
    mounts = {}
    for found in filter(None, map(_MOUNT.fullmatch, lines[first:])):
        fs_type, point = found.groups()
        point = point.rstrip().replace(b"\\040", b" ").replace(b"\\012", b"\n")
        mounts[as_text(point)] = fs_type.decode("utf-8", "backslashreplace")
    return b"\n".join([exe, *lines[:first]]), mounts


def _how_to_raise(kind: str, factor: int) -> str:
    """Return in words which key lets a kind of part inflate to more, if one does."""
    if not factor:
        return ""
    return f"; if this log is genuine, raise inflation.{kind} (now {factor})"


def open_container(path: str | Path, inflation: Inflation = USUAL) -> Container:
    """Read and check a log's header and its table of regions.

    A LogError says that it is no log, of an unknown format, truncated or damaged.
    """
    path = Path(path)
    cannot = os_errors_as(partial(LogError, path), "cannot be read")
    with cannot, path.open("rb") as file:
        data = file.read(_READ_BYTES)
        n_bytes = os.fstat(file.fileno()).st_size
    if not data:
        raise LogError(path, "is empty, expected a Darshan log.")
    order = BIG if int.from_bytes(data[8:16], "big") == MAGIC else LITTLE
    magic = int.from_bytes(data[8:16], "big" if order == BIG else "little")
    if len(data) < 16 or magic != MAGIC:
        raise LogError(path, _no_log(data))
    version = data[:8].split(b"\0")[0].decode("ascii", "replace")
    if version not in FORMATS:
        raise LogError(
            path, f"has log format {version!r}, expected one of {list(FORMATS)}."
        )
    header = struct.Struct(order + FORMATS[version].header)
    if len(data) < header.size:
        raise LogError(path, "truncated in its header.")
    _, _, compression, flags, *table = header.unpack_from(data)
    if compression not in (ZLIB, _BZIP2, _NONE):
        raise LogError(path, f"has compression type {compression}, expected 0, 1 or 2.")
    if compression == _NONE and _is_packed(data[header.size :]):
        raise LogError(path, "corrupt in its header: its data are compressed.")
    n_modules = len(table) // 3  # two numbers of each region, one version
    numbers = iter(table[: 2 * n_modules + 2])
    regions = [Region(*pair) for pair in zip(numbers, numbers, strict=True)]
    return Container(
        path=path,
        version=version,
        order=order,
        compression=compression,
        partial_flags=flags,
        job_region=_job_region(
            path, regions, header.size, n_bytes, may_have_gaps=compression == _NONE
        ),
        names_region=regions[0],
        regions=regions[1:],
        versions=tuple(table[2 * n_modules + 2 :]),
        content=data if len(data) == n_bytes else None,
        inflation=inflation,
    )


def _is_packed(data: bytes) -> bool:
    """Return whether data begin with a stream of zlib."""
    try:
        return bool(zlib.decompressobj().decompress(data))
    except zlib.error:
        return False


def _no_log(data: bytes) -> str:
    """Return what a file is that is no log."""
    if data.startswith(_GZIP):
        return "is not a log of Darshan 3; those of Darshan 1 and 2 are not supported."
    return "is not a Darshan log."


def _job_region(
    path: Path,
    table: list[Region],
    header_bytes: int,
    n_bytes: int,
    may_have_gaps: bool,
) -> Region:
    """Return the job's region if the regions fill the file."""
    regions = sorted(region for region in table if region.length)
    end = first = regions[0].offset if regions else n_bytes
    if first <= header_bytes:
        raise LogError(path, "corrupt in its header: no room for the job's data.")
    for offset, length in regions:
        if offset < end or (offset > end and not may_have_gaps):
            raise LogError(
                path,
                f"corrupt in its header: a region starts at byte {offset}, "
                f"expected {end}.",
            )
        end = offset + length
    if end > n_bytes:
        raise LogError(path, f"truncated: got {n_bytes} bytes, expected {end}.")
    if end < n_bytes and not may_have_gaps:
        raise LogError(path, f"corrupt: got {n_bytes} bytes, expected {end}.")
    return Region(header_bytes, first - header_bytes)
