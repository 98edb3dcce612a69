"""The compiled event loop of the simulator: exact, without time steps.

An event is the arrival of a rank at a station. Events are handled in the order of
their times, those of equal time in the order in which they were scheduled (at the
start: by rank). Servers are first come, first served, so a rank's completion is known
when it arrives, and each rank has exactly one event to come: the next one replaces it
at the root of the heap.
"""

import math

import numpy as np
from numba import njit

OPENED, OPEN, READ, CLOSED = range(4)  # columns of the instants
DETERMINISTIC, EXPONENTIAL, LOGNORMAL = range(3)
AT_OPEN, AT_CLOSE, AT_SERVER, AT_LINK = range(4)  # stations ahead of a rank

# What the loop must know of a tier.
STATIONS = np.dtype(
    [
        ("n_metadata_servers", "i8"),
        ("open_s", "f8"),
        ("close_s", "f8"),
        ("open_latency_s", "f8"),
        ("close_latency_s", "f8"),
        ("read_latency_s", "f8"),
        ("n_links", "i8"),
        ("n_requests", "i8"),
        ("metadata_distribution", "i8"),
        ("metadata_sigma", "f8"),
        ("object_distribution", "i8"),
        ("object_sigma", "f8"),
    ]
)

# Where a rank is: its read, the read after its last, the files left of its batch, the
# number of the batch, the station it arrives at next, and what it uses there.
_RANK = np.dtype(
    [
        ("read", "i8"),
        ("end", "i8"),
        ("left_in_batch", "i8"),
        ("batch", "i8"),
        ("station", "i8"),
        ("tier", "i8"),
        ("request", "i8"),
        ("object_server", "i8"),
    ]
)

EVENT = np.dtype([("time_s", "f8"), ("tag", "i8")])
RANK_BITS = 24  # of a tag, the lowest; the others count the events scheduled
MOST_RANKS = 1 << RANK_BITS

compiled = njit(cache=True, error_model="numpy")
# What is called at every event; a call with so many arguments would take time.
inlined = njit(cache=True, error_model="numpy", forceinline=True)


@compiled
def draw_service_s(mean_s, distribution, sigma, generator):
    """Return a service time of a mean; `sigma` is lognormal's (of the logarithm)."""
    if distribution == DETERMINISTIC:
        return mean_s
    if distribution == EXPONENTIAL:
        return mean_s * generator.standard_exponential()
    z = generator.standard_normal()
    return mean_s * math.exp(sigma * (z - 0.5 * sigma))


@compiled
def serve(free_s, busy_s, server, arrival_s, service_s):
    """Let a server serve one more arrival and return when that is done."""
    start_s = max(free_s[server], arrival_s)
    busy_s[server] += service_s
    free_s[server] = start_s + service_s
    return free_s[server]


@compiled
def first_free(free_s, first, n_servers):
    """Return the server that is free first, of equal ones the first."""
    best = first
    for server in range(first + 1, first + n_servers):
        if free_s[server] < free_s[best]:
            best = server
    return best


@inlined
def pass_metadata(at, is_open, first_server, now_s, free_s, busy_s, generator):
    """Let a rank open a file, or close it, and return when that is done.

    `first_server` is the first metadata server of the rank's group.
    """
    mean_s = at.open_s if is_open else at.close_s
    if mean_s > 0:
        service_s = draw_service_s(
            mean_s, at.metadata_distribution, at.metadata_sigma, generator
        )
        server = first_free(free_s, first_server, at.n_metadata_servers)
        now_s = serve(free_s, busy_s, server, now_s, service_s)
    return now_s + (at.open_latency_s if is_open else at.close_latency_s)


@inlined
def pass_object_server(at, mean_s, server, slowness, now_s, free_s, busy_s, generator):
    """Let an object server serve a request and return when that is done."""
    service_s = slowness[server] * draw_service_s(
        mean_s, at.object_distribution, at.object_sigma, generator
    )
    return serve(free_s, busy_s, server, now_s, service_s)


@compiled
def empty_heap(n_customers):
    """Return a heap without events, with room for one of each customer.

    It is padded, so that every node has all its four children.
    """
    heap = np.zeros(n_customers + 4, EVENT)
    heap["time_s"][:], heap["tag"][:] = np.inf, np.iinfo(np.int64).max
    return heap


@compiled
def _first_of_two(heap, a, b):
    """Return which of two events of the heap comes first."""
    one, other = heap[a], heap[b]
    if other.time_s < one.time_s:
        return b
    if other.time_s == one.time_s and other.tag < one.tag:
        return b
    return a


@compiled
def _first_of_four(heap, child):
    """Return which of four events that stand side by side comes first.

    Written without branches that depend on which it is, as nobody can predict that;
    that times are equal is rare and looked at apart.
    """
    a_s, b_s = heap[child].time_s, heap[child + 1].time_s
    c_s, d_s = heap[child + 2].time_s, heap[child + 3].time_s
    ab_s, cd_s = min(a_s, b_s), min(c_s, d_s)
    if (a_s == b_s) | (c_s == d_s) | (ab_s == cd_s):
        first = _first_of_two(heap, child, child + 1)
        return _first_of_two(heap, first, _first_of_two(heap, child + 2, child + 3))
    return child + (2 + (d_s < c_s) if cd_s < ab_s else (b_s < a_s) + 0)


@compiled
def _rise(heap, position, time_s, tag):
    """Put an event into a hole of the heap, or as far above it as it is early."""
    while position > 0:
        parent = heap[(position - 1) >> 2]
        if parent.time_s < time_s or (parent.time_s == time_s and parent.tag < tag):
            break
        heap[position] = parent
        position = (position - 1) >> 2
    heap[position].time_s, heap[position].tag = time_s, tag


@compiled
def replace_root(heap, size, time_s, tag):
    """Replace the earliest event of the heap, of four children a node, by a new one.

    The hole goes down to a leaf without asking whether the new event fits before: that
    is rarely so.
    """
    position, child = 0, 1
    while child < size:
        first = _first_of_four(heap, child)
        heap[position] = heap[first]
        position, child = first, 4 * first + 1
    _rise(heap, position, time_s, tag)


@compiled
def add_event(heap, size, time_s, tag):
    """Add an event behind the last one of a heap of this size."""
    _rise(heap, size, time_s, tag)


@compiled
def remove_root(heap, size):
    """Remove the earliest event of a heap of this size: the last takes its place."""
    time_s, tag = heap[size - 1].time_s, heap[size - 1].tag
    heap[size - 1].time_s, heap[size - 1].tag = np.inf, np.iinfo(np.int64).max
    if size > 1:
        replace_root(heap, size - 1, time_s, tag)


@compiled
def _start_file(me, now_s, server_of, first_lfs_server, stations, instants_s):
    """Let a rank turn to its next file; return when it arrives at a station."""
    me.object_server = server_of[me.read]
    me.tier = 1 if me.object_server >= first_lfs_server else 0
    me.station, me.request = AT_OPEN, 0
    instants_s[me.read, OPENED] = now_s
    if stations[me.tier].open_s == 0:
        now_s += stations[me.tier].open_latency_s
        instants_s[me.read, OPEN] = now_s
        me.station = AT_SERVER
    return now_s


@compiled
def _finish_batch(me, now_s, taken_s, prefetch_batches, compute_time_s):
    """Note when a batch that is ready is taken; return when the next may be read.

    `taken_s` holds when the rank took its last batches, shape (at least prefetch,).
    """
    ready_s, n_kept = now_s, len(taken_s)
    if me.batch > 0:
        previous_s = taken_s[(me.batch - 1) % n_kept]
        ready_s = max(now_s, previous_s + compute_time_s)
    taken_s[me.batch % n_kept] = ready_s
    me.batch += 1
    if prefetch_batches == 0:
        return ready_s + compute_time_s
    if me.batch >= prefetch_batches:
        now_s = max(now_s, taken_s[(me.batch - prefetch_batches) % n_kept])
    return now_s


@inlined
def finish_read(me, rank, now_s, loading, taken_s, finished_s):
    """Note that a rank has read a file; return when it may read the next one.

    `loading` and `taken_s` are those of `run_events`. After a rank's last read it is
    noted when its last step ends.
    """
    batch_size, prefetch_batches, compute_time_s = loading
    me.read += 1
    me.left_in_batch -= 1
    if me.left_in_batch == 0 or me.read == me.end:
        me.left_in_batch = batch_size
        now_s = _finish_batch(
            me, now_s, taken_s[rank], prefetch_batches, compute_time_s
        )
    if me.read == me.end:
        last = (me.batch - 1) % taken_s.shape[1]
        finished_s[rank] = taken_s[rank, last] + compute_time_s
    return now_s


@compiled
def run_events(
    first_read,
    server_of,
    first_lfs_server,
    metadata_server_of,
    link_of,
    stations,
    request_s,
    link_s,
    slowness,
    loading,
    generator,
    instants_s,
    taken_s,
    finished_s,
    free_s,
    busy_s,
):
    """Simulate an epoch from its first to its last event.

    Parameters
    ----------
    first_read : int array, shape (n_ranks + 1,)
        Where each rank's reads, at least one, begin among all reads, and the end.
    server_of : int array, shape (n_reads,)
        Object server of each read; those of the LFS are numbered last, from
        `first_lfs_server` on.
    metadata_server_of, link_of : int array, shape (n_ranks, 2)
        First metadata server and link of each rank, on GFS and LFS.
    stations : array of STATIONS, shape (2,)
        GFS and LFS.
    request_s, link_s : float array, shape (2, most requests of a file)
        Mean service time of an object server and time on a link, by request.
    slowness : float array, shape (n_servers,)
        Factor of each server's service times.
    loading : (int, int, float)
        Batch size, prefetched batches and time between steps, as in `Workload`.
    generator : numpy.random.Generator
        Draws the service times.
    instants_s : float array, shape (n_reads, 4), filled here
        When each read's open began and ended, its last byte came, its close ended.
    taken_s : float array, shape (n_ranks, at least prefetch), filled here
        When the ranks took their last batches.
    finished_s : float array, shape (n_ranks,), filled here
        When each rank's last step ended.
    free_s, busy_s : float array, shape (n_servers,), filled here
        When each server is free again, and the sum of its service times.

    Returns
    -------
    int
        Number of events: arrivals at a station.
    """
    n_ranks = len(first_read) - 1
    ranks, first_s = np.zeros(n_ranks, _RANK), np.zeros(n_ranks)
    for rank in range(n_ranks):
        me = ranks[rank]
        me.read, me.end = first_read[rank], first_read[rank + 1]
        me.left_in_batch = loading[0]
        first_s[rank] = _start_file(
            me, 0.0, server_of, first_lfs_server, stations, instants_s
        )
    heap = empty_heap(n_ranks)
    for position, rank in enumerate(np.argsort(first_s, kind="mergesort")):
        heap[position].time_s, heap[position].tag = first_s[rank], rank
    n_scheduled, n_events = n_ranks, 0
    while heap[0].time_s < np.inf:
        now_s, rank = heap[0].time_s, heap[0].tag & (MOST_RANKS - 1)
        n_events += 1
        me = ranks[rank]
        tier = me.tier
        at = stations[tier]
        is_read = is_closed = False
        if me.station == AT_OPEN or me.station == AT_CLOSE:
            is_closed = me.station == AT_CLOSE
            first = metadata_server_of[rank, tier]
            now_s = pass_metadata(
                at, not is_closed, first, now_s, free_s, busy_s, generator
            )
            if not is_closed:
                instants_s[me.read, OPEN] = now_s
                me.station = AT_SERVER
        elif me.station == AT_SERVER:
            mean_s, server = request_s[tier, me.request], me.object_server
            now_s = pass_object_server(
                at, mean_s, server, slowness, now_s, free_s, busy_s, generator
            )
            me.station = AT_LINK
            is_read = at.n_links == 0
        else:
            service_s = link_s[tier, me.request]
            now_s = serve(free_s, busy_s, link_of[rank, tier], now_s, service_s)
            is_read = True
        if is_read:
            now_s += at.read_latency_s
            me.request += 1
            me.station = AT_SERVER
            if me.request == at.n_requests:
                instants_s[me.read, READ] = now_s
                me.station = AT_CLOSE
                if at.close_s == 0:
                    now_s += at.close_latency_s
                    is_closed = True
        if is_closed:
            instants_s[me.read, CLOSED] = now_s
            now_s = finish_read(me, rank, now_s, loading, taken_s, finished_s)
            if me.read == me.end:
                now_s = np.inf
            else:
                now_s = _start_file(
                    me, now_s, server_of, first_lfs_server, stations, instants_s
                )
        replace_root(heap, n_ranks, now_s, n_scheduled << RANK_BITS | rank)
        n_scheduled += 1
    return n_events
