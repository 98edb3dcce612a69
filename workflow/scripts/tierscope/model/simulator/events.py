"""The compiled event loop of the simulator: exact, in whole nanoseconds.

An event is the arrival of a rank at a station. Events are handled in the order of their
times, those of one nanosecond by kind, then by rank: no order of scheduling has a say.
Servers are first come, first served, so a rank's completion is known when it arrives,
and each rank has exactly one event to come: the next one replaces it at the root of the
heap.
"""

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit, vectorize

from tierscope.core.imports import digest_of_modules

OPENED, OPEN, READ, CLOSING, CLOSED = range(5)  # columns of the instants
DETERMINISTIC, EXPONENTIAL, LOGNORMAL = range(3)
# The kinds of events, of all loops, in the order in which those of one nanosecond are
# handled: what ends comes before what begins. A customer's station is the kind of its
# next event.
(
    AT_WAIT,
    AT_PAUSE,
    AT_COPIED,
    AT_END,
    AT_PASS,
    AT_CLOSE,
    AT_LINK,
    AT_OUT_LINK,
    AT_IN_LINK,
    AT_SERVER,
    AT_OPEN,
    AT_OWNER,
    AT_START,
) = range(-2, 11)

# What the loop must know of a tier.
STATIONS = np.dtype(
    [
        ("n_metadata_servers", "i8"),
        ("open_s", "f8"),
        ("close_s", "f8"),
        ("open_latency_ns", "i8"),
        ("close_latency_ns", "i8"),
        ("read_latency_ns", "i8"),
        ("n_links", "i8"),
        ("credit_ns", "i8"),
        ("metadata_distribution", "i8"),
        ("metadata_sigma", "f8"),
        ("object_distribution", "i8"),
        ("object_sigma", "f8"),
    ]
)

# Where a rank is: its read, the read after its last, the files left of its batch, the
# number of the batch, the station it arrives at next, and what it uses there. `row` is
# that of the file's requests.
_RANK = np.dtype(
    [
        ("read", "i8"),
        ("end", "i8"),
        ("left_in_batch", "i8"),
        ("batch", "i8"),
        ("station", "i8"),
        ("tier", "i8"),
        ("row", "i8"),
        ("request", "i8"),
        ("object_server", "i8"),
    ]
)

# Times in the heap are whole numbers, too; as floats they are compared faster. A tag is
# the kind and, below it, the customer's key: its place in the order of equal events,
# and its number in the lowest bits.
EVENT = np.dtype([("time_ns", "f8"), ("tag", "i8")])
CUSTOMER_BITS = 24
KEY_BITS = 2 * CUSTOMER_BITS
MOST_RANKS = 1 << CUSTOMER_BITS
NEVER = np.iinfo(np.int64).max
NS_PER_S = 1e9


def _kept(**options: Any) -> Callable:
    """Return a decorator that compiles a function, and keeps the result on disk.

    numba would take what is kept if only the function's own file is the same, even if
    it calls functions of others. Where nothing can be kept, each process compiles.
    """
    options["error_model"] = "numpy"

    def decorate(function: Callable) -> Callable:
        try:
            made = njit(cache=True, **options)(function)
        except RuntimeError:  # no folder can be written
            return njit(**options)(function)
        if made is not function:  # as it is with NUMBA_DISABLE_JIT
            file = function.__code__.co_filename
            made._cache._cache_file._source_stamp = _digest(file)
        return made

    return decorate


@cache
def _digest(file: str) -> str:
    """Return the digest of a module and of all that it imports."""
    return digest_of_modules(Path(file), Path(__file__).parents[3])


compiled = _kept()
# What is called at every event. To pass all arrays of a struct would take time, and to
# count references to them more than the event takes: none are counted (`_nrt`), so what
# is inlined makes no arrays. The loops do count, so they hand their struct on as it is:
# a part that they took out of it for a call would be counted.
inlined = _kept(forceinline=True, _nrt=False)


class Reads(NamedTuple):
    """What the ranks read in an epoch, rank after rank, and when.

    Parameters
    ----------
    first_read : ndarray of int, shape (n_ranks + 1,)
        Where each rank's reads, at least one, begin among all reads, and the end.
    server_of : ndarray of int, shape (n_reads,)
        Object server of each read; those of the LFS are numbered last, from
        `first_lfs_server` on.
    first_lfs_server : int
        Number of the LFS's first server.
    row_of : ndarray of int, shape (n_reads,)
        Row of each read's requests in `Tiers`.
    instants_ns : ndarray of int, shape (n_reads, 5), filled by the loop
        When each read's open began and ended, its last byte came, its close began and
        ended.
    """

    first_read: np.ndarray
    server_of: np.ndarray
    first_lfs_server: int
    row_of: np.ndarray
    instants_ns: np.ndarray


class Tiers(NamedTuple):
    """GFS and LFS, as the ranks use them.

    Parameters
    ----------
    stations : ndarray of STATIONS, shape (2,)
        What the loop must know of each.
    n_requests : ndarray of int, shape (n_rows,)
        Requests of a file; a row is for files of one size on one tier.
    request_s : ndarray of float, shape (n_rows, most requests of a file)
        Mean service time of an object server by request.
    link_ns : ndarray of int, shape (n_rows, most requests of a file)
        Time on a link by request.
    limit_ns : ndarray of int, shape (n_rows, most requests of a file)
        Time by request that an object server's rate limit takes; 0 without a limit.
    metadata_server_of, link_of : ndarray of int, shape (n_ranks, 2)
        First metadata server and link of each rank.
    """

    stations: np.ndarray
    n_requests: np.ndarray
    request_s: np.ndarray
    link_ns: np.ndarray
    limit_ns: np.ndarray
    metadata_server_of: np.ndarray
    link_of: np.ndarray


class Loading(NamedTuple):
    """How ranks take samples, and when they did.

    Parameters
    ----------
    batch_size, prefetch_batches : int
        Samples of a batch, and batches that are read ahead.
    compute_ns, sample_ns : int
        Time between steps, and processor time of a sample.
    taken_ns : ndarray of int, shape (n_ranks, at least prefetch), filled by the loop
        When the ranks took their last batches.
    first_taken_ns : ndarray of int, shape (n_ranks,), filled by the loop
        When each rank took its first batch.
    finished_ns : ndarray of int, shape (n_ranks,), filled by the loop
        When each rank's last step ended.
    """

    batch_size: int
    prefetch_batches: int
    compute_ns: int
    sample_ns: int
    taken_ns: np.ndarray
    first_taken_ns: np.ndarray
    finished_ns: np.ndarray


class Servers(NamedTuple):
    """All servers, in the order of `SimulatedEpoch.busy_ns`.

    Parameters
    ----------
    slowness : ndarray of float, shape (n_servers,)
        Factor of each server's service times.
    free_ns, busy_ns : ndarray of int, shape (n_servers,), changed by the loop
        When each server is free again, and the sum of its service times.
    full_ns : ndarray of int, shape (n_servers,), changed by the loop
        When each server's credit is full again, if it has a rate limit.
    """

    slowness: np.ndarray
    free_ns: np.ndarray
    busy_ns: np.ndarray
    full_ns: np.ndarray


class Epoch(NamedTuple):
    """All that `run_events` works on."""

    reads: Reads
    tiers: Tiers
    loading: Loading
    servers: Servers


@vectorize
def to_ns(time_s):
    """Return a time as whole nanoseconds, the even ones of two that are as near."""
    return np.int64(np.rint(time_s * NS_PER_S))


@inlined
def tag_of(kind, key):
    """Return the tag of an event of a customer."""
    return kind << KEY_BITS | key


@compiled
def draw_service_s(mean_s, distribution, sigma, generator):
    """Return a service time of a mean; `sigma` is lognormal's (of the logarithm)."""
    if distribution == DETERMINISTIC:
        return mean_s
    if distribution == EXPONENTIAL:
        return mean_s * generator.standard_exponential()
    z = generator.standard_normal()
    return mean_s * math.exp(sigma * (z - 0.5 * sigma))


@inlined
def serve(servers, server, arrival_ns, service_ns):
    """Let a server serve one more arrival and return when that is done."""
    start_ns = max(servers.free_ns[server], arrival_ns)
    servers.busy_ns[server] += service_ns
    servers.free_ns[server] = start_ns + service_ns
    return servers.free_ns[server]


@compiled
def first_free(free_ns, first, n_servers):
    """Return the server that is free first, of equal ones the first."""
    best = first
    for server in range(first + 1, first + n_servers):
        if free_ns[server] < free_ns[best]:
            best = server
    return best


@inlined
def pass_metadata(at, is_open, first_server, now_ns, servers, generator):
    """Let a rank open a file, or close it, and return when that is done.

    `first_server` is the first metadata server of the rank's group.
    """
    mean_s = at.open_s if is_open else at.close_s
    if mean_s > 0:
        service_s = draw_service_s(
            mean_s, at.metadata_distribution, at.metadata_sigma, generator
        )
        server = first_free(servers.free_ns, first_server, at.n_metadata_servers)
        now_ns = serve(servers, server, now_ns, to_ns(service_s))
    return now_ns + (at.open_latency_ns if is_open else at.close_latency_ns)


@inlined
def pass_object_server(at, mean_s, limit_ns, server, now_ns, servers, generator):
    """Let an object server serve a request and return when that is done."""
    service_s = servers.slowness[server] * draw_service_s(
        mean_s, at.object_distribution, at.object_sigma, generator
    )
    service_ns = to_ns(service_s)
    if limit_ns > 0:
        # A token bucket: a request that the credit does not cover waits for the rest.
        start_ns = max(servers.free_ns[server], now_ns)
        full_ns = max(servers.full_ns[server], start_ns) + limit_ns
        servers.full_ns[server] = full_ns
        service_ns = max(service_ns, full_ns - at.credit_ns - start_ns)
    return serve(servers, server, now_ns, service_ns)


@compiled
def empty_heap(n_customers):
    """Return a heap without events, with room for one of each customer.

    It is padded, so that every node has all its four children.
    """
    heap = np.zeros(n_customers + 4, EVENT)
    heap["time_ns"][:], heap["tag"][:] = NEVER, NEVER
    return heap


@inlined
def first_event(heap):
    """Return when the earliest event of the heap is, and which customer's."""
    return np.int64(heap[0].time_ns), heap[0].tag & (MOST_RANKS - 1)


@compiled
def _first_of_two(heap, a, b):
    """Return which of two events of the heap comes first."""
    one, other = heap[a], heap[b]
    if other.time_ns < one.time_ns:
        return b
    if other.time_ns == one.time_ns and other.tag < one.tag:
        return b
    return a


@compiled
def _first_of_four(heap, child):
    """Return which of four events that stand side by side comes first.

    Written without branches that depend on which it is, as nobody can predict that;
    that times are equal is rare and looked at apart.
    """
    a_ns, b_ns = heap[child].time_ns, heap[child + 1].time_ns
    c_ns, d_ns = heap[child + 2].time_ns, heap[child + 3].time_ns
    ab_ns, cd_ns = min(a_ns, b_ns), min(c_ns, d_ns)
    if (a_ns == b_ns) | (c_ns == d_ns) | (ab_ns == cd_ns):
        first = _first_of_two(heap, child, child + 1)
        return _first_of_two(heap, first, _first_of_two(heap, child + 2, child + 3))
    return child + (2 + (d_ns < c_ns) if cd_ns < ab_ns else (b_ns < a_ns) + 0)


@compiled
def _rise(heap, position, time_ns, tag):
    """Put an event into a hole of the heap, or as far above it as it is early."""
    while position > 0:
        parent = heap[(position - 1) >> 2]
        if parent.time_ns < time_ns or (parent.time_ns == time_ns and parent.tag < tag):
            break
        heap[position] = parent
        position = (position - 1) >> 2
    heap[position].time_ns, heap[position].tag = time_ns, tag


@inlined
def replace_root(heap, size, time_ns, tag):
    """Replace the earliest event of the heap, of four children a node, by a new one.

    The hole goes down to a leaf without asking whether the new event fits before: that
    is rarely so.
    """
    time_ns = np.float64(time_ns)
    position, child = 0, 1
    while child < size:
        first = _first_of_four(heap, child)
        heap[position] = heap[first]
        position, child = first, 4 * first + 1
    _rise(heap, position, time_ns, tag)


@compiled
def put_at_root(heap, size, time_ns, tag):
    """Replace the earliest event by one that is probably the earliest again."""
    first = heap[_first_of_four(heap, 1)]
    if time_ns < first.time_ns or (time_ns == first.time_ns and tag < first.tag):
        heap[0].time_ns, heap[0].tag = time_ns, tag
    else:
        replace_root(heap, size, time_ns, tag)


@compiled
def add_event(heap, size, time_ns, tag):
    """Add an event behind the last one of a heap of this size."""
    _rise(heap, size, time_ns, tag)


@compiled
def remove_root(heap, size):
    """Remove the earliest event of a heap of this size: the last takes its place."""
    time_ns, tag = heap[size - 1].time_ns, heap[size - 1].tag
    heap[size - 1].time_ns, heap[size - 1].tag = NEVER, NEVER
    if size > 1:
        replace_root(heap, size - 1, time_ns, tag)


@inlined
def begin_open(me, at, now_ns):
    """Let a customer open a file of a tier; return when it arrives at a station.

    An open that takes no server's time has ended then.
    """
    me.station, me.request = AT_OPEN, 0
    if at.open_s == 0:
        me.station = AT_SERVER
        now_ns += at.open_latency_ns
    return now_ns


@inlined
def pass_station(me, row, metadata_server, link, now_ns, tiers, servers, generator):
    """Let a customer pass the station of its tier that it has arrived at.

    `row` is that of its requests in `tiers`, which is a `Tiers` or has its arrays.
    Return when that is done, whether a request has ended and whether the file's close.
    """
    at = tiers.stations[me.tier]
    if me.station == AT_OPEN or me.station == AT_CLOSE:
        is_closed = me.station == AT_CLOSE
        now_ns = pass_metadata(
            at, not is_closed, metadata_server, now_ns, servers, generator
        )
        if not is_closed:
            me.station = AT_SERVER
        return now_ns, False, is_closed
    if me.station == AT_SERVER:
        mean_s, limit_ns = (
            tiers.request_s[row, me.request],
            tiers.limit_ns[row, me.request],
        )
        server = me.object_server
        now_ns = pass_object_server(
            at, mean_s, limit_ns, server, now_ns, servers, generator
        )
        me.station = AT_LINK
        return now_ns, at.n_links == 0, False
    return serve(servers, link, now_ns, tiers.link_ns[row, me.request]), True, False


@inlined
def end_request(me, at, n_requests, now_ns):
    """Let a customer turn to the next of its file's requests.

    Return when it has the bytes, and whether they were the file's last.
    """
    me.request += 1
    me.station = AT_SERVER
    return now_ns + at.read_latency_ns, me.request >= n_requests


@inlined
def begin_close(me, at, now_ns):
    """Let a customer close its file; return when it arrives, and whether it is closed.

    It is if the close takes no server's time.
    """
    me.station = AT_CLOSE
    if at.close_s == 0:
        return now_ns + at.close_latency_ns, True
    return now_ns, False


@inlined
def _start_file(me, now_ns, reads, stations):
    """Let a rank turn to its next file; return when it arrives at a station."""
    me.object_server, me.row = reads.server_of[me.read], reads.row_of[me.read]
    me.tier = 1 if me.object_server >= reads.first_lfs_server else 0
    reads.instants_ns[me.read, OPENED] = now_ns
    now_ns = begin_open(me, stations[me.tier], now_ns)
    if me.station == AT_SERVER:
        reads.instants_ns[me.read, OPEN] = now_ns
    return now_ns


@inlined
def _finish_batch(me, rank, now_ns, loading):
    """Note when a batch that is ready is taken; return when its reader may go on."""
    taken_ns, prefetch_batches = loading.taken_ns[rank], loading.prefetch_batches
    n_kept, at_ns = len(taken_ns), now_ns
    if me.batch > 0:  # the first one is asked for at the start
        asked_ns = taken_ns[(me.batch - 1) % n_kept] + loading.compute_ns
        at_ns = max(now_ns, asked_ns)
    else:
        loading.first_taken_ns[rank] = now_ns
    taken_ns[me.batch % n_kept] = at_ns
    me.batch += 1
    if prefetch_batches == 0:
        return at_ns + loading.compute_ns
    if me.batch >= prefetch_batches:
        now_ns = max(now_ns, taken_ns[(me.batch - prefetch_batches) % n_kept])
    return now_ns


@inlined
def finish_read(me, rank, now_ns, loading):
    """Note that a rank has the last byte of a file; return when it may close it.

    That is when it has processed the sample and, if that was the last of a batch, there
    is room for another batch.
    """
    now_ns += loading.sample_ns
    me.left_in_batch -= 1
    if me.left_in_batch == 0:
        me.left_in_batch = loading.batch_size
        now_ns = _finish_batch(me, rank, now_ns, loading)
    return now_ns


@inlined
def finish_file(me, rank, now_ns, loading):
    """Note that a rank has closed a file, and after its last when its last step ends.

    A last batch that is not full is ready only now: this is how its end is found.
    """
    me.read += 1
    if me.read == me.end:
        if me.left_in_batch < loading.batch_size:
            _finish_batch(me, rank, now_ns, loading)
        last = (me.batch - 1) % loading.taken_ns.shape[1]
        ready_ns = loading.taken_ns[rank, last] + loading.compute_ns
        loading.finished_ns[rank] = max(now_ns, ready_ns)


@inlined
def _begin_epoch(ranks, heap, epoch):
    """Let all ranks turn to their first files, at time 0."""
    first_read = epoch.reads.first_read
    for rank in range(len(ranks)):
        me = ranks[rank]
        me.read, me.end = first_read[rank], first_read[rank + 1]
        me.left_in_batch = epoch.loading.batch_size
        first_ns = _start_file(me, 0, epoch.reads, epoch.tiers.stations)
        add_event(heap, rank, first_ns, tag_of(me.station, rank))


@inlined
def _pass_station(me, rank, now_ns, epoch, generator):
    """Let a rank pass the station it has arrived at, as `pass_station` does."""
    tiers, servers, is_opened = epoch.tiers, epoch.servers, me.station == AT_OPEN
    first, link = tiers.metadata_server_of[rank, me.tier], tiers.link_of[rank, me.tier]
    passed = pass_station(me, me.row, first, link, now_ns, tiers, servers, generator)
    if is_opened:
        epoch.reads.instants_ns[me.read, OPEN] = passed[0]
    return passed


@inlined
def _end_request(me, rank, now_ns, epoch):
    """Let a rank turn to the next request of its file or, after the last, to its close.

    Return when it arrives there, and whether the close has ended, too.
    """
    instants_ns, at = epoch.reads.instants_ns, epoch.tiers.stations[me.tier]
    now_ns, is_read = end_request(me, at, epoch.tiers.n_requests[me.row], now_ns)
    if not is_read:
        return now_ns, False
    instants_ns[me.read, READ] = now_ns
    now_ns = finish_read(me, rank, now_ns, epoch.loading)
    instants_ns[me.read, CLOSING] = now_ns
    return begin_close(me, at, now_ns)


@inlined
def _end_file(me, rank, now_ns, epoch):
    """Let a rank turn to its next file, if any; return when it arrives at a station."""
    epoch.reads.instants_ns[me.read, CLOSED] = now_ns
    finish_file(me, rank, now_ns, epoch.loading)
    if me.read == me.end:
        return NEVER
    return _start_file(me, now_ns, epoch.reads, epoch.tiers.stations)


@compiled
def run_events(epoch, generator):
    """Simulate an epoch from its first to its last event.

    Parameters
    ----------
    epoch : Epoch
        What is simulated; what happens is noted there.
    generator : numpy.random.Generator
        Draws the service times. In a struct, it would keep numba from knowing the
        struct's type at once.

    Returns
    -------
    int
        Number of events: arrivals at a station.
    """
    n_ranks = len(epoch.reads.first_read) - 1
    ranks, heap = np.zeros(n_ranks, _RANK), empty_heap(n_ranks)
    _begin_epoch(ranks, heap, epoch)
    n_events = 0
    while heap[0].time_ns < NEVER:
        now_ns, rank = first_event(heap)
        n_events += 1
        me = ranks[rank]
        now_ns, is_read, is_closed = _pass_station(me, rank, now_ns, epoch, generator)
        if is_read:
            now_ns, is_closed = _end_request(me, rank, now_ns, epoch)
        if is_closed:
            now_ns = _end_file(me, rank, now_ns, epoch)
        replace_root(heap, n_ranks, now_ns, tag_of(me.station, rank))
    return n_events
