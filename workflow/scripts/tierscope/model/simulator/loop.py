"""The compiled event loop of the simulator: exact, in whole nanoseconds.

Customers follow steps: they open files, read, close, pause, and wait at gates for each
other. A gate opens when it has been passed as often as it wants, at the latest of these
times. So a step that enters no station is taken at once, even ahead of the clock, and
only arrivals at stations are events. They are handled in the order of their times,
those of one nanosecond by kind, then by rank: no order of scheduling has a say.

What is decided meanwhile is asked for: the loop stops where a rank begins or has ended
a file and where a copy has ended, and goes on when it is called again.
"""

from typing import NamedTuple

import numpy as np

from tierscope.model.simulator.compiling import compiled, inlined
from tierscope.model.simulator.heap import (
    NEVER,
    add_event,
    empty_heap,
    first_event,
    remove_root,
    replace_root,
    tag_of,
)
from tierscope.model.simulator.stations import (
    LINK,
    METADATA_SERVER,
    Machine,
    pass_metadata,
    pass_object_server,
    serve,
)

# The kinds of steps. Those from `COPIED` on are kinds of events, too, in the order in
# which those of one nanosecond are handled: what ends comes before what begins.
(
    WAIT,  # until a gate is open
    PAUSE,  # for some nanoseconds
    COPIED,  # stop: a copy has ended
    TELL,  # stop: a read has ended
    PASS,  # a gate
    CLOSE,
    AT_LINK,  # no step: a request on its way
    SEND,  # bytes by the owner's link to others
    RECEIVE,  # bytes by the link from others; the owner's thread is free again
    READ,  # all requests of a read, one after the other
    OPEN,
    CALL,  # a read from an owner, whose thread lets the customer use its LFS
    ASK,  # stop: where is the next file read?
    START,  # of an epoch, rank after rank
) = range(-2, 12)
DONE, STOPPED = range(START + 1, START + 3)  # further reasons to stop
# A step: its kind, the tier of a call, and the target: the object server of a read, the
# gate, the link, the owner's first rank, the server of the LFS for ASK. The amount: the
# number of the read that begins, the first of its requests, nanoseconds.
STEP = np.dtype(
    [("kind", "i1"), ("tier", "i1"), ("target", "i4"), ("amount", "i8")], align=True
)
# A gate: how many must still pass it before it opens, the last that waits there, and
# when it was last passed.
GATE = np.dtype([("n_left", "i4"), ("waiter", "i4"), ("at_ns", "i8")])
# Where a customer is: its next step and the end, its time, when its call began, its key
# in the tags of events, the rank whose servers it uses, the row that its times are
# added to, its request, the customer behind it in a line, and the read that it is at,
# if its instants are noted.
CUSTOMER = np.dtype(
    [
        ("at_step", "i8"),
        ("end_step", "i8"),
        ("now_ns", "i8"),
        ("begun_ns", "i8"),
        ("key", "i8"),
        ("home", "i4"),
        ("account", "i4"),
        ("station", "i4"),
        ("request", "i4"),
        ("next", "i4"),
        ("read", "i4"),
    ]
)
# A node's server threads: how many are busy, and the first and last that wait for one.
THREADS = np.dtype([("n_busy", "i4"), ("first", "i4"), ("last", "i4")])
# A copy to begin: its copier, where its program begins, the servers that it is read
# from and written to, the row of its times.
ORDER = np.dtype(
    [("copier", "i8"), ("skips", "i8"), ("gfs", "i8"), ("lfs", "i8"), ("account", "i8")]
)
NOBODY = -1
# Columns of instants: start and end of an open, last byte, start and end of a close.
OPENING, OPENED, LAST_BYTE, CLOSING, CLOSED = range(5)
METADATA, READING = range(2)  # kinds of times
COPY_STEPS = 7  # of a copier: open, read and close on both tiers, and the stop
# The control: events to come and handled, customers to let go on, programs that have
# not ended, threads of an owner, copies ordered; why the loop stopped, about whom and
# which read, and when; the answer; the time at which it must stop.
(
    N_COMING,
    N_EVENTS,
    READY,
    N_RUNNING,
    N_THREADS,
    N_ORDERS,
    REASON,
    CUSTOMER_ASKED,
    READ_ASKED,
    NOW_NS,
    IS_ON_LFS,
    STOP_NS,
    N_CONTROLS,
) = range(13)
_NO_TIMES = np.zeros((0, 2, 2), np.int64)
_NO_COPIES = np.zeros(0, ORDER)


class Simulation(NamedTuple):
    """All that the loop works on; all but the machine is changed by it.

    Parameters
    ----------
    machine : Machine
        The stations.
    servers : ndarray of SERVER, shape (n_servers,)
        Those of the machine, and then each node's links out and in.
    steps : ndarray of STEP, shape (n_steps,)
        The customers' steps.
    gates : ndarray of GATE, shape (n_gates,)
        Where they wait for each other.
    customers : ndarray of CUSTOMER, shape (n_customers,)
        Where each customer is.
    heap : ndarray of EVENT, shape (n_customers + 4,)
        Events to come (`empty_heap`).
    instants_ns : ndarray of int, shape (n_reads, 5)
        When the calls of each read began and ended.
    times_ns : ndarray of int, shape (n_accounts, 2, 2)
        Time in calls by tier, and by kind: metadata, reading.
    threads : ndarray of THREADS, shape (n_ranks,)
        Server threads of the nodes by their first ranks.
    orders : ndarray of ORDER
        Copies to begin.
    control : ndarray of int, shape (N_CONTROLS,)
        How many there are of what, and what a stop is about.
    """

    machine: Machine
    servers: np.ndarray
    steps: np.ndarray
    gates: np.ndarray
    customers: np.ndarray
    heap: np.ndarray
    instants_ns: np.ndarray
    times_ns: np.ndarray
    threads: np.ndarray
    orders: np.ndarray
    control: np.ndarray


def begun(
    machine: Machine,
    servers: np.ndarray,
    written: tuple[np.ndarray, np.ndarray, np.ndarray],
    instants_ns: np.ndarray,
    times_ns: np.ndarray = _NO_TIMES,
) -> Simulation:
    """Return a simulation in which nothing has happened.

    `written` are steps, gates and customers. From the first customer on, `next` leads
    to all that go on at the start.
    """
    _, _, customers = written
    control = np.zeros(N_CONTROLS, np.int64)
    control[N_RUNNING], control[REASON] = len(customers), STOPPED
    control[STOP_NS] = NEVER
    heap, threads = empty_heap(len(customers)), np.zeros(len(machine.homes), THREADS)
    threads["first"] = NOBODY
    return Simulation(
        machine,
        servers,
        *written,
        heap,
        instants_ns,
        times_ns,
        threads,
        _NO_COPIES,
        control,
    )


@inlined
def _let_go_on(customer, world):
    """Put a customer before all that may go on."""
    world.customers[customer].next = world.control[READY]
    world.control[READY] = customer


@inlined
def _next_ready(world):
    """Return the first of all that may go on, and take it off; or nobody."""
    customer = world.control[READY]
    if customer != NOBODY:
        world.control[READY] = world.customers[customer].next
    return customer


@inlined
def _must_wait(me, customer, gate):
    """Return whether a gate is shut, and let a customer wait there."""
    if gate.n_left > 0:
        me.next = gate.waiter
        gate.waiter = customer
        return True
    me.now_ns = max(me.now_ns, gate.at_ns)
    return False


@inlined
def _opens_for_others(me, customer, gate, world):
    """Let a customer pass a gate; return whether others go on now, before itself."""
    gate.n_left -= 1
    gate.at_ns = max(gate.at_ns, me.now_ns)
    if gate.n_left != 0 or gate.waiter == NOBODY:
        return False
    me.at_step += 1
    _let_go_on(customer, world)
    while gate.waiter != NOBODY:
        woken = gate.waiter
        gate.waiter = world.customers[woken].next
        _let_go_on(woken, world)
    return True


@inlined
def _end_call(me, step, column, kind, world):
    """Note when a call has ended, or how long it took."""
    if me.account == NOBODY:
        world.instants_ns[me.read, column] = me.now_ns
    else:
        world.times_ns[me.account, step.tier, kind] += me.now_ns - me.begun_ns


@inlined
def _asks(me, step, is_open, world):
    """Let a customer open or close a file; return whether it has to ask a server."""
    at = world.machine.stations[step.tier]
    if me.account == NOBODY:
        if is_open:
            me.read = step.amount
        world.instants_ns[me.read, OPENING if is_open else CLOSING] = me.now_ns
    if (at.open_s if is_open else at.close_s) > 0:
        return True
    me.now_ns += at.open_latency_ns if is_open else at.close_latency_ns
    _end_call(me, step, OPENED if is_open else CLOSED, METADATA, world)
    return False


@inlined
def _call(me, step, world):
    """Let a customer begin a read by a request to the file's owner."""
    me.read = step.amount
    world.instants_ns[me.read, OPENING] = me.now_ns
    world.instants_ns[me.read, OPENED] = me.now_ns
    me.home, me.account = step.target, me.home
    me.now_ns += world.machine.stations[step.tier].read_latency_ns


@inlined
def _arrives(me, customer, world):
    """Let a customer take steps; return whether it has arrived at a station.

    If not, its steps have ended, or it waits.
    """
    while me.at_step < me.end_step:
        step = world.steps[me.at_step]
        kind = step.kind
        me.begun_ns = me.now_ns
        if kind == READ:
            me.request = step.amount
            me.station = kind
            return True
        if kind in (OPEN, CLOSE):
            if _asks(me, step, kind == OPEN, world):
                me.station = kind
                return True
        elif kind == WAIT:
            if _must_wait(me, customer, world.gates[step.target]):
                return False
        elif kind == PASS:
            if _opens_for_others(me, customer, world.gates[step.target], world):
                return False
        elif kind == PAUSE:
            me.now_ns += step.amount
        else:
            if kind == CALL:
                _call(me, step, world)
            me.station = kind
            return True
        me.at_step += 1
    world.control[N_RUNNING] -= 1
    return False


@inlined
def _is_read(me, step, now_ns, world, generator):
    """Let a request pass its object server or link; return whether it was the last."""
    machine, servers = world.machine, world.servers
    at, request = machine.stations[step.tier], machine.requests[me.request]
    if me.station == READ:
        now_ns = pass_object_server(
            at, request, step.target, now_ns, servers, generator
        )
        if at.n_links > 0:
            me.station, me.now_ns = AT_LINK, now_ns
            return False
    else:
        link = machine.homes[me.home, step.tier, LINK]
        now_ns = serve(servers, link, now_ns, request.link_ns)
    me.now_ns = now_ns + at.read_latency_ns
    me.request += 1
    me.station = READ
    return request.is_last != 0


@inlined
def _ask_metadata_server(me, step, now_ns, world, generator):
    """Let a customer open or close a file."""
    first = world.machine.homes[me.home, step.tier, METADATA_SERVER]
    is_open, at = step.kind == OPEN, world.machine.stations[step.tier]
    me.now_ns = pass_metadata(at, is_open, first, now_ns, world.servers, generator)
    _end_call(me, step, OPENED if is_open else CLOSED, METADATA, world)


@inlined
def _gets_thread(customer, owner, world):
    """Return whether a customer gets an owner's thread, or waits behind all others."""
    threads = world.threads[owner]
    if threads.n_busy < world.control[N_THREADS]:
        threads.n_busy += 1
        return True
    world.customers[customer].next = NOBODY
    if threads.first == NOBODY:
        threads.first = customer
    else:
        world.customers[threads.last].next = customer
    threads.last = customer
    return False


@inlined
def _receive(me, step, now_ns, world):
    """Let bytes come in while others go out; the owner's thread serves the next one."""
    threads = world.threads[me.home]
    if threads.first == NOBODY:
        threads.n_busy -= 1
    else:
        other = threads.first
        threads.first = world.customers[other].next
        world.customers[other].now_ns = now_ns
        world.customers[other].at_step += 1
        _let_go_on(other, world)
    arrived_ns = serve(world.servers, step.target, now_ns - step.amount, step.amount)
    me.now_ns = arrived_ns + world.machine.stations[step.tier].read_latency_ns
    me.home, me.account = me.account, NOBODY
    world.instants_ns[me.read, LAST_BYTE] = me.now_ns


@inlined
def _has_taken_step(me, customer, now_ns, world, generator):
    """Let a customer pass the station it has arrived at.

    Return whether it has taken its step. If not, it goes to another station, or waits.
    """
    step = world.steps[me.at_step]
    if me.station == READ or me.station == AT_LINK:
        if not _is_read(me, step, now_ns, world, generator):
            return False
        _end_call(me, step, LAST_BYTE, READING, world)
    elif me.station == OPEN or me.station == CLOSE:
        _ask_metadata_server(me, step, now_ns, world, generator)
    elif me.station == CALL:
        return _gets_thread(customer, step.target, world)
    elif me.station == SEND:
        me.now_ns = serve(world.servers, step.target, now_ns, step.amount)
    elif me.station == RECEIVE:
        _receive(me, step, now_ns, world)
    return True


@inlined
def _begin_copies(world):
    """Let copiers begin what was ordered of them: a copy, or its second part."""
    for number in range(world.control[N_ORDERS]):
        order = world.orders[number]
        me = world.customers[order.copier]
        first = me.end_step - COPY_STEPS
        world.steps[first + 1].target = order.gfs
        world.steps[first + 4].target = order.lfs
        me.at_step, me.now_ns = first + order.skips, world.control[NOW_NS]
        me.account = order.account
        _let_go_on(order.copier, world)
    world.control[N_ORDERS] = 0


@inlined
def _read_from_lfs(me, ask, world):
    """Let the file that a rank has asked for be read from its LFS."""
    at_step = me.at_step + 1
    while world.steps[at_step].kind != TELL:
        step = world.steps[at_step]
        if step.kind == READ:
            step.target, step.amount = ask.target, ask.amount
        step.tier = 1
        at_step += 1


@inlined
def _has_answer(world):
    """Go on after a stop; return whether it was at an event."""
    control = world.control
    reason, customer = control[REASON], control[CUSTOMER_ASKED]
    control[REASON] = STOPPED
    if reason >= DONE:
        return False
    me = world.customers[customer]
    if reason == ASK and control[IS_ON_LFS]:
        _read_from_lfs(me, world.steps[me.at_step], world)
    if reason != COPIED:
        me.at_step += 1
        _let_go_on(customer, world)
    return True


@compiled
def run(world, generator):
    """Go on with a simulation until something must be decided, or it ends.

    Parameters
    ----------
    world : Simulation
        What is simulated; what happens is noted there.
    generator : numpy.random.Generator
        Draws the service times. In a struct, it would keep numba from knowing the
        struct's type at once.

    Returns
    -------
    int
        Why it stops: `ASK`, `TELL`, `COPIED`; `DONE`, all programs have ended;
        `STOPPED`, no event is left before the end.
    """
    # Each is taken once: the references to what is taken are counted.
    control, heap, steps = world.control, world.heap, world.steps
    customers = world.customers
    size, n_events, stop_ns = control[N_COMING], control[N_EVENTS], control[STOP_NS]
    is_free = _has_answer(world)  # the root of the heap, for the next event
    _begin_copies(world)
    customer = _next_ready(world)
    while True:
        while customer != NOBODY:
            me = customers[customer]
            if _arrives(me, customer, world):
                tag = tag_of(me.station, me.key)
                if is_free:
                    replace_root(heap, size, me.now_ns, tag)
                    is_free = False
                else:
                    add_event(heap, size, me.now_ns, tag)
                    size += 1
            customer = _next_ready(world)
        if is_free:
            remove_root(heap, size)
            size -= 1
        if control[N_RUNNING] == 0:
            reason = DONE
            break
        if heap[0].time_ns >= stop_ns:  # an empty heap's is NEVER
            reason = STOPPED
            break
        now_ns, customer = first_event(heap)
        me = customers[customer]
        if me.station < PASS or me.station == ASK:
            control[NOW_NS], control[CUSTOMER_ASKED] = now_ns, customer
            control[READ_ASKED] = me.read
            if me.station == ASK:
                control[READ_ASKED] = steps[me.at_step + 1].amount
            reason = me.station
            break
        n_events += me.station < ASK
        is_free = True
        if _has_taken_step(me, customer, now_ns, world, generator):
            me.at_step += 1
            continue
        if me.station != CALL:
            replace_root(heap, size, me.now_ns, tag_of(me.station, me.key))
            is_free = False
        customer = _next_ready(world)
    control[N_COMING], control[N_EVENTS], control[REASON] = size, n_events, reason
    return reason


@compiled
def stops(world, generator):
    """Yield why a simulation stops (`run`), again and again."""
    while True:
        yield run(world, generator)
