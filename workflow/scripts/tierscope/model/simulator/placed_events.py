"""The compiled event loop of runs whose files get to the LFS, or are read from peers.

It handles events as `tierscope.model.simulator.events` does: same order, same draws.
What is decided meanwhile is asked for: the loop is a generator that stops where a rank
begins or has ended a file and where a copy has ended, and goes on when its arrays hold
the answer. Ranks and copy threads are customers alike, of the same stations.
"""

import numpy as np

from tierscope.model.simulator.events import (
    AT_CLOSE,
    AT_COPIED,
    AT_END,
    AT_IN_LINK,
    AT_LINK,
    AT_OPEN,
    AT_OUT_LINK,
    AT_OWNER,
    AT_SERVER,
    AT_START,
    MOST_RANKS,
    add_event,
    compiled,
    finish_file,
    finish_read,
    pass_metadata,
    pass_object_server,
    put_at_root,
    remove_root,
    replace_root,
    serve,
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


@compiled
def _begin(me, now_ns, via, tier, is_copy, homes, n_object_servers, stations):
    """Let a customer open a file with the servers of customer `via`, maybe itself.

    Return when it arrives at a station.
    """
    me.via, me.tier, me.row, me.request = via, tier, tier + 2 * is_copy, 0
    me.object_server = (
        homes[via, OBJECT_SERVER + tier] + me.file % n_object_servers[tier]
    )
    me.opened_ns, me.station = now_ns, AT_OPEN
    if stations[tier].open_s == 0:
        now_ns += stations[tier].open_latency_ns
        me.open_ns, me.station = now_ns, AT_SERVER
    return now_ns


@compiled
def _begin_read(
    me,
    now_ns,
    customer,
    files,
    place,
    latency_ns,
    homes,
    n_object_servers,
    stations,
):
    """Let a rank turn to its next file, whose place is known.

    Return when it arrives at a station.
    """
    me.place, me.file = place[me.read], files[me.read]
    if me.place == FROM_PEER:
        me.station, me.asked_ns = AT_OWNER, now_ns
        return now_ns + latency_ns
    tier = 1 if me.place == FROM_LFS else 0
    is_copy = 1 if me.place == STAGED else 0
    return _begin(
        me, now_ns, customer, tier, is_copy, homes, n_object_servers, stations
    )


@compiled
def _schedule(heap, control, at_ns, tag):
    """Add the next event of a customer that has none."""
    add_event(heap, control[HEAP_SIZE], at_ns, tag)
    control[HEAP_SIZE] += 1


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
    link_ns,
    servers,
    loading,
    peers,
    heap,
    customers,
    orders,
    control,
    clock,
    instants_ns,
    net_free_ns,
    threads,
    waiting,
    copy_ns,
    peer_lfs_ns,
):
    """Simulate an epoch; yield why it stops, with the details in `control`.

    Parameters
    ----------
    files, place : int array, shape (n_reads,)
        File of each read and where from; those `UNDECIDED` are asked for.
    owners : int array, shape (n_files,), or (0,) without peers
        The node that has each file of peers.
    homes : int array, shape (n_customers, 8)
        Each customer's servers, node and key; customer 0 of a node is its first rank.
    n_object_servers : int array, shape (2,)
        Of a group, on GFS and LFS.
    stations : array of STATIONS, shape (2,)
        GFS and LFS.
    n_requests : int array, shape (4,)
        Requests of a read from GFS and LFS, of a copy's read and of its write.
    request_s : float array, shape (4, most requests)
        Mean service time of each of them.
    link_ns : int array, shape (4, most requests)
        Its time on a link.
    servers, loading
        As in `Epoch`.
    peers : (int, int, int, int)
        One way's latency, a file's time on a link, server threads, ranks of a node.
    heap, customers, orders, control, clock
        State that is kept from epoch to epoch (`PlacedStorage`).
    instants_ns
        As in `Reads`, filled here; reads from peers open and close at once.
    net_free_ns : int array, shape (2, n_nodes)
        When the nodes' links out and in are free again.
    threads : int array, shape (3, n_nodes)
        Busy server threads; first and last customer that waits for one, or -1.
    waiting : int array, shape (n_customers,)
        Who waits behind a customer, or -1.
    copy_ns : int array, shape (n_nodes, n_epochs, 4), added to here
        Time of the copies' calls by the epoch in which they were begun.
    peer_lfs_ns : int array, shape (n_ranks, 2), added to here
        Time that owners' LFS took for a rank's reads: reading, opening and closing.
    """
    latency_ns, transfer_ns, n_threads, per_node = peers
    while True:
        for number in range(control[N_ORDERS]):
            customer = orders[number, 0]
            me = customers[customer]
            me.file, me.epoch, me.place = orders[number, 1], orders[number, 2], STAGED
            tier = 0 if orders[number, 3] else 1
            at_ns = _begin(
                me, clock[NOW_NS], customer, tier, 1, homes, n_object_servers, stations
            )
            _schedule(heap, control, at_ns, tag_of(me.station, homes[customer, KEY]))
        control[N_ORDERS] = 0
        if control[HEAP_SIZE] == 0 or heap[0].time_ns > clock[STOP_NS]:
            yield STOPPED
            continue
        now_ns = np.int64(heap[0].time_ns)
        customer = heap[0].tag & (MOST_RANKS - 1)
        key = homes[customer, KEY]
        me = customers[customer]
        clock[NOW_NS], control[CUSTOMER] = now_ns, customer
        if me.station == AT_COPIED:
            _leave(heap, control)
            yield COPIED
            continue
        if me.station == AT_END:
            control[READ] = me.read - 1
            is_last = me.read == me.end
            if is_last:
                _leave(heap, control)
                control[N_RUNNING] -= 1
            else:
                at_ns = now_ns
                me.station = AT_START
                if place[me.read] != UNDECIDED:
                    at_ns = _begin_read(
                        me,
                        now_ns,
                        customer,
                        files,
                        place,
                        latency_ns,
                        homes,
                        n_object_servers,
                        stations,
                    )
                tag = tag_of(me.station, key)
                put_at_root(heap, control[HEAP_SIZE], at_ns, tag)
            yield ENDED
            if is_last and control[N_RUNNING] == 0:
                yield RANKS_DONE
            continue
        if me.station == AT_START:
            if place[me.read] == UNDECIDED:
                control[READ] = me.read
                yield BEGINS
                me = customers[customer]  # a stop keeps records as copies
            at_ns = _begin_read(
                me,
                now_ns,
                customer,
                files,
                place,
                latency_ns,
                homes,
                n_object_servers,
                stations,
            )
            put_at_root(heap, control[HEAP_SIZE], at_ns, tag_of(me.station, key))
            continue
        control[N_EVENTS] += 1
        at = stations[me.tier]
        home = homes[me.via]
        is_read = is_closed = is_done = False
        if me.station == AT_OPEN or me.station == AT_CLOSE:
            is_closed = me.station == AT_CLOSE
            first = home[METADATA_SERVER + me.tier]
            now_ns = pass_metadata(at, not is_closed, first, now_ns, servers)
            if not is_closed:
                me.open_ns, me.station = now_ns, AT_SERVER
        elif me.station == AT_SERVER:
            mean_s, server = request_s[me.row, me.request], me.object_server
            now_ns = pass_object_server(at, mean_s, server, now_ns, servers)
            me.station = AT_LINK
            is_read = at.n_links == 0
        elif me.station == AT_LINK:
            service_ns = link_ns[me.row, me.request]
            link = home[LINK + me.tier]
            now_ns = serve(servers, link, now_ns, service_ns)
            is_read = True
        elif me.station == AT_OWNER:
            owner = owners[me.file]
            if threads[0, owner] == n_threads:
                _leave(heap, control)
                _wait_for_thread(customer, owner, threads, waiting)
                continue
            threads[0, owner] += 1
            via = owner * per_node
            now_ns = _begin(me, now_ns, via, 1, 0, homes, n_object_servers, stations)
        elif me.station == AT_OUT_LINK:
            owner = owners[me.file]
            net_free_ns[0, owner] = max(net_free_ns[0, owner], now_ns) + transfer_ns
            now_ns = net_free_ns[0, owner]
            me.station = AT_IN_LINK
        else:  # the last byte has left the owner: its thread serves the next one
            owner, node = owners[me.file], homes[customer, NODE]
            other = threads[1, owner]
            # Bytes arrive while others leave.
            net_free_ns[1, node] = (
                max(net_free_ns[1, node], now_ns - transfer_ns) + transfer_ns
            )
            if other < 0:
                threads[0, owner] -= 1
            else:
                threads[1, owner] = waiting[other]
                next_one = customers[other]
                at_ns = _begin(
                    next_one,
                    now_ns,
                    owner * per_node,
                    1,
                    0,
                    homes,
                    n_object_servers,
                    stations,
                )
                # Its kind comes after this one: this event stays the root.
                tag = tag_of(next_one.station, homes[other, KEY])
                _schedule(heap, control, at_ns, tag)
            me.opened_ns = me.open_ns = me.asked_ns
            me.read_ns = net_free_ns[1, node] + latency_ns
            now_ns = finish_read(me, customer, me.read_ns, loading)
            me.closing_ns = now_ns
            is_done = True
        if is_read:
            now_ns += at.read_latency_ns
            me.request += 1
            me.station = AT_SERVER
            if me.request == n_requests[me.row]:
                me.read_ns = now_ns
                if me.place == FROM_GFS or me.place == FROM_LFS:
                    now_ns = finish_read(me, customer, now_ns, loading)
                me.closing_ns = now_ns
                me.station = AT_CLOSE
                if at.close_s == 0:
                    now_ns += at.close_latency_ns
                    is_closed = True
        if is_closed:
            meta_ns = (me.open_ns - me.opened_ns) + (now_ns - me.closing_ns)
            if me.place == FROM_PEER:
                peer_lfs_ns[customer, 0] += me.read_ns - me.open_ns
                peer_lfs_ns[customer, 1] += meta_ns
                me.station = AT_OUT_LINK
            elif me.place == STAGED:
                node = homes[customer, NODE]
                copy_ns[node, me.epoch, 2 * me.tier] += meta_ns
                copy_ns[node, me.epoch, 2 * me.tier + 1] += me.read_ns - me.open_ns
                if me.tier == 0:
                    now_ns = _begin(
                        me, now_ns, customer, 1, 1, homes, n_object_servers, stations
                    )
                elif customer < len(loading.finished_ns):
                    is_done = True
                else:
                    me.station = AT_COPIED
            else:
                is_done = True
        if is_done:
            instants = instants_ns[me.read]
            instants[0], instants[1] = me.opened_ns, me.open_ns
            instants[2], instants[3] = me.read_ns, me.closing_ns
            instants[4] = now_ns
            finish_file(me, customer, now_ns, loading)
            me.station = AT_END
        replace_root(heap, control[HEAP_SIZE], now_ns, tag_of(me.station, key))
