"""Approximate mean value analysis of closed queueing networks, compiled.

Customers of several classes cycle through stations for ever. A class is defined by its
demand at each station: the service time of a visit times the visits per cycle. Stations
are first come, first served.

The solution is a fixed point at the full population (Schweitzer 1979; Bard 1979): an
arriving customer of class k sees the queues without its own contribution. Schweitzer
subtracts ``Q_ik / N_k`` at station i. Here the contribution is the change of the queues
by one customer that follows from ``Q_i = U_i / (1 - U_i)``, hence ``dQ_i = D_i / (1 -
U_i)^2 dX``. In it, ``1 + Q_i`` less that part replaces ``1 / (1 - U_i)``, so that it
also holds for few customers. It is exact for one customer, for a balanced network
without delays, and if one station is saturated; in the last case Schweitzer subtracts
too little.

If service times are not exponential, a customer finds the server busy with a residual
time of ``(1 + cv^2) / 2`` services instead of one (Reiser 1979), less the part of that
difference that its own contribution causes: in a closed network with a server that is
always busy, the throughput is that of the server for any variation.

Each class is evaluated only at the stations that it visits: a machine has many groups
with their own queues.
"""

from typing import NamedTuple

import numpy as np

from tierscope.model.simulator.compiling import compiled
from tierscope.storage.queueing_network import ModelError

_STEPS = (0.9, 0.3)  # of the fixed point; the second if the first does not converge
_EXTRAPOLATE_EVERY = 12  # iterations
_MOST_REMEMBERED = 0.98  # largest factor between two moves, when extrapolating


class Stations(NamedTuple):
    """Which classes visit which queues; a pair is a class at a station.

    Parameters
    ----------
    station_of, class_of : ndarray of int, shape (n_pairs,)
        Station and class of each pair.
    n_copies : ndarray of float, shape (n_stations,)
        Equal stations that share the load of all customers evenly.
    n_visited : ndarray of float, shape (n_stations,)
        Number of copies over which one customer spreads its demand: all of them, or 1
        if it always visits the same copy.
    cv2 : ndarray of float, shape (n_stations,)
        Squared coefficient of variation of the service times.
    """

    station_of: np.ndarray
    class_of: np.ndarray
    n_copies: np.ndarray
    n_visited: np.ndarray
    cv2: np.ndarray


class Customers(NamedTuple):
    """Who cycles through the stations.

    Parameters
    ----------
    population, present : ndarray, shape (n_classes,)
        Customers of a class, and how many of them, at most 1, an arriving customer does
        not see because it is one of them.
    think_s : ndarray, shape (n_classes,)
        Delay in a cycle.
    """

    population: np.ndarray
    present: np.ndarray
    think_s: np.ndarray


def solve_fixed_point(
    stations: Stations,
    customers: Customers,
    demand_s: np.ndarray,
    waiting: np.ndarray,
    tolerance: float = 1e-5,
    max_iterations: int = 20_000,
) -> np.ndarray:
    """Return residence time over demand of each pair.

    Arguments are not checked.

    Parameters
    ----------
    stations : Stations
        Which classes visit which stations.
    customers : Customers
        Who visits them.
    demand_s, waiting : ndarray, shape (n_pairs,)
        Demand over all copies, and start value of the iteration (1 is no waiting).
    tolerance : float
        Relative change of residence times below which the iteration ends.
    max_iterations : int
        Iterations after which it has not converged.

    Raises
    ------
    ModelError
        If the iteration does not converge.
    """
    n_iterations = max_iterations // len(_STEPS)
    for step in _STEPS:
        solved = waiting.copy()
        limits = step, tolerance, n_iterations
        change = _iterate(stations, customers, demand_s, solved, *limits)
        if change <= tolerance:
            return solved
    raise ModelError(
        f"mean value analysis: got a change of {change:.1e} after {max_iterations} "
        f"iterations, expected {tolerance:.1e} at most."
    )


@compiled
def _iterate(stations, customers, demand_s, waiting, step, tolerance, max_iterations):
    """Iterate `waiting` in place; return the last relative change."""
    station_of, class_of, n_copies, n_visited, cv2 = stations
    population, present, think_s = customers
    n_pairs, n_stations = len(demand_s), len(n_copies)
    change = np.inf
    cycle_s, spread_s = np.empty_like(think_s), np.empty_like(think_s)
    queue, load = np.empty(n_stations), np.empty(n_stations)
    moved, before = np.zeros(n_pairs), np.zeros(n_pairs)
    for iteration in range(max_iterations):
        cycle_s[:] = think_s
        for p in range(n_pairs):
            cycle_s[class_of[p]] += demand_s[p] * waiting[p]
        queue[:], load[:] = 0, 0
        spread_s[:] = cycle_s
        for p in range(n_pairs):
            i, k = station_of[p], class_of[p]
            part = 0.0
            if population[k] > 0 and cycle_s[k] > 0:
                part = population[k] / cycle_s[k] * demand_s[p] / n_copies[i]
            load[i] += part
            queue[i] += part * waiting[p]
            spread_s[k] += demand_s[p] * waiting[p] * (waiting[p] - 1)
        change = 0.0
        for p in range(n_pairs):
            i, k = station_of[p], class_of[p]
            absent_load = absent = 0.0
            if present[k] > 0 and spread_s[k] > 0:
                absent_load = present[k] / spread_s[k] * demand_s[p] / n_visited[i]
                absent = absent_load * waiting[p] ** 2
            found = max(queue[i] - absent, 0.0)
            busy = max(load[i] - absent_load, 0.0)
            new = 1 + found + busy * (1 - min(absent, 1.0)) * (cv2[i] - 1) / 2
            change = max(change, abs(new / waiting[p] - 1))
            moved[p] = step * (new - waiting[p])
            waiting[p] += moved[p]
        if change <= tolerance:
            break
        if iteration % _EXTRAPOLATE_EVERY == _EXTRAPOLATE_EVERY - 1:
            _extrapolate(waiting, moved, before)
        before[:] = moved
    return change


@compiled
def _extrapolate(waiting, moved, before):
    """Extrapolate to the limit of moves that shrink by a constant factor (Aitken)."""
    # Stations of nearly equal load exchange customers slowly: it saves most iterations.
    product, square = 0.0, 0.0
    for p in range(len(waiting)):
        product += moved[p] * before[p]
        square += before[p] ** 2
    if product <= 0 or square == 0:
        return
    factor = min(product / square, _MOST_REMEMBERED)
    for p in range(len(waiting)):
        # No customer stays for less than half its service time.
        waiting[p] = max(waiting[p] + moved[p] * factor / (1 - factor), 0.5)
