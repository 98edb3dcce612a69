"""The MPI processes of a launch."""

import os
import platform
import time
from collections.abc import Mapping
from typing import Any

GRACE_S = 120.0  # to empty the LFS: removing 72 GiB of small files takes a while
_POLL_S = 0.0005
_TAG_FAILED, _TAG_RELEASED = 71, 72


class BenchmarkError(RuntimeError):
    """The benchmark cannot go on."""


class OtherRankFailed(RuntimeError):
    """Another process reported a failure; its rank is the argument."""


class Processes:
    """The MPI processes of a launch, with waiting that neither spins nor hangs.

    Ranks may share cores, so waiting sleeps between polls (0.5 ms, the precision of
    epoch times), and each poll looks for the failure of another rank.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        All processes of the launch.
    system : mapping
        `n_nodes`, `processes_per_node` and `virtual_nodes` of the system.
    """

    def __init__(self, comm, system: Mapping[str, Any]):
        self.comm, self.rank, self.size = comm, comm.rank, comm.size
        wanted = system["n_nodes"] * system["processes_per_node"]
        if comm.size != wanted:
            raise BenchmarkError(
                f"got {comm.size} MPI processes, expected {wanted} "
                f"({system['n_nodes']} nodes x {system['processes_per_node']})."
            )
        machines = comm.allgather(platform.node())
        hosts = comm.allgather(os.environ.get("SLURMD_NODENAME") or platform.node())
        if len(set(machines)) > 1:  # else one machine plays several nodes of Slurm
            hosts = machines
        self.host = hosts[comm.rank]
        if system["virtual_nodes"]:
            nodes = [rank // system["processes_per_node"] for rank in range(wanted)]
        else:
            order = {host: i for i, host in enumerate(dict.fromkeys(hosts))}
            nodes = [order[host] for host in hosts]
            counts = {host: hosts.count(host) for host in order}
            if set(counts.values()) != {system["processes_per_node"]}:
                found = ", ".join(f"{counts[host]} on {host}" for host in counts)
                raise BenchmarkError(
                    f"got processes {found}; expected "
                    f"{system['processes_per_node']} on each of {system['n_nodes']} "
                    "nodes (job.launcher of the system file places them)."
                )
        self.hosts = [hosts[nodes.index(node)] for node in range(system["n_nodes"])]
        self.node = nodes[self.rank]
        on_node = [rank for rank in range(wanted) if nodes[rank] == self.node]
        self.on_node = on_node
        self.node_rank, self.node_size = on_node.index(self.rank), len(on_node)

    @property
    def threads_may_call(self) -> bool:
        """Return whether threads may call MPI at the same time."""
        from mpi4py import MPI

        return MPI.Query_thread() == MPI.THREAD_MULTIPLE

    def barrier(self, poll_s: float = _POLL_S) -> None:
        """Wait for all processes, or raise OtherRankFailed."""
        self.wait(self.comm.Ibarrier(), poll_s)

    def wait(self, request: Any, poll_s: float = _POLL_S) -> None:
        """Wait for an MPI request, or raise OtherRankFailed."""
        while not request.Test():
            self.look_for_failure()
            time.sleep(poll_s)

    def gather(self, value: Any) -> list[Any] | None:
        """Return all ranks' values on rank 0, None elsewhere."""
        self.barrier()
        return self.comm.gather(value)

    def share(self, value: Any) -> Any:
        """Return rank 0's value on all ranks."""
        self.barrier()
        return self.comm.bcast(value)

    def look_for_failure(self) -> None:
        """Raise OtherRankFailed if another process has reported a failure."""
        from mpi4py import MPI

        status = MPI.Status()
        if self.comm.Iprobe(MPI.ANY_SOURCE, _TAG_FAILED, status):
            raise OtherRankFailed(status.source)

    def announce_failure(self) -> None:
        """Tell all other ranks that this one has failed."""
        for rank in self._others():
            self.comm.isend(None, rank, _TAG_FAILED)

    def await_release(self) -> None:
        """Wait until the other ranks have cleaned up, two minutes at most."""
        end, released = time.monotonic() + GRACE_S, 0
        while released < self.size - 1 and time.monotonic() < end:
            if self.comm.iprobe(tag=_TAG_RELEASED):
                self.comm.recv(tag=_TAG_RELEASED)
                released += 1
            else:
                time.sleep(_POLL_S)

    def announce_release(self) -> None:
        """Tell all other ranks that this one has cleaned up."""
        for rank in self._others():
            self.comm.isend(None, rank, _TAG_RELEASED)

    def _others(self) -> list[int]:
        return [rank for rank in range(self.size) if rank != self.rank]
