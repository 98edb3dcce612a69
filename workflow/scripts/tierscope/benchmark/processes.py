"""The MPI processes of a launch."""

import os
import platform
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tierscope.core.machine import Machine
from tierscope.core.processes.times import gone_text, start_time
from tierscope.storage.clock import OtherRankFailed

if TYPE_CHECKING:
    from tierscope.benchmark.keeper import Keeper
    from tierscope.storage.local_folder import LocalStorage

GRACE_S = 120.0  # to empty the LFS: removing 72 GiB of small files takes long
STOP_S = 5.0  # for the ranks of a node to stop writing before its LFS is emptied
_POLL_S = 0.0005
_LOOK_S = 0.5  # between checks for dead processes
_TAG_FAILED, _TAG_STOPPED, _TAG_RELEASED = 71, 72, 73


class BenchmarkError(RuntimeError):
    """The benchmark cannot go on."""


class RankGoneError(BenchmarkError):
    """Processes of this machine died silently; arguments: text, ranks."""

    def __str__(self) -> str:
        return self.args[0]


class Processes:
    """The MPI processes of a launch; waiting for them neither spins nor hangs.

    Ranks may share cores. So a waiting rank sleeps between polls (0.5 ms, the precision
    of epoch times), and each poll checks whether another rank has failed. A `keeper`
    outlives the processes of its machine, and ends those that hang.
    """

    def __init__(
        self,
        comm,
        system: Machine,
        launch: str,
        keeper: "Keeper | None" = None,
    ):
        self.launch = launch
        self.comm, self.rank, self.size = comm, comm.rank, comm.size
        self._keeper, self.has_failed = keeper, False
        self._reported: tuple[int, str | None] | None = None
        self._gone_elsewhere: set[int] = set()
        self._dead: set[int] = set()
        self._next_look_s = 0.0
        wanted = system.n_processes
        if comm.size != wanted:
            raise BenchmarkError(
                f"got {comm.size} MPI processes, expected {wanted} "
                f"({system.n_nodes} nodes x {system.processes_per_node})."
            )
        machine, pid = platform.node(), os.getpid()
        found = comm.allgather((machine, pid, start_time(pid)))
        self._alive = {  # on this machine: process and start, by rank
            rank: (pid, started)
            for rank, (name, pid, started) in enumerate(found)
            if name == machine and start_time(pid) == started
        }
        machines = [name for name, _, _ in found]
        hosts = comm.allgather(os.environ.get("SLURMD_NODENAME") or platform.node())
        if len(set(machines)) > 1:  # else one machine acts as several Slurm nodes
            hosts = machines
        self.host = hosts[comm.rank]
        if system.virtual_nodes:
            nodes = [rank // system.processes_per_node for rank in range(wanted)]
        else:
            order = {host: i for i, host in enumerate(dict.fromkeys(hosts))}
            nodes = [order[host] for host in hosts]
            counts = {host: hosts.count(host) for host in order}
            if set(counts.values()) != {system.processes_per_node}:
                found = ", ".join(f"{counts[host]} on {host}" for host in counts)
                raise BenchmarkError(
                    f"got processes {found}; expected "
                    f"{system.processes_per_node} on each of {system.n_nodes} "
                    "nodes (job.launcher of the system file places them)."
                )
        self.hosts = [hosts[nodes.index(node)] for node in range(system.n_nodes)]
        self.node = nodes[self.rank]
        on_node = [rank for rank in range(wanted) if nodes[rank] == self.node]
        self.on_node = on_node
        self.node_rank, self.node_size = on_node.index(self.rank), len(on_node)
        self.leads_machine = hosts.index(self.host) == self.rank

    @property
    def threads_may_call(self) -> bool:
        """Return whether threads may call MPI at the same time."""
        from mpi4py import MPI

        return MPI.Query_thread() == MPI.THREAD_MULTIPLE

    def keep(self, storage: "LocalStorage") -> None:
        """Tell the machine's keeper which LFS to empty if this process cannot."""
        if self._keeper:
            self._keeper.introduce(self.rank, self.size, storage)

    def end(self) -> None:
        """Tell the machine's keeper that this process has finished its work."""
        if self._keeper:
            self._keeper.ended()

    def barrier(self, poll_s: float = _POLL_S) -> None:
        """Wait for all processes, or raise OtherRankFailed."""
        self.wait(self.comm.Ibarrier(), poll_s)

    def group(self, member: bool) -> Callable[[], None]:
        """Return what waits for all processes that say the same; all call this."""
        members = self.comm.Split(member, self.rank)
        return lambda: self.wait(members.Ibarrier())

    def wait(self, request: Any, poll_s: float = _POLL_S) -> None:
        """Wait for an MPI request, or raise OtherRankFailed."""
        while not request.Test():
            self.raise_if_failed()
            time.sleep(poll_s)

    def gather(self, value: Any) -> list[Any] | None:
        """Return all ranks' values on rank 0, None elsewhere."""
        self.barrier()
        return self.comm.gather(value)

    def all_agree(self, value: bool) -> bool:
        """Return whether a value is true on all ranks; all ranks call this."""
        values = self.gather(value)
        return self.share(values is not None and all(values))

    def share(self, value: Any) -> Any:
        """Return rank 0's value on all ranks."""
        self.barrier()
        return self.comm.bcast(value)

    def raise_if_failed(self) -> None:
        """Raise an OtherRankFailed if a process has reported a failure.

        A RankGoneError says that one of this machine died without a report.
        """
        self._raise_reported_failure()
        if time.monotonic() >= self._next_look_s and (gone := self.dead_ranks()):
            self._raise_reported_failure()  # it may have reported before it ended
            raise self.gone_error(gone)

    def dead_ranks(self) -> list[int]:
        """Return the dead ranks of this machine, without calling MPI.

        Threads may call this. It checks twice a second and remembers the result.
        """
        now_s = time.monotonic()
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + _LOOK_S
            self._dead |= {
                rank
                for rank, (pid, started) in self._alive.items()
                if rank not in self._dead and start_time(pid) != started
            }
        return sorted(self._dead)

    def gone_error(self, gone: Iterable[int]) -> RankGoneError:
        """Return the error that names the dead ranks."""
        ranks = sorted(gone)
        return RankGoneError(gone_text(ranks, self.size, self.host), ranks)

    @property
    def prints_failures(self) -> bool:
        """Return whether this process, the first, prints a failure that several saw."""
        gone = self._dead | self._gone_elsewhere
        return self.rank == 0 or (
            0 in gone and self.rank == min(set(self._alive) - gone)
        )

    @property
    def leads_node(self) -> bool:
        """Return whether this process is the first live one of its node."""
        return self.rank == self._node_leader

    @property
    def node_leader_has_released(self) -> bool:
        """Return whether the first live process of the node has cleaned up.

        It may have given up; the others need not wait for longer then.
        """
        return self.comm.iprobe(self._node_leader, _TAG_RELEASED)

    @property
    def _node_leader(self) -> int:
        return min(set(self.on_node) - set(self.dead_ranks()))

    def announce_failure(
        self, line: str | None = None, gone: Iterable[int] = ()
    ) -> None:
        """Tell all other ranks that this one has failed.

        One process prints the line (`prints_failures`), unless it is None. `gone` are
        the dead ranks, for processes of other machines.
        """
        for rank in self._others():
            self.comm.isend((line, list(gone)), rank, _TAG_FAILED)

    def begin_failing(self) -> None:
        """Record, and tell the keeper, that this process knows of a failure."""
        self.has_failed, self._next_look_s = True, 0.0
        if self._keeper:
            self._keeper.note_failed()

    def note_failure_printed(self) -> None:
        """Tell the keeper that this process has printed the cause of the failure."""
        if self._keeper:
            self._keeper.note_printed()

    @property
    def failure_was_printed(self) -> bool:
        """Return whether a process of this machine has printed the cause of a failure.

        A process that may not call MPI cannot announce that it has.
        """
        return bool(self._keeper and self._keeper.was_printed())

    def await_stop(self) -> None:
        """Tell the node that this process stopped writing; its first one waits for all.

        It waits for some seconds only, because a process may be busy for long.
        """
        others = set(self.on_node) - {self.rank}
        for rank in others:
            self.comm.isend(None, rank, _TAG_STOPPED)
        if self.leads_node:
            self._await(_TAG_STOPPED, others, STOP_S)

    def await_release(self) -> None:
        """Wait until the other ranks have cleaned up, two minutes at most."""
        self._await(_TAG_RELEASED, set(self._others()), GRACE_S)

    def announce_release(self) -> None:
        """Tell all other ranks that this one has cleaned up."""
        for rank in self._others():
            self.comm.isend(None, rank, _TAG_RELEASED)

    def _raise_reported_failure(self) -> None:
        """Raise OtherRankFailed if another process has reported a failure."""
        from mpi4py import MPI

        status = MPI.Status()
        if self._reported is None and (
            message := self.comm.improbe(MPI.ANY_SOURCE, _TAG_FAILED, status)
        ):
            line, gone = message.recv()
            self._gone_elsewhere |= set(gone)
            self._reported = status.source, line
        if self._reported is not None:
            raise OtherRankFailed(*self._reported)

    def _await(self, tag: int, ranks: set[int], timeout_s: float) -> None:
        """Wait at most this long for a message from each live rank."""
        from mpi4py import MPI

        status, end = MPI.Status(), time.monotonic() + timeout_s
        waiting = ranks
        while waiting and time.monotonic() < end:
            if self.comm.iprobe(MPI.ANY_SOURCE, tag, status):
                self.comm.recv(source=status.source, tag=tag)
                waiting = waiting - {status.source}
            else:
                waiting = waiting - {*self.dead_ranks(), *self._gone_elsewhere}
                time.sleep(_POLL_S)

    def _others(self) -> list[int]:
        return [rank for rank in range(self.size) if rank != self.rank]
