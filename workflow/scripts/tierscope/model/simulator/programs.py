"""Simulate customers that follow programs: lists of calls, pauses and gates.

As in `tierscope.model.simulator.events`, but a customer's requests differ in size and
server, and customers wait for each other: a gate opens when as many have passed it on
as it wants. The stations, their service times and the order of events are the same; a
pause of no time and a gate that is open change nothing of it. No processor time lies
between the calls.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tierscope.core.io_class import IOClass
from tierscope.model.simulator.epoch import (
    check_total,
    idle_servers,
    layouts_of,
    metadata_servers_and_links,
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
    add_event,
    compiled,
    empty_heap,
    pass_metadata,
    pass_object_server,
    remove_root,
    replace_root,
    serve,
    tag_of,
    to_ns,
)
from tierscope.storage.network import ModelError, Network, Workload

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
    factors = server_factors(layouts, slowness)
    rates = np.zeros(2, _RATES)
    for rate, tier in zip(rates, tiers, strict=True):
        rate["request_s"] = tier.request_s
        rate["bytes_per_s"] = tier.bandwidth_bytes_per_s or np.inf
        rate["link_bytes_per_s"] = tier.link_bytes_per_s or np.inf
    stations = stations_of(tiers, Workload(1, 1))  # whose files are of no concern
    check_total(
        _total_s(programs.steps, stations, rates, factors.max(), float(pause_s))
    )
    times_ns = np.zeros((n_customers, 2, 2), np.int64)
    finished_ns = np.full(n_customers, _NOT_YET)
    servers = idle_servers(factors, generator)
    n_events = run_programs(
        programs.steps,
        programs.first_step,
        *metadata_servers_and_links(layouts, programs.ranks),
        stations,
        rates,
        servers,
        programs.gates.astype(np.int64),
        int(to_ns(float(pause_s))),
        times_ns,
        finished_ns,
    )
    if stuck := int((finished_ns == _NOT_YET).sum()):
        raise ModelError(
            f"programs: got {stuck} customers that wait for a gate for ever, expected "
            "each gate to open."
        )
    in_order = [times_ns[:, TIERS.index(c.tier), int(not c.is_read)] for c in IOClass]
    return SimulatedPrograms(
        np.column_stack(in_order), finished_ns, servers.busy_ns, n_events
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


@compiled
def run_programs(
    steps,
    first_step,
    metadata_server_of,
    link_of,
    stations,
    rates,
    servers,
    gates,
    pause_ns,
    times_ns,
    finished_ns,
):
    """Follow the programs from the first to the last event and return their number.

    Parameters
    ----------
    steps, first_step, gates
        As in `Programs`; `gates` is changed.
    metadata_server_of, link_of : int array, shape (n_customers, 2)
        First metadata server and link of each customer, on GFS and LFS.
    stations : array of STATIONS, shape (2,)
        GFS and LFS; without the number of requests.
    rates : array, shape (2,)
        What a request takes at an object server, and how many bytes a second that and a
        link serve.
    servers : Servers
        Who serves the calls.
    pause_ns : int
        Length of a pause's unit.
    times_ns : int array, shape (n_customers, 2, 2), filled here
        Time in calls by tier and by kind: reads, metadata.
    finished_ns : int array, shape (n_customers,), filled here
        When each one's last step ended.
    """
    n_customers = len(first_step) - 1
    at_step, station = first_step[:-1].copy(), np.zeros(n_customers, np.int64)
    begun_ns = np.zeros(n_customers, np.int64)
    waiter = np.full(len(gates), _NOBODY)  # the last one at each gate
    next_waiter = np.full(n_customers, _NOBODY)
    heap = empty_heap(n_customers)
    for customer in range(n_customers):
        station[customer] = _next_station(steps, at_step, first_step, customer)
        add_event(heap, customer, 0, tag_of(station[customer], customer))
    size, n_events = n_customers, 0
    while size > 0:
        now_ns, customer = np.int64(heap[0].time_ns), heap[0].tag & (MOST_RANKS - 1)
        n_events += 1
        if station[customer] == AT_END:
            finished_ns[customer] = now_ns
            remove_root(heap, size)
            size -= 1
            continue
        step = steps[at_step[customer]]
        tier = step.tier
        at, is_done = stations[tier], True
        if station[customer] != AT_LINK:
            begun_ns[customer] = now_ns
        if step.kind == REQUEST:
            rate = rates[tier]
            if station[customer] == REQUEST:
                mean_s = rate.request_s + step.amount / rate.bytes_per_s
                now_ns = pass_object_server(
                    at,
                    mean_s,
                    step.target,
                    now_ns,
                    servers,
                )
                is_done = at.n_links == 0
                station[customer] = AT_LINK
            else:
                link_ns = to_ns(step.amount / rate.link_bytes_per_s)
                link = link_of[customer, tier]
                now_ns = serve(servers, link, now_ns, link_ns)
            if is_done:
                now_ns += at.read_latency_ns
                times_ns[customer, tier, 0] += now_ns - begun_ns[customer]
        elif step.kind == OPEN or step.kind == CLOSE:
            is_open, first = step.kind == OPEN, metadata_server_of[customer, tier]
            now_ns = pass_metadata(at, is_open, first, now_ns, servers)
            times_ns[customer, tier, 1] += now_ns - begun_ns[customer]
        elif step.kind == PAUSE:
            now_ns += step.amount * pause_ns
        elif step.kind == PASS:
            gates[step.target] -= 1
        if is_done:
            at_step[customer] += 1
            station[customer] = _next_station(steps, at_step, first_step, customer)
        if step.kind == WAIT and gates[step.target] > 0:
            next_waiter[customer] = waiter[step.target]
            waiter[step.target] = customer
            remove_root(heap, size)
            size -= 1
        else:
            replace_root(heap, size, now_ns, tag_of(station[customer], customer))
        if step.kind == PASS and gates[step.target] == 0:
            woken = waiter[step.target]
            while woken != _NOBODY:
                add_event(heap, size, now_ns, tag_of(station[woken], woken))
                size += 1
                woken = next_waiter[woken]
    return n_events


@compiled
def _next_station(steps, at_step, first_step, customer):
    """Return the kind of the event at which a customer's next step begins."""
    if at_step[customer] == first_step[customer + 1]:
        return AT_END
    return np.int64(steps[at_step[customer]].kind)
