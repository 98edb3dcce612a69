"""Simulate customers that follow programs: lists of calls, pauses and gates.

As in `tierscope.model.simulator.events`, but a customer's requests differ in size and
server, and customers wait for each other: a gate opens when as many have passed it on
as it wants. The stations, their service times and the order of events are the same; a
pause of no time and a gate that is open change nothing of it. No processor time lies
between the calls.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tierscope.core.io_class import IOClass
from tierscope.model.simulator.epoch import (
    check_total,
    idle_servers,
    layouts_of,
    metadata_servers_and_links,
    refuse_limits,
    server_factors,
    stations_of,
)
from tierscope.model.simulator.events import (
    AT_CLOSE,
    AT_END,
    AT_LINK,
    AT_OPEN,
    AT_PASS,
    AT_PAUSE,
    AT_SERVER,
    AT_WAIT,
    MOST_RANKS,
    NS_PER_S,
    Servers,
    add_event,
    compiled,
    empty_heap,
    first_event,
    inlined,
    pass_metadata,
    pass_object_server,
    remove_root,
    replace_root,
    serve,
    tag_of,
    to_ns,
)
from tierscope.storage.queueing_network import ModelError, Network

# Kinds of steps: those of the events at which they begin.
OPEN, CLOSE, REQUEST = AT_OPEN, AT_CLOSE, AT_SERVER
PAUSE, PASS, WAIT = AT_PAUSE, AT_PASS, AT_WAIT
TIERS = ("gfs", "lfs")
# A step of a program: its kind, the tier of a call, the target (the object server of a
# request, the gate of PASS and WAIT), the bytes of a request or the units of a PAUSE.
STEP = np.dtype([("kind", "i1"), ("tier", "i1"), ("target", "i4"), ("amount", "i8")])
_RATES = np.dtype(
    [("request_s", "f8"), ("bytes_per_s", "f8"), ("link_bytes_per_s", "f8")]
)
_NOBODY = _NOT_YET = -1


@dataclass(frozen=True)
class Programs:
    """What some customers do in an epoch.

    Parameters
    ----------
    steps : array of STEP, shape (n_steps,)
        The customers' steps, customer after customer.
    first_step : ndarray of int, shape (n_customers + 1,)
        Where each one's begin, and the end.
    ranks : ndarray of int, shape (n_customers,)
        The process that each one is.
    gates : ndarray of int, shape (n_gates,)
        How many times each gate must be passed on before it opens.
    """

    steps: np.ndarray
    first_step: np.ndarray
    ranks: np.ndarray
    gates: np.ndarray


@dataclass(frozen=True)
class SimulatedPrograms:
    """What happened; times count from the start, in whole nanoseconds.

    Parameters
    ----------
    class_times_ns : ndarray of int, shape (n_customers, 4)
        Time in calls by I/O class, in the order of `IOClass`; gates and pauses are in
        none.
    finished_ns : ndarray of int, shape (n_customers,)
        When each one's last step ended.
    busy_ns : ndarray of int, shape (n_servers,)
        As in `SimulatedEpoch`.
    n_events : int
        Steps and arrivals at links.
    """

    class_times_ns: np.ndarray
    finished_ns: np.ndarray
    busy_ns: np.ndarray
    n_events: int

    @property
    def class_times_s(self) -> np.ndarray:
        """Return `class_times_ns` in seconds."""
        return self.class_times_ns / NS_PER_S

    @property
    def finished_s(self) -> np.ndarray:
        """Return `finished_ns` in seconds."""
        return self.finished_ns / NS_PER_S


class _Plan(NamedTuple):
    """What the customers do.

    Parameters
    ----------
    steps, first_step : ndarray
        As in `Programs`.
    gates : ndarray of int, shape (n_gates,), changed by the loop
        How many times each gate must still be passed on before it opens.
    pause_ns : int
        Length of a pause's unit.
    """

    steps: np.ndarray
    first_step: np.ndarray
    gates: np.ndarray
    pause_ns: int


class _Tiers(NamedTuple):
    """GFS and LFS, as the customers use them.

    Parameters
    ----------
    stations : ndarray of STATIONS, shape (2,)
        What the loop must know of each; without the number of requests.
    rates : ndarray of _RATES, shape (2,)
        What a request takes at an object server, and how many bytes a second that and a
        link serve.
    metadata_server_of, link_of : ndarray of int, shape (n_customers, 2)
        First metadata server and link of each customer.
    """

    stations: np.ndarray
    rates: np.ndarray
    metadata_server_of: np.ndarray
    link_of: np.ndarray


class _Progress(NamedTuple):
    """Where the customers are and what that took; all changed by the loop.

    Parameters
    ----------
    at_step, station : ndarray of int, shape (n_customers,)
        Each one's step, and the kind of its next event.
    begun_ns, finished_ns : ndarray of int, shape (n_customers,)
        When each one's call began, and its last step ended.
    times_ns : ndarray of int, shape (n_customers, 2, 2)
        Time in calls by tier and by kind: reads, metadata.
    waiter : ndarray of int, shape (n_gates,)
        Who came last of those that wait at each gate, or nobody.
    next_waiter : ndarray of int, shape (n_customers,)
        Who came there before a customer, or nobody.
    """

    at_step: np.ndarray
    station: np.ndarray
    begun_ns: np.ndarray
    finished_ns: np.ndarray
    times_ns: np.ndarray
    waiter: np.ndarray
    next_waiter: np.ndarray


class _ReadersEpoch(NamedTuple):
    """All that `run_programs` works on."""

    plan: _Plan
    tiers: _Tiers
    progress: _Progress
    servers: Servers


def object_servers(
    network: Network, tier: int, ranks: np.ndarray, stripes: np.ndarray
) -> np.ndarray:
    """Return the object server of each request: that of its stripe's number."""
    return layouts_of(network)[tier].object_servers(ranks, stripes)


def simulate_programs(
    network: Network,
    programs: Programs,
    pause_s: float,
    generator: np.random.Generator,
    slowness: Sequence[np.ndarray],
) -> SimulatedPrograms:
    """Simulate programs from the first to the last event.

    Parameters
    ----------
    network : Network
        Stations of both tiers.
    programs : Programs
        What the customers do.
    pause_s : float
        Length of a pause's unit.
    generator : numpy.random.Generator
        Draws service times.
    slowness : pair of ndarray
        Factors of the object servers of GFS and LFS (`TierModel.draw_slowness`).

    Raises
    ------
    ModelError
        If there are too many customers, or one waits for a gate that never opens, or
        slowness is of other than each object server, or the programs may last for
        months.
    """
    n_customers = len(programs.ranks)
    if n_customers > MOST_RANKS:
        raise ModelError(
            f"customers: got {n_customers}, expected at most {MOST_RANKS}."
        )
    layouts, tiers = layouts_of(network), (network.gfs, network.lfs)
    refuse_limits(network)
    factors = server_factors(layouts, slowness)
    rates = np.zeros(2, _RATES)
    for rate, tier in zip(rates, tiers, strict=True):
        rate["request_s"] = tier.request_s
        rate["bytes_per_s"] = tier.bandwidth_bytes_per_s or np.inf
        rate["link_bytes_per_s"] = tier.link_bytes_per_s or np.inf
    stations = stations_of(tiers)
    check_total(
        _total_s(programs.steps, stations, rates, factors.max(), float(pause_s))
    )
    epoch = _ReadersEpoch(
        _Plan(
            programs.steps,
            programs.first_step,
            programs.gates.astype(np.int64),
            int(to_ns(float(pause_s))),
        ),
        _Tiers(stations, rates, *metadata_servers_and_links(layouts, programs.ranks)),
        _at_start(programs),
        idle_servers(factors),
    )
    n_events = run_programs(epoch, generator)
    times_ns, finished_ns = epoch.progress.times_ns, epoch.progress.finished_ns
    if stuck := int((finished_ns == _NOT_YET).sum()):
        raise ModelError(
            f"programs: got {stuck} customers that wait for a gate for ever, expected "
            "each gate to open."
        )
    in_order = [times_ns[:, TIERS.index(c.tier), int(not c.is_read)] for c in IOClass]
    return SimulatedPrograms(
        np.column_stack(in_order), finished_ns, epoch.servers.busy_ns, n_events
    )


def _at_start(programs: Programs) -> _Progress:
    """Return where customers are before their first step."""
    n_customers = len(programs.ranks)
    return _Progress(
        at_step=programs.first_step[:-1].copy(),
        station=np.zeros(n_customers, np.int64),
        begun_ns=np.zeros(n_customers, np.int64),
        finished_ns=np.full(n_customers, _NOT_YET),
        times_ns=np.zeros((n_customers, 2, 2), np.int64),
        waiter=np.full(len(programs.gates), _NOBODY),
        next_waiter=np.full(n_customers, _NOBODY),
    )


@compiled
def _total_s(steps, stations, rates, factor, pause_s):
    """Return what all steps take, one after the other, in seconds; calls at most."""
    n_calls, n_bytes, n_pauses = np.zeros(2, np.int64), np.zeros(2), 0
    for step in steps:
        if step.kind == PAUSE:
            n_pauses += step.amount
        else:
            n_calls[step.tier] += 1
            n_bytes[step.tier] += step.amount
    total_s = n_pauses * pause_s
    for tier in range(2):
        at, rate = stations[tier], rates[tier]
        latency_ns = at.open_latency_ns + at.close_latency_ns + at.read_latency_ns
        service_s = at.open_s + at.close_s + factor * rate.request_s
        total_s += n_calls[tier] * (service_s + latency_ns / NS_PER_S)
        byte_s = factor / rate.bytes_per_s + 1 / rate.link_bytes_per_s
        total_s += n_bytes[tier] * byte_s
    return total_s


@inlined
def _tag(customer, epoch):
    """Return the tag of a customer's next event."""
    return tag_of(epoch.progress.station[customer], customer)


@inlined
def _turn_to_step(customer, epoch):
    """Note the kind of the event at which a customer's step begins."""
    plan, progress = epoch.plan, epoch.progress
    at_step = progress.at_step[customer]
    if at_step == plan.first_step[customer + 1]:
        progress.station[customer] = AT_END
    else:
        progress.station[customer] = plan.steps[at_step].kind


@inlined
def _request(step, customer, now_ns, epoch, generator):
    """Let a request pass an object server, or the link after it.

    Return when that is done, and whether the request is.
    """
    tiers, progress, servers = epoch.tiers, epoch.progress, epoch.servers
    at, rate = tiers.stations[step.tier], tiers.rates[step.tier]
    if progress.station[customer] == AT_LINK:
        link_ns = to_ns(step.amount / rate.link_bytes_per_s)
        link = tiers.link_of[customer, step.tier]
        now_ns = serve(servers, link, now_ns, link_ns)
    else:
        progress.begun_ns[customer] = now_ns
        mean_s = rate.request_s + step.amount / rate.bytes_per_s
        server = step.target
        now_ns = pass_object_server(at, mean_s, 0, server, now_ns, servers, generator)
        if at.n_links > 0:
            progress.station[customer] = AT_LINK
            return now_ns, False
    now_ns += at.read_latency_ns
    progress.times_ns[customer, step.tier, 0] += now_ns - progress.begun_ns[customer]
    return now_ns, True


@inlined
def _open_or_close(step, customer, now_ns, epoch, generator):
    """Let a customer open or close a file; return when that is done."""
    tiers, servers = epoch.tiers, epoch.servers
    at, first = tiers.stations[step.tier], tiers.metadata_server_of[customer, step.tier]
    is_open = step.kind == OPEN
    done_ns = pass_metadata(at, is_open, first, now_ns, servers, generator)
    epoch.progress.times_ns[customer, step.tier, 1] += done_ns - now_ns
    return done_ns


@inlined
def _take_step(step, customer, now_ns, epoch, generator):
    """Let a customer take its step, or a part of it, and turn to what comes next.

    Return when it arrives there.
    """
    is_done = True
    if step.kind == REQUEST:
        now_ns, is_done = _request(step, customer, now_ns, epoch, generator)
    elif step.kind == OPEN or step.kind == CLOSE:
        now_ns = _open_or_close(step, customer, now_ns, epoch, generator)
    elif step.kind == PAUSE:
        now_ns += step.amount * epoch.plan.pause_ns
    elif step.kind == PASS:
        epoch.plan.gates[step.target] -= 1
    if is_done:
        epoch.progress.at_step[customer] += 1
        _turn_to_step(customer, epoch)
    return now_ns


@inlined
def _must_wait(step, customer, epoch):
    """Return whether a customer is at a gate that is shut, and let it wait there."""
    progress = epoch.progress
    if step.kind != WAIT or epoch.plan.gates[step.target] <= 0:
        return False
    progress.next_waiter[customer] = progress.waiter[step.target]
    progress.waiter[step.target] = customer
    return True


@inlined
def _open_gate(step, now_ns, heap, size, epoch):
    """Let all go on that wait at a gate, if the step has opened it.

    Return the number of events that are under way then.
    """
    if step.kind != PASS or epoch.plan.gates[step.target] != 0:
        return size
    woken = epoch.progress.waiter[step.target]
    while woken != _NOBODY:
        add_event(heap, size, now_ns, _tag(woken, epoch))
        size += 1
        woken = epoch.progress.next_waiter[woken]
    return size


@compiled
def run_programs(epoch, generator):
    """Follow the programs from the first to the last event.

    Parameters
    ----------
    epoch : _ReadersEpoch
        What is simulated; what happens is noted there.
    generator : numpy.random.Generator
        Draws the service times.

    Returns
    -------
    int
        Number of events: steps, and arrivals at links.
    """
    size, n_events = len(epoch.progress.station), 0
    heap = empty_heap(size)
    for customer in range(size):
        _turn_to_step(customer, epoch)
        add_event(heap, customer, 0, _tag(customer, epoch))
    while size > 0:
        now_ns, customer = first_event(heap)
        n_events += 1
        if epoch.progress.station[customer] == AT_END:
            epoch.progress.finished_ns[customer] = now_ns
            remove_root(heap, size)
            size -= 1
            continue
        step = epoch.plan.steps[epoch.progress.at_step[customer]]
        now_ns = _take_step(step, customer, now_ns, epoch, generator)
        if _must_wait(step, customer, epoch):
            remove_root(heap, size)
            size -= 1
        else:
            replace_root(heap, size, now_ns, _tag(customer, epoch))
        size = _open_gate(step, now_ns, heap, size, epoch)
    return n_events
