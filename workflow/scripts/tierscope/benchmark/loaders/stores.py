"""A database file that is open for an epoch, read by calls or mapped."""

import ctypes
import os
from contextlib import suppress
from functools import partial

import lmdb
import numpy as np

from tierscope.benchmark.loaders.records import ReadLog
from tierscope.data.lmdb.check import check_size
from tierscope.data.lmdb.file import (
    map_address,
    open_database,
    walk_cursor,
    walked_offsets,
)
from tierscope.data.lmdb.layout import KEY_BYTES, Provenance
from tierscope.data.lmdb.pages import META_BYTES, find_records
from tierscope.data.lmdb.reads import cut, touched_pages
from tierscope.data.tfrecord import DatasetError


class _Store:
    """A database file that is open, and the log of what is read of it."""

    def __init__(self, tier: str, path: str, provenance: Provenance, log: ReadLog):
        self.tier, self.path, self._log = tier, path, log
        self._provenance = provenance

    def _read(self, kind: str, offset: int, n_bytes: int) -> bytes:
        """Read a part of the file by a call, and note it."""
        with self._log.measure() as usage:
            content = os.pread(self._descriptor, n_bytes, offset)
        self._log.note_call(self.tier, kind, offset, len(content), usage)
        return content


class CalledStore(_Store):
    """A database file that is read by explicit calls (LMDBIO's DIO).

    Raises a DatasetError if the file was cut short.
    """

    def __init__(self, tier: str, path: str, provenance: Provenance, log: ReadLog):
        super().__init__(tier, path, provenance, log)
        self._descriptor = os.open(path, os.O_RDONLY)
        try:
            check_size(path, os.fstat(self._descriptor).st_size, provenance)
        except BaseException:
            self.close()
            raise

    def walk(self) -> np.ndarray:
        """Read the tree page by page and return the offsets of the values."""
        return find_records(partial(self._read, "tree"), self.path, KEY_BYTES)[0]

    def read_into(self, buffer: np.ndarray, offset: int, record: int) -> None:
        """Fill a buffer from the file; messages name its first record, `record`."""
        done = 0
        while done < len(buffer):
            with self._log.measure() as usage:
                n_bytes = os.preadv(self._descriptor, [buffer[done:]], offset + done)
            if not n_bytes:
                raise DatasetError(
                    f"{self.path}: is cut short: got {done} of {len(buffer)} bytes at "
                    f"byte {offset}, where record {record} starts."
                )
            self._log.note_call(self.tier, "data", offset + done, n_bytes, usage)
            done += n_bytes

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class MappedStore(_Store):
    """A database file that LMDB maps.

    No tracer of calls sees page faults, so they are timed here. On an emulated tier a
    read of `fault_bytes`, what the kernel loads at a fault, is charged for each; pages
    of the tree only if `charges_tree`. A DatasetError says that the file cannot be
    mapped or is cut short.
    """

    def __init__(
        self,
        tier: str,
        path: str,
        provenance: Provenance,
        log: ReadLog,
        fault_bytes: int | None,
        charges_tree: bool,
    ):
        super().__init__(tier, path, provenance, log)
        self._fault_bytes = fault_bytes
        self._charges_tree = charges_tree and fault_bytes is not None
        before = _descriptors()
        try:
            with log.measure() as usage:
                self._environment = open_database(path)
        except lmdb.Error as error:
            raise DatasetError(f"{path}: LMDB cannot open it: {error}.") from error
        for page in range(2):  # LMDB reads both metadata pages before it maps
            log.note_call(tier, "tree", page * provenance.page_bytes, META_BYTES, usage)
        try:
            (self._descriptor,) = (
                number
                for number, name in _descriptors().items()
                if number not in before and name.endswith(f"/{os.path.basename(path)}")
            )
            check_size(path, os.fstat(self._descriptor).st_size, provenance)
            self._base = map_address(self._descriptor)
        except BaseException:
            self.close()
            raise

    def walk(self) -> np.ndarray:
        """Walk LMDB's cursor over all records and return the offsets of the values.

        The timed walk runs at LMDB's own speed; the time that Python takes to examine
        each record is excluded.
        """
        page_bytes = self._provenance.page_bytes
        tree = self._provenance.layout.tree_pages
        if self._charges_tree:
            for page in tree.tolist():
                self._read("fault", page * page_bytes, page_bytes)
        try:
            with self._log.measure() as usage:
                walk_cursor(self._environment)
            offsets = walked_offsets(self._environment, self._base)
        except lmdb.Error as error:
            raise DatasetError(f"{self.path}: its tree is damaged: {error}.") from error
        self._log.note_call(
            self.tier, "tree", 0, len(tree) * page_bytes, usage, mapped=True
        )
        return offsets

    def value(self, offset: int, record: int) -> np.ndarray:
        """Return a record's value in mapped memory after touching all its pages."""
        n_bytes, page_bytes = self._provenance.value_bytes, self._provenance.page_bytes
        if not 0 <= offset <= self._provenance.file_bytes - n_bytes:
            raise DatasetError(
                f"{self.path}: record {record} lies at byte {offset}, outside the file."
            )
        if self._fault_bytes is not None:
            pages = touched_pages(np.array([offset]), self._provenance)
            for _, at, size in zip(*cut(*pages, self._fault_bytes), strict=True):
                self._read("fault", int(at), int(size))
        memory = (ctypes.c_ubyte * n_bytes).from_address(self._base + offset)
        value = np.frombuffer(memory, np.uint8)
        with self._log.measure() as usage:
            int(value[::page_bytes].sum()) + int(value[-1])
        self._log.note_call(self.tier, "data", offset, n_bytes, usage, mapped=True)
        return value

    def close(self) -> None:
        """Close the database."""
        self._environment.close()


def _descriptors() -> dict[int, str]:
    """Return the open files of this process by descriptor."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the descriptor of the listing itself is closed
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
    return found
