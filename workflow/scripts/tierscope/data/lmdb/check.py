"""Refuse damaged LMDB files; messages name the file, the page and the record."""

import os
from pathlib import Path

import google_crc32c
import numpy as np

from tierscope.core.files import os_errors_as
from tierscope.data.lmdb.layout import KEY_BYTES, Provenance
from tierscope.data.lmdb.pages import find_records, read_meta
from tierscope.data.tfrecord import DatasetError


def check_size(path: str | Path, n_bytes: int, provenance: Provenance) -> None:
    """Refuse a file that was cut short.

    Raises
    ------
    DatasetError
        With the file and the first incomplete record.
    """
    if n_bytes >= provenance.file_bytes:
        return
    ends = provenance.layout.offsets + provenance.value_bytes
    missing = np.flatnonzero(ends > n_bytes)
    what = f"record {missing[0]} is not whole" if len(missing) else "its tree is not"
    raise DatasetError(
        f"{path}: is cut short, {what}: got {n_bytes} bytes, expected "
        f"{provenance.file_bytes}."
    )


def check_record(path: str | Path, record: int, value, crc32c: int) -> None:
    """Refuse a record whose bytes differ from the written ones.

    Parameters
    ----------
    path : path
        The file, for the message.
    record : int
        Number of the record.
    value : read-only buffer
        Its value as read.
    crc32c : int
        The checksum of the written value.

    Raises
    ------
    DatasetError
        With the file and the record.
    """
    if (found := google_crc32c.value(value)) != crc32c:
        raise DatasetError(
            f"{path}: record {record} is damaged: got checksum {found:#010x}, expected "
            f"{crc32c:#010x}."
        )


def check_tree(path: Path, provenance: Provenance) -> None:
    """Refuse a file whose tree differs from that of its provenance.

    LMDB does not check what it maps: with a damaged tree it returns wrong records, or a
    signal ends the process. So this check comes before LMDB opens a file.

    Raises
    ------
    DatasetError
        If the file was cut short or its tree is damaged; with file, page and record.
    """
    with os_errors_as(DatasetError, f"{path}: cannot open it"):
        descriptor = os.open(path, os.O_RDONLY)
    try:
        if (size := os.fstat(descriptor).st_size) >= 2 * provenance.page_bytes:
            _check_pages(path, descriptor, provenance)
        check_size(path, size, provenance)
        _check_open_tree(path, descriptor, provenance)
    finally:
        os.close(descriptor)


def _check_open_tree(path: Path, descriptor: int, provenance: Provenance) -> None:
    """Refuse an open file whose tree differs from the computed one."""
    found, sizes, tree_pages = find_records(
        lambda offset, n_bytes: os.pread(descriptor, n_bytes, offset),
        str(path),
        KEY_BYTES,
    )
    layout = provenance.layout
    if len(found) != provenance.n_records or not np.array_equal(
        tree_pages, layout.tree_pages
    ):
        raise DatasetError(
            f"{path}: its tree is damaged: got {len(found)} records on "
            f"{len(tree_pages)} pages, expected {provenance.n_records} on "
            f"{len(layout.tree_pages)}."
        )
    for got, wanted, what in (
        (found, layout.offsets, "at byte"),
        (sizes, np.full(len(found), provenance.value_bytes), "with a length of"),
    ):
        if wrong := np.flatnonzero(got != wanted).tolist():
            raise DatasetError(
                f"{path}: its tree is damaged: it has record {wrong[0]} {what} "
                f"{got[wrong[0]]}, expected {wanted[wrong[0]]}."
            )


def _check_pages(path: Path, descriptor: int, provenance: Provenance) -> None:
    """Refuse a file whose pages have another size."""
    meta = read_meta(lambda at, n_bytes: os.pread(descriptor, n_bytes, at), str(path))
    if meta.page_bytes != provenance.page_bytes:
        raise DatasetError(
            f"{path}: got pages of {meta.page_bytes} bytes, expected "
            f"{provenance.page_bytes}, as its provenance says."
        )
