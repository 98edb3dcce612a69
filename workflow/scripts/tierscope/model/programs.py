"""Simulate customers that follow programs: lists of calls, pauses and gates.

As in `tierscope.model.events`, but a customer's requests differ in size and server, and
customers wait for each other: a gate opens when as many have passed it on as it wants.
The stations, their service times and the order of events are the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tierscope.io_class import IOClass
from tierscope.model.events import (
    MOST_RANKS,
    RANK_BITS,
    add_event,
    compiled,
    empty_heap,
    pass_metadata,
    pass_object_server,
    remove_root,
    replace_root,
    serve,
)
from tierscope.model.network import ModelError, Network, Workload
from tierscope.model.simulate import (
    layouts_of,
    metadata_servers_and_links,
    server_factors,
    stations_of,
)

OPEN, CLOSE, REQUEST, PAUSE, PASS, WAIT = range(6)
TIERS = ("gfs", "lfs")
# A step of a program: its kind, the tier of a call, the target (the object server of a
# request, the gate of PASS and WAIT), the bytes of a request or the units of a PAUSE.
STEP = np.dtype([("kind", "i1"), ("tier", "i1"), ("target", "i4"), ("amount", "i8")])
_RATES = np.dtype([("request_s", "f8"), ("byte_s", "f8"), ("link_byte_s", "f8")])
_AT_START, _AT_LINK = range(2)
_NOBODY = -1


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
    """What happened; times count from the start, in seconds.

    Parameters
    ----------
    class_times_s : ndarray of float, shape (n_customers, 4)
        Time in calls by I/O class, in the order of `IOClass`; gates and pauses are in
        none.
    finished_s : ndarray of float, shape (n_customers,)
        When each one's last step ended.
    busy_s : ndarray of float, shape (n_servers,)
        As in `SimulatedEpoch`.
    n_events : int
        Steps and arrivals at links.
    """

    class_times_s: np.ndarray
    finished_s: np.ndarray
    busy_s: np.ndarray
    n_events: int


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
        slowness is of other than each object server.
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
        rate["byte_s"] = 1 / (tier.bandwidth_bytes_per_s or np.inf)
        rate["link_byte_s"] = 1 / (tier.link_bytes_per_s or np.inf)
    times_s = np.zeros((n_customers, 2, 2))
    finished_s, busy_s = np.full(n_customers, np.nan), np.zeros_like(factors)
    n_events = run_programs(
        programs.steps,
        programs.first_step,
        *metadata_servers_and_links(layouts, programs.ranks),
        stations_of(tiers, Workload(1, 1)),  # whose files are of no concern
        rates,
        factors,
        programs.gates.astype(np.int64),
        float(pause_s),
        generator,
        times_s,
        finished_s,
        np.zeros_like(factors),
        busy_s,
    )
    if stuck := int(np.isnan(finished_s).sum()):
        raise ModelError(
            f"programs: got {stuck} customers that wait for a gate for ever, expected "
            "each gate to open."
        )
    in_order = [times_s[:, TIERS.index(c.tier), int(not c.is_read)] for c in IOClass]
    return SimulatedPrograms(np.column_stack(in_order), finished_s, busy_s, n_events)


@compiled
def run_programs(
    steps,
    first_step,
    metadata_server_of,
    link_of,
    stations,
    rates,
    slowness,
    gates,
    pause_s,
    generator,
    times_s,
    finished_s,
    free_s,
    busy_s,
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
        What a request takes at an object server and a byte there and on a link.
    slowness, free_s, busy_s : float array, shape (n_servers,)
        As for `run_events`.
    times_s : float array, shape (n_customers, 2, 2), filled here
        Time in calls by tier and by kind: reads, metadata.
    finished_s : float array, shape (n_customers,), filled here
        When each one's last step ended.
    """
    n_customers = len(first_step) - 1
    at_step, phase = first_step[:-1].copy(), np.zeros(n_customers, np.int64)
    begun_s = np.zeros(n_customers)
    waiter = np.full(len(gates), _NOBODY)  # the last one at each gate
    next_waiter = np.full(n_customers, _NOBODY)
    heap = empty_heap(n_customers)
    for customer in range(n_customers):
        heap[customer].time_s, heap[customer].tag = 0.0, customer
    size, n_scheduled, n_events = n_customers, n_customers, 0
    while size > 0:
        now_s, customer = heap[0].time_s, heap[0].tag & (MOST_RANKS - 1)
        n_events += 1
        if at_step[customer] == first_step[customer + 1]:
            finished_s[customer] = now_s
            remove_root(heap, size)
            size -= 1
            continue
        step = steps[at_step[customer]]
        tier = step.tier
        at, is_done = stations[tier], True
        if phase[customer] == _AT_START:
            begun_s[customer] = now_s
        if step.kind == REQUEST:
            if phase[customer] == _AT_START:
                mean_s = rates[tier].request_s + step.amount * rates[tier].byte_s
                now_s = pass_object_server(
                    at, mean_s, step.target, slowness, now_s, free_s, busy_s, generator
                )
                is_done = at.n_links == 0
                phase[customer] = _AT_LINK
            else:
                link_s = step.amount * rates[tier].link_byte_s
                now_s = serve(free_s, busy_s, link_of[customer, tier], now_s, link_s)
            if is_done:
                phase[customer] = _AT_START
                now_s += at.read_latency_s
                times_s[customer, tier, 0] += now_s - begun_s[customer]
        elif step.kind == OPEN or step.kind == CLOSE:
            is_open, first = step.kind == OPEN, metadata_server_of[customer, tier]
            now_s = pass_metadata(at, is_open, first, now_s, free_s, busy_s, generator)
            times_s[customer, tier, 1] += now_s - begun_s[customer]
        elif step.kind == PAUSE:
            now_s += step.amount * pause_s
        elif step.kind == PASS:
            gates[step.target] -= 1
            if gates[step.target] == 0:
                woken = waiter[step.target]
                while woken != _NOBODY:
                    add_event(heap, size, now_s, n_scheduled << RANK_BITS | woken)
                    size += 1
                    n_scheduled += 1
                    woken = next_waiter[woken]
        elif gates[step.target] > 0:  # WAIT
            next_waiter[customer] = waiter[step.target]
            waiter[step.target] = customer
            at_step[customer] += 1
            remove_root(heap, size)
            size -= 1
            continue
        if is_done:
            at_step[customer] += 1
        replace_root(heap, size, now_s, n_scheduled << RANK_BITS | customer)
        n_scheduled += 1
    return n_events
