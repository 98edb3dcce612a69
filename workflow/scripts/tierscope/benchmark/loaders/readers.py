"""MPI between the LMDB loaders: the processes that share a reader, and the readers.

Waiting polls as in the driver, so a failing process ends all of them. In an epoch of
virtual time no process waits in MPI, because that would block all others. There the
processes wait for each other by the clock and exchange data in shared memory.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tierscope.benchmark.shared_memory import MEMORY
from tierscope.storage.clock import Clock, RealClock, VirtualClock
from tierscope.storage.room import check_room

_TAG_PLACES, _TAG_TURN = 81, 82
_NOTHING = np.empty(0, np.uint8)


class ReaderGroup:
    """One reader and the processes of its node that share it, or a process alone.

    They wait for each other on `clock`. A reader sends the others the places of
    `n_places` records at a time; 0: in one collective call.
    """

    def __init__(self, processes, shared: bool, clock: Clock, n_places: int):
        from mpi4py import MPI

        self._mpi, self._processes, self._clock = MPI, processes, clock
        self._number = processes.node
        own = processes.node if shared else processes.rank
        self._members = processes.comm.Split(own, processes.rank)
        self.rank, self.size = self._members.rank, self._members.size
        self.is_reader = self.rank == 0
        self.leads_node = processes.node_rank == 0
        colour = 0 if self.is_reader else MPI.UNDEFINED
        self._readers = processes.comm.Split(colour, processes.rank)
        self.reader = self._members.bcast(processes.rank)
        self._memory: _SharedMemory | None = None
        self._buffer = np.zeros(0, np.uint8)
        self.others: _Messages | _Tokens | None = None  # of a reader
        if self.is_reader:
            tell = _TELLING[clock.name]
            self.others = tell(clock, processes, self._readers, n_places)

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
            if self._memory is not None:
                self._memory.sync()
            self._clock.meet(
                self._number,
                self.size,
                lambda: self._processes.wait(self._members.Ibarrier()),
            )
            if self._memory is not None:
                self._memory.sync()

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

    def await_turn(self, group_size: int) -> None:
        """Wait until the reader `group_size` places before this one has read."""
        if self.reader_rank >= group_size:
            self.others.await_turn(self.reader_rank - group_size)

    def pass_turn(self, group_size: int) -> None:
        """Let the reader `group_size` places after this one read."""
        receiver = self.reader_rank + group_size
        if receiver < self.n_readers:
            self.others.pass_turn(receiver)

    def buffer(self, n_bytes: int) -> np.ndarray:
        """Return memory of at least this size that all processes of the reader share.

        Collective; the size is the same for all. The pages are touched here, so no
        timed read is the first to use them.
        """
        if n_bytes <= len(self._buffer):
            return self._buffer
        self._free_buffer()
        if self.size == 1:
            self._buffer = np.ones(n_bytes, np.uint8)
        else:
            self._memory = _SharedMemory(self._members, n_bytes)
            self._buffer = self._memory.content
        return self._buffer

    def _free_buffer(self) -> None:
        """Free the buffer (collective)."""
        self._buffer = np.zeros(0, np.uint8)
        if self._memory is not None:
            self._memory.free()
            self._memory = None

    def close(self) -> None:
        """Free the shared memory (collective)."""
        self._free_buffer()
        if self.is_reader:
            self.others.close()


class _Messages:
    """What readers tell each other in real time: messages of MPI."""

    def __init__(self, clock: RealClock, processes, readers, n_places: int):
        self._wait, self._readers = processes.wait, readers

    def send_places(self, offsets: np.ndarray, wanted: Sequence[np.ndarray]) -> None:
        requests = [
            self._readers.Isend(offsets[records], reader, _TAG_PLACES)
            for reader, records in enumerate(wanted)
            if reader != self._readers.rank and len(records)
        ]
        for request in requests:
            self._wait(request)

    def receive_places(self, wanted: np.ndarray, sender: int) -> np.ndarray:
        places = np.empty(len(wanted), np.int64)
        if len(wanted):
            self._wait(self._readers.Irecv(places, sender, _TAG_PLACES))
        return places

    def await_turn(self, sender: int) -> None:
        self._wait(self._readers.Irecv(_NOTHING, sender, _TAG_TURN))

    def pass_turn(self, receiver: int) -> None:
        self._wait(self._readers.Isend(_NOTHING, receiver, _TAG_TURN))

    def close(self) -> None:
        """Do nothing: messages hold nothing."""


class _Tokens:
    """What they tell each other in virtual time: tokens, and places in memory."""

    def __init__(self, clock: VirtualClock, processes, readers, n_places: int):
        self._clock, self._ranks = clock, readers.allgather(processes.rank)
        self._places = _SharedMemory(readers, 8 * max(n_places, 1))

    def send_places(self, offsets: np.ndarray, wanted: Sequence[np.ndarray]) -> None:
        self._places.content.view(np.int64)[:] = offsets
        self._places.sync()
        self._clock.give_token()

    def receive_places(self, wanted: np.ndarray, sender: int) -> np.ndarray:
        self._clock.await_token(self._ranks[sender], waits=len(wanted) > 0)
        self._places.sync()
        return self._places.content.view(np.int64)[wanted]

    def await_turn(self, sender: int) -> None:
        self._clock.await_token(self._ranks[sender])

    def pass_turn(self, receiver: int) -> None:
        self._clock.give_token()

    def close(self) -> None:
        """Free the memory (collective)."""
        self._places.free()


_TELLING = {"real": _Messages, "virtual": _Tokens}


class _SharedMemory:
    """Memory that processes of a machine share; creating and freeing are collective."""

    def __init__(self, comm, n_bytes: int):
        from mpi4py import MPI

        # A touched page for which there is no room ends a process by SIGBUS.
        check_room(MEMORY, n_bytes, "what the processes of a node share")
        own = n_bytes if comm.rank == 0 else 0
        self._window = MPI.Win.Allocate_shared(own, 1, comm=comm)
        self._window.Lock_all()
        memory, _ = self._window.Shared_query(0)
        self.content = np.frombuffer(memory, np.uint8, n_bytes)
        if comm.rank == 0:
            self.content[:] = 1
        else:
            self.content[::512].sum()

    def sync(self) -> None:
        """Make written data visible to others, or see their data."""
        self._window.Sync()

    def free(self) -> None:
        """Free the memory."""
        self.content = np.zeros(0, np.uint8)
        self._window.Unlock_all()
        self._window.Free()
