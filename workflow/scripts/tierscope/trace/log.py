"""Read Darshan logs: job, names and POSIX counters; every defect is an error.

A log is a header with a table of regions (job, names, one per module), each a
sequence of zlib streams. Its own checksums cover the regions only, so the table is
checked as well: the regions must fill the file without gaps. So a truncated or damaged
file is detected before any number is used. This module reads the container itself
because libdarshan-util treats damaged files as short ones, or crashes.
"""

import os
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

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

_MAGIC = 6567223
_ZLIB = 0
_REGION = np.dtype([("offset", "<u8"), ("length", "<u8")])


def _header_type(n_modules: int, flag_bytes: int) -> np.dtype:
    """Return the header's layout; the flag is aligned to its own size."""
    return np.dtype(
        [
            ("version", "S8"),
            ("magic", "<i8"),
            ("compression", "u1"),
            ("padding", f"V{flag_bytes - 1}"),
            ("partial", f"<u{flag_bytes}"),
            ("names", _REGION),
            ("modules", _REGION, n_modules),
            ("module_versions", "<u4", n_modules),
        ]
    )


def _job_type(*fields: str) -> np.dtype:
    """Return the job record's layout."""
    return np.dtype([(field, "<i8") for field in fields] + [("metadata", "S1024")])


_OLD_HEADER, _HEADER = _header_type(16, 4), _header_type(64, 8)
_OLD_JOB = _job_type("uid", "start_s", "end_s", "n_processes", "job_id")
JOB = _job_type(
    "uid", "start_s", "start_ns", "end_s", "end_ns", "n_processes", "job_id"
)
_LAYOUTS = {
    "3.10": (_OLD_HEADER, _OLD_JOB),
    "3.20": (_OLD_HEADER, _OLD_JOB),
    "3.21": (_OLD_HEADER, _OLD_JOB),
    "3.41": (_HEADER, JOB),
}

_OLD_MODULES = [
    *("NULL", "POSIX", "MPI-IO", "H5F", "H5D", "PNETCDF", "BG/Q", "LUSTRE", "STDIO"),
    *("DXT_POSIX", "DXT_MPIIO", "MDHIM", "APXC", "APMPI", "HEATMAP"),
]
_MODULES = [
    *_OLD_MODULES[:5],
    *("PNETCDF_FILE", "PNETCDF_VAR"),
    *_OLD_MODULES[6:],
    *("DFS", "DAOS"),
]
_ZLIB_OR_GZIP = 47  # value of wbits; Darshan writes gzip streams
_READ_BYTES = 1 << 18
_BLOCK_BYTES = 1 << 22
_CACHED_RECORDS = 512  # few enough that they stay in a cache for all columns
_CHILD_TIMEOUT_S = 1800
_ID_BYTES = 8


class LogError(ValueError):
    """A log cannot be used; the message names the file and the reason."""

    def __init__(self, path: str | Path, reason: str):
        super().__init__(f"{path}: {reason}".replace("\n", "\\n"))


@dataclass(frozen=True)
class Job:
    """The job data of a log."""

    n_processes: int
    start_time_s: int
    end_time_s: int
    exe: str
    metadata: dict[str, str]


@dataclass(frozen=True)
class Names:
    """Path of each record id; folders and base names are stored once.

    `ids` is sorted. `folder_of` and `base_of` have the same order and are positions in
    `folders` (-1: a name without folder, such as ``<STDIN>``) and `bases`.
    """

    ids: np.ndarray
    folder_of: np.ndarray
    base_of: np.ndarray
    folders: pa.BinaryArray
    bases: pa.BinaryArray

    def path(self, position: int) -> str:
        """Return the path at a position of `ids`."""
        base = self.bases[int(self.base_of[position])].as_py()
        if self.folder_of[position] < 0:
            return os.fsdecode(base)
        folder = self.folders[int(self.folder_of[position])].as_py()
        return os.fsdecode(folder + b"/" + base)


@dataclass(frozen=True)
class _Log:
    """A log's header with checked regions."""

    path: Path
    header: np.void
    job_type: np.dtype

    def error(self, reason: str) -> LogError:
        """Return an error that names this log."""
        return LogError(self.path, reason)

    @property
    def modules(self) -> list[str]:
        """Return the names of the modules that have data."""
        known = _OLD_MODULES if self.header.dtype == _OLD_HEADER else _MODULES
        present = np.flatnonzero(self.header["modules"]["length"]).tolist()
        return [known[i] if i < len(known) else f"module {i}" for i in present]

    def blocks(self, region: np.void, what: str) -> Iterator[bytes]:
        """Yield the decompressed bytes of a region in blocks of a few MiB."""
        pieces, n_bytes = [], 0
        for piece in self.pieces(region, what):
            pieces.append(piece)
            n_bytes += len(piece)
            if n_bytes >= _BLOCK_BYTES:
                yield b"".join(pieces)
                pieces, n_bytes = [], 0
        yield b"".join(pieces)

    def pieces(self, region: np.void, what: str) -> Iterator[bytes]:
        """Yield the decompressed bytes of a region's streams."""
        inflater = zlib.decompressobj(wbits=_ZLIB_OR_GZIP)
        for data in self._compressed(region, what):
            while data:
                if inflater.eof:
                    inflater = zlib.decompressobj(wbits=_ZLIB_OR_GZIP)
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

    def _compressed(self, region: np.void, what: str) -> Iterator[bytes]:
        """Yield the compressed bytes of a region."""
        left = int(region["length"])
        try:
            with self.path.open("rb") as file:
                file.seek(int(region["offset"]))
                while left and (data := file.read(min(_READ_BYTES, left))):
                    left -= len(data)
                    yield data
        except OSError as error:
            raise self.error(f"cannot be read: {error.strerror}.") from error
        if left:
            raise self.error(f"truncated in its {what}.")


def _open(path: str | Path) -> _Log:
    """Read and check a log's header and its table of regions."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            data = file.read(_HEADER.itemsize)
            n_bytes = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise LogError(path, f"cannot be read: {error.strerror}.") from error
    if not data:
        raise LogError(path, "is empty, expected a Darshan log.")
    if int.from_bytes(data[8:16], "big") == _MAGIC:
        raise LogError(path, "was written on a big-endian machine, not supported.")
    if len(data) < 16 or int.from_bytes(data[8:16], "little") != _MAGIC:
        raise LogError(path, "is not a Darshan log.")
    version = data[:8].split(b"\0")[0].decode("ascii", "replace")
    if version not in _LAYOUTS:
        raise LogError(
            path, f"has log format {version!r}, expected one of {list(_LAYOUTS)}."
        )
    header_type, job_type = _LAYOUTS[version]
    if len(data) < header_type.itemsize:
        raise LogError(path, "truncated in its header.")
    log = _Log(path, np.frombuffer(data, header_type, 1)[0], job_type)
    if log.header["compression"] != _ZLIB:
        kind = int(log.header["compression"])
        raise log.error(f"has compression type {kind}, expected zlib ({_ZLIB}).")
    _check_regions(log, n_bytes)
    return log


def _regions(log: _Log) -> list[tuple[int, int]]:
    """Return (offset, length) of the names and modules in the file's order."""
    table = [log.header["names"], *log.header["modules"]]
    regions = [(int(region["offset"]), int(region["length"])) for region in table]
    return sorted(region for region in regions if region[1])


def regions_of(path: str | Path) -> list[tuple[int, int]]:
    """Return (offset, length) of the names and modules of a sound log, in order."""
    return _regions(_open(path))


def _check_regions(log: _Log, n_bytes: int) -> None:
    """Raise a LogError unless the regions fill the file exactly."""
    regions = _regions(log)
    end = regions[0][0] if regions else n_bytes
    if end <= log.header.dtype.itemsize:
        raise log.error("corrupt in its header: no room for the job's data.")
    for offset, length in regions:
        if offset != end:
            raise log.error(
                f"corrupt in its header: a region starts at byte {offset}, "
                f"expected {end}."
            )
        end += length
    if end > n_bytes:
        raise log.error(f"truncated: got {n_bytes} bytes, expected {end}.")
    if end < n_bytes:
        raise log.error(f"corrupt: got {n_bytes} bytes, expected {end}.")


def _read_job(log: _Log) -> Job:
    """Read the job region: record, command line and mounts."""
    start, regions = log.header.dtype.itemsize, _regions(log)
    end = regions[0][0] if regions else log.path.stat().st_size
    region = np.array((start, end - start), _REGION)
    data = b"".join(log.blocks(region, "job data"))
    if len(data) < log.job_type.itemsize:
        raise log.error("corrupt in its job data: it is too short.")
    job = np.frombuffer(data, log.job_type, 1)[0]
    if job["n_processes"] < 1:
        raise log.error(f"has {job['n_processes']} processes, expected at least 1.")
    exe = data[log.job_type.itemsize :].split(b"\0")[0].split(b"\n")[0]
    lines = job["metadata"].decode("utf-8", "replace").splitlines()
    return Job(
        n_processes=int(job["n_processes"]),
        start_time_s=int(job["start_s"]),
        end_time_s=int(job["end_s"]),
        exe=exe.decode("utf-8", "replace").rstrip(),
        metadata=dict(line.split("=", 1) for line in lines if "=" in line),
    )


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
    job = _read_job(log)
    region = log.header["modules"][POSIX_MODULE]
    if not region["length"]:
        raise log.error(f"has no POSIX module, it has {log.modules or 'none'}.")
    if int(log.header["partial"]) >> POSIX_MODULE & 1:
        raise log.error("is partial: Darshan ran out of memory for POSIX records.")
    version = int(log.header["module_versions"][POSIX_MODULE])
    if version not in RECORD_BYTES:
        raise log.error(
            f"has POSIX records of version {version}, expected one of "
            f"{sorted(RECORD_BYTES)}."
        )
    names = _read_names(log)
    if version == POSIX_VERSION:
        return job, _read_columns(log, columns), names
    if columns is not COLUMNS:
        raise log.error(f"has POSIX records of version {version}, without {columns}.")
    return job, _read_old_columns(log, RECORD_BYTES[version]), names


def _posix_blocks(log: _Log) -> Iterator[bytes]:
    """Yield the decompressed blocks of the POSIX module."""
    return log.blocks(log.header["modules"][POSIX_MODULE], "POSIX records")


def _read_columns(log: _Log, columns: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Read the columns from records of the current version, block by block."""
    parts = {column: [np.empty(0, POSIX_RECORD[columns[column]])] for column in columns}
    for records in _records(log):
        for start in range(0, len(records), _CACHED_RECORDS):
            cached = records[start : start + _CACHED_RECORDS]
            for column, counter in columns.items():
                parts[column].append(cached[counter].copy())
    return {column: np.concatenate(parts.pop(column)) for column in columns}


def _records(log: _Log) -> Iterator[np.ndarray]:
    """Yield the POSIX records; only records cut by a block are copied."""
    size, rest = POSIX_RECORD.itemsize, b""
    region = log.header["modules"][POSIX_MODULE]
    for piece in filter(None, log.pieces(region, "POSIX records")):
        start = 0
        if rest:
            start = size - len(rest)
            rest += piece[:start]
            if len(rest) < size:
                continue
            yield np.frombuffer(rest, POSIX_RECORD)
        n_records = max(0, len(piece) - start) // size
        yield np.frombuffer(piece, POSIX_RECORD, n_records, min(start, len(piece)))
        rest = piece[start + n_records * size :]
    if rest:
        raise log.error("corrupt in its POSIX records: the last one is cut.")


def _read_old_columns(log: _Log, record_bytes: int) -> dict[str, np.ndarray]:
    """Read the columns of older records with PyDarshan, which converts them.

    PyDarshan runs in a child process because libdarshan-util may crash. It runs only if
    the region is intact because it treats an error as the end of the records.
    """
    n_bytes = sum(len(block) for block in _posix_blocks(log))
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


def _run_pydarshan(log: _Log, output: Path) -> None:
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


def _read_names(log: _Log) -> Names:
    """Read the (id, path) pairs; repeated pairs of ranks must agree."""
    parts = []
    rest = b""
    for block in log.blocks(log.header["names"], "names"):
        block = rest + block
        starts, used_bytes = _name_starts(block)
        parts.append(_split_names(block, starts))
        rest = block[used_bytes:]
    if rest:
        raise log.error("corrupt in its names: the last one is cut.")
    ids, folders, bases = zip(*parts, strict=True)
    ids = np.concatenate(ids)
    folders = pa.chunked_array(folders).unify_dictionaries().combine_chunks()
    bases = pa.chunked_array(bases).unify_dictionaries().combine_chunks()
    del parts
    pa.default_memory_pool().release_unused()
    order = np.argsort(ids, kind="stable")
    ids = ids[order]
    folder_of = folders.indices.fill_null(-1).to_numpy()[order]
    base_of = bases.indices.to_numpy()[order]
    names = Names(ids, folder_of, base_of, folders.dictionary, bases.dictionary)
    repeats = ids[1:] == ids[:-1]
    if repeats.any():
        _refuse_contradictions(log, names, np.flatnonzero(repeats))
        kept = np.append(True, ~repeats)
        names = replace(
            names, ids=ids[kept], folder_of=folder_of[kept], base_of=base_of[kept]
        )
    return names


def _name_starts(block: bytes) -> tuple[np.ndarray, int]:
    """Return the starts of whole pairs (8 bytes of id, path, zero), and their end.

    Ids may contain zeros, so the pairs can only be found one after the other.
    """
    zeros = np.flatnonzero(np.frombuffer(block, np.uint8) == 0)
    if not len(zeros):
        return zeros, 0
    # A zero close to the previous one may be part of an id; such a zero is at most
    # eight bytes after the end of a path.
    is_end = np.diff(zeros, prepend=-1) > _ID_BYTES
    end = -1
    for i in np.flatnonzero(~is_end).tolist():
        if i and is_end[i - 1]:
            end = int(zeros[i - 1])
        is_end[i] = zeros[i] - end > _ID_BYTES
    ends = zeros[is_end] + 1
    starts = np.append(0, ends)
    return starts[:-1], int(starts[-1])


def _split_names(
    block: bytes, starts: np.ndarray
) -> tuple[np.ndarray, pa.DictionaryArray, pa.DictionaryArray]:
    """Return ids, folders and base names of a block of pairs."""
    data = np.frombuffer(block, np.uint8)
    ids = data[starts[:, np.newaxis] + np.arange(8)].view("<u8").ravel()
    zeros = np.append(starts[1:], 0) - 1
    if len(starts):
        zeros[-1] = block.find(0, int(starts[-1]) + 8)
    slashes = np.append(-1, np.flatnonzero(data == ord("/")))
    last_slash = slashes[np.searchsorted(slashes, zeros[: len(starts)]) - 1]
    paths, zeros = starts + 8, zeros[: len(starts)]
    has_folder = last_slash >= paths
    folder_ends = np.where(has_folder, last_slash, paths)
    folders = _slices(block, paths, folder_ends, has_folder)
    bases = _slices(block, folder_ends + has_folder, zeros, np.ones(len(zeros), bool))
    return ids, folders.dictionary_encode(), bases.dictionary_encode()


def _slices(
    block: bytes, starts: np.ndarray, ends: np.ndarray, is_valid: np.ndarray
) -> pa.BinaryArray:
    """Return slices of a block as an array; null where not valid."""
    # The values cover the block; every other one is a gap between slices.
    offsets = np.zeros(2 * len(starts) + 1, np.int32)
    offsets[0:-1:2], offsets[1::2] = starts, ends
    offsets[-1] = offsets[-2] if len(starts) else 0
    values = pa.BinaryArray.from_buffers(
        pa.binary(),
        2 * len(starts),
        [None, pa.py_buffer(offsets), pa.py_buffer(block)],
    )
    return values.take(pa.array(2 * np.arange(len(starts)), mask=~is_valid))


def _refuse_contradictions(log: _Log, names: Names, repeated: np.ndarray) -> None:
    """Raise a LogError if an id at these positions has another path at the next."""
    differs = (names.folder_of[repeated] != names.folder_of[repeated + 1]) | (
        names.base_of[repeated] != names.base_of[repeated + 1]
    )
    if differs.any():
        first = int(repeated[np.argmax(differs)])
        raise log.error(
            f"has one record id for {names.path(first)!r} and "
            f"{names.path(first + 1)!r}."
        )
