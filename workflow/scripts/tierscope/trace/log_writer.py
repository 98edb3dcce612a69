"""Write Darshan logs with the libdarshan-util of PyPI's darshan wheel."""

import ctypes
import importlib.util
import os
import sys
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

import numpy as np

from tierscope.core.files import written_whole
from tierscope.core.validation import ConfigError
from tierscope.core.words import as_bytes
from tierscope.trace.darshan.container import JOB, LogError
from tierscope.trace.darshan.module_records import RECORD_TYPES
from tierscope.trace.log import read_posix
from tierscope.trace.posix_records import POSIX_MODULE, POSIX_RECORD

# Executable and mounts share the rest of the 4096-byte job record.
_JOB_RECORD_BYTES = 4096
_TEXT_BYTES = _JOB_RECORD_BYTES - JOB.itemsize - 1
_LONGEST_EXE_BYTES = 2048
# libdarshan-util writes a longer name behind the end of its buffer.
LONGEST_NAME_BYTES = 4095
METADATA_BYTES = 1024  # of all lines `key=value`, and a byte 0
_ZLIB = 0
_RECORDS_PER_CALL = 1 << 16
# Positions in the header's table of modules.
_MODULE_NUMBERS = {"POSIX": POSIX_MODULE, "MPI-IO": 2, "STDIO": 9}

_MOUNT = np.dtype([("type", f"S{_TEXT_BYTES}"), ("path", f"S{_TEXT_BYTES}")])
# A name in libdarshan-util's hash table; writing follows only the last links.
_NAME_REFERENCE = np.dtype(
    {
        "names": ["name_record", "next"],
        "formats": ["<u8", "<u8"],
        "offsets": [0, 24],
        "itemsize": 64,
    }
)


@cache
def libdarshan_util() -> ctypes.CDLL:
    """Load the wheel's library and declare the functions used."""
    if (spec := importlib.util.find_spec("darshan")) is None:
        raise ConfigError(
            f"darshan: got no such package in {sys.prefix}, expected PyPI's wheel, "
            "whose library writes logs"
        )
    package = Path(spec.origin).parent
    found = sorted((package.parent / "darshan.libs").glob("libdarshan-util*.so*"))
    if not found:
        raise ConfigError(
            f"{package.parent}/darshan.libs: got no libdarshan-util, expected the one "
            "of PyPI's darshan wheel"
        )
    library = ctypes.CDLL(str(found[0]))
    pointer, integer, text = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
    library.darshan_log_create.restype = pointer
    library.darshan_log_create.argtypes = [text, integer, integer]
    library.darshan_log_put_job.argtypes = [pointer, pointer]
    library.darshan_log_put_exe.argtypes = [pointer, text]
    library.darshan_log_put_mounts.argtypes = [pointer, pointer, integer]
    library.darshan_log_put_namehash.argtypes = [pointer, pointer]
    library.darshan_log_put_mod.argtypes = [pointer, integer, pointer, integer, integer]
    library.darshan_log_close.argtypes = [pointer]
    library.darshan_log_close.restype = None
    return library


def write_log(
    path: str | Path,
    records: np.ndarray,
    names: Mapping[int, str | bytes],
    *,
    n_processes: int,
    exe: str,
    mounts: Mapping[str, str],
    start_time_s: int,
    end_time_s: int,
    metadata: Mapping[str, str] | None = None,
    partial: bool = False,
) -> None:
    """Write a log that Darshan's own tools read.

    The log is written under a temporary name, read back and then renamed. Like a log of
    Darshan, a log without records has no POSIX module, so it cannot be read as
    `file_records`.

    Parameters
    ----------
    path : path
        The log; an existing one is replaced.
    records : ndarray of POSIX_RECORD, shape (n_records,)
    names : mapping of int to str or bytes
        Path of each record id.
    n_processes : int
    exe : str
        Command line, cut after 2048 bytes.
    mounts : mapping of str to str
        Type of the file system by mount point; mounts that do not fit are omitted.
    start_time_s, end_time_s : int
        Seconds since 1970.
    metadata : mapping of str to str, optional
        For example ``{"lib_ver": "3.5.0"}``.
    partial : bool
        Mark the POSIX module as incomplete.

    Raises
    ------
    ValueError
        If arguments contradict each other or do not fit into the format.
    OSError
        If the log cannot be written.
    """
    path = Path(path)
    if records.dtype != POSIX_RECORD:
        raise ValueError(f"records: got {records.dtype}, expected POSIX_RECORD.")
    ids = np.fromiter(names, np.uint64, len(names))
    if nameless := set(np.setdiff1d(records["id"], ids).tolist()):
        raise ValueError(f"names: got none for record ids {sorted(nameless)[:3]}.")
    job = _job(
        n_processes, (start_time_s, 0), (end_time_s, 0), metadata or {}, None, None
    )
    marked = ["POSIX"] if partial else []
    with written_whole(path) as temporary:
        _write(temporary, job, exe, mounts, names, {"POSIX": records}, marked)
        if len(records) and not partial:
            _check_written(temporary, path, len(records), len(names))


def write_any_log(
    path: str | Path,
    records: Mapping[str, np.ndarray],
    names: Mapping[int, str | bytes],
    *,
    n_processes: int,
    exe: str,
    mounts: Mapping[str, str],
    started_s: float,
    ended_s: float,
    uid: int | None = None,
    job_id: int | None = None,
    metadata: Mapping[str, str] | None = None,
    partial: Collection[str] = (),
) -> None:
    """Write a log like those of other jobs: all modules that count, shared records.

    The log is not read back. Records without a name are written as they are, like
    those of a runtime that ran out of memory for names.

    Parameters
    ----------
    path : path
        The log; an existing one is replaced.
    records : mapping of str to ndarray, shape (n_records,)
        By interface: ``POSIX``, ``STDIO``, ``MPI-IO``; of one of the layouts in
        `tierscope.trace.darshan.module_records.RECORD_TYPES`. A module without records
        is not in the log.
    names : mapping of int to str or bytes
        Path of each record id.
    n_processes : int
    exe : str
        Command line, cut after 2048 bytes.
    mounts : mapping of str to str
        Type of the file system by mount point; mounts that do not fit are omitted.
    started_s, ended_s : float
        Seconds since 1970, stored with nanoseconds.
    uid, job_id : int, optional
        Of the job; without them, of this process.
    metadata : mapping of str to str, optional
        For example ``{"lib_ver": "3.5.0"}``.
    partial : collection of str
        Interfaces whose module is marked as incomplete.

    Raises
    ------
    ValueError
        If arguments contradict each other or do not fit into the format.
    OSError
        If the log cannot be written.
    """
    if unknown := ({*records, *partial}) - _MODULE_NUMBERS.keys():
        raise ValueError(
            f"records: got interfaces {sorted(unknown)}, expected some of "
            f"{sorted(_MODULE_NUMBERS)}."
        )
    start, end = (divmod(round(time_s * 1e9), 10**9) for time_s in (started_s, ended_s))
    job = _job(n_processes, start, end, metadata or {}, uid, job_id)
    with written_whole(path) as temporary:
        _write(temporary, job, exe, mounts, names, records, partial)


def _job(
    n_processes: int,
    start: tuple[int, int],
    end: tuple[int, int],
    metadata: Mapping[str, str],
    uid: int | None,
    job_id: int | None,
) -> np.ndarray:
    """Return the job's record; times are seconds and nanoseconds."""
    lines = as_bytes("".join(f"{key}={value}\n" for key, value in metadata.items()))
    if len(lines) >= METADATA_BYTES:
        raise ValueError(
            f"metadata: got {len(lines)} bytes, expected fewer than {METADATA_BYTES}."
        )
    job = np.zeros(1, JOB)
    job["uid"] = os.getuid() if uid is None else uid
    job["job_id"] = os.getpid() if job_id is None else job_id
    job["n_processes"] = n_processes
    job["start_s"], job["start_ns"] = start
    job["end_s"], job["end_ns"] = end
    job["metadata"] = lines
    return job


def _write(
    path: Path,
    job: np.ndarray,
    exe: str,
    mounts: Mapping[str, str],
    names: Mapping[int, str | bytes],
    records: Mapping[str, np.ndarray],
    partial: Collection[str],
) -> None:
    """Write the regions in the order that the library requires."""
    versions = {name: _version(name, of_module) for name, of_module in records.items()}
    library = libdarshan_util()
    flag = sum(1 << _MODULE_NUMBERS[name] for name in set(partial))
    log = library.darshan_log_create(os.fsencode(path), _ZLIB, flag)
    if not log:
        raise OSError(f"{path}: libdarshan-util cannot create the log.")
    path.chmod(0o644)

    def put(what: str, *arguments: object) -> None:
        if getattr(library, f"darshan_log_put_{what}")(log, *arguments) != 0:
            raise OSError(f"{path}: libdarshan-util cannot write its {what}.")

    try:
        exe = as_bytes(exe.replace("\n", " "))[:_LONGEST_EXE_BYTES]
        mount_table = _mount_table(mounts, _TEXT_BYTES - len(exe))
        references, _name_blob = _name_references(names)
        put("job", job.ctypes.data)
        put("exe", exe)
        put("mounts", mount_table.ctypes.data, len(mount_table))
        put("namehash", references.ctypes.data if len(names) else None)
        for name in sorted(records, key=_MODULE_NUMBERS.__getitem__):
            for first in range(0, len(records[name]), _RECORDS_PER_CALL):
                part = records[name][first : first + _RECORDS_PER_CALL]
                part = np.ascontiguousarray(part)
                number, version = _MODULE_NUMBERS[name], versions[name]
                put("mod", number, part.ctypes.data, part.nbytes, version)
    finally:
        library.darshan_log_close(log)


def _version(interface: str, records: np.ndarray) -> int:
    """Return the version of a module whose records have this layout."""
    for version, layout in reversed(RECORD_TYPES[interface].items()):
        if records.dtype == layout:
            return version
    raise ValueError(
        f"records: got {records.dtype} for {interface}, expected one of RECORD_TYPES."
    )


def _mount_table(mounts: Mapping[str, str], left_bytes: int) -> np.ndarray:
    """Return the mounts that fit, with spaces written as in /proc/mounts."""
    rows = []
    for path, kind in mounts.items():
        row = tuple(
            os.fsencode(text).replace(b" ", b"\\040").replace(b"\n", b"\\012")
            for text in (kind, path)
        )
        left_bytes -= sum(map(len, row)) + 2
        if left_bytes <= 0:
            break
        rows.append(row)
    return np.array(rows, _MOUNT)


def _name_references(
    names: Mapping[int, str | bytes],
) -> tuple[np.ndarray, np.ndarray]:
    """Return the linked list of names and the memory of its pointers."""
    encoded = [os.fsencode(name) for name in names.values()]
    if (longest := max(map(len, encoded), default=0)) > LONGEST_NAME_BYTES:
        raise ValueError(
            f"names: got a path of {longest} bytes, expected at most "
            f"{LONGEST_NAME_BYTES}."
        )
    records = [
        int(id_).to_bytes(8, "little") + name + b"\0"
        for id_, name in zip(names, encoded, strict=True)
    ]
    blob = np.frombuffer(b"".join(records), np.uint8)
    ends = np.cumsum(np.fromiter(map(len, records), np.uint64, len(records)))
    references = np.zeros(len(records), _NAME_REFERENCE)
    references["name_record"][:1] = blob.ctypes.data
    references["name_record"][1:] = blob.ctypes.data + ends[:-1]
    links = np.arange(1, len(records), dtype=np.uint64) * _NAME_REFERENCE.itemsize
    references["next"][:-1] = references.ctypes.data + links
    return references, blob


def _check_written(temporary: Path, path: Path, n_records: int, n_names: int) -> None:
    """Raise an OSError unless the log can be read back, for example on a full disk."""
    try:
        _, columns, written_names = read_posix(temporary)
    except LogError as error:
        raise OSError(f"{path}: the log was not written completely: {error}") from error
    got = len(columns["id"]), len(written_names.ids)
    if got != (n_records, n_names):
        raise OSError(
            f"{path}: got {got} records and names back, "
            f"expected {(n_records, n_names)}."
        )
