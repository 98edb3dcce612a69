"""Where LMDB puts the records of a database that was appended to, by arithmetic.

LMDBIO calls this provenance: how a database was written determines the page on which
each record lies, so a reader needs neither cursor nor tree. Here LMDB 0.9 is followed
page by page: copy on write of the path to the last leaf in every transaction, splits of
full leaves and branches, pages of earlier transactions used again, the list of free
pages that every commit writes. Equal to what LMDB does (a test compares them); valid
for sequential keys of one length, values of one length and commits at regular
intervals, written by one process without readers.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

PAGE_HEADER_BYTES = 16
NODE_HEADER_BYTES = 8
INDEX_BYTES = 2
PAGE_NUMBER_BYTES = 8
N_META_PAGES = 2
KEY_BYTES = 10  # of our keys: record numbers in decimal digits


def node_limit(page_bytes: int) -> int:
    """Return the largest node; a value that would make it larger gets its own pages."""
    half = (page_bytes - PAGE_HEADER_BYTES) // 2
    return (half & ~1) - INDEX_BYTES


def overflow_pages(value_bytes: int, page_bytes: int) -> int:
    """Return how many pages a value of its own pages takes, page header included."""
    return -(-(PAGE_HEADER_BYTES + value_bytes) // page_bytes)


@dataclass(frozen=True)
class Layout:
    """Where everything of a database lies.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_records,)
        Byte of the file at which each value starts.
    tree_pages : ndarray of int64, shape (n_tree_pages,)
        Pages of the tree of records, ascending: its branches and leaves.
    n_pages : int
        Pages of the file, metadata and free ones included.
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
    """LMDB's allocation of pages: what is free, and what a transaction changes.

    Attributes
    ----------
    next_number : int
        First page beyond the file.
    saved : dict of int to list of int
        The database of free pages: by transaction, pages that it has freed.
    saved_in : int or None
        The page on which that database lies.
    taken : list of int or None
        Free pages that this transaction has taken over, None if it has taken none.
    taken_until : int
        Last transaction whose pages were taken over.
    """

    next_number: int = N_META_PAGES
    transaction: int = 0
    saved: dict[int, list[int]] = field(default_factory=dict)
    saved_in: int | None = None
    taken: list[int] | None = None
    taken_until: int = 0
    freed: list[int] = field(default_factory=list)
    dirty: set[int] = field(default_factory=set)

    def begin(self) -> None:
        """Begin the next transaction."""
        self.transaction += 1
        self.taken, self.taken_until = None, 0
        self.freed, self.dirty = [], set()

    def allocate(self, n_pages: int = 1) -> int:
        """Return the first of consecutive pages; the lowest free ones that fit."""
        attempts = 60 * n_pages
        while True:
            if self.taken and len(self.taken) >= n_pages:
                if (first := self._find(n_pages)) is not None:
                    return first
                attempts -= 1
                if attempts < 0:
                    break
            # Pages that the last transaction has freed are still in use by its reader.
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
        """Take the lowest run of free pages and return its first, None without one."""
        for start in range(len(self.taken) - n_pages + 1):
            first = self.taken[start]
            if self.taken[start + n_pages - 1] == first + n_pages - 1:
                del self.taken[start : start + n_pages]
                self.dirty.add(first)
                return first
        return None

    def touch(self, number: int) -> int:
        """Return the page as this transaction may change it: a copy of an older one."""
        if number in self.dirty:
            return number
        copy = self.allocate()
        self.freed.append(number)
        return copy

    def commit(self) -> None:
        """Save the free pages, which itself takes and frees pages."""
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
        """Make the page of the database of free pages writable, if there is one."""
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
        """Note where the values in the last leaf have come to lie."""
        start = self._path[-1].number * self._page_bytes
        self.offsets += [start + offset for offset in self._of_last_leaf]
        self._of_last_leaf = []

    def _split(self, level: int) -> None:
        """Give a level a new last page; a full branch gives its last entry to it.

        A leaf stays as full as it is. A new branch starts with the last entry of the
        old one, whose key it does not need, and the new entry.
        """
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
        """Return where everything lies now."""
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
    """Return where LMDB puts appended records.

    Parameters
    ----------
    n_records : int
        Number of records, at least 1.
    key_bytes, value_bytes : int
        Length of every key and of every value.
    records_per_commit : int
        Records of a transaction; the last one may have fewer.
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
    """How a database was written: all that the place of its records depends on.

    Parameters
    ----------
    n_records, value_bytes : int
        Number of records and length of each value.
    records_per_commit : int
        Records of a transaction.
    page_bytes : int
        Size of LMDB's pages: the machine's that wrote it, 32 KiB at most.
    """

    n_records: int
    value_bytes: int
    records_per_commit: int
    page_bytes: int
    key_bytes: int = KEY_BYTES

    @cached_property
    def layout(self) -> Layout:
        """Return where everything lies, by arithmetic."""
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
