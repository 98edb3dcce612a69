"""Simulate epochs of runs whose files get to the LFS meanwhile.

As `tierscope.model.simulator.epoch`, of which the static policies are: same stations,
same draws, same instants where nothing is copied. The state stays from epoch to epoch,
so copies may go on when an epoch has ended.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from tierscope.model.simulator.epoch import (
    SimulatedEpoch,
    check_n_files,
    check_times,
    ends_of_ranks,
    placed,
    ranks_of,
    rules_of,
)
from tierscope.model.simulator.heap import MOST_CUSTOMERS, NEVER
from tierscope.model.simulator.loop import (
    ASK,
    COPIED,
    COPY_STEPS,
    CUSTOMER_ASKED,
    DONE,
    IS_ON_LFS,
    N_COMING,
    N_EVENTS,
    N_ORDERS,
    N_RUNNING,
    NOBODY,
    NOW_NS,
    ORDER,
    READ_ASKED,
    STOP_NS,
    STOPPED,
    TELL,
    Simulation,
    begun,
    stops,
)
from tierscope.model.simulator.reader_steps import (
    FROM_LFS,
    READ_COPY,
    READ_GFS,
    READ_LFS,
    STAGED,
    Nodes,
    Reads,
    write_steps,
)
from tierscope.model.simulator.stations import (
    NS_PER_S,
    idle_servers,
    layouts_of,
    machine_of,
    requests_of_reads,
)
from tierscope.policies.copy_limits import READ_BYTES
from tierscope.storage.queueing_network import (
    ModelError,
    Network,
    TierModel,
    Workload,
)

# Columns of the times of copies.
GFS_META, GFS_READ, LFS_META, LFS_WRITE = range(4)


class Decider(Protocol):
    """Decides for all nodes, at the times of the simulation."""

    def begins(self, rank: int, file_id: int) -> int:
        """Return where a rank reads a file: `FROM_GFS` or `FROM_LFS`."""

    def ended(self, rank: int, file_id: int, place: int) -> None:
        """Note that a rank has read a file from a place."""

    def copied(self, node: int, copier: int, file_id: int, now_ns: int) -> None:
        """Note that a copier has put a file on its node's LFS."""


class PlacedStorage:
    """A machine's storage in a run, with copiers on every node.

    Parameters
    ----------
    network : Network
        Ranks and stations.
    workload : Workload
        What a read is made of.
    n_nodes, n_copiers, n_epochs : int
        Nodes, copies that each of them makes at a time, epochs of the run.
    slowness : pair of ndarray, optional
        As for `simulate_epoch`.
    seed : int
        Random places of files are drawn of it.

    Attributes
    ----------
    per_node : int
        Ranks of a node.

    Raises
    ------
    ModelError
        If the nodes have no equal numbers of ranks, there are too many customers, or an
        epoch may last for months.
    """

    def __init__(
        self,
        network: Network,
        workload: Workload,
        n_nodes: int,
        n_copiers: int,
        n_epochs: int,
        slowness: tuple[np.ndarray, np.ndarray] | None = None,
        seed: int = 0,
    ):
        n_ranks = network.n_ranks
        n_customers = n_ranks + n_nodes * n_copiers
        check_n_files(workload.n_files, n_ranks)
        _check_customers(n_ranks, n_nodes, n_customers)
        self.n_ranks, self.n_copiers, self.n_nodes = n_ranks, n_copiers, n_nodes
        self.workload, self.per_node = workload, n_ranks // n_nodes
        if workload.compute or workload.workers is not None or workload.in_steps:
            raise ModelError(
                "workload: got workers, random computation or steps that meet with a "
                "policy that moves files, expected none of these."
            )
        idle, tiers = idle_servers(network, slowness), (network.gfs, network.lfs)
        slowest = float(idle["slowness"].max())
        check_times(tiers, workload, slowest, network.sample_s)
        self._network, self._n_epochs = network, n_epochs
        self._places = placed(network, np.arange(workload.n_files), seed)
        requests, first_request = requests_of_reads(_kinds_of_reads(network, workload))
        self._machine = machine_of(network, requests)
        self._servers, no_times = idle, np.zeros(0, np.int64)
        self._nodes = Nodes(
            n_nodes, self.per_node, n_copiers, len(idle), no_times, first_request
        )
        first_ranks = np.arange(n_nodes) * self.per_node
        self._layouts = layouts_of(network)
        self._first_servers = [
            layout.object_servers(first_ranks, 0).tolist() for layout in self._layouts
        ]
        self._times_ns = np.zeros((n_ranks + n_nodes * n_epochs, 2, 2), np.int64)
        self._orders = np.zeros(n_customers, ORDER)
        self._n_orders, self._copied = 0, {}
        self._before: Simulation | None = None

    @property
    def copy_s(self) -> np.ndarray:
        """Return the time of the copies' calls by the epoch in which they were begun.

        Seconds, shape (n_nodes, n_epochs, 4): GFS_META, GFS_READ, LFS_META, LFS_WRITE.
        """
        copies_ns = self._times_ns[self.n_ranks :]
        return copies_ns.reshape(self.n_nodes, self._n_epochs, 4) / NS_PER_S

    def order_copy(
        self, node: int, copier: int, file_id: int, epoch: int, from_gfs: bool
    ) -> None:
        """Let an idle copier of a node begin a copy, now."""
        customer = self.n_ranks + node * self.n_copiers + copier
        numbers = int(self._places[file_id]), file_id
        servers = [
            first[node] + number % layout.tier.n_object_servers
            for first, layout, number in zip(
                self._first_servers, self._layouts, numbers, strict=True
            )
        ]
        account = self.n_ranks + node * self._n_epochs + epoch
        order = customer, 0 if from_gfs else COPY_STEPS // 2, *servers, account
        self._orders[self._n_orders] = order
        self._n_orders += 1
        self._copied[customer] = node, copier, file_id

    def run_epoch(
        self,
        files: np.ndarray,
        first_read: np.ndarray,
        place: np.ndarray,
        generator: np.random.Generator,
        decider: Decider | None = None,
        at_end: Callable[[], bool] = lambda: True,
    ) -> SimulatedEpoch:
        """Simulate one epoch.

        Parameters
        ----------
        files : ndarray of int, shape (n_reads,)
            The file of each read, rank after rank.
        first_read : ndarray of int, shape (n_ranks + 1,)
            Where each rank's part begins, and the end.
        place : ndarray of int8, shape (n_reads,), filled here
            Where each read is served: `FROM_GFS`, `FROM_LFS`, or `STAGED` from one to
            the other; those `UNDECIDED` are asked of the decider.
        generator : numpy.random.Generator
            Draws service times.
        decider : Decider, optional
            Needed where anything is undecided or copied.
        at_end : callable
            Returns at the end of the epoch whether all copies are awaited then; those
            that are not go on in the next epoch.
        """
        epoch = self._begun(self._reads(files, first_read, place))
        end_ns, finished_ns = 0, np.zeros(0, np.int64)
        control, is_awaited = epoch.control, False
        for reason in stops(epoch, generator):
            if reason == DONE:  # the copies go on until then
                finished_ns = ends_of_ranks(epoch.customers, self.n_ranks, 1)
                end_ns = int(finished_ns.max())
                control[STOP_NS] = end_ns + 1
                control[N_RUNNING] = NOBODY
            elif reason != STOPPED:
                self._answer(reason, control, files, place, decider)
            elif not is_awaited and (is_awaited := at_end()):
                control[STOP_NS] = NEVER
            else:
                break
        self._end_epoch(epoch, max(end_ns, int(control[NOW_NS])))
        return SimulatedEpoch(
            epoch.instants_ns,
            finished_ns,
            self._servers["busy_ns"].copy(),
            int(control[N_EVENTS]),
            None,
            self._servers["full_ns"].copy(),
        )

    def _reads(
        self, files: np.ndarray, first_read: np.ndarray, place: np.ndarray
    ) -> Reads:
        """Return what the ranks read, and which servers they may ask."""
        on_lfs, reader = place == FROM_LFS, ranks_of(first_read)
        gfs = self._layouts[0].object_servers(reader, self._places[files])
        lfs = self._layouts[1].object_servers(reader, files)
        kind = np.where(place == STAGED, READ_COPY, READ_GFS)
        kind[on_lfs] = READ_LFS
        server_of = np.where(on_lfs, lfs, gfs)
        return Reads.of(first_read, place, server_of, self._nodes.requests[kind], lfs)

    def _begun(self, reads: Reads) -> Simulation:
        """Return an epoch in which the ranks start, and copies of before go on."""
        rules = rules_of(self._network, self.workload, np.diff(reads.first_read))
        written = write_steps(reads, rules, self._nodes)
        instants_ns = np.zeros((len(reads.place), 5), np.int64)
        self._servers["busy_ns"], self._times_ns[: self.n_ranks] = 0, 0
        epoch = begun(
            self._machine, self._servers, written, instants_ns, self._times_ns
        )._replace(orders=self._orders)
        steps, customers, control = epoch.steps, epoch.customers, epoch.control
        if (reads.place == STAGED).any():  # a run of its own
            nodes = np.arange(self.n_ranks) // self.per_node
            accounts = self.n_ranks + nodes * self._n_epochs
            customers["account"][: self.n_ranks] = accounts
        copiers = slice(self.n_ranks, self.n_ranks + self.n_nodes * self.n_copiers)
        if (before := self._before) is not None:
            n_coming = control[N_COMING] = before.control[N_COMING]
            epoch.heap[:n_coming] = before.heap[:n_coming]
            customers[copiers] = before.customers[copiers]
            n_steps = COPY_STEPS * self.n_nodes * self.n_copiers
            steps[:n_steps] = before.steps[:n_steps]
        control[N_RUNNING] = 2 * self.n_ranks
        control[N_ORDERS], self._n_orders = self._n_orders, 0
        return epoch

    def _answer(
        self,
        reason: int,
        control: np.ndarray,
        files: np.ndarray,
        place: np.ndarray,
        decider: Decider | None,
    ) -> None:
        """Answer what the loop asks, and let copies begin that are ordered then."""
        customer, read = int(control[CUSTOMER_ASKED]), control[READ_ASKED]
        if reason == ASK:
            place[read] = decider.begins(customer, int(files[read]))
            control[IS_ON_LFS] = place[read] == FROM_LFS
        elif reason == TELL:
            decider.ended(customer, int(files[read]), int(place[read]))
        elif reason == COPIED:
            decider.copied(*self._copied[customer], int(control[NOW_NS]))
        control[N_ORDERS], self._n_orders = self._n_orders, 0

    def _end_epoch(self, epoch: Simulation, end_ns: int) -> None:
        """Count times from when the next epoch begins."""
        epoch.heap["time_ns"][: epoch.control[N_COMING]] -= end_ns
        epoch.customers["begun_ns"] -= end_ns
        for name in ("free_ns", "full_ns"):
            self._servers[name] = np.maximum(self._servers[name] - end_ns, 0)
        self._before = epoch


def _check_customers(n_ranks: int, n_nodes: int, n_customers: int) -> None:
    """Refuse nodes of different numbers of ranks, and too many customers."""
    if n_ranks % n_nodes:
        raise ModelError(
            f"n_nodes: got {n_nodes}, expected a divisor of {n_ranks} ranks."
        )
    if n_customers > MOST_CUSTOMERS:
        raise ModelError(
            f"customers: got {n_customers} ranks and copiers, expected at most "
            f"{MOST_CUSTOMERS}."
        )


def copies_reads(file_size_bytes: int) -> Workload:
    """Return how a copy reads its file: with calls of a size of their own."""
    return Workload(1, file_size_bytes, buffer_bytes=READ_BYTES)


def _kinds_of_reads(
    network: Network, workload: Workload
) -> list[tuple[TierModel, Workload]]:
    """Return reads from GFS and LFS, a copy's read and its write, which is one call."""
    copy_read = copies_reads(workload.file_size_bytes)
    copy_write = Workload(1, workload.file_size_bytes)
    loads = (workload, workload, copy_read, copy_write)
    return list(zip((network.gfs, network.lfs) * 2, loads, strict=True))
