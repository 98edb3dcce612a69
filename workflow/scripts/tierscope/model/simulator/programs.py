"""Simulate customers that follow programs, such as the readers of a database.

No processor time lies between the calls.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tierscope.core.io_class import IOClass
from tierscope.model.simulator.compiling import compiled
from tierscope.model.simulator.heap import MOST_CUSTOMERS
from tierscope.model.simulator.loop import (
    CLOSE,
    CUSTOMER,
    GATE,
    N_EVENTS,
    N_RUNNING,
    NOBODY,
    OPEN,
    PAUSE,
    READ,
    begun,
    run,
)
from tierscope.model.simulator.stations import (
    NS_PER_S,
    check_total,
    idle_servers,
    machine_of,
)
from tierscope.storage.queueing_network import ModelError, Network

TIERS = ("gfs", "lfs")
_NO_INSTANTS = np.zeros((0, 5), np.int64)


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
        How many times each gate is passed: then it opens.
    requests : ndarray of REQUEST, shape (n_requests,)
        What the requests of the reads take.
    """

    steps: np.ndarray
    first_step: np.ndarray
    ranks: np.ndarray
    gates: np.ndarray
    requests: np.ndarray


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
        Arrivals at stations.
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


def simulate_programs(
    network: Network,
    programs: Programs,
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
    if n_customers > MOST_CUSTOMERS:
        raise ModelError(
            f"customers: got {n_customers}, expected at most {MOST_CUSTOMERS}."
        )
    _refuse_limits(network)
    machine = machine_of(network, programs.requests)
    servers = idle_servers(network, slowness)
    check_total(_total_s(programs.steps, machine, servers["slowness"].max()))
    gates = np.zeros(len(programs.gates), GATE)
    gates["n_left"], gates["waiter"] = programs.gates, NOBODY
    times_ns = np.zeros((n_customers, 2, 2), np.int64)
    written = programs.steps, gates, _customers(programs)
    epoch = begun(machine, servers, written, _NO_INSTANTS, times_ns)
    run(epoch, generator)
    if stuck := int(epoch.control[N_RUNNING]):
        raise ModelError(
            f"programs: got {stuck} customers that wait for a gate for ever, expected "
            "each gate to open."
        )
    in_order = [times_ns[:, TIERS.index(c.tier), int(c.is_read)] for c in IOClass]
    return SimulatedPrograms(
        np.column_stack(in_order),
        epoch.customers["now_ns"].copy(),
        servers["busy_ns"].copy(),
        int(epoch.control[N_EVENTS]),
    )


def _refuse_limits(network: Network) -> None:
    """Refuse a rate limit, where credit would have to be carried between epochs."""
    if network.gfs.limit_bytes_per_s is not None:
        raise ModelError(
            f"gfs.limit_bytes_per_s: got {network.gfs.limit_bytes_per_s:g} with a "
            "loader of LMDB, expected a loader of files."
        )


def _customers(programs: Programs) -> np.ndarray:
    """Return customers that are about to take their first steps."""
    customers = np.zeros(len(programs.ranks), CUSTOMER)
    numbers = np.arange(len(customers))
    customers["at_step"] = programs.first_step[:-1]
    customers["end_step"] = programs.first_step[1:]
    customers["home"] = programs.ranks
    customers["key"] = customers["account"] = numbers
    customers["next"] = np.append(numbers[1:], NOBODY)
    return customers


@compiled
def _total_s(steps, machine, slowest):
    """Return what all steps take, one after the other, in seconds."""
    total_s = 0.0
    for step in steps:
        at = machine.stations[step.tier]
        if step.kind == PAUSE:
            total_s += step.amount / NS_PER_S
        elif step.kind == READ:
            request = machine.requests[step.amount]
            total_s += slowest * request.service_s
            total_s += (request.link_ns + at.read_latency_ns) / NS_PER_S
        elif step.kind == OPEN or step.kind == CLOSE:
            latency_ns = at.open_latency_ns + at.close_latency_ns
            total_s += at.open_s + at.close_s + latency_ns / NS_PER_S
    return total_s
