"""The compiled event loop of runs whose files get to the LFS, or are read from peers.

It handles events as `tierscope.model.simulator.events` does: same order, same draws.
What is decided meanwhile is asked for: the loop is a generator that stops where a rank
begins or has ended a file and where a copy has ended, and goes on when its arrays hold
the answer. Ranks and copy threads are customers alike, of the same stations.
"""

from typing import NamedTuple

import numpy as np

from tierscope.model.simulator.events import (
    AT_COPIED,
    AT_END,
    AT_IN_LINK,
    AT_OPEN,
    AT_OUT_LINK,
    AT_OWNER,
    AT_START,
    Loading,
    Servers,
    add_event,
    begin_close,
    begin_open,
    compiled,
    end_request,
    finish_file,
    finish_read,
    first_event,
    inlined,
    pass_station,
    put_at_root,
    remove_root,
    replace_root,
    tag_of,
)

# Why the loop stops: a rank begins or has ended a read, a copy has ended, all ranks
# have ended theirs, no event is left before `STOP_NS`.
BEGINS, ENDED, COPIED, RANKS_DONE, STOPPED = range(5)
UNDECIDED, FROM_GFS, FROM_LFS, FROM_PEER, STAGED = range(-1, 4)  # places of reads
GFS_META, GFS_READ, LFS_META, LFS_WRITE = range(4)  # columns of the times of copies
# The control: events under way and handled, ranks that read and copies that were
# ordered; whom and which read a stop is about. The clock: time of the event, end.
HEAP_SIZE, N_RUNNING, N_ORDERS, N_EVENTS, CUSTOMER, READ = range(6)
NOW_NS, STOP_NS = range(2)
# Columns of the homes: first metadata server, first object server and link on the GFS,
# each followed by that on the LFS; node; key in the tags of events.
METADATA_SERVER, OBJECT_SERVER, LINK, NODE, KEY = 0, 2, 4, 6, 7

# Where a customer is: as of a rank in `events`; besides, the place that its file comes
# from and the file, the epoch that its copy counts for, the customer whose servers it
# uses (`via`), the row of its requests, and when a peer was asked, its open began and
# ended, its last byte came and its close began.
CUSTOMERS = np.dtype(
    [
        ("read", "i8"),
        ("end", "i8"),
        ("left_in_batch", "i8"),
        ("batch", "i8"),
        ("station", "i8"),
        ("place", "i8"),
        ("file", "i8"),
        ("epoch", "i8"),
        ("via", "i8"),
        ("tier", "i8"),
        ("row", "i8"),
        ("request", "i8"),
        ("object_server", "i8"),
        ("asked_ns", "i8"),
        ("opened_ns", "i8"),
        ("open_ns", "i8"),
        ("read_ns", "i8"),
        ("closing_ns", "i8"),
    ]
)


class PlacedReads(NamedTuple):
    """What the ranks read in an epoch, rank after rank, from where, and when.

    Parameters
    ----------
    files : ndarray of int, shape (n_reads,)
        File of each read.
    place : ndarray of int8, shape (n_reads,)
        Where each read is served; those `UNDECIDED` are asked for.
    instants_ns : ndarray of int, shape (n_reads, 5), filled by the loop
        As in `Reads` of `events`; reads from peers open and close at once.
    peer_lfs_ns : ndarray of int, shape (n_ranks, 2), filled by the loop
        Time that owners' LFS took for a rank's reads: reading, opening and closing.
    """

    files: np.ndarray
    place: np.ndarray
    instants_ns: np.ndarray
    peer_lfs_ns: np.ndarray


class Machine(NamedTuple):
    """GFS and LFS, and what customers use of them.

    Parameters
    ----------
    homes : ndarray of int, shape (n_customers, 8)
        Each customer's servers, node and key; customer 0 of a node is its first rank.
    stations : ndarray of STATIONS, shape (2,)
        What the loop must know of GFS and LFS.
    n_object_servers : ndarray of int, shape (2,)
        Of a group, on GFS and LFS.
    n_requests : ndarray of int, shape (4,)
        Requests of a read from GFS and LFS, of a copy's read and of its write.
    request_s : ndarray of float, shape (4, most requests)
        Mean service time of each of them.
    link_ns, limit_ns : ndarray of int, shape (4, most requests)
        Its time on a link, and that of a rate limit; 0 without one.
    """

    homes: np.ndarray
    stations: np.ndarray
    n_object_servers: np.ndarray
    n_requests: np.ndarray
    request_s: np.ndarray
    link_ns: np.ndarray
    limit_ns: np.ndarray


class Nodes(NamedTuple):
    """How nodes read files from each other.

    Parameters
    ----------
    latency_ns, transfer_ns : int
        One way's latency, and a file's time on a link.
    n_threads, per_node : int
        Server threads and ranks of a node.
    owners : ndarray of int, shape (n_files,), or (0,) without peers
        The node that has each file of peers.
    free_ns : ndarray of int, shape (2, n_nodes), changed by the loop
        When the nodes' links out and in are free again.
    threads : ndarray of int, shape (3, n_nodes), changed by the loop
        Busy server threads; first and last customer that waits for one, or -1.
    waiting : ndarray of int, shape (n_customers,), changed by the loop
        Who waits behind a customer, or -1.
    """

    latency_ns: int
    transfer_ns: int
    n_threads: int
    per_node: int
    owners: np.ndarray
    free_ns: np.ndarray
    threads: np.ndarray
    waiting: np.ndarray


class State(NamedTuple):
    """Where all customers are; changed by the loop and by who answers its questions.

    Parameters
    ----------
    heap : ndarray of EVENT, shape (n_customers + 4,)
        Events to come (`empty_heap`).
    customers : ndarray of CUSTOMERS, shape (n_customers,)
        Where each customer is: the ranks, then the copiers of each node.
    orders : ndarray of int, shape (n_customers, 4)
        Copies to begin: copier, file, epoch, whether the file is read from the GFS.
    control : ndarray of int, shape (6,)
        How many there are of what, and whom and which read a stop is about.
    clock : ndarray of int, shape (2,)
        Time of the event, end.
    copy_ns : ndarray of int, shape (n_nodes, n_epochs, 4)
        Time of the copies' calls by the epoch in which they were begun.
    """

    heap: np.ndarray
    customers: np.ndarray
    orders: np.ndarray
    control: np.ndarray
    clock: np.ndarray
    copy_ns: np.ndarray


class PlacedEpochState(NamedTuple):
    """All that `run_placed` works on; nodes and state are kept from epoch to epoch."""

    reads: PlacedReads
    machine: Machine
    nodes: Nodes
    state: State
    loading: Loading
    servers: Servers


@inlined
def _begin(me, now_ns, via, tier, is_copy, machine):
    """Let a customer open a file with the servers of customer `via`, maybe itself.

    Return when it arrives at a station.
    """
    me.via, me.tier, me.row = via, tier, tier + 2 * is_copy
    first = machine.homes[via, OBJECT_SERVER + tier]
    me.object_server = first + me.file % machine.n_object_servers[tier]
    me.opened_ns = now_ns
    me.open_ns = now_ns = begin_open(me, machine.stations[tier], now_ns)
    return now_ns


@inlined
def _begin_read(me, customer, now_ns, epoch):
    """Let a rank turn to its next file, whose place is known.

    Return when it arrives at a station.
    """
    me.place, me.file = epoch.reads.place[me.read], epoch.reads.files[me.read]
    if me.place == FROM_PEER:
        me.station, me.asked_ns = AT_OWNER, now_ns
        return now_ns + epoch.nodes.latency_ns
    tier = 1 if me.place == FROM_LFS else 0
    is_copy = 1 if me.place == STAGED else 0
    return _begin(me, now_ns, customer, tier, is_copy, epoch.machine)


@inlined
def _tag(customer, epoch):
    """Return the tag of a customer's next event."""
    key = epoch.machine.homes[customer, KEY]
    return tag_of(epoch.state.customers[customer].station, key)


@inlined
def _schedule(customer, at_ns, epoch):
    """Add the next event of a customer that has none."""
    heap, control = epoch.state.heap, epoch.state.control
    add_event(heap, control[HEAP_SIZE], at_ns, _tag(customer, epoch))
    control[HEAP_SIZE] += 1


@inlined
def _leave(epoch):
    """Remove the event that is handled: its customer has none from now on."""
    heap, control = epoch.state.heap, epoch.state.control
    remove_root(heap, control[HEAP_SIZE])
    control[HEAP_SIZE] -= 1


@inlined
def _begin_copies(epoch):
    """Let copiers begin what was ordered of them."""
    state = epoch.state
    for number in range(state.control[N_ORDERS]):
        customer = state.orders[number, 0]
        me = state.customers[customer]
        me.file, me.epoch = state.orders[number, 1], state.orders[number, 2]
        me.place, tier = STAGED, 0 if state.orders[number, 3] else 1
        at_ns = _begin(me, state.clock[NOW_NS], customer, tier, 1, epoch.machine)
        _schedule(customer, at_ns, epoch)
    state.control[N_ORDERS] = 0


@inlined
def _is_over(epoch):
    """Return whether no event is left before the end."""
    state = epoch.state
    return state.control[HEAP_SIZE] == 0 or state.heap[0].time_ns > state.clock[STOP_NS]


@inlined
def _turn_to_event(epoch):
    """Turn to the earliest event; return whose it is."""
    now_ns, customer = first_event(epoch.state.heap)
    epoch.state.clock[NOW_NS], epoch.state.control[CUSTOMER] = now_ns, customer
    return customer


@inlined
def _asks_for_place(me, epoch):
    """Return whether a rank must ask where to read its next file; note which read."""
    epoch.state.control[READ] = me.read
    return epoch.reads.place[me.read] == UNDECIDED


@inlined
def _start_read(customer, epoch):
    """Let a rank at the start of a read, whose place is known, begin it."""
    heap, control = epoch.state.heap, epoch.state.control
    me, now_ns = epoch.state.customers[customer], epoch.state.clock[NOW_NS]
    at_ns = _begin_read(me, customer, now_ns, epoch)
    put_at_root(heap, control[HEAP_SIZE], at_ns, _tag(customer, epoch))


@inlined
def _end_read(me, customer, epoch):
    """Let a rank turn from a read that has ended to its next, if any.

    Return whether it was the last of all ranks' reads.
    """
    heap, control = epoch.state.heap, epoch.state.control
    control[READ] = me.read - 1
    if me.read == me.end:
        _leave(epoch)
        control[N_RUNNING] -= 1
        return control[N_RUNNING] == 0
    at_ns = epoch.state.clock[NOW_NS]
    me.station = AT_START
    if epoch.reads.place[me.read] != UNDECIDED:
        at_ns = _begin_read(me, customer, at_ns, epoch)
    put_at_root(heap, control[HEAP_SIZE], at_ns, _tag(customer, epoch))
    return False


@inlined
def _pass_station(me, now_ns, machine, servers, generator):
    """Let a customer pass the station it has arrived at, as `pass_station` does."""
    home, is_opened = machine.homes[me.via], me.station == AT_OPEN
    first, link = home[METADATA_SERVER + me.tier], home[LINK + me.tier]
    passed = pass_station(me, me.row, first, link, now_ns, machine, servers, generator)
    if is_opened:
        me.open_ns = passed[0]
    return passed


@inlined
def _end_request(me, customer, now_ns, machine, loading):
    """Let a customer turn to the next request of its file or, after the last, to close.

    Return when it arrives there, and whether the close has ended, too.
    """
    at = machine.stations[me.tier]
    now_ns, is_read = end_request(me, at, machine.n_requests[me.row], now_ns)
    if not is_read:
        return now_ns, False
    me.read_ns = now_ns
    if me.place == FROM_GFS or me.place == FROM_LFS:
        now_ns = finish_read(me, customer, now_ns, loading)
    me.closing_ns = now_ns
    return begin_close(me, at, now_ns)


@inlined
def _end_close(me, customer, now_ns, epoch):
    """Let a customer turn from a file that is closed to what comes next.

    Return when it arrives there, and whether it is a rank that has its file.
    """
    meta_ns = (me.open_ns - me.opened_ns) + (now_ns - me.closing_ns)
    read_ns = me.read_ns - me.open_ns
    if me.place == FROM_PEER:
        epoch.reads.peer_lfs_ns[customer, 0] += read_ns
        epoch.reads.peer_lfs_ns[customer, 1] += meta_ns
        me.station = AT_OUT_LINK
        return now_ns, False
    if me.place != STAGED:
        return now_ns, True
    copy_ns = epoch.state.copy_ns[epoch.machine.homes[customer, NODE], me.epoch]
    copy_ns[2 * me.tier] += meta_ns
    copy_ns[2 * me.tier + 1] += read_ns
    if me.tier == 0:
        return _begin(me, now_ns, customer, 1, 1, epoch.machine), False
    me.station = AT_COPIED
    return now_ns, customer < len(epoch.loading.finished_ns)


@inlined
def _gets_thread(me, customer, nodes):
    """Return whether a rank gets a server thread of its file's owner.

    If not, it waits for one, behind all others.
    """
    owner, threads, waiting = nodes.owners[me.file], nodes.threads, nodes.waiting
    if threads[0, owner] < nodes.n_threads:
        threads[0, owner] += 1
        return True
    waiting[customer] = -1
    if threads[1, owner] < 0:
        threads[1, owner] = customer
    else:
        waiting[threads[2, owner]] = customer
    threads[2, owner] = customer
    return False


@inlined
def _free_thread(owner, now_ns, epoch):
    """Let an owner's server thread turn to who waits for one, if anybody."""
    nodes = epoch.nodes
    other = nodes.threads[1, owner]
    if other < 0:
        nodes.threads[0, owner] -= 1
        return
    nodes.threads[1, owner] = nodes.waiting[other]
    next_one, via = epoch.state.customers[other], owner * nodes.per_node
    at_ns = _begin(next_one, now_ns, via, 1, 0, epoch.machine)
    # Its kind comes after that of the event that is handled, which stays the root.
    _schedule(other, at_ns, epoch)


@inlined
def _pass_network(me, customer, now_ns, epoch):
    """Let a rank that reads from a peer get its thread, or its bytes out or in.

    Return when that is done, and whether the rank has its file.
    """
    nodes, owner = epoch.nodes, epoch.nodes.owners[me.file]
    if me.station == AT_OWNER:
        via = owner * nodes.per_node
        return _begin(me, now_ns, via, 1, 0, epoch.machine), False
    free_ns, transfer_ns = nodes.free_ns, nodes.transfer_ns
    if me.station == AT_OUT_LINK:
        free_ns[0, owner] = max(free_ns[0, owner], now_ns) + transfer_ns
        me.station = AT_IN_LINK
        return free_ns[0, owner], False
    # The last byte has left the owner: its thread serves the next one.
    _free_thread(owner, now_ns, epoch)
    node = epoch.machine.homes[customer, NODE]
    # Bytes arrive while others leave.
    free_ns[1, node] = max(free_ns[1, node], now_ns - transfer_ns) + transfer_ns
    me.opened_ns = me.open_ns = me.asked_ns
    me.read_ns = free_ns[1, node] + nodes.latency_ns
    me.closing_ns = finish_read(me, customer, me.read_ns, epoch.loading)
    return me.closing_ns, True


@inlined
def _note_read(me, customer, now_ns, reads, loading):
    """Note what happened when in a read that has ended."""
    instants = reads.instants_ns[me.read]
    instants[0], instants[1] = me.opened_ns, me.open_ns
    instants[2], instants[3] = me.read_ns, me.closing_ns
    instants[4] = now_ns
    finish_file(me, customer, now_ns, loading)
    me.station = AT_END


@inlined
def _handle_arrival(me, customer, epoch, generator):
    """Let a customer pass the station it has arrived at, and turn to the next."""
    heap, control = epoch.state.heap, epoch.state.control
    now_ns, is_done = epoch.state.clock[NOW_NS], False
    control[N_EVENTS] += 1
    if me.station == AT_OWNER and not _gets_thread(me, customer, epoch.nodes):
        _leave(epoch)
        return
    if me.station in (AT_OWNER, AT_OUT_LINK, AT_IN_LINK):
        now_ns, is_done = _pass_network(me, customer, now_ns, epoch)
    else:
        now_ns, is_read, is_closed = _pass_station(
            me, now_ns, epoch.machine, epoch.servers, generator
        )
        if is_read:
            now_ns, is_closed = _end_request(
                me, customer, now_ns, epoch.machine, epoch.loading
            )
        if is_closed:
            now_ns, is_done = _end_close(me, customer, now_ns, epoch)
    if is_done:
        _note_read(me, customer, now_ns, epoch.reads, epoch.loading)
    replace_root(heap, control[HEAP_SIZE], now_ns, _tag(customer, epoch))


@compiled
def run_placed(epoch, generator):
    """Simulate an epoch; yield why it stops, with the details in the control.

    Parameters
    ----------
    epoch : PlacedEpochState
        What is simulated; what happens is noted there.
    generator : numpy.random.Generator
        Draws the service times.
    """
    while True:
        _begin_copies(epoch)
        if _is_over(epoch):
            yield STOPPED
            continue
        customer = _turn_to_event(epoch)
        me = epoch.state.customers[customer]
        if me.station == AT_COPIED:
            _leave(epoch)
            yield COPIED
        elif me.station == AT_END:
            are_done = _end_read(me, customer, epoch)
            yield ENDED
            if are_done:
                yield RANKS_DONE
        elif me.station == AT_START:
            if _asks_for_place(me, epoch):
                yield BEGINS
            _start_read(customer, epoch)
        else:
            _handle_arrival(me, customer, epoch, generator)
