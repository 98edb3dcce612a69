"""Compute where LMDB puts the records of a database that was written by appending.

LMDBIO calls this provenance: the way in which a database was written determines the
page of each record, so a reader needs neither cursor nor tree. This module follows LMDB
0.9 page by page: copy on write of the path to the last leaf in every transaction,
splits of full leaves and branches, reuse of pages of earlier transactions, and the list
of free pages that every commit writes. The result equals that of LMDB (a test compares
them). It is valid for sequential keys of one length, values of one length and commits
at regular intervals, written by one process without readers.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

PAGE_HEADER_BYTES = 16
NODE_HEADER_BYTES = 8
INDEX_BYTES = 2
PAGE_NUMBER_BYTES = 8
N_META_PAGES = 2
KEY_BYTES = 10  # our keys are record numbers in decimal digits


def node_limit(page_bytes: int) -> int:
    """Return the largest node size; larger values get their own pages."""
    half = (page_bytes - PAGE_HEADER_BYTES) // 2
    return (half & ~1) - INDEX_BYTES


def overflow_pages(value_bytes: int, page_bytes: int) -> int:
    """Return the number of own pages of a value, with the page header."""
    return -(-(PAGE_HEADER_BYTES + value_bytes) // page_bytes)


@dataclass(frozen=True)
class Layout:
    """The places of a database's values and pages.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_records,)
        Byte offset of each value in the file.
    tree_pages : ndarray of int64, shape (n_tree_pages,)
        Branches and leaves of the tree of records, ascending.
    n_pages : int
        Number of pages of the file, with metadata and free pages.
    """

    offsets: np.ndarray
    tree_pages: np.ndarray
    n_pages: int


@dataclass
class _TreePage:
    """The last page of a level: its number, its free bytes, its entries."""

    number: int
    free_bytes: int
    n_entries: int = 0


@dataclass
class _Pages:
    """LMDB's allocation of pages: free pages, and the changes of a transaction."""

    next_number: int = N_META_PAGES  # the first page beyond the file
    transaction: int = 0
    saved: dict[int, list[int]] = field(default_factory=dict)  # freed, by transaction
    saved_in: int | None = None  # the page where these are saved
    taken: list[int] | None = None  # free pages that this transaction took over
    taken_until: int = 0  # of transactions up to this one
    freed: list[int] = field(default_factory=list)
    dirty: set[int] = field(default_factory=set)

    def begin(self) -> None:
        """Begin the next transaction."""
        self.transaction += 1
        self.taken, self.taken_until = None, 0
        self.freed, self.dirty = [], set()

    def allocate(self, n_pages: int = 1) -> int:
        """Return the first of consecutive pages: the lowest free ones that fit."""
        attempts = 60 * n_pages
        while True:
            if self.taken and len(self.taken) >= n_pages:
                if (first := self._find(n_pages)) is not None:
                    return first
                attempts -= 1
                if attempts < 0:
                    break
            # Pages freed by the last transaction are still in use by its reader.
            older = [
                number
                for number in self.saved
                if self.taken_until < number < self.transaction - 1
            ]
            if not older:
                break
            self.taken_until = min(older)
            self.taken = sorted((self.taken or []) + self.saved[self.taken_until])
        first = self.next_number
        self.next_number += n_pages
        self.dirty.add(first)
        return first

    def _find(self, n_pages: int) -> int | None:
        """Take the lowest run of free pages; return its first page, if one fits."""
        for start in range(len(self.taken) - n_pages + 1):
            first = self.taken[start]
            if self.taken[start + n_pages - 1] == first + n_pages - 1:
                del self.taken[start : start + n_pages]
                self.dirty.add(first)
                return first
        return None

    def touch(self, number: int) -> int:
        """Return the page that this transaction may change: a copy of an older page."""
        if number in self.dirty:
            return number
        copy = self.allocate()
        self.freed.append(number)
        return copy

    def commit(self) -> None:
        """Save the free pages; saving itself takes and frees pages."""
        if self.taken is not None:
            self._touch_saved()
        done_until = head = n_freed = room = head_room = 0
        may_retry = True
        while True:
            while done_until < self.taken_until:
                done_until = head = min(self.saved)
                room = head_room = 0
                self._touch_saved()
                del self.saved[head]
                if not self.saved:
                    self.freed.append(self.saved_in)
                    self.saved_in = None
            if n_freed < len(self.freed):
                if not n_freed:
                    self._touch_saved()
                while n_freed < len(self.freed):
                    n_freed = len(self.freed)
                    self._save(self.transaction, [])
                self.saved[self.transaction] = sorted(self.freed)
                continue
            wanted = len(self.taken or ())
            if room >= wanted:
                if room == wanted or not may_retry:
                    break
                may_retry = False
            room -= head_room
            head_room = max(0, wanted - room)
            self._save(head, [0] * head_room)
            room += head_room
        if self.taken:
            self.saved[head] = list(self.taken)

    def _touch_saved(self) -> None:
        """Make the page of the database of free pages writable, if it exists."""
        if self.saved_in is not None:
            self.saved_in = self.touch(self.saved_in)

    def _save(self, transaction: int, pages: list[int]) -> None:
        """Write a record of the database of free pages."""
        if self.saved_in is None:
            self.saved_in = self.allocate()
        self._touch_saved()
        self.saved[transaction] = pages
        self.saved = dict(sorted(self.saved.items()))


class _Appended:
    """The tree of records while it grows at its end."""

    def __init__(self, key_bytes: int, value_bytes: int, page_bytes: int):
        self.pages = _Pages()
        self._page_bytes = page_bytes
        self._key_bytes = key_bytes
        node = NODE_HEADER_BYTES + key_bytes
        self._own_pages = 0
        if node + value_bytes > node_limit(page_bytes):
            self._own_pages = overflow_pages(value_bytes, page_bytes)
            node += PAGE_NUMBER_BYTES
        else:
            node += value_bytes
        self._leaf_node = node + node % 2
        branch = NODE_HEADER_BYTES + key_bytes
        self._branch_node = branch + branch % 2
        self._path: list[_TreePage] = []  # last pages, from the root to the leaf
        self._finished: list[int] = []  # tree pages that will not change again
        self._of_last_leaf: list[int] = []  # offsets in the page of the last leaf
        self.offsets: list[int] = []

    def _new_page(self) -> _TreePage:
        return _TreePage(self.pages.allocate(), self._page_bytes - PAGE_HEADER_BYTES, 0)

    def touch(self) -> None:
        """Make the path to the last leaf writable, from the root down."""
        for page in self._path:
            page.number = self.pages.touch(page.number)

    def append(self) -> None:
        """Append a record."""
        if not self._path:
            self._path.append(self._new_page())
        elif self._path[-1].free_bytes < self._leaf_node + INDEX_BYTES:
            self._settle_leaf()
            self._split(len(self._path) - 1)
        leaf = self._path[-1]
        used = self._page_bytes - PAGE_HEADER_BYTES - leaf.free_bytes
        end_of_nodes = self._page_bytes - (used - INDEX_BYTES * leaf.n_entries)
        leaf.free_bytes -= self._leaf_node + INDEX_BYTES
        leaf.n_entries += 1
        if self._own_pages:
            first = self.pages.allocate(self._own_pages)
            self.offsets.append(first * self._page_bytes + PAGE_HEADER_BYTES)
        else:
            start = end_of_nodes - self._leaf_node
            self._of_last_leaf.append(start + NODE_HEADER_BYTES + self._key_bytes)

    def _settle_leaf(self) -> None:
        """Record the final offsets of the values in the last leaf."""
        start = self._path[-1].number * self._page_bytes
        self.offsets += [start + offset for offset in self._of_last_leaf]
        self._of_last_leaf = []

    def _split(self, level: int) -> None:
        """Add a new last page to a level; a full branch moves its last entry there."""
        old, is_leaf = self._path[level], level == len(self._path) - 1
        new = self._new_page()
        if level == 0:
            root = self._new_page()
            root.free_bytes -= NODE_HEADER_BYTES + INDEX_BYTES  # no key
            root.n_entries = 1
            self._path.insert(0, root)
            level = 1
        self._path[level] = new
        self._finished.append(old.number)
        self._add_branch(level - 1)
        # It starts with the old one's last entry, without its key, and the new entry.
        if not is_leaf:
            new.free_bytes -= NODE_HEADER_BYTES + INDEX_BYTES
            new.free_bytes -= self._branch_node + INDEX_BYTES
            new.n_entries = 2

    def _add_branch(self, level: int) -> None:
        """Add an entry to the last branch of a level."""
        branch = self._path[level]
        if branch.free_bytes < self._branch_node + INDEX_BYTES:
            self._split(level)
        else:
            branch.free_bytes -= self._branch_node + INDEX_BYTES
            branch.n_entries += 1

    def layout(self) -> Layout:
        """Return the current layout."""
        self._settle_leaf()
        tree = [*self._finished, *(page.number for page in self._path)]
        return Layout(
            np.array(self.offsets, np.int64),
            np.array(sorted(tree), np.int64),
            self.pages.next_number,
        )


def layout_of(
    n_records: int,
    key_bytes: int,
    value_bytes: int,
    records_per_commit: int,
    page_bytes: int,
) -> Layout:
    """Return the layout of appended records in LMDB.

    Parameters
    ----------
    n_records : int
        Number of records, at least 1.
    key_bytes, value_bytes : int
        Length of every key and of every value.
    records_per_commit : int
        Records per transaction; the last one may have fewer.
    page_bytes : int
        Size of a page.
    """
    tree = _Appended(key_bytes, value_bytes, page_bytes)
    for start in range(0, n_records, records_per_commit):
        tree.pages.begin()
        tree.touch()
        for _ in range(start, min(start + records_per_commit, n_records)):
            tree.append()
        tree.pages.commit()
    return tree.layout()


@dataclass(frozen=True)
class Provenance:
    """How a database was written: the settings that determine its layout.

    Parameters
    ----------
    n_records, value_bytes : int
        Number of records and length of each value.
    records_per_commit : int
        Records per transaction.
    page_bytes : int
        Page size of LMDB: that of the writing machine, at most 32 KiB.
    """

    n_records: int
    value_bytes: int
    records_per_commit: int
    page_bytes: int
    key_bytes: int = KEY_BYTES

    @cached_property
    def layout(self) -> Layout:
        """Return the computed layout."""
        return layout_of(
            self.n_records,
            self.key_bytes,
            self.value_bytes,
            self.records_per_commit,
            self.page_bytes,
        )

    @property
    def file_bytes(self) -> int:
        """Return the size of the file."""
        return self.layout.n_pages * self.page_bytes
