"""The processes that share a reader, and the readers: MPI among the LMDB loaders.

Waiting polls as the driver's does, so a failing process ends all of them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

_TAG_PLACES, _TAG_TURN = 81, 82


class ReaderGroup:
    """The processes of a node that get their records from one of them, or one alone.

    Parameters
    ----------
    processes : tierscope.processes.Processes
        All processes of the launch.
    shared : bool
        Whether one process of a node reads for all of them.
    """

    def __init__(self, processes, shared: bool):
        from mpi4py import MPI

        self._mpi, self._processes = MPI, processes
        own = processes.node if shared else processes.rank
        self._members = processes.comm.Split(own, processes.rank)
        self.rank, self.size = self._members.rank, self._members.size
        self.is_reader = self.rank == 0
        self.leads_node = processes.node_rank == 0
        colour = 0 if self.is_reader else MPI.UNDEFINED
        self._readers = processes.comm.Split(colour, processes.rank)
        self.reader = self._members.bcast(processes.rank)
        self._window, self._buffer = None, np.zeros(0, np.uint8)

    @property
    def reader_rank(self) -> int:
        """Return this reader's number among the readers."""
        return self._readers.rank

    @property
    def n_readers(self) -> int:
        """Return the number of readers."""
        return self._readers.size

    def barrier(self) -> None:
        """Wait for the processes that share the reader."""
        if self.size > 1:
            if self._window is not None:
                self._window.Sync()
            self._processes.wait(self._members.Ibarrier())
            if self._window is not None:
                self._window.Sync()

    def all_of_group(self, value: Any) -> list[Any]:
        """Return the values of all processes that share the reader."""
        self._processes.wait(self._members.Ibarrier())
        return self._members.allgather(value)

    def largest(self, value: int) -> int:
        """Return the largest value of all readers (readers only)."""
        self._processes.wait(self._readers.Ibarrier())
        return self._readers.allreduce(value, op=self._mpi.MAX)

    def all_of_readers(self, value: Any) -> list[Any]:
        """Return the values of all readers (readers only)."""
        self._processes.wait(self._readers.Ibarrier())
        return self._readers.allgather(value)

    def send_places(self, places: Sequence[np.ndarray | None]) -> None:
        """Send each other reader its places."""
        requests = [
            self._readers.Isend(part, reader, _TAG_PLACES)
            for reader, part in enumerate(places)
            if reader != self.reader_rank and part is not None
        ]
        for request in requests:
            self._processes.wait(request)

    def receive_places(self, n_places: int, sender: int) -> np.ndarray:
        """Return the places that a reader sends."""
        places = np.empty(n_places, np.int64)
        self._processes.wait(self._readers.Irecv(places, sender, _TAG_PLACES))
        return places

    def await_turn(self, group_size: int) -> None:
        """Wait until the reader before this one, a group away, has read."""
        if self.reader_rank >= group_size:
            sender = self.reader_rank - group_size
            token = np.empty(0, np.uint8)
            self._processes.wait(self._readers.Irecv(token, sender, _TAG_TURN))

    def pass_turn(self, group_size: int) -> None:
        """Let the reader after this one, a group away, read."""
        if self.reader_rank + group_size < self.n_readers:
            receiver = self.reader_rank + group_size
            token = np.empty(0, np.uint8)
            self._processes.wait(self._readers.Isend(token, receiver, _TAG_TURN))

    def buffer(self, n_bytes: int) -> np.ndarray:
        """Return memory of this size at least that all processes of the reader see.

        Collective; the size is the same for all. Its pages are touched, so that their
        first use is in no read's time.
        """
        if n_bytes <= len(self._buffer):
            return self._buffer
        self.close()
        if self.size == 1:
            self._buffer = np.ones(n_bytes, np.uint8)
            return self._buffer
        own = n_bytes if self.is_reader else 0
        self._window = self._mpi.Win.Allocate_shared(own, 1, comm=self._members)
        self._window.Lock_all()
        memory, _ = self._window.Shared_query(0)
        self._buffer = np.frombuffer(memory, np.uint8, n_bytes)
        if self.is_reader:
            self._buffer[:] = 1
        else:
            self._buffer[::512].sum()
        return self._buffer

    def close(self) -> None:
        """Free the shared memory (collective)."""
        self._buffer = np.zeros(0, np.uint8)
        if self._window is not None:
            self._window.Unlock_all()
            self._window.Free()
            self._window = None
