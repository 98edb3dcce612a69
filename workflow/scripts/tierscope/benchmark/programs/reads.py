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
        self._of_process: dict[int, dict[int, list[Read]]] = {}  # by file
        self._n_of_file: Counter[int] = Counter()

    def begin(self, read: Read) -> None:
        """Note that a read has begun."""
        files = self._of_process.setdefault(read.pid, {})
        files.setdefault(read.file_id, []).append(read)
        self._n_of_file[read.file_id] += 1

    def end(self, pid: int, file_id: int, *, on_lfs: bool) -> Read | None:
        """Return the read that a close has ended.

        None if a child has closed a descriptor that it had from its parent, whose read
        goes on.
        """
        reads = self._of_process.get(pid, {}).get(file_id, ())
        for place, read in enumerate(reads):
            if read.on_lfs == on_lfs:
                self._remove(pid, file_id, place)
                return read
        return None

    def _remove(self, pid: int, file_id: int, place: int) -> None:
        """Forget a read."""
        files = self._of_process[pid]
        del files[file_id][place]
        if not files[file_id]:
            del files[file_id]
        if not files:
            del self._of_process[pid]
        self._n_of_file[file_id] -= 1
        if not self._n_of_file[file_id]:
            del self._n_of_file[file_id]

    @property
    def files(self) -> Collection[int]:
        """Return the files that processes read."""
        return self._n_of_file.keys()

    def is_read(self, file_id: int) -> bool:
        """Return whether a process reads a file."""
        return file_id in self._n_of_file

    def end_of(self, pids: Collection[int]) -> Iterator[Read]:
        """Yield the reads of processes that have ended, and forget them."""
        for pid in self._of_process.keys() & set(pids):
            for file_id, reads in list(self._of_process[pid].items()):
                for read in list(reads):
                    self._remove(pid, file_id, 0)
                    yield read

    @property
    def pids(self) -> Collection[int]:
        """Return the processes that read."""
        return self._of_process.keys()
