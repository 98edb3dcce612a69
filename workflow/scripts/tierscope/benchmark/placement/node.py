"""A node's placement during one measurement, as one of its processes sees it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tierscope.benchmark.placement.client import NodeFeed, PlacementClient
from tierscope.benchmark.placement.copies import Copier
from tierscope.benchmark.placement.server import PlacementServer
from tierscope.core.description import RunDescription
from tierscope.core.scenario import Point
from tierscope.policies import Place, node_policy
from tierscope.policies.decisions import Decisions
from tierscope.storage.clock import Clock, Role


class NodePlacement:
    """The node's server, in its first process, and this process's client of it.

    `say` prints on any process; `teller` is the loader's role that reports ended reads.
    """

    def __init__(
        self,
        description: RunDescription,
        point: Point,
        processes,
        copier: Copier,
        say: Callable[[str], None],
        clock: Clock,
        teller: Role,
    ):
        self._processes, self._options = processes, description.policy_options
        self._clock = clock
        self._file_name = description.dataset.file_name
        self._last_epoch = description.training.epochs - 1
        self._drain_times_s: list[float] = []
        self._server = None
        if processes.node_rank == 0:
            self._server = PlacementServer(
                node_policy(description, point, processes.on_node),
                copier,
                Decisions(processes.node, processes.rank),
                self._options["copy_threads"],
                self._options["hand_over"],
                lambda line: say(f"  node {processes.node}: {line}"),
                clock,
            )
        address = self._server.address if self._server else None
        addresses = processes.share(processes.gather((processes.node, address)))
        address = next(a for node, a in addresses if a and node == processes.node)
        self._client = PlacementClient(
            address, processes.node, processes.rank, clock, teller
        )

    def begin(self) -> None:
        """Let the policy begin: the first epoch starts."""
        if self._server:
            self._server.begin()

    def feed(
        self, epoch: int, files: Sequence[int], folders: Mapping[Place, str]
    ) -> NodeFeed:
        """Return this process's files of an epoch; the policy places each of them."""
        return NodeFeed(self._client, epoch, files, folders, self._file_name)

    def check(self) -> None:
        """Raise the error of the server, or of this process's client, if any."""
        if self._server:
            self._server.check()
        if self._client.error:
            raise self._client.error

    def end_epoch(self, epoch: int) -> None:
        """Wait for all nodes' copies after the last epoch, or if the options say so.

        Copies that were held back continue when the next epoch can begin.
        """
        is_last = epoch == self._last_epoch
        is_drained = self._options["drain"] or is_last
        if self._server:
            self._server.check()
            time_s = 0.0
            if is_drained:
                time_s = self._server.drain(self._processes.raise_if_failed)
            self._drain_times_s.append(time_s)
        if is_drained:
            self._clock.barrier()
            if self._server and not is_last:
                self._server.resume(epoch + 1)

    def stop(self) -> None:
        """End the node's server."""
        if self._server:
            self._server.stop()

    def report(self) -> dict[str, Any] | None:
        """Return the node's log and summary, once per node, after the last epoch."""
        if not self._server:
            return None
        return {
            "node": self._processes.node,
            "drain_time_s": self._drain_times_s,
            "failed": self._server.n_failed,
            "not_removed": self._server.n_not_removed,
            "decisions": self._server.decisions.columns(),
        }
