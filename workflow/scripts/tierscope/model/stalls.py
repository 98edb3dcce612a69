"""Divide the stall of an epoch among the I/O classes, by the model.

Where a training computes, its loader reads ahead, and I/O time may be hidden behind
computation. So the class with the most I/O time need not be the one that the training
waits for. The model simulates the epoch as it is, without each class, and without all:
devices of a class that is left out cost exactly nothing. What an epoch is shorter then
is the stall of the class, and of all. Classes that hide each other leave a rest that
goes only with several of them.
"""

import math
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from tierscope.core.columns import CLASSES, TABLES, TOGETHER
from tierscope.core.description import RunDescription, run_keys
from tierscope.core.scenario import Point
from tierscope.model.simulator.epoch import SimulatedEpoch
from tierscope.model.simulator.run import simulate_reads
from tierscope.model.simulator.stations import NS_PER_S
from tierscope.policies import FILES, kind_of, of_kind
from tierscope.storage.queueing_network import ModelError, Network, network_of


def divide_stall(
    execution_s: float, without_s: Mapping[str, float], without_all_s: float
) -> dict[str, float]:
    """Divide the stall of an epoch into those of the classes and the rest, in seconds.

    Parameters
    ----------
    execution_s : float
        Execution time of the epoch.
    without_s : mapping of str to float
        Execution time if one I/O class costs nothing.
    without_all_s : float
        Execution time if none costs anything.

    Returns
    -------
    dict of str to float
        A part of each class and of `TOGETHER`. They sum to `execution_s` minus
        `without_all_s`, or are 0 where the epoch would not be shorter.
    """
    stall_s = max(execution_s - without_all_s, 0.0)
    parts_s = {name: max(execution_s - one, 0.0) for name, one in without_s.items()}
    rest_s = stall_s - (sum_s := math.fsum(parts_s.values()))
    if rest_s < 0:
        parts_s = {name: one * stall_s / sum_s for name, one in parts_s.items()}
    return parts_s | {TOGETHER: max(rest_s, 0.0)}


def estimate_class_stalls(
    description: RunDescription, points: Iterable[Point], epoch: int
) -> pd.DataFrame:
    """Estimate by the model how long the processes wait for each I/O class.

    Parameters
    ----------
    description : RunDescription
        Settings of the scenario, with the devices for the model.
    points : iterable of Point
        Points of one cache rate: its repetitions.
    epoch : int
        Epoch, counted from 0.

    Returns
    -------
    DataFrame, shape (5, 11)
        Table ``class_stalls`` of the cache rate: a row a part, in the order of
        `IOClass` and `TOGETHER`.

    Raises
    ------
    ModelError
        If files of the scenario move, or its system has no devices.
    """
    if kind_of(description.scenario) is not FILES:
        raise ModelError(
            f"scenario {description.scenario.name}: expected a loader of files and one "
            f"of the policies {', '.join(of_kind(FILES))}."
        )
    network = network_of(description.system, description.scenario.n_osts)
    points = list(points)
    rows = pd.DataFrame(_stalls(description, one, epoch, network) for one in points)
    means_s = rows.mean()
    table = pd.DataFrame({"part": [*CLASSES, TOGETHER]})
    table["stall_s"] = means_s[table["part"]].to_numpy()
    keys = run_keys(description, points[0]) | {"epoch": epoch}
    times_s = means_s[["execution_time_s", "first_wait_s"]].to_dict()
    return table.assign(**keys, **times_s)[list(TABLES["class_stalls"])]


def _stalls(
    description: RunDescription, point: Point, epoch: int, network: Network
) -> dict[str, float]:
    """Return the times of a point's epoch and the parts of its stall."""

    def simulated(without: Iterable[str] = ()) -> SimulatedEpoch:
        changed = network.without(list(without))
        (reads,) = simulate_reads(description, point, [epoch], changed)
        return reads.epoch

    def execution_s(one: SimulatedEpoch) -> float:
        return int(one.finished_ns.max()) / NS_PER_S

    as_it_is = simulated()
    as_it_is_s = execution_s(as_it_is)
    without_s = {name: execution_s(simulated([name])) for name in CLASSES}
    parts_s = divide_stall(as_it_is_s, without_s, execution_s(simulated(CLASSES)))
    times_s = {"execution_time_s": as_it_is_s, "first_wait_s": _first_wait_s(as_it_is)}
    return times_s | parts_s


def _first_wait_s(epoch: SimulatedEpoch) -> float:
    """Return the longest wait for a first batch, at most the computation of a step."""
    steps = epoch.steps
    waits_ns = steps.first_step_ns - steps.first_compute_ns
    return int(np.minimum(waits_ns, steps.first_compute_ns).max()) / NS_PER_S
