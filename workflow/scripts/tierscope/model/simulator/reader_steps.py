"""Write the steps of ranks that read files in batches, and train with these.

Each rank is a training and its readers. Batch b has two gates: it is ready, and it is
taken. Two rules of loading are known:

- `tf.data`: one reader. Batch b is ready when its last sample is. Then the reader
  needs a free place before it closes the file: batch b + 1 - depth must be taken, or
  without depth batch b + 1 asked for. A last batch that is not full is ready only when
  its last file is closed: this is how its end is found.
- PyTorch's `DataLoader`: batch b is read by reader b mod n, when batch b - depth is
  taken, or without depth when batch b is asked for. It is ready when its last file is
  closed.
"""

from typing import NamedTuple

import numpy as np

from tierscope.model.simulator.compiling import compiled, inlined
from tierscope.model.simulator.heap import CUSTOMER_BITS
from tierscope.model.simulator.loop import (
    ASK,
    CALL,
    CLOSE,
    COPIED,
    COPY_STEPS,
    CUSTOMER,
    GATE,
    NOBODY,
    OPEN,
    PASS,
    PAUSE,
    READ,
    RECEIVE,
    SEND,
    START,
    STEP,
    TELL,
    WAIT,
)

UNDECIDED, FROM_GFS, FROM_LFS, FROM_PEER, STAGED = range(-1, 4)  # places of reads
GFS, LFS, PEERS = range(3)  # tiers of steps
READ_GFS, READ_LFS, READ_COPY, WRITE_COPY = range(4)  # kinds of reads and writes
_MOST_STEPS = 11  # of a read
_MOST_BATCH_STEPS = 9  # of a batch, of reader and training


class Reads(NamedTuple):
    """What the ranks read in an epoch, rank after rank.

    Parameters
    ----------
    first_read : ndarray of int, shape (n_ranks + 1,)
        Where each rank's reads begin among all reads, and the end.
    place : ndarray of int8, shape (n_reads,)
        Where each read is served; those `UNDECIDED` are asked for.
    server_of : ndarray of int32, shape (n_reads,)
        Object server of each read.
    request_of : ndarray of int32, shape (n_reads,)
        The first of each read's requests.
    other_of : ndarray of int32, shape (n_reads,)
        Object server of the LFS of reads that are asked for or staged; the first rank
        of the owner of those from peers.
    """

    first_read: np.ndarray
    place: np.ndarray
    server_of: np.ndarray
    request_of: np.ndarray
    other_of: np.ndarray

    @classmethod
    def of(
        cls, first_read: np.ndarray, place: np.ndarray, *numbers: np.ndarray
    ) -> "Reads":
        """Return reads; numbers of other types are changed."""
        same_type = (one.astype(np.int32, copy=False) for one in numbers)
        return cls(first_read, place, *same_type)


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
    """

    by_batch: bool
    n_readers: int
    depth: int
    batch_size: int
    sample_ns: int
    in_steps: bool
    first_step: np.ndarray
    compute_ns: np.ndarray


class Nodes(NamedTuple):
    """The nodes of the ranks, for copies and reads from peers.

    Parameters
    ----------
    n_nodes, per_node, n_copiers : int
        Nodes, ranks of a node, and copies that it makes at a time.
    first_link : int
        The server that is the first node's link out; those in follow those out.
    transfer_ns : ndarray of int, shape (n_requests,)
        Time on a link of the file whose first request it is, if it is read from peers.
    requests : ndarray of int, shape (4,)
        The first request of a read from GFS and LFS, of a copy's read and of its write;
        not needed where nothing is copied.
    """

    n_nodes: int
    per_node: int
    n_copiers: int
    first_link: int
    transfer_ns: np.ndarray
    requests: np.ndarray


@inlined
def _write(steps, n, kind, tier, target, amount):
    """Write a step and return where the next one goes."""
    step = steps[n]
    step.kind, step.tier, step.target, step.amount = kind, tier, target, amount
    return n + 1


@inlined
def _begin_read(steps, n, read, rank, reads, nodes):
    """Write the steps of a read up to its last byte."""
    place, server = reads.place[read], reads.server_of[read]
    first = reads.request_of[read]
    if place == FROM_PEER:
        owner = reads.other_of[read]
        n = _write(steps, n, CALL, PEERS, owner, read)
        n = _write(steps, n, OPEN, LFS, 0, 0)
        n = _write(steps, n, READ, LFS, server, first)
        n = _write(steps, n, CLOSE, LFS, 0, 0)
        transfer_ns = nodes.transfer_ns[first]
        link = nodes.first_link + owner // nodes.per_node
        n = _write(steps, n, SEND, PEERS, link, transfer_ns)
        link = nodes.first_link + nodes.n_nodes + rank // nodes.per_node
        return _write(steps, n, RECEIVE, PEERS, link, transfer_ns)
    if place == UNDECIDED:
        n = _write(steps, n, ASK, LFS, reads.other_of[read], nodes.requests[READ_LFS])
    tier = LFS if place == FROM_LFS else GFS
    n = _write(steps, n, OPEN, tier, 0, read)
    n = _write(steps, n, READ, tier, server, first)
    if place == STAGED:
        n = _write(steps, n, CLOSE, GFS, 0, 0)
        n = _write(steps, n, OPEN, LFS, 0, 0)
        server, first = reads.other_of[read], nodes.requests[WRITE_COPY]
        n = _write(steps, n, READ, LFS, server, first)
    return n


@inlined
def _end_read(steps, n, place):
    """Write the steps that end a read."""
    tier = GFS
    if place in (FROM_LFS, STAGED):
        tier = LFS
    elif place == FROM_PEER:
        tier = PEERS
    n = _write(steps, n, CLOSE, tier, 0, 0)
    if place == UNDECIDED:
        n = _write(steps, n, TELL, 0, 0, 0)
    return n


@inlined
def _await_place(steps, n, rank, batch, rules):
    """Write the steps that wait until a rank has taken a batch.

    Without depth, it must also ask for the next one.
    """
    if batch < 0:
        return n
    n_steps, step = len(rules.compute_ns), rules.first_step[rank] + batch
    n = _write(steps, n, WAIT, 0, n_steps + step, 0)
    if rules.depth == 0:
        n = _write(steps, n, PAUSE, 0, 0, rules.compute_ns[step])
        if rules.in_steps:
            n = _write(steps, n, WAIT, 0, 2 * n_steps + batch, 0)
    return n


@inlined
def _write_reader(steps, n, rank, reads, rules, nodes):
    """Write the steps of the only reader of a rank, by the rule of tf.data."""
    left, batch, first = rules.batch_size, 0, rules.first_step[rank]
    awaits = max(rules.depth, 1) - 1  # so many batches before the one that is ready
    for read in range(reads.first_read[rank], reads.first_read[rank + 1]):
        n = _begin_read(steps, n, read, rank, reads, nodes)
        if rules.sample_ns > 0:
            n = _write(steps, n, PAUSE, 0, 0, rules.sample_ns)
        left -= 1
        if left == 0:
            n = _write(steps, n, PASS, 0, first + batch, 0)
            n = _await_place(steps, n, rank, batch - awaits, rules)
            left, batch = rules.batch_size, batch + 1
        n = _end_read(steps, n, reads.place[read])
    if left < rules.batch_size:
        n = _write(steps, n, PASS, 0, first + batch, 0)
    return n


@inlined
def _write_worker(steps, n, rank, reader, reads, rules, nodes):
    """Write the steps of one of the readers of a rank, by the rule of PyTorch."""
    first, size = rules.first_step[rank], rules.batch_size
    first_read, end_read = reads.first_read[rank], reads.first_read[rank + 1]
    awaits = max(rules.depth, 1)
    for batch in range(reader, rules.first_step[rank + 1] - first, rules.n_readers):
        n = _await_place(steps, n, rank, batch - awaits, rules)
        begin = first_read + batch * size
        for read in range(begin, min(begin + size, end_read)):
            n = _begin_read(steps, n, read, rank, reads, nodes)
            if rules.sample_ns > 0:
                n = _write(steps, n, PAUSE, 0, 0, rules.sample_ns)
            n = _end_read(steps, n, reads.place[read])
        n = _write(steps, n, PASS, 0, first + batch, 0)
    return n


@inlined
def _write_training(steps, n, rank, rules):
    """Write the steps of the training of a rank."""
    n_steps = len(rules.compute_ns)
    for step in range(rules.first_step[rank], rules.first_step[rank + 1]):
        n = _write(steps, n, WAIT, 0, step, 0)
        n = _write(steps, n, PASS, 0, n_steps + step, 0)
        n = _write(steps, n, PAUSE, 0, 0, rules.compute_ns[step])
        if rules.in_steps:
            meeting = 2 * n_steps + step - rules.first_step[rank]
            n = _write(steps, n, PASS, 0, meeting, 0)
            n = _write(steps, n, WAIT, 0, meeting, 0)
    return n


@inlined
def _write_start(steps, n, rank, reads):
    """Let a rank start after those before it, if it does not ask for its first file."""
    first = reads.first_read[rank]
    if first < reads.first_read[rank + 1] and reads.place[first] != UNDECIDED:
        n = _write(steps, n, START, 0, 0, 0)
    return n


@inlined
def _write_copier(steps, n, nodes):
    """Write the steps of a copier, without its servers."""
    for tier in range(2):
        n = _write(steps, n, OPEN, tier, 0, 0)
        n = _write(steps, n, READ, tier, 0, nodes.requests[READ_COPY + tier])
        n = _write(steps, n, CLOSE, tier, 0, 0)
    return _write(steps, n, COPIED, 0, 0, 0)


@compiled
def _gates(rules):
    """Return the gates of all batches, and those where the ranks meet, all shut."""
    n_steps, n_met = len(rules.compute_ns), 0
    if rules.in_steps:
        n_met = (rules.first_step[1:] - rules.first_step[:-1]).max()
    gates = np.zeros(2 * n_steps + n_met, GATE)
    for gate in gates:
        gate.waiter = NOBODY
    for gate in range(2 * n_steps):
        gates[gate].n_left = 1
    if rules.in_steps:
        for rank in range(len(rules.first_step) - 1):
            n_mine = rules.first_step[rank + 1] - rules.first_step[rank]
            for step in range(n_mine):
                gates[2 * n_steps + step].n_left += 1
    return gates


@inlined
def _begin_at(me, at_step, end_step, number, rank):
    """Let a customer be about to take its first step."""
    me.at_step, me.end_step, me.home, me.account = at_step, end_step, rank, NOBODY
    me.key, me.next = rank << CUSTOMER_BITS | number, number + 1


@compiled
def write_steps(reads, rules, nodes):
    """Write the steps of all ranks, and of the copiers of all nodes.

    Returns
    -------
    steps : ndarray of STEP
        Those of the copiers are first.
    gates : ndarray of GATE
        Gates of all batches: ready, then taken, then where the ranks meet.
    customers : ndarray of CUSTOMER
        The readers of all ranks, the copiers of all nodes, and the trainings.
    """
    n_ranks = len(reads.first_read) - 1
    n_readers, n_copiers = n_ranks * rules.n_readers, nodes.n_nodes * nodes.n_copiers
    most = _MOST_STEPS * len(reads.place) + _MOST_BATCH_STEPS * len(rules.compute_ns)
    steps = np.empty(most + n_readers + COPY_STEPS * n_copiers, STEP)
    customers = np.zeros(n_readers + n_copiers + n_ranks, CUSTOMER)
    n = 0
    for number in range(n_readers, n_readers + n_copiers):
        rank = (number - n_readers) // nodes.n_copiers * nodes.per_node
        first, n = n, _write_copier(steps, n, nodes)
        _begin_at(customers[number], n, n, number, rank)
    for number in range(n_readers):
        rank, first = number // rules.n_readers, n
        if nodes.n_nodes > 0:
            n = _write_start(steps, n, rank, reads)
        if rules.by_batch:
            reader = number % rules.n_readers
            n = _write_worker(steps, n, rank, reader, reads, rules, nodes)
        else:
            n = _write_reader(steps, n, rank, reads, rules, nodes)
        _begin_at(customers[number], first, n, number, rank)
    customers[n_readers - 1].next = n_readers + n_copiers
    for rank in range(n_ranks):
        number, first = n_readers + n_copiers + rank, n
        n = _write_training(steps, n, rank, rules)
        _begin_at(customers[number], first, n, number, rank)
    customers[-1].next = NOBODY
    return steps[:n], _gates(rules), customers
