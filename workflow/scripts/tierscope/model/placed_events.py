"""The compiled event loop of runs whose files get to the LFS, or are read from peers.

It handles events as `tierscope.model.events` does: same order, same draws. What is
decided meanwhile is asked for: the loop is a generator that stops where a rank begins
or has ended a file and where a copy has ended, and goes on when its arrays hold the
answer. Ranks and copy threads are customers alike, of the same stations.
"""

import numpy as np

from tierscope.model.events import (
    AT_CLOSE,
    AT_LINK,
    AT_OPEN,
    AT_SERVER,
    MOST_RANKS,
    RANK_BITS,
    add_event,
    compiled,
    finish_read,
    pass_metadata,
    pass_object_server,
    remove_root,
    replace_root,
    serve,
)

# Why the loop stops: a rank begins or has ended a read, a copy has ended, all ranks
# have ended theirs, no event is left before `STOP_S`.
BEGINS, ENDED, COPIED, RANKS_DONE, STOPPED = range(5)
UNDECIDED, FROM_GFS, FROM_LFS, FROM_PEER, STAGED = range(-1, 4)  # places of reads
AT_START, AT_END, AT_COPIED, AT_OWNER, AT_OUT_LINK, AT_IN_LINK = range(4, 10)
GFS_META, GFS_READ, LFS_META, LFS_WRITE = range(4)  # columns of the times of copies
# The control: events under way, scheduled and handled, ranks that read and copies that
# were ordered; whom and which read a stop is about. The clock: time of the event, end.
HEAP_SIZE, N_SCHEDULED, N_RUNNING, N_ORDERS, N_EVENTS, CUSTOMER, READ = range(7)
NOW_S, STOP_S = range(2)
# Columns of the homes: first metadata server, first object server and link on the GFS;
# each is followed by that on the LFS.
METADATA_SERVER, OBJECT_SERVER, LINK, NODE = 0, 2, 4, 6

# Where a customer is: as of a rank in `events`; besides, the place that its file comes
# from and the file, the epoch that its copy counts for, the customer whose servers it
# uses (`via`), the row of its requests, and when its next read may begin, a peer was
# asked, its open began and ended and its last byte came.
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
        ("next_s", "f8"),
        ("asked_s", "f8"),
        ("opened_s", "f8"),
        ("open_s", "f8"),
        ("read_s", "f8"),
    ]
)


@compiled
def _begin(me, now_s, via, tier, is_copy, homes, n_object_servers, stations):
    """Let a customer open a file with the servers of customer `via`, maybe itself.

    Return when it arrives at a station.
    """
    me.via, me.tier, me.row, me.request = via, tier, tier + 2 * is_copy, 0
    me.object_server = (
        homes[via, OBJECT_SERVER + tier] + me.file % n_object_servers[tier]
    )
    me.opened_s, me.station = now_s, AT_OPEN
    if stations[tier].open_s == 0:
        now_s += stations[tier].open_latency_s
        me.open_s, me.station = now_s, AT_SERVER
    return now_s


@compiled
def _schedule(heap, control, at_s, customer):
    """Add the next event of a customer that has none."""
    tag = control[N_SCHEDULED] << RANK_BITS | customer
    add_event(heap, control[HEAP_SIZE], at_s, tag)
    control[HEAP_SIZE] += 1
    control[N_SCHEDULED] += 1


@compiled
def _leave(heap, control):
    """Remove the event that is handled: its customer has none from now on."""
    remove_root(heap, control[HEAP_SIZE])
    control[HEAP_SIZE] -= 1


@compiled
def _wait_for_thread(customer, owner, threads, waiting):
    """Let a customer wait for a server thread of an owner, behind all others."""
    waiting[customer] = -1
    if threads[1, owner] < 0:
        threads[1, owner] = customer
    else:
        waiting[threads[2, owner]] = customer
    threads[2, owner] = customer


@compiled
def run_placed(
    files,
    place,
    owners,
    homes,
    n_object_servers,
    stations,
    n_requests,
    request_s,
    link_s,
    slowness,
    loading,
    peers,
    generator,
    heap,
    customers,
    orders,
    control,
    clock,
    instants_s,
    taken_s,
    finished_s,
    free_s,
    busy_s,
    net_free_s,
    threads,
    waiting,
    copy_s,
    peer_lfs_s,
):
    """Simulate an epoch; yield why it stops, with the details in `control`.

    Parameters
    ----------
    files, place : int array, shape (n_reads,)
        File of each read and where from; those `UNDECIDED` are asked for.
    owners : int array, shape (n_files,), or (0,) without peers
        The node that has each file of peers.
    homes : int array, shape (n_customers, 7)
        Each customer's servers and node; customer 0 of a node is its first rank.
    n_object_servers : int array, shape (2,)
        Of a group, on GFS and LFS.
    stations : array of STATIONS, shape (2,)
        GFS and LFS.
    n_requests : int array, shape (4,)
        Requests of a read from GFS and LFS, of a copy's read and of its write.
    request_s, link_s : float array, shape (4, most requests)
        Mean service time of each of them and its time on a link.
    slowness : float array, shape (n_servers,)
        Factor of each server's service times.
    loading
        As in `run_events`.
    peers : (float, float, int, int)
        One way's latency, a file's time on a link, server threads, ranks of a node.
    generator : numpy.random.Generator
        Draws the service times.
    heap, customers, orders, control, clock
        State that is kept from epoch to epoch (`PlacedStorage`).
    instants_s, taken_s, finished_s, busy_s
        As in `run_events`, filled here; reads from peers open at once.
    free_s, net_free_s : float array, shape (n_servers,), (2, n_nodes)
        When servers, and the nodes' links out and in, are free again.
    threads : int array, shape (3, n_nodes)
        Busy server threads; first and last customer that waits for one, or -1.
    waiting : int array, shape (n_customers,)
        Who waits behind a customer, or -1.
    copy_s : float array, shape (n_nodes, n_epochs, 4), added to here
        Time of the copies' calls by the epoch in which they were begun.
    peer_lfs_s : float array, shape (n_ranks, 2), added to here
        Time that owners' LFS took for a rank's reads: reading, opening and closing.
    """
    latency_s, transfer_s, n_threads, per_node = peers
    while True:
        for number in range(control[N_ORDERS]):
            customer = orders[number, 0]
            me = customers[customer]
            me.file, me.epoch, me.place = orders[number, 1], orders[number, 2], STAGED
            tier = 0 if orders[number, 3] else 1
            at_s = _begin(
                me, clock[NOW_S], customer, tier, 1, homes, n_object_servers, stations
            )
            _schedule(heap, control, at_s, customer)
        control[N_ORDERS] = 0
        if control[HEAP_SIZE] == 0 or heap[0].time_s > clock[STOP_S]:
            yield STOPPED
            continue
        now_s, tag = heap[0].time_s, heap[0].tag
        customer = tag & (MOST_RANKS - 1)
        me = customers[customer]
        clock[NOW_S], control[CUSTOMER] = now_s, customer
        if me.station == AT_COPIED:
            _leave(heap, control)
            yield COPIED
            continue
        if me.station == AT_END:
            control[READ] = me.read - 1
            me.station = AT_START
            is_last = me.read == me.end
            starts_now = not is_last and me.next_s <= now_s
            if is_last:
                _leave(heap, control)
                control[N_RUNNING] -= 1
            elif not starts_now:
                replace_root(heap, control[HEAP_SIZE], me.next_s, tag)
            yield ENDED
            if is_last and control[N_RUNNING] == 0:
                yield RANKS_DONE
            if not starts_now:
                continue
        me = customers[customer]  # a stop keeps records as copies
        if me.station == AT_START:
            if place[me.read] == UNDECIDED:
                control[READ] = me.read
                yield BEGINS
                me = customers[customer]
            me.place, me.file = place[me.read], files[me.read]
            if me.place == FROM_PEER:
                me.station, me.asked_s = AT_OWNER, now_s
                replace_root(heap, control[HEAP_SIZE], now_s + latency_s, tag)
                continue
            tier = 1 if me.place == FROM_LFS else 0
            is_copy = 1 if me.place == STAGED else 0
            now_s = _begin(
                me, now_s, customer, tier, is_copy, homes, n_object_servers, stations
            )
            if me.station != AT_OPEN:
                replace_root(heap, control[HEAP_SIZE], now_s, tag)
                continue
        control[N_EVENTS] += 1
        at = stations[me.tier]
        home = homes[me.via]
        is_read = is_closed = is_done = False
        if me.station == AT_OPEN or me.station == AT_CLOSE:
            is_closed = me.station == AT_CLOSE
            first = home[METADATA_SERVER + me.tier]
            now_s = pass_metadata(
                at, not is_closed, first, now_s, free_s, busy_s, generator
            )
            if not is_closed:
                me.open_s, me.station = now_s, AT_SERVER
        elif me.station == AT_SERVER:
            mean_s, server = request_s[me.row, me.request], me.object_server
            now_s = pass_object_server(
                at, mean_s, server, slowness, now_s, free_s, busy_s, generator
            )
            me.station = AT_LINK
            is_read = at.n_links == 0
        elif me.station == AT_LINK:
            service_s = link_s[me.row, me.request]
            now_s = serve(free_s, busy_s, home[LINK + me.tier], now_s, service_s)
            is_read = True
        elif me.station == AT_OWNER:
            owner = owners[me.file]
            if threads[0, owner] == n_threads:
                _leave(heap, control)
                _wait_for_thread(customer, owner, threads, waiting)
                continue
            threads[0, owner] += 1
            via = owner * per_node
            now_s = _begin(me, now_s, via, 1, 0, homes, n_object_servers, stations)
        elif me.station == AT_OUT_LINK:
            owner = owners[me.file]
            net_free_s[0, owner] = max(net_free_s[0, owner], now_s) + transfer_s
            now_s = net_free_s[0, owner]
            me.station = AT_IN_LINK
        else:  # the last byte has left the owner: its thread serves the next one
            owner, node = owners[me.file], homes[customer, NODE]
            other = threads[1, owner]
            # Bytes arrive while others leave.
            net_free_s[1, node] = (
                max(net_free_s[1, node], now_s - transfer_s) + transfer_s
            )
            if other < 0:
                threads[0, owner] -= 1
            else:
                threads[1, owner] = waiting[other]
                at_s = _begin(
                    customers[other],
                    now_s,
                    owner * per_node,
                    1,
                    0,
                    homes,
                    n_object_servers,
                    stations,
                )
                _schedule(heap, control, at_s, other)
            now_s = net_free_s[1, node] + latency_s
            me.opened_s = me.open_s = me.asked_s
            me.read_s = now_s
            is_done = True
        if is_read:
            now_s += at.read_latency_s
            me.request += 1
            me.station = AT_SERVER
            if me.request == n_requests[me.row]:
                me.read_s = now_s
                me.station = AT_CLOSE
                if at.close_s == 0:
                    now_s += at.close_latency_s
                    is_closed = True
        if is_closed:
            meta_s = (me.open_s - me.opened_s) + (now_s - me.read_s)
            if me.place == FROM_PEER:
                peer_lfs_s[customer, 0] += me.read_s - me.open_s
                peer_lfs_s[customer, 1] += meta_s
                me.station = AT_OUT_LINK
            elif me.place == STAGED:
                node = homes[customer, NODE]
                copy_s[node, me.epoch, 2 * me.tier] += meta_s
                copy_s[node, me.epoch, 2 * me.tier + 1] += me.read_s - me.open_s
                if me.tier == 0:
                    now_s = _begin(
                        me, now_s, customer, 1, 1, homes, n_object_servers, stations
                    )
                elif customer < len(finished_s):
                    is_done = True
                else:
                    me.station = AT_COPIED
            else:
                is_done = True
        if is_done:
            instants = instants_s[me.read]
            instants[0], instants[1] = me.opened_s, me.open_s
            instants[2], instants[3] = me.read_s, now_s
            me.next_s = finish_read(me, customer, now_s, loading, taken_s, finished_s)
            me.station = AT_END
        next_tag = control[N_SCHEDULED] << RANK_BITS | customer
        replace_root(heap, control[HEAP_SIZE], now_s, next_tag)
        control[N_SCHEDULED] += 1
