"""The compiled event loop of epochs in which a process may have to wait for others.

`tierscope.model.simulator.events` computes when a rank takes its next batch as soon as
the batch is ready. That is impossible if ranks meet at the end of each step, or if
several workers of a rank read at the same time. Here the training of a rank is a
customer of its own beside its readers. Its events come first among those of a
nanosecond: it enters no station, and what it lets go on may enter one at once.

Two rules of loading are known:

- `tf.data`: one reader. Batch b is ready when its last sample is. Then the reader
  needs a free place before it closes the file: batch b + 1 - prefetch must be taken, or
  without prefetch batch b + 1 asked for.
- PyTorch's `DataLoader`: batch b is read by worker b mod W, when it is sent, and is
  ready when its last file is closed. It is sent when batch b - depth is taken; without
  workers when it is asked for.
"""

from typing import NamedTuple

import numpy as np

from tierscope.model.simulator.events import (
    AT_OPEN,
    AT_PAUSE,
    AT_SERVER,
    CLOSED,
    CLOSING,
    OPEN,
    OPENED,
    READ,
    Reads,
    Servers,
    Tiers,
    add_event,
    begin_close,
    begin_open,
    compiled,
    empty_heap,
    end_request,
    first_event,
    inlined,
    pass_station,
    remove_root,
    tag_of,
)

NOBODY = -1
SIZE, N_EVENTS = range(2)  # of `control`

_READER = np.dtype(
    [
        ("read", "i8"),
        ("end", "i8"),  # of its reads, or of those of its batch
        ("left_in_batch", "i8"),
        ("batch", "i8"),
        ("awaited", "i8"),  # the batch that must be taken, or asked for
        ("clock_ns", "i8"),  # while it waits
        ("station", "i8"),
        ("tier", "i8"),
        ("row", "i8"),
        ("request", "i8"),
        ("object_server", "i8"),
    ]
)


class Rules(NamedTuple):
    """How ranks load, compute and meet.

    Parameters
    ----------
    by_batch : bool
        Whether PyTorch's rule holds.
    n_readers : int
        Readers of a rank.
    depth : int
        Batches that may be ready, or sent, before one is taken; 0: a batch is read when
        it is asked for.
    batch_size, sample_ns : int
        Samples of a batch, and processor time of a sample.
    in_steps : bool
        Whether the ranks that have a batch for a step meet at its end.
    first_step : ndarray of int, shape (n_ranks + 1,)
        Where each rank's steps begin among all steps, and the end.
    compute_ns : ndarray of int, shape (n_steps,)
        Compute time of each step.
    n_members : ndarray of int, shape (most steps,)
        Ranks that have a batch for each step.
    """

    by_batch: bool
    n_readers: int
    depth: int
    batch_size: int
    sample_ns: int
    in_steps: bool
    first_step: np.ndarray
    compute_ns: np.ndarray
    n_members: np.ndarray


class Trainings(NamedTuple):
    """The trainings of the ranks, filled by the loop; shape (n_ranks,) or as said.

    Parameters
    ----------
    batch : ndarray of int
        Next batch of each, and so the number of those taken.
    is_waiting, has_taken : ndarray of bool
        Whether it waits for a batch, or takes one or ends a step at its next event.
    asked_ns, first_taken_ns, stall_ns : ndarray of int
        When it asked last and took its first batch, and how long it waited for batches.
    ended_ns : ndarray of int
        End of its last step, and of the loader.
    ready, ready_ns : ndarray of int, shape (n_ranks, n_kept)
        Number after that of a batch that is ready, and when it was.
    n_arrived : ndarray of int, shape (most steps,)
        Ranks that have arrived at the end of each step.
    """

    batch: np.ndarray
    is_waiting: np.ndarray
    has_taken: np.ndarray
    asked_ns: np.ndarray
    first_taken_ns: np.ndarray
    stall_ns: np.ndarray
    ended_ns: np.ndarray
    ready: np.ndarray
    ready_ns: np.ndarray
    n_arrived: np.ndarray


class Stepped(NamedTuple):
    """All that `run_steps` works on."""

    reads: Reads
    tiers: Tiers
    rules: Rules
    servers: Servers
    trainings: Trainings
    readers: np.ndarray
    heap: np.ndarray
    control: np.ndarray


def stepped_epoch(
    reads: Reads, tiers: Tiers, rules: Rules, servers: Servers
) -> Stepped:
    """Return an epoch in which nothing has happened."""
    n_ranks = len(reads.first_read) - 1
    n_kept = min(rules.depth + 2, len(rules.n_members))  # of batches that are ready
    trainings = Trainings(
        np.zeros(n_ranks, np.int64),
        *np.zeros((2, n_ranks), bool),
        *np.zeros((4, n_ranks), np.int64),
        *np.zeros((2, n_ranks, n_kept), np.int64),
        np.zeros_like(rules.n_members),
    )
    n_customers = n_ranks * (1 + rules.n_readers)
    readers = np.zeros((n_ranks, rules.n_readers), _READER)
    readers["awaited"] = NOBODY
    control = np.zeros(2, np.int64)
    heap = empty_heap(n_customers)
    return Stepped(reads, tiers, rules, servers, trainings, readers, heap, control)


@inlined
def _n_steps(epoch, rank):
    """Return the number of steps, and of batches, of a rank."""
    return epoch.rules.first_step[rank + 1] - epoch.rules.first_step[rank]


@inlined
def _schedule(epoch, rank, slot, time_ns, kind):
    """Add the next event of a rank's training (slot 0) or of one of its readers."""
    customer = rank * (1 + epoch.rules.n_readers) + slot
    add_event(epoch.heap, epoch.control[SIZE], time_ns, tag_of(kind, customer))
    epoch.control[SIZE] += 1


@inlined
def _start_file(epoch, rank, reader, now_ns):
    """Let a reader open its next file."""
    me, reads = epoch.readers[rank, reader], epoch.reads
    me.object_server, me.row = reads.server_of[me.read], reads.row_of[me.read]
    me.tier = 1 if me.object_server >= reads.first_lfs_server else 0
    reads.instants_ns[me.read, OPENED] = now_ns
    now_ns = begin_open(me, epoch.tiers.stations[me.tier], now_ns)
    if me.station == AT_SERVER:
        reads.instants_ns[me.read, OPEN] = now_ns
    _schedule(epoch, rank, 1 + reader, now_ns, me.station)


@inlined
def _start_batch(epoch, rank, batch, now_ns):
    """Let the worker of a batch read it."""
    reader, size = batch % epoch.rules.n_readers, epoch.rules.batch_size
    me, first_read = epoch.readers[rank, reader], epoch.reads.first_read
    me.awaited, me.batch = NOBODY, batch
    me.read = first_read[rank] + batch * size
    me.end = min(me.read + size, first_read[rank + 1])
    _start_file(epoch, rank, reader, now_ns)


@inlined
def _deliver(epoch, rank, batch, at_ns):
    """Note when a batch is ready; a training that waits for it takes it then."""
    trainings = epoch.trainings
    place = batch % trainings.ready.shape[1]
    trainings.ready[rank, place] = batch + 1
    trainings.ready_ns[rank, place] = at_ns
    if trainings.is_waiting[rank] and trainings.batch[rank] == batch:
        trainings.is_waiting[rank] = False
        _schedule(epoch, rank, 0, at_ns, AT_PAUSE)


@inlined
def _end_batch(epoch, rank, reader, now_ns):
    """Let a worker deliver its batch, and begin its next one when that is sent."""
    me, rules = epoch.readers[rank, reader], epoch.rules
    _deliver(epoch, rank, me.batch, now_ns)
    batch = me.batch + rules.n_readers
    awaited = batch - rules.depth
    if batch >= _n_steps(epoch, rank):
        return
    if rules.depth > 0 and awaited < epoch.trainings.batch[rank]:
        _start_batch(epoch, rank, batch, now_ns)
    else:
        me.awaited, me.clock_ns = awaited, now_ns


@inlined
def _end_file(epoch, rank, reader, now_ns):
    """Let a reader that has closed a file turn to the next one, if any."""
    me, rules = epoch.readers[rank, reader], epoch.rules
    epoch.reads.instants_ns[me.read, CLOSED] = now_ns
    me.read += 1
    if me.read < me.end:
        _start_file(epoch, rank, reader, now_ns)
    elif rules.by_batch:
        _end_batch(epoch, rank, reader, now_ns)
    else:
        if me.left_in_batch < rules.batch_size:  # this is how its end is found
            _deliver(epoch, rank, me.batch, now_ns)
        epoch.trainings.ended_ns[rank] = max(epoch.trainings.ended_ns[rank], now_ns)


@inlined
def _close_file(epoch, rank, reader, now_ns):
    """Let a reader close its file."""
    me = epoch.readers[rank, reader]
    epoch.reads.instants_ns[me.read, CLOSING] = now_ns
    now_ns, is_closed = begin_close(me, epoch.tiers.stations[me.tier], now_ns)
    if is_closed:
        _end_file(epoch, rank, reader, now_ns)
    else:
        _schedule(epoch, rank, 1 + reader, now_ns, me.station)


@inlined
def _fill_place(epoch, rank, now_ns):
    """Let tf.data's reader deliver a full batch; return whether it may go on."""
    me, depth = epoch.readers[rank, 0], epoch.rules.depth
    me.left_in_batch = epoch.rules.batch_size
    _deliver(epoch, rank, me.batch, now_ns)
    me.batch += 1
    awaited = me.batch - depth
    if depth > 0 and awaited < epoch.trainings.batch[rank]:
        return True
    me.awaited, me.clock_ns = awaited, now_ns
    return False


@inlined
def _end_read(epoch, rank, reader, now_ns):
    """Let a reader that has the last byte of a file process the sample, and close."""
    me, rules = epoch.readers[rank, reader], epoch.rules
    epoch.reads.instants_ns[me.read, READ] = now_ns
    now_ns += rules.sample_ns
    if not rules.by_batch:
        me.left_in_batch -= 1
        if me.left_in_batch == 0 and not _fill_place(epoch, rank, now_ns):
            return
    _close_file(epoch, rank, reader, now_ns)


@inlined
def _pass_station(epoch, rank, reader, now_ns, generator):
    """Let a reader pass the station it has arrived at."""
    me, tiers = epoch.readers[rank, reader], epoch.tiers
    at, is_opened = tiers.stations[me.tier], me.station == AT_OPEN
    first, link = tiers.metadata_server_of[rank, me.tier], tiers.link_of[rank, me.tier]
    now_ns, is_read, is_closed = pass_station(
        me, me.row, first, link, now_ns, tiers, epoch.servers, generator
    )
    if is_opened:
        epoch.reads.instants_ns[me.read, OPEN] = now_ns
    if is_read:
        now_ns, is_last = end_request(me, at, tiers.n_requests[me.row], now_ns)
        if is_last:
            _end_read(epoch, rank, reader, now_ns)
            return
    if is_closed:
        _end_file(epoch, rank, reader, now_ns)
    else:
        _schedule(epoch, rank, 1 + reader, now_ns, me.station)


@inlined
def _let_go_on(epoch, rank, batch, now_ns):
    """Let the reader go on that waits until a batch is taken, or asked for."""
    rules = epoch.rules
    reader = (batch + rules.depth) % rules.n_readers
    me = epoch.readers[rank, reader]
    if me.awaited != batch:
        return
    me.awaited, now_ns = NOBODY, max(me.clock_ns, now_ns)
    if rules.by_batch:
        _start_batch(epoch, rank, batch + rules.depth, now_ns)
    else:
        _close_file(epoch, rank, reader, now_ns)


@inlined
def _ask(epoch, rank, now_ns):
    """Let a training ask for its next batch, or for the end."""
    trainings, batch = epoch.trainings, epoch.trainings.batch[rank]
    trainings.asked_ns[rank] = now_ns
    if epoch.rules.depth == 0:
        _let_go_on(epoch, rank, batch, now_ns)
    if batch == _n_steps(epoch, rank):
        trainings.ended_ns[rank] = max(trainings.ended_ns[rank], now_ns)
        return
    place = batch % trainings.ready.shape[1]
    if trainings.ready[rank, place] == batch + 1:
        at_ns = max(now_ns, trainings.ready_ns[rank, place])
        _schedule(epoch, rank, 0, at_ns, AT_PAUSE)
    else:
        trainings.is_waiting[rank] = True


@inlined
def _take(epoch, rank, now_ns):
    """Let a training take its batch, and compute."""
    trainings, rules = epoch.trainings, epoch.rules
    batch = trainings.batch[rank]
    trainings.stall_ns[rank] += now_ns - trainings.asked_ns[rank]
    if batch == 0:
        trainings.first_taken_ns[rank] = now_ns
    trainings.batch[rank], trainings.has_taken[rank] = batch + 1, True
    if rules.depth > 0:
        _let_go_on(epoch, rank, batch, now_ns)
    now_ns += rules.compute_ns[rules.first_step[rank] + batch]
    _schedule(epoch, rank, 0, now_ns, AT_PAUSE)


@inlined
def _end_step(epoch, rank, now_ns):
    """Let a training end a step, and meet the others that have a batch for it."""
    trainings, rules = epoch.trainings, epoch.rules
    trainings.has_taken[rank] = False
    if not rules.in_steps:
        _ask(epoch, rank, now_ns)
        return
    step = trainings.batch[rank] - 1
    trainings.n_arrived[step] += 1
    if trainings.n_arrived[step] == rules.n_members[step]:
        for other in range(len(trainings.batch)):
            if _n_steps(epoch, other) > step:
                _ask(epoch, other, now_ns)


@inlined
def _begin_epoch(epoch):
    """Let all readers begin, and all trainings ask, at time 0."""
    rules, first_read = epoch.rules, epoch.reads.first_read
    for rank in range(len(first_read) - 1):
        if not rules.by_batch:
            me = epoch.readers[rank, 0]
            me.read, me.end = first_read[rank], first_read[rank + 1]
            me.left_in_batch = rules.batch_size
            _start_file(epoch, rank, 0, 0)
        elif rules.depth > 0:
            for batch in range(min(rules.n_readers, _n_steps(epoch, rank))):
                _start_batch(epoch, rank, batch, 0)
        else:
            epoch.readers[rank, 0].awaited = 0
        _ask(epoch, rank, 0)


@compiled
def run_steps(epoch, generator):
    """Simulate an epoch from its first to its last event.

    Parameters
    ----------
    epoch : Stepped
        What is simulated (`stepped_epoch`); what happens is noted there.
    generator : numpy.random.Generator
        Draws the service times.

    Returns
    -------
    int
        Number of arrivals at stations.
    """
    _begin_epoch(epoch)
    n_customers = 1 + epoch.rules.n_readers
    while epoch.control[SIZE] > 0:
        now_ns, customer = first_event(epoch.heap)
        remove_root(epoch.heap, epoch.control[SIZE])
        epoch.control[SIZE] -= 1
        rank, slot = customer // n_customers, customer % n_customers
        if slot > 0:
            epoch.control[N_EVENTS] += 1
            _pass_station(epoch, rank, slot - 1, now_ns, generator)
        elif epoch.trainings.has_taken[rank]:
            _end_step(epoch, rank, now_ns)
        else:
            _take(epoch, rank, now_ns)
    return epoch.control[N_EVENTS]
