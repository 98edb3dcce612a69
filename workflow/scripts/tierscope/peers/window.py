"""Reads from peers over MPI windows: one-sided, from the owner's memory.

The first process of each node allocates a window, reads the files that the node owns
from its LFS into it, once, and then no process of that node takes part in a read: all
processes get files from the windows (passive target, `MPI_Rget`). So neither the LFS
nor a server is part of such a read, only what carries the bytes.

MPI promises no progress while a target stays away from it. Windows that MPI allocates
itself are memory that all processes of a machine share, and there, or where the network
can read memory by itself, a target may sleep. Where it may not, which is tried at
start, a thread of each node's first process calls MPI again and again.

A slot of a window holds a file and then its number, so that a read that brings another
file is found at once. The first slot holds bytes that the launch knows, for the trial.
"""

import os
import platform
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import blake2b

import numpy as np

from tierscope.peers import PeerError
from tierscope.peers.slots import NUMBER, slot_bytes, slots_of
from tierscope.placement.messages import TIMEOUT_S
from tierscope.policies import AdHoc

_TAG_ASLEEP = 91
_ASLEEP_S = 0.2
_TRIALS = 2
_PROGRESS_S = 1e-4
_SPIN_S = 1e-3  # reads of up to so long are timed to the microsecond
_POLL_S = 1e-4
_SHARED_MEMORY = "/dev/shm"


def why_no_windows(
    version: tuple[int, int], thread_level: int, multiple: int
) -> str | None:
    """Return what an MPI lacks for reads over windows, None if it has everything.

    Parameters
    ----------
    version : (int, int)
        Of the MPI standard that it keeps.
    thread_level, multiple : int
        What MPI was started with, and MPI_THREAD_MULTIPLE.
    """
    if version < (3, 0):
        return f"is of version {version[0]}.{version[1]}, expected 3.0 or later"
    if thread_level < multiple:
        return (
            f"was started with thread level {thread_level}, expected {multiple} "
            "(MPI_THREAD_MULTIPLE), as loaders read in threads"
        )
    return None


def why_no_room(claims: Iterable[tuple[str, int, int]]) -> str | None:
    """Return on which machine windows have no room, None if they have it everywhere.

    Parameters
    ----------
    claims : iterable of (str, int, int)
        Of every node: its machine, the bytes of its window, and those that are free.
    """
    wanted: dict[str, int] = {}
    free: dict[str, int] = {}
    for machine, n_bytes, n_free in claims:
        wanted[machine] = wanted.get(machine, 0) + n_bytes
        free[machine] = min(n_free, free.get(machine, n_free))
    for machine, n_bytes in wanted.items():
        if n_bytes > free[machine]:
            return (
                f"the windows on {machine} take {n_bytes} bytes of memory, expected at "
                f"most {free[machine]}, which are free there (memory, {_SHARED_MEMORY})"
            )
    return None


def free_memory_bytes() -> int:
    """Return how much memory of this machine a window may take."""
    n_bytes = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, StopIteration), open("/proc/meminfo") as file:
        line = next(line for line in file if line.startswith("MemAvailable:"))
        n_bytes = 1024 * int(line.split()[1])
    with suppress(OSError):
        state = os.statvfs(_SHARED_MEMORY)
        n_bytes = min(n_bytes, state.f_bavail * state.f_frsize)
    return n_bytes


class PeerWindows:
    """The windows of all nodes, as one process sees them (a `Transport`).

    Making one, `expose` and `free` are collective; `close` is not.

    Parameters
    ----------
    processes : tierscope.processes.Processes
        All processes of the launch.
    policy : AdHoc
        Says who owns what.
    file_size_bytes : int
        Exact size of each file.
    file_name : callable
        Returns the name of a file.
    token : bytes
        The launch's secret; windows begin with bytes made from it.
    timeout_s : float
        Time after which a read is given up.

    Raises
    ------
    PeerError
        If this MPI cannot do it, or its windows do not give back what is in them.
    """

    def __init__(
        self,
        processes,
        policy: AdHoc,
        file_size_bytes: int,
        file_name: Callable[[int], str],
        token: bytes,
        timeout_s: float = TIMEOUT_S,
    ):
        from mpi4py import MPI

        self._mpi, self._processes, self._policy = MPI, processes, policy
        self._size, self._file_name = file_size_bytes, file_name
        self._token, self._timeout_s = token, timeout_s
        self._n_nodes = len(processes.hosts)
        self._slots = slots_of(policy, self._n_nodes)
        self._stride = slot_bytes(self._size)
        self.error: PeerError | None = None
        self._given_up: list[tuple] = []  # MPI may still write there
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        reason = why_no_windows(
            MPI.Get_version(), MPI.Query_thread(), MPI.THREAD_MULTIPLE
        )
        if reason:
            raise self._cannot(f"this MPI {reason}")
        nodes = processes.share(processes.gather((processes.node_rank, processes.node)))
        self._firsts = {node: rank for rank, (n, node) in enumerate(nodes) if n == 0}
        self._allocate()
        self.needs_thread = self._n_nodes > 1 and self._waits_for_targets()
        if self.needs_thread and processes.node_rank == 0:
            self._thread = threading.Thread(
                target=self._call_mpi, name=f"window-{processes.node}", daemon=True
            )
            self._thread.start()
        self._check_trial()

    def owner(self, file_id: int) -> int:
        """Return the node that has a file."""
        return int(self._policy.owners[file_id])

    def expose(self, read: Callable[[int], bytes]) -> None:
        """Bring each node's files into its window; its first process calls `read`."""
        processes = self._processes
        if processes.node_rank == 0:
            for file_id in self._policy.files_of(processes.node).tolist():
                self._put(int(self._slots[file_id]), read(file_id), file_id)
        self._publish()

    def fetch(self, epoch: int, file_id: int) -> tuple[memoryview, float, float]:
        """Return a file; its owner's LFS took no part in it (0).

        Raises
        ------
        PeerError
            If the window does not give it in time, or gives another one.
        """
        node = self.owner(file_id)
        try:
            content, number = self._get(node, int(self._slots[file_id]))
        except TimeoutError as error:
            raise self._failed(
                f"node {node}, which has {self._file_name(file_id)}, does not serve "
                f"it: no answer of its window within {self._timeout_s:g} s."
            ) from error
        except self._mpi.Exception as error:
            raise self._failed(
                f"node {node}, which has {self._file_name(file_id)}, does not serve "
                f"it: {error}."
            ) from error
        if number != file_id:
            raise self._failed(
                f"node {node}: got file {number} from its window, expected {file_id}."
            )
        return content, 0.0, 0.0

    def free(self) -> None:
        """Give the windows back, when all processes have read what they wanted."""
        self._processes.barrier()
        self._window.Unlock_all()
        self._memory = None
        self._window.Free()
        self.close()
        self._comm.Free()

    def close(self) -> None:
        """End this process's thread."""
        self._ended.set()
        if self._thread:
            self._thread.join()

    # ---- set-up -------------------------------------------------------------------

    def _allocate(self) -> None:
        """Allocate all windows, and put into their first slot what a trial expects."""
        processes, is_first = self._processes, self._processes.node_rank == 0
        n_slots = 1 + len(self._policy.files_of(processes.node))
        n_bytes = n_slots * self._stride if is_first else 0
        claim = (platform.node(), n_bytes, free_memory_bytes())
        if reason := why_no_room(processes.share(processes.gather(claim))):
            raise self._cannot(reason)
        self._comm = processes.comm.Dup()
        try:
            self._window = self._mpi.Win.Allocate(n_bytes, 1, comm=self._comm)
        except self._mpi.Exception as error:
            raise self._cannot(f"this MPI gives no window: {error}") from error
        model = self._window.Get_attr(self._mpi.WIN_MODEL)
        if model != self._mpi.WIN_UNIFIED:
            raise self._cannot(
                f"this MPI's windows have memory model {model}, expected "
                f"{self._mpi.WIN_UNIFIED} (MPI_WIN_UNIFIED)"
            )
        self._window.Lock_all(self._mpi.MODE_NOCHECK)
        self._memory = np.frombuffer(self._window.tomemory(), np.uint8)
        if is_first:
            self._put(0, self._known(processes.node), -1 - processes.node)
        self._publish()

    def _put(self, slot: int, content: bytes, number: int) -> None:
        """Write a file and its number into this process's window."""
        start = slot * self._stride
        end = start + self._size
        self._memory[start:end] = np.frombuffer(content, np.uint8)
        self._memory[end : end + NUMBER.size] = np.frombuffer(
            NUMBER.pack(number), np.uint8
        )

    def _publish(self) -> None:
        """Make what was written into the windows visible to all."""
        self._window.Sync()
        self._processes.barrier()
        self._window.Sync()

    def _known(self, node: int) -> bytes:
        """Return the bytes in the first slot of a node's window."""
        digest = blake2b(self._token + NUMBER.pack(node)).digest()
        return np.resize(np.frombuffer(digest, np.uint8), self._size).tobytes()

    def _waits_for_targets(self) -> bool:
        """Return, on all processes, whether reads wait until their target calls MPI.

        Every other node sleeps while the next one reads from it. A machine that is too
        busy for an answer in time makes that a yes, which costs time and no truth.
        """
        return all(self._is_slow_asleep() for _ in range(_TRIALS))

    def _is_slow_asleep(self) -> bool:
        """Return, on all processes, whether any read outlasted its target's sleep."""
        processes, node = self._processes, self._processes.node
        other, is_slow = node + 1 - 2 * (node % 2), False
        nothing = np.empty(0, np.uint8)
        processes.barrier()
        if processes.node_rank == 0 and other < self._n_nodes:
            peer = self._firsts[other]
            if node % 2:
                start = time.perf_counter()
                processes.wait(self._comm.Issend(nothing, peer, _TAG_ASLEEP))
                self._try(other)  # its sleep begins after `start`
                is_slow = time.perf_counter() - start >= _ASLEEP_S
            else:
                processes.wait(self._comm.Irecv(nothing, peer, _TAG_ASLEEP))
                time.sleep(_ASLEEP_S)
        return any(processes.share(processes.gather(is_slow)))

    def _check_trial(self) -> None:
        """Check that every process gets the right bytes from another node's window."""
        processes = self._processes
        node = (processes.node + 1) % self._n_nodes
        content, number = self._try(node)
        is_right = content == self._known(node) and number == -1 - node
        found = processes.share(processes.gather(is_right))
        if not all(found):
            raise self._cannot(
                f"rank {found.index(False)} got wrong bytes from another node's window"
            )

    def _try(self, node: int) -> tuple[memoryview, int]:
        """Return the first slot of a node's window."""
        try:
            return self._get(node, 0)
        except TimeoutError as error:
            raise self._cannot(
                f"the window of node {node} gave nothing within {self._timeout_s:g} s"
            ) from error
        except self._mpi.Exception as error:
            raise self._cannot(f"the window of node {node}: {error}") from error

    def _cannot(self, reason: str) -> PeerError:
        """Return the error of windows that cannot be used."""
        return PeerError(
            f"policies.adhoc.transport: got rma, but {reason}; sockets need no windows."
        )

    # ---- reading ------------------------------------------------------------------

    def _get(self, node: int, slot: int) -> tuple[memoryview, int]:
        """Return the content of a slot and the number behind it."""
        content = bytearray(self._size + NUMBER.size)
        place = (slot * self._stride, len(content), self._mpi.BYTE)
        start = time.perf_counter()
        request = self._window.Rget(content, self._firsts[node], target=place)
        try:
            while not request.Test():
                waited_s = time.perf_counter() - start
                if waited_s > self._timeout_s:
                    raise TimeoutError
                if waited_s < _SPIN_S:
                    time.sleep(0)
                    continue
                self._processes.look_for_failure()
                time.sleep(_POLL_S)
        except BaseException:
            self._given_up.append((request, content))
            raise
        (number,) = NUMBER.unpack_from(content, self._size)
        return memoryview(content)[: self._size], number

    def _failed(self, text: str) -> PeerError:
        """Note and return the error of a read."""
        self.error = PeerError(text)
        return self.error

    def _call_mpi(self) -> None:
        """Let MPI answer other nodes, until the end."""
        try:
            while not self._ended.wait(_PROGRESS_S):
                self._comm.Iprobe(tag=_TAG_ASLEEP)
        except self._mpi.Exception as error:
            self.error = PeerError(
                f"the thread of node {self._processes.node} that lets MPI answer other "
                f"nodes has ended: {error}."
            )
