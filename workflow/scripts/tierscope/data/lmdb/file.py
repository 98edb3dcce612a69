"""Datasets in one LMDB file: the samples of the TFRecord files as records.

Record i has the key ``b"%010d" % i``; its value is the payload of TFRecord file i, byte
for byte. Records are appended and committed at regular intervals, so the place of each
record follows from the provenance (`tierscope.data.lmdb.layout`) and is not recorded.
The folder also has `provenance.json` and `records.npy`: the CRC-32C of each value.
"""

import errno
import json
import mmap
import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import google_crc32c
import numpy as np

from tierscope.core.files import (
    named_at_end,
    os_errors_as,
    read_array,
    write_array,
    write_back,
    write_text,
)
from tierscope.data.lmdb.check import check_tree
from tierscope.data.lmdb.layout import KEY_BYTES, Provenance
from tierscope.data.tfrecord import (
    FRAMING_BYTES,
    TEMPORARY_PREFIX,
    DatasetError,
    SampleWriter,
    make_directory,
)

if TYPE_CHECKING:
    import lmdb

DATA_FILE, PROVENANCE_FILE, RECORDS_FILE = "data.mdb", "provenance.json", "records.npy"
# 0 means LMDB 0.9, whose file format LMDBIO uses; py-lmdb also has 1.0.
_LMDB_MAJOR_VERSION = 0
_LARGEST_PAGE_BYTES = 1 << 15  # limit of LMDB if the machine's pages are larger
_PAGE_BYTES = [1 << power for power in range(9, 16)]  # those of LMDB
_SPARE_BYTES = 1 << 20
_COPY_BYTES = 4 << 20
_CHECKSUM = np.dtype("<u4")
_REMEDY = " If it is damaged, delete its folder to make the dataset again."


def provenance_here(
    n_records: int, file_size_bytes: int, records_per_commit: int
) -> Provenance:
    """Return the provenance of a database written on this machine.

    Parameters
    ----------
    n_records, file_size_bytes : int
        Number and size of the TFRecord files whose payloads are the values.
    records_per_commit : int
        Records per transaction.
    """
    page_bytes = min(mmap.PAGESIZE, _LARGEST_PAGE_BYTES)
    value_bytes = file_size_bytes - FRAMING_BYTES
    return Provenance(n_records, value_bytes, records_per_commit, page_bytes)


def read_provenance(folder: Path) -> Provenance:
    """Read `provenance.json` of a database.

    Raises
    ------
    DatasetError
        If it is missing or invalid.
    """
    path = folder / PROVENANCE_FILE
    try:
        provenance = Provenance(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise DatasetError(f"{path}: cannot read it: {error}.{_REMEDY}") from error
    for name, value in asdict(provenance).items():
        if type(value) is not int or value < 1:
            raise DatasetError(
                f"{path}: {name}: got {value!r}, expected an integer of at least 1."
            )
    if (found := provenance.page_bytes) not in _PAGE_BYTES:
        raise DatasetError(
            f"{path}: page_bytes: got {found}, expected one of {_PAGE_BYTES}."
        )
    return provenance


def read_checksums(folder: Path, n_records: int) -> np.ndarray:
    """Read `records.npy`: the CRC-32C of each value, uint32, shape (n_records,).

    Older files also have offsets and sizes.

    Raises
    ------
    DatasetError
        If the file cannot be read, or is of other records.
    """
    path = folder / RECORDS_FILE
    try:
        checksums = read_array(path)
    except (OSError, ValueError, EOFError, MemoryError) as error:
        raise DatasetError(f"{path}: cannot read it: {error}.{_REMEDY}") from error
    if "crc32c" in (checksums.dtype.names or ()):
        checksums = checksums["crc32c"]
    if (checksums.dtype, checksums.shape) != (_CHECKSUM, (n_records,)):
        raise DatasetError(
            f"{path}: got {checksums.dtype} of shape {checksums.shape}, expected "
            f"{_CHECKSUM} of shape ({n_records},)."
        )
    return checksums


def key_of(record: int) -> bytes:
    """Return a record's number with leading zeros, so that keys sort as numbers."""
    return b"%0*d" % (KEY_BYTES, record)


def open_database(path: str, map_bytes: int | None = None) -> "lmdb.Environment":
    """Open a database; read only, unless the size of its map is given."""
    import lmdb  # here: other loaders do not need it

    options = {"subdir": False, "lock": False, "lib_version": _LMDB_MAJOR_VERSION}
    if map_bytes is None:
        return lmdb.open(path, readonly=True, create=False, max_spare_txns=0, **options)
    return lmdb.open(path, map_size=map_bytes, sync=False, **options)


def address_of(value: memoryview) -> int:
    """Return the address of a buffer in memory."""
    return np.frombuffer(value, np.uint8).ctypes.data


def map_address(descriptor: int, maps: Path = Path("/proc/self/maps")) -> int:
    """Return the address at which this process has mapped a descriptor's file.

    File systems may share inode numbers, and some show a device in the list of maps
    that differs from the file's. So the path is compared as well.

    Raises
    ------
    DatasetError
        If the file is not mapped.
    """
    inode, path = (
        os.fstat(descriptor).st_ino,
        os.readlink(f"/proc/self/fd/{descriptor}"),
    )
    wanted = (inode, 0, path.replace("\n", r"\012"))
    for line in os.fsdecode(maps.read_bytes()).rstrip("\n").split("\n"):
        addresses, _, offset, _, number, *name = line.split(maxsplit=5)
        if (int(number), int(offset, 16), *name) == wanted:
            return int(addresses.split("-")[0], 16)
    raise DatasetError(f"{path}: is not mapped by this process.")


def walk_cursor(environment: "lmdb.Environment") -> None:
    """Walk a cursor over all records at LMDB's own speed; touch the tree's pages."""
    with environment.begin(buffers=True) as transaction:
        deque(transaction.cursor().iternext(keys=False, values=True), maxlen=0)


def walked_offsets(environment: "lmdb.Environment", base: int) -> np.ndarray:
    """Walk a cursor over all records and return the offsets of their values.

    Parameters
    ----------
    environment : lmdb.Environment
        The open database.
    base : int
        Address of the mapped file (`map_address`).

    Returns
    -------
    ndarray of int64, shape (n_records,)
        Addresses of the values minus that of the map. No value's page is touched.
    """
    with environment.begin(buffers=True) as transaction:
        values = transaction.cursor().iternext(keys=False, values=True)
        return np.array([address_of(value) - base for value in values], np.int64)


def is_complete(folder: Path, provenance: Provenance) -> bool:
    """Return whether a folder holds the complete database of this provenance."""
    try:
        size = (folder / DATA_FILE).stat().st_size
        return read_provenance(folder) == provenance and size == provenance.file_bytes
    except (OSError, DatasetError):
        return False


def generate_database(
    folder: Path,
    provenance: Provenance,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Write a database, unless it exists.

    Parameters
    ----------
    folder : Path
        Directory, made if it is missing.
    provenance : Provenance
        Size of the database, and how to write it.
    report : callable
        Called with the number of records written and the number wanted.

    Raises
    ------
    DatasetError
        If there is too little space, the database cannot be written, or the tree has a
        record at another offset than the computed one. No partial database remains.
    """
    import lmdb

    make_directory(folder)
    report(0, provenance.n_records)
    if is_complete(folder, provenance):
        report(provenance.n_records, provenance.n_records)
        return
    _remove_own(folder / DATA_FILE)
    for left in folder.glob(f"{TEMPORARY_PREFIX}*"):
        left.unlink()
    system = os.statvfs(folder)
    if (free_bytes := system.f_bavail * system.f_frsize) < provenance.file_bytes:
        raise DatasetError(
            f"{folder}: needs {provenance.file_bytes} bytes for {DATA_FILE}, but only "
            f"{free_bytes} are free."
        )
    temporary = folder / f"{TEMPORARY_PREFIX}{os.getpid()}-{DATA_FILE}"
    text = json.dumps(asdict(provenance), indent=1)
    try:
        with named_at_end(str(temporary), str(folder / DATA_FILE)):
            checksums = _write_records(temporary, provenance, report)
            write_array(folder / RECORDS_FILE, checksums)
            write_text(folder / PROVENANCE_FILE, text + "\n")
            write_back(folder)  # the data come last and mark it complete
    except (OSError, lmdb.Error) as error:
        raise DatasetError(f"{folder}: cannot write {DATA_FILE}: {error}.") from error


def _remove_own(path: Path) -> None:
    """Remove a database of ours; a DatasetError says that it is of another."""
    if path.exists():
        try:
            read_provenance(path.parent)
        except DatasetError as error:
            raise DatasetError(
                f"{path}: is not of tierscope ({error}) Move it elsewhere, or delete "
                "it to make the dataset again."
            ) from error
        path.unlink()


def _write_records(
    path: Path, provenance: Provenance, report: Callable[[int, int], None]
) -> np.ndarray:
    """Write `data.mdb` and return the checksums of its values."""
    checksums = np.zeros(provenance.n_records, _CHECKSUM)
    environment = open_database(str(path), provenance.file_bytes + _SPARE_BYTES)
    with environment:
        if (found := environment.stat()["psize"]) != provenance.page_bytes:
            raise DatasetError(
                f"{path}: LMDB has pages of {found} bytes, expected "
                f"{provenance.page_bytes}."
            )
        writer = SampleWriter(provenance.value_bytes + FRAMING_BYTES)
        for numbers in _commits(provenance):
            with environment.begin(write=True) as transaction:
                for i in numbers:
                    value = bytes(writer.payload(i))
                    checksums[i] = google_crc32c.value(value)
                    transaction.put(key_of(i), value, append=True)
            report(numbers.stop, provenance.n_records)
        environment.sync(True)
    check_tree(path, provenance)
    if (size := path.stat().st_size) != provenance.file_bytes:
        raise DatasetError(
            f"{path}: got {size} bytes, expected {provenance.file_bytes}."
        )
    return checksums


def _commits(provenance: Provenance) -> Iterator[range]:
    """Yield the records of each transaction."""
    for start in range(0, provenance.n_records, provenance.records_per_commit):
        stop = min(start + provenance.records_per_commit, provenance.n_records)
        yield range(start, stop)


def page_ranges(provenance: Provenance, n_first: int) -> list[tuple[int, int]]:
    """Return the parts of the file that a copy of the first records needs.

    Parameters
    ----------
    provenance : Provenance
        How the file was written.
    n_first : int
        Number of records in the copy; 0 needs nothing.

    Returns
    -------
    list of (int, int)
        Start and end in bytes, ascending, in whole pages: metadata, tree, and the pages
        of the records. Adjacent ranges are joined.
    """
    if not n_first:
        return []
    page, layout = provenance.page_bytes, provenance.layout
    first = layout.offsets[:n_first]
    starts = np.concatenate([[0], layout.tree_pages * page, first // page * page])
    ends = np.concatenate(
        [
            [2 * page],
            (layout.tree_pages + 1) * page,
            -(-(first + provenance.value_bytes) // page) * page,
        ]
    )
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    new = np.append(True, starts[1:] > ends[:-1])
    last = np.append(np.flatnonzero(new)[1:] - 1, len(ends) - 1)
    return list(zip(starts[new].tolist(), ends[last].tolist(), strict=True))


def copy_ranges(
    source: Path, target: Path, ranges: list[tuple[int, int]], part: slice | None = None
) -> None:
    """Copy parts of a file to the same offsets of another, which has holes elsewhere.

    Parameters
    ----------
    source, target : Path
        Both exist.
    ranges : list of (int, int)
        Start and end of each part.
    part : slice, optional
        Which of the pieces (at most 4 MiB each) to copy: this process's share.

    Raises
    ------
    DatasetError
        If a part cannot be read or written completely.
    """
    pieces = [
        (at, min(_COPY_BYTES, end - at))
        for start, end in ranges
        for at in range(start, end, _COPY_BYTES)
    ]
    with (
        os_errors_as(DatasetError, f"{target}: cannot copy to it"),
        open(source, "rb", buffering=0) as old,
        open(target, "r+b", 0) as new,
    ):
        for offset, n_bytes in pieces[part or slice(None)]:
            content = os.pread(old.fileno(), n_bytes, offset)
            if len(content) < n_bytes:
                raise DatasetError(
                    f"{source}: is cut short: got {len(content)} of {n_bytes} "
                    f"bytes at byte {offset}."
                )
            if os.pwrite(new.fileno(), content, offset) < n_bytes:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def make_hollow(path: Path, n_bytes: int) -> None:
    """Make a sparse file of this size, which takes no space yet."""
    cannot = os_errors_as(DatasetError, f"{path}: cannot make it")
    with cannot, open(path, "wb") as file:
        file.truncate(n_bytes)


def n_pieces(ranges: list[tuple[int, int]]) -> int:
    """Return the number of pieces into which `copy_ranges` cuts the parts."""
    return sum(len(range(*one, _COPY_BYTES)) for one in ranges)
