"""Simulate epochs of runs whose files get to the LFS meanwhile, or are read from peers.

As `tierscope.model.simulator.epoch`, of which the static policies are: same stations,
same draws, same instants where nothing is copied. The state stays from epoch to epoch,
so copies may go on when an epoch has ended.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tierscope.model.simulator.epoch import (
    Layout,
    SimulatedEpoch,
    check_n_files,
    check_times,
    layouts_of,
    loading_of,
    metadata_servers_and_links,
    request_times,
    server_factors,
    stations_of,
)
from tierscope.model.simulator.events import (
    AT_COPIED,
    AT_START,
    CUSTOMER_BITS,
    EVENT,
    KEY_BITS,
    MOST_RANKS,
    NEVER,
    NS_PER_S,
    Servers,
    empty_heap,
    to_ns,
)
from tierscope.model.simulator.placed_events import (
    BEGINS,
    COPIED,
    CUSTOMER,
    CUSTOMERS,
    ENDED,
    HEAP_SIZE,
    KEY,
    LINK,
    METADATA_SERVER,
    N_EVENTS,
    N_ORDERS,
    N_RUNNING,
    NODE,
    NOW_NS,
    OBJECT_SERVER,
    RANKS_DONE,
    READ,
    STOP_NS,
    STOPPED,
    Machine,
    Nodes,
    PlacedEpochState,
    PlacedReads,
    State,
    run_placed,
)
from tierscope.policies.copy_limits import READ_BYTES
from tierscope.storage.queueing_network import (
    MODULO,
    ModelError,
    Network,
    TierModel,
    Workload,
)


class Decider(Protocol):
    """Decides for all nodes, at the times of the simulation."""

    def begins(self, rank: int, file_id: int) -> int:
        """Return where a rank reads a file: `FROM_GFS` or `FROM_LFS`."""

    def ended(self, rank: int, file_id: int, place: int) -> None:
        """Note that a rank has read a file from a place."""

    def copied(self, node: int, copier: int, file_id: int, now_ns: int) -> None:
        """Note that a copier has put a file on its node's LFS."""


@dataclass(frozen=True)
class Peers:
    """Who has the files that are read from other nodes.

    Parameters
    ----------
    owners : ndarray of int, shape (n_files,)
        The node that has each file.
    server_threads : int
        Requests that a node serves at a time.
    """

    owners: np.ndarray
    server_threads: int


@dataclass(frozen=True)
class PlacedEpoch(SimulatedEpoch):
    """What happened in an epoch; a read from a peer is one call, from its request on.

    Parameters
    ----------
    place : ndarray of int8, shape (n_reads,)
        Where each read was served: `FROM_GFS`, `FROM_LFS`, `FROM_PEER`.
    peer_lfs_ns : ndarray of int, shape (n_ranks, 2)
        What owners' LFS took for each rank's reads: reading; opening and closing.
    """

    place: np.ndarray
    peer_lfs_ns: np.ndarray


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
    peers : Peers, optional
        Needed for reads from other nodes.

    Attributes
    ----------
    per_node : int
        Ranks of a node.

    Raises
    ------
    ModelError
        If the nodes have no equal numbers of ranks, there are too many customers, an
        epoch may last for months, or reads from other nodes would need a network that
        nobody has described.
    """

    def __init__(
        self,
        network: Network,
        workload: Workload,
        n_nodes: int,
        n_copiers: int,
        n_epochs: int,
        slowness: tuple[np.ndarray, np.ndarray] | None = None,
        peers: Peers | None = None,
    ):
        n_ranks = network.n_ranks
        n_customers = n_ranks + n_nodes * n_copiers
        check_n_files(workload.n_files, n_ranks)
        _check_customers(n_ranks, n_nodes, n_customers)
        self.n_ranks, self.n_copiers, self.n_nodes = n_ranks, n_copiers, n_nodes
        self.workload, self.per_node = workload, n_ranks // n_nodes
        tiers, layouts = (network.gfs, network.lfs), layouts_of(network)
        if network.gfs.placement != MODULO:
            raise ModelError(
                f"gfs.placement: got {network.gfs.placement} with a policy that copies "
                f"files, expected {MODULO}."
            )
        self._slowness = server_factors(layouts, slowness)
        check_times(tiers, workload, self._slowness, network.sample_s)
        self._network = network
        self._machine = Machine(
            _homes(layouts, n_ranks, n_nodes, n_copiers),
            stations_of(tiers),
            np.array([tier.n_object_servers for tier in tiers]),
            *request_times(_rows(tiers, workload)),
        )
        self._nodes = _idle_nodes(network, workload, peers, n_nodes, n_customers)
        self._state = State(
            heap=empty_heap(n_customers),
            customers=np.zeros(n_customers, CUSTOMERS),
            orders=np.zeros((n_customers, 4), np.int64),
            control=np.zeros(6, np.int64),
            clock=np.zeros(2, np.int64),
            copy_ns=np.zeros((n_nodes, n_epochs, 4), np.int64),
        )
        self._state.customers["station"][n_ranks:] = AT_COPIED
        self._free_ns, self._full_ns = np.zeros((2, len(self._slowness)), np.int64)

    @property
    def copy_s(self) -> np.ndarray:
        """Return the time of the copies' calls by the epoch in which they were begun.

        Seconds, shape (n_nodes, n_epochs, 4): GFS_META, GFS_READ, LFS_META, LFS_WRITE
        of `tierscope.model.simulator.placed_events`.
        """
        return self._state.copy_ns / NS_PER_S

    def order_copy(
        self, node: int, copier: int, file_id: int, epoch: int, from_gfs: bool
    ) -> None:
        """Let an idle copier of a node begin a copy, now."""
        number = self._state.control[N_ORDERS]
        customer = self.n_ranks + node * self.n_copiers + copier
        self._state.orders[number] = customer, file_id, epoch, from_gfs
        self._state.control[N_ORDERS] = number + 1

    def run_epoch(
        self,
        files: np.ndarray,
        first_read: np.ndarray,
        place: np.ndarray,
        generator: np.random.Generator,
        decider: Decider | None = None,
        at_end: Callable[[], bool] = lambda: True,
    ) -> PlacedEpoch:
        """Simulate one epoch.

        Parameters
        ----------
        files : ndarray of int, shape (n_reads,)
            The file of each read, rank after rank.
        first_read : ndarray of int, shape (n_ranks + 1,)
            Where each rank's part begins, and the end.
        place : ndarray of int8, shape (n_reads,), filled here
            Where each read is served; those `UNDECIDED` are asked of the decider.
        generator : numpy.random.Generator
            Draws service times.
        decider : Decider, optional
            Needed where anything is undecided or copied.
        at_end : callable
            Returns at the end of the epoch whether all copies are awaited then; those
            that are not go on in the next epoch.
        """
        self._begin_epoch(first_read)
        instants_ns = np.zeros((len(files), 5), np.int64)
        peer_lfs_ns = np.zeros((self.n_ranks, 2), np.int64)
        busy_ns = np.zeros_like(self._free_ns)
        epoch = PlacedEpochState(
            PlacedReads(files, place, instants_ns, peer_lfs_ns),
            self._machine,
            self._nodes,
            self._state,
            loading_of(self._network, self.workload),
            Servers(self._slowness, self._free_ns, busy_ns, self._full_ns),
        )
        self._run(epoch, generator, decider, at_end)
        return PlacedEpoch(
            instants_ns,
            epoch.loading.finished_ns,
            busy_ns,
            int(epoch.state.control[N_EVENTS]),
            None,
            self._full_ns.copy(),
            place,
            peer_lfs_ns,
        )

    def _run(
        self,
        epoch: PlacedEpochState,
        generator: np.random.Generator,
        decider: Decider | None,
        at_end: Callable[[], bool],
    ) -> None:
        """Let the ranks read, then the copies go on that are awaited, if any are."""
        events, clock = run_placed(epoch, generator), epoch.state.clock
        if epoch.state.control[N_RUNNING]:
            self._run_until(RANKS_DONE, events, epoch.reads, decider)
        end_ns = int(epoch.loading.finished_ns.max())
        clock[STOP_NS] = end_ns
        self._run_until(STOPPED, events, epoch.reads, decider)
        if at_end():
            clock[STOP_NS] = NEVER
            self._run_until(STOPPED, events, epoch.reads, decider)
            end_ns = max(end_ns, int(clock[NOW_NS]))
        self._end_epoch(end_ns)

    def _run_until(
        self,
        wanted: int,
        events: Iterator[int],
        reads: PlacedReads,
        decider: Decider | None,
    ) -> None:
        """Go on until the loop stops for this reason, and answer what it asks."""
        control, clock = self._state.control, self._state.clock
        files, place = reads.files, reads.place
        for reason in events:
            if reason == BEGINS:
                read = control[READ]
                rank = int(control[CUSTOMER])
                place[read] = decider.begins(rank, int(files[read]))
            elif reason == ENDED:
                if decider is not None:
                    read, rank = control[READ], int(control[CUSTOMER])
                    decider.ended(rank, int(files[read]), int(place[read]))
            elif reason == COPIED:
                customer = int(control[CUSTOMER])
                node, copier = divmod(customer - self.n_ranks, self.n_copiers)
                file_id = int(self._state.customers[customer]["file"])
                decider.copied(node, copier, file_id, int(clock[NOW_NS]))
            if reason == wanted:
                return

    def _begin_epoch(self, first_read: np.ndarray) -> None:
        """Let all ranks start at time 0, in their order, before copies go on."""
        n_ranks, control = self.n_ranks, self._state.control
        heap, customers = self._state.heap, self._state.customers[:n_ranks]
        customers["read"], customers["end"] = first_read[:-1], first_read[1:]
        customers["left_in_batch"] = self.workload.batch_size
        customers["batch"], customers["station"] = 0, AT_START
        customers["epoch"] = 0  # of its copies: stage-in only, a run of its own
        ranks = np.flatnonzero(np.diff(first_read))
        starts = np.zeros(len(ranks), EVENT)
        starts["tag"] = AT_START << KEY_BITS | self._machine.homes[ranks, KEY]
        under_way = heap[: control[HEAP_SIZE]]
        events = np.sort(np.concatenate([under_way, starts]), order=["time_ns", "tag"])
        heap[: len(events)] = events
        control[HEAP_SIZE], control[N_RUNNING] = len(events), len(ranks)
        control[N_EVENTS] = 0
        self._state.clock[:] = 0, NEVER

    def _end_epoch(self, end_ns: int) -> None:
        """Count times from when the next epoch begins."""
        self._state.heap["time_ns"][: self._state.control[HEAP_SIZE]] -= end_ns
        for free_ns in (self._free_ns, self._full_ns, self._nodes.free_ns):
            np.maximum(free_ns - end_ns, 0, out=free_ns)
        for name in ("opened_ns", "open_ns", "read_ns", "closing_ns"):
            self._state.customers[name] -= end_ns


def _check_customers(n_ranks: int, n_nodes: int, n_customers: int) -> None:
    """Refuse nodes of different numbers of ranks, and too many customers."""
    if n_ranks % n_nodes:
        raise ModelError(
            f"n_nodes: got {n_nodes}, expected a divisor of {n_ranks} ranks."
        )
    if n_customers > MOST_RANKS:
        raise ModelError(
            f"customers: got {n_customers} ranks and copiers, expected at most "
            f"{MOST_RANKS}."
        )


def _homes(
    layouts: Sequence[Layout], n_ranks: int, n_nodes: int, n_copiers: int
) -> np.ndarray:
    """Return the servers and the node of each rank, then of each node's copiers.

    Shape (n_customers, 8), columns as in `tierscope.model.simulator.placed_events`.
    Copiers are threads of their node's first rank: their events come after its own.
    """
    per_node = n_ranks // n_nodes
    first_ranks = np.repeat(np.arange(n_nodes) * per_node, n_copiers)
    ranks = np.concatenate([np.arange(n_ranks), first_ranks])
    homes = np.zeros((len(ranks), 8), np.int64)
    metadata_servers, links = metadata_servers_and_links(layouts, ranks)
    homes[:, METADATA_SERVER : METADATA_SERVER + 2] = metadata_servers
    homes[:, LINK : LINK + 2] = links
    for tier, layout in enumerate(layouts):
        homes[:, OBJECT_SERVER + tier] = layout.object_servers(ranks, 0)
    homes[:, NODE] = ranks // per_node
    homes[:, KEY] = ranks << CUSTOMER_BITS | np.arange(len(ranks))
    return homes


def copies_reads(file_size_bytes: int) -> Workload:
    """Return how a copy reads its file: with calls of a size of their own."""
    return Workload(1, file_size_bytes, buffer_bytes=READ_BYTES)


def _rows(
    tiers: tuple[TierModel, TierModel], workload: Workload
) -> list[tuple[TierModel, Workload]]:
    """Return reads from GFS and LFS, a copy's read and its write, which is one call."""
    gfs, lfs = tiers
    copy_read = copies_reads(workload.file_size_bytes)
    copy_write = Workload(1, workload.file_size_bytes)
    return [(gfs, workload), (lfs, workload), (gfs, copy_read), (lfs, copy_write)]


def _idle_nodes(
    network: Network,
    workload: Workload,
    peers: Peers | None,
    n_nodes: int,
    n_customers: int,
) -> Nodes:
    """Return nodes that have read nothing from each other yet."""
    latency_ns = transfer_ns = n_threads = 0
    owners = np.zeros(0, np.int64)
    if peers is not None:
        if network.peers is None:
            raise ModelError("network: got none between nodes, expected its numbers.")
        transfer_s = workload.file_size_bytes / network.peers.bandwidth_bytes_per_s
        times_ns = to_ns(np.array([network.peers.latency_s, transfer_s], float))
        latency_ns, transfer_ns = times_ns.tolist()
        n_threads, owners = peers.server_threads, peers.owners
    threads = np.zeros((3, n_nodes), np.int64)
    threads[1:] = -1  # nobody waits
    return Nodes(
        latency_ns,
        transfer_ns,
        n_threads,
        network.n_ranks // n_nodes,
        owners,
        np.zeros((2, n_nodes), np.int64),
        threads,
        np.full(n_customers, -1),
    )
