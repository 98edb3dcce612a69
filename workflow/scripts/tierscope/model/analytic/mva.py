"""Mean value analysis of closed queueing networks: exact, and Schweitzer's.

Customers of several classes go round stations for ever. A class is told by its demand
at each station: the service time of a visit times the visits of a cycle. Stations are
first come, first served, or delays, at which nobody waits.

Assumptions: product form (Baskett et al. 1975), thus exponential service, of one mean
for all classes at a station. What leaves it (other variation, several servers) is an
approximation, named where it is made.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tierscope.model.analytic.fixed_point import Stations, solve_fixed_point
from tierscope.model.simulator.events import compiled
from tierscope.storage.network import ModelError

MOST_CELLS = 10_000_000  # of exact MVA: population vectors times stations
REMOVALS = ("proportional", "marginal")


class TooLargeError(ModelError):
    """A network has too many states to be solved exactly."""


@dataclass(frozen=True)
class MvaResult:
    """Means of a closed network in its steady state.

    Parameters
    ----------
    throughput_per_s : ndarray, shape (n_classes,)
        Cycles of all customers of a class a second.
    residence_s : ndarray, shape (n_stations, n_classes)
        Time of a customer at a station in a cycle, waiting and service.
    queue_length : ndarray, shape (n_stations, n_classes)
        Customers at a station, waiting or served.
    """

    throughput_per_s: np.ndarray
    residence_s: np.ndarray
    queue_length: np.ndarray


def exact_mva(
    demand_s: Any,
    population: Sequence[int],
    *,
    delay: Sequence[bool] | None = None,
    servers: Sequence[int] | None = None,
) -> MvaResult:
    """Solve a network exactly, over all population vectors.

    Reiser and Lavenberg, "Mean-value analysis of closed multichain queuing networks",
    J. ACM 27 (1980): an arriving customer sees the network in the steady state that it
    has without that customer.

    Parameters
    ----------
    demand_s : array, shape (n_stations, n_classes)
        Demands in seconds.
    population : sequence of int, shape (n_classes,)
        Customers of each class.
    delay : sequence of bool, shape (n_stations,), optional
        Which stations are delays; default none.
    servers : sequence of int, shape (n_stations,), optional
        Servers of each station; default 1. Several make the result approximate, as
        for `schweitzer_mva`.

    Raises
    ------
    TooLargeError
        If there are more than `MOST_CELLS` pairs of a population vector and a station.
    ModelError
        If an argument is impossible.
    """
    demands, customers, delays, counts = _checked(demand_s, population, delay, servers)
    with np.errstate(over="ignore"):
        cells = len(demands) * np.prod(customers + 1.0)
    if cells > MOST_CELLS:
        raise TooLargeError(
            f"exact-mva: got {customers.sum()} customers in {len(customers)} classes "
            f"at {len(demands)} stations, {cells:.1e} pairs of a population vector and "
            f"a station, expected at most {MOST_CELLS:.0e}; take schweitzer instead."
        )
    queue_s, extra_s = _seidmann(demands, delays, counts)
    waiting = _exact(queue_s, extra_s.sum(axis=0), customers)
    return _result(queue_s * waiting + extra_s, customers)


@compiled
def _exact(queue_s, think_s, customers):
    """Return one plus what an arriving customer finds: (n_stations, n_classes).

    States are numbered in mixed radix, so one customer less is an earlier number.
    """
    n_stations, n_classes = queue_s.shape
    strides = np.ones(n_classes, np.int64)
    for k in range(1, n_classes):
        strides[k] = strides[k - 1] * (customers[k - 1] + 1)
    n_states = strides[-1] * (customers[-1] + 1)
    queues = np.zeros((n_states, n_stations))
    waiting = np.ones((n_stations, n_classes))
    for state in range(1, n_states):
        for k in range(n_classes):
            present = state // strides[k] % (customers[k] + 1)
            if present == 0:
                continue
            before = queues[state - strides[k]]
            cycle_s = think_s[k]
            for i in range(n_stations):
                waiting[i, k] = 1 + before[i]
                cycle_s += queue_s[i, k] * waiting[i, k]
            for i in range(n_stations):
                queues[state, i] += present / cycle_s * queue_s[i, k] * waiting[i, k]
    return waiting


def schweitzer_mva(
    demand_s: Any,
    population: Sequence[float],
    *,
    delay: Sequence[bool] | None = None,
    servers: Sequence[int] | None = None,
    service_cv2: Sequence[float] | None = None,
    removal: str = "proportional",
    tolerance: float = 1e-9,
    max_iterations: int = 20_000,
) -> MvaResult:
    """Solve a network approximately, by a fixed point at the full population.

    An arriving customer of class k sees the queues less what its own absence takes
    from them. The part taken from station i is ``Q_ik / N_k`` with `removal`
    ``proportional`` (Schweitzer 1979; Bard 1979). With ``marginal`` it is the change of
    the queues by one customer that follows from ``Q_i = U_i / (1 - U_i)``, hence
    ``dQ_i = D_i / (1 - U_i)^2 dX``, with ``1 + Q_i`` less that part in the place of ``1
    / (1 - U_i)`` so that it also holds for few customers. It is exact for one customer,
    for a balanced network without delays, and where one station is saturated; there
    Schweitzer's takes too little away.

    Several servers of a station: one of as many times the speed, and a delay for the
    rest of the service time (Seidmann et al. 1987). Service times of another variation
    than exponential: a customer finds the server busy with a residual time of ``(1 +
    cv^2) / 2`` services instead of one (Reiser 1979), less the part of that difference
    that its own absence takes away: in a closed network whose server is always busy the
    throughput is that of the server, whatever the variation.

    Parameters
    ----------
    demand_s, delay, servers
        As for `exact_mva`.
    population : sequence of float, shape (n_classes,)
        Customers of each class; a mean number may be a fraction.
    service_cv2 : sequence of float, shape (n_stations,), optional
        Squared coefficient of variation of the service times; default 1, exponential.
    removal : {"proportional", "marginal"}
        What a customer's absence takes from the queues.
    tolerance : float
        Relative change of residence times below which the iteration ends.
    max_iterations : int
        Iterations after which it has not converged.

    Raises
    ------
    ModelError
        If an argument is impossible or the iteration does not converge.
    """
    demands, customers, delays, counts = _checked(
        demand_s, population, delay, servers, whole=False
    )
    n_stations = len(demands)
    cv2 = _numbers("service_cv2", service_cv2, n_stations, 1.0)
    if removal not in REMOVALS:
        raise ModelError(
            f"removal: got {removal!r}, expected one of {', '.join(REMOVALS)}."
        )
    queue_s, extra_s = _seidmann(demands, delays, counts)
    station_of, class_of = np.nonzero(queue_s)
    waiting = solve_fixed_point(
        Stations(station_of, class_of, np.ones(n_stations), np.ones(n_stations), cv2),
        queue_s[station_of, class_of],
        np.ones(len(station_of)),
        population=customers,
        present=np.minimum(customers, 1.0),
        think_s=extra_s.sum(axis=0),
        marginal=removal == "marginal",
        tolerance=tolerance,
        max_iterations=max_iterations,
    )
    residence_s = extra_s.copy()
    residence_s[station_of, class_of] += queue_s[station_of, class_of] * waiting
    return _result(residence_s, customers)


def _seidmann(
    demand_s: np.ndarray, delay: np.ndarray, servers: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the demands that queue, of one server, and those that do not."""
    queue_s = np.where(delay[:, np.newaxis], 0.0, demand_s / servers[:, np.newaxis])
    return queue_s, demand_s - queue_s


def _result(residence_s: np.ndarray, customers: np.ndarray) -> MvaResult:
    """Return the means that follow from the residence times (Little)."""
    throughput = np.divide(
        customers,
        residence_s.sum(axis=0),
        out=np.zeros(len(customers)),
        where=customers > 0,
    )
    return MvaResult(throughput, residence_s, residence_s * throughput)


def _checked(
    demand_s: Any,
    population: Any,
    delay: Any,
    servers: Any,
    whole: bool = True,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return demands, populations, delays and servers as arrays, or refuse them."""
    demands = np.asarray(demand_s, float)
    if demands.ndim != 2 or 0 in demands.shape:
        raise ModelError(
            f"demand_s: got shape {demands.shape}, expected (n_stations, n_classes)."
        )
    if not (np.isfinite(demands) & (demands >= 0)).all():
        raise ModelError(
            f"demand_s: got {demands.tolist()}, expected numbers of at least 0."
        )
    n_stations, n_classes = demands.shape
    customers = _numbers("population", population, n_classes, None)
    if whole:
        if (customers != np.floor(customers)).any():
            raise ModelError(
                f"population: got {customers.tolist()}, expected integers."
            )
        customers = customers.astype(np.int64)
    counts = _numbers("servers", servers, n_stations, 1.0)
    if (counts < 1).any() or (counts != np.floor(counts)).any():
        raise ModelError(
            f"servers: got {counts.tolist()}, expected integers of at least 1."
        )
    delays = np.zeros(n_stations, bool) if delay is None else np.asarray(delay, bool)
    if delays.shape != (n_stations,):
        raise ModelError(
            f"delay: got shape {delays.shape}, expected ({n_stations},), one a station."
        )
    if idle := [k for k in range(n_classes) if not demands[:, k].any()]:
        raise ModelError(
            f"demand_s: got none of class {idle[0]}, expected one above 0 of each."
        )
    return demands, customers, delays, counts


def _numbers(name: str, values: Any, size: int, default: float | None) -> np.ndarray:
    """Return finite numbers of at least 0, one an item, or refuse them."""
    if values is None and default is not None:
        return np.full(size, default)
    numbers = np.asarray(values, float)
    fits = numbers.shape == (size,) and bool(np.isfinite(numbers).all())
    if not fits or (numbers < 0).any():
        raise ModelError(
            f"{name}: got {np.asarray(values).tolist()}, expected {size} numbers of at "
            "least 0."
        )
    return numbers
