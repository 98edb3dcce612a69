"""Reads of a node's processes that have begun and not ended, as the keeper knows them.

The library notes each open and close. A close that nobody sees, as of a process that is
killed, comes with the end of its process.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import NamedTuple


class Read(NamedTuple):
    """A read of a file: from its open to its close.

    ``is_late`` says that the table has changed since its tier was decided.
    """

    file_id: int
    pid: int
    group: int
    epoch: int
    on_lfs: bool
    is_late: bool = False


class OpenReads:
    """Reads that have begun and not ended."""

    def __init__(self) -> None:
        self._reads: dict[tuple[int, int], list[Read]] = {}  # by process and file
        self._n_of_file: Counter[int] = Counter()

    def begin(self, read: Read) -> None:
        """Note that a read has begun."""
        self._reads.setdefault((read.pid, read.file_id), []).append(read)
        self._n_of_file[read.file_id] += 1

    def end(self, pid: int, file_id: int, *, on_lfs: bool) -> Read | None:
        """Return the read that a close has ended.

        None if a child has closed a descriptor that it had from its parent, whose read
        goes on.
        """
        for read in self._reads.get((pid, file_id), ()):
            if read.on_lfs == on_lfs:
                self._forget(read)
                return read
        return None

    def _forget(self, read: Read) -> None:
        """Forget a read: the first that is like it."""
        key = read.pid, read.file_id
        self._reads[key].remove(read)
        if not self._reads[key]:
            del self._reads[key]
        self._n_of_file[read.file_id] -= 1
        if not self._n_of_file[read.file_id]:
            del self._n_of_file[read.file_id]

    @property
    def files(self) -> Collection[int]:
        """Return the files that processes read."""
        return self._n_of_file.keys()

    def is_read(self, file_id: int) -> bool:
        """Return whether a process reads a file."""
        return file_id in self._n_of_file

    def end_of(self, pids: Collection[int]) -> Iterator[Read]:
        """Yield the reads of processes that have ended, and forget them."""
        for key in [one for one in self._reads if one[0] in pids]:
            for read in list(self._reads[key]):
                self._forget(read)
                yield read

    @property
    def pids(self) -> Collection[int]:
        """Return the processes that read."""
        return {pid for pid, _ in self._reads}
