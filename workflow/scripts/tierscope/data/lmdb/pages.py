"""Read the pages of an LMDB 0.9 file: the offsets of the records in its tree.

The format is that of LMDB's source, `mdb.c`: two metadata pages, of which the one with
the later transaction is valid, and a B+ tree of branch and leaf pages. A value that is
too large for a leaf has its own pages, after a header of 16 bytes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tierscope.data.lmdb.layout import (
    N_META_PAGES,
    NODE_HEADER_BYTES,
    PAGE_HEADER_BYTES,
    PAGE_NUMBER_BYTES,
)
from tierscope.data.tfrecord import DatasetError

MAGIC, VERSION = 0xBEEFC0DE, 1
_BRANCH, _LEAF = 1, 2
_OWN_PAGES = 1  # flag of a leaf's node
_MAX_DEPTH = 32
_MOST_PAGES = 1 << 47  # of the largest file, with pages of 64 KiB
_DATABASE = [
    ("page_bytes", "<u4"),
    ("flags", "<u2"),
    ("depth", "<u2"),
    ("n_branches", "<u8"),
    ("n_leaves", "<u8"),
    ("n_overflow", "<u8"),
    ("n_entries", "<u8"),
    ("root", "<u8"),
]
_META = np.dtype(
    [
        ("header", f"V{PAGE_HEADER_BYTES}"),
        ("magic", "<u4"),
        ("version", "<u4"),
        ("address", "<u8"),
        ("map_bytes", "<u8"),
        ("free", _DATABASE),
        ("main", _DATABASE),
        ("last_page", "<u8"),
        ("transaction", "<u8"),
    ]
)
META_BYTES = _META.itemsize
_NODE = np.dtype(
    [("low", "<u2"), ("high", "<u2"), ("flags", "<u2"), ("key_bytes", "<u2")]
)

Read = Callable[[int, int], bytes]


@dataclass(frozen=True)
class Meta:
    """Content of the metadata pages: page size, root page, entries, pages of file."""

    page_bytes: int
    root: int
    n_entries: int
    n_pages: int
    transaction: int


def read_meta(read: Read, path: str) -> Meta:
    """Return the newer metadata of a file; a DatasetError if it is not one of LMDB 0.9.

    `read` returns the bytes at (offset, number of bytes).
    """
    first = _parse_meta(read(0, META_BYTES), path)
    second = _parse_meta(read(first.page_bytes, META_BYTES), path)
    return max(first, second, key=lambda meta: meta.transaction)


def _parse_meta(content: bytes, path: str) -> Meta:
    """Return the content of one metadata page."""
    if len(content) < META_BYTES:
        raise DatasetError(f"{path}: is cut short: it ends within its metadata.")
    meta = np.frombuffer(content, _META, 1)[0]
    found = int(meta["magic"]), int(meta["version"])
    if found != (MAGIC, VERSION):
        raise DatasetError(
            f"{path}: got magic {found[0]:#x} and version {found[1]}, expected an LMDB "
            f"0.9 file, {MAGIC:#x} and {VERSION}."
        )
    return Meta(
        int(meta["free"]["page_bytes"]),
        int(meta["main"]["root"]),
        int(meta["main"]["n_entries"]),
        int(meta["last_page"]) + 1,
        int(meta["transaction"]),
    )


def find_records(
    read: Read, path: str, key_bytes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Walk the tree and return the place of every record.

    Parameters
    ----------
    read : callable
        Returns the bytes at (offset, number of bytes) of the file.
    path : str
        Name of the file, for messages.
    key_bytes : int
        Length of the keys, which are the records' numbers in decimal digits.

    Returns
    -------
    offsets, sizes : ndarray of int64, shape (n_records,)
        Offset and size of each value, in bytes.
    tree_pages : ndarray of int64, shape (n_tree_pages,)
        The pages read in addition to the metadata, ascending.

    Raises
    ------
    DatasetError
        If the tree is damaged; the message names the page and the record.
    """
    meta = read_meta(read, path)
    offsets, sizes, tree_pages, n_records = [], [], [], 0
    waiting, seen = [(meta.root, 0)], set()
    while waiting:
        number, depth = waiting.pop()
        damaged = DatasetError(
            f"{path}: page {number} of its tree is damaged, at record {n_records}."
        )
        is_page = N_META_PAGES <= number < min(meta.n_pages, _MOST_PAGES)
        if not is_page or number in seen or depth > _MAX_DEPTH:
            raise damaged
        seen.add(number)
        page = read(number * meta.page_bytes, meta.page_bytes)
        tree_pages.append(number)
        try:
            flags, starts, nodes = _nodes(page, number)
            if flags & _BRANCH:
                children = _page_numbers(nodes).tolist()
                waiting += [(child, depth + 1) for child in reversed(children)]
                continue
            _check_keys(page, starts, nodes, n_records, key_bytes)
            found, lengths = _values(page, number, meta.page_bytes, starts, nodes)
        except (ValueError, IndexError):
            raise damaged from None
        offsets.append(found)
        sizes.append(lengths)
        n_records += len(found)
    if n_records != meta.n_entries:
        raise DatasetError(
            f"{path}: got {n_records} records in its tree, expected {meta.n_entries}."
        )
    return np.concatenate(offsets), np.concatenate(sizes), np.sort(tree_pages)


def _nodes(page: bytes, number: int) -> tuple[int, np.ndarray, np.ndarray]:
    """Return a tree page's flags, the offsets of its nodes, and their headers."""
    own_number = int.from_bytes(page[:8], "little")
    flags, lower = np.frombuffer(page, "<u2", 2, 10).tolist()
    n_nodes = (lower - PAGE_HEADER_BYTES) // 2
    if own_number != number or not flags & (_BRANCH | _LEAF) or n_nodes < 1:
        raise ValueError
    starts = np.frombuffer(page, "<u2", n_nodes, PAGE_HEADER_BYTES).astype(np.int64)
    return flags, starts, _gather(page, starts, NODE_HEADER_BYTES).view(_NODE).ravel()


def _gather(page: bytes, starts: np.ndarray, n_bytes: int) -> np.ndarray:
    """Return the bytes at several offsets of a page: shape (n_places, n_bytes)."""
    return np.frombuffer(page, np.uint8)[starts[:, np.newaxis] + np.arange(n_bytes)]


def _page_numbers(nodes: np.ndarray) -> np.ndarray:
    """Return the pages that a branch's nodes point to."""
    low, high, top = (nodes[name].astype(np.int64) for name in ("low", "high", "flags"))
    return low | high << 16 | top << 32


def _check_keys(
    page: bytes, starts: np.ndarray, nodes: np.ndarray, first: int, key_bytes: int
) -> None:
    """Raise a ValueError if the keys are not the records' numbers."""
    if np.any(nodes["key_bytes"] != key_bytes):
        raise ValueError
    digits = _gather(page, starts + NODE_HEADER_BYTES, key_bytes).astype(np.int64)
    numbers = (digits - ord("0")) @ 10 ** np.arange(key_bytes)[::-1]
    if np.any(numbers != first + np.arange(len(numbers))):
        raise ValueError


def _values(
    page: bytes, number: int, page_bytes: int, starts: np.ndarray, nodes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return offset and size of the values that a leaf holds or points to."""
    low, high = (nodes[name].astype(np.int64) for name in ("low", "high"))
    inside = starts + NODE_HEADER_BYTES + nodes["key_bytes"]
    if not np.any(nodes["flags"] & _OWN_PAGES):
        return number * page_bytes + inside, low | high << 16
    if not np.all(nodes["flags"] & _OWN_PAGES):
        raise ValueError
    first = _gather(page, inside, PAGE_NUMBER_BYTES).view("<i8").ravel()
    return first * page_bytes + PAGE_HEADER_BYTES, low | high << 16
