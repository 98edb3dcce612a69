"""Simulate some accelerators on a machine: their utilisation, and what limits it."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from tierscope.analysis.training.stalls import largest_stalls
from tierscope.core.columns import CLASSES
from tierscope.core.description import run_keys
from tierscope.core.scenario import Point
from tierscope.data.designs import Plan
from tierscope.data.steps import compute_times_ns
from tierscope.model.designs.pace import Pace, pace_of, ready_times_ns
from tierscope.model.simulator.run import planned_reads, workload_of
from tierscope.model.simulator.stations import NS_PER_S
from tierscope.model.stalls import divide_stall
from tierscope.storage.queueing_network import network_of


def simulate_pace(
    plan: Plan, n: int, point: Point, without: Collection[str] = ()
) -> Pace:
    """Simulate the first steps of an epoch of some accelerators.

    Parameters
    ----------
    plan : Plan
        The workload on the machine.
    n : int
        Number of accelerators: processes.
    point : Point
        Cache rate and repetition.
    without : collection of str, optional
        I/O classes that cost nothing.

    Raises
    ------
    ModelError
        If the devices cannot be simulated.
    """
    description = plan.described(n)
    network = network_of(description.system, description.scenario.n_osts)
    workload = replace(workload_of(description), sizes=plan.sizes)
    (planned,) = planned_reads(description, point, [0])
    reads = planned.simulate(network.without(list(without)), workload)
    ready_ns = ready_times_ns(reads.epoch, workload, n, network.sample_s)
    n_readers, longer_ns = workload.workers or 1, 0.0
    if workload.compute:  # the steps that the simulator drew
        drawn = [
            compute_times_ns(workload.compute, ready_ns.shape[1], planned.seeds, rank)
            for rank in range(n)
        ]
        longer_ns = np.array(drawn) - workload.compute_time_s * NS_PER_S
    compute_s, n_steps = workload.compute_time_s, plan.n_steps(n)
    return pace_of(ready_ns, compute_s, n_steps, n_readers, longer_ns)


def limit_of(plan: Plan, n: int, points: Sequence[Point]) -> str:
    """Return what limits some accelerators, as `stalls.largest_stalls`.

    The stall of a class is by how much the epoch is shorter if the class costs nothing;
    a mean over the points, which are repetitions of a cache rate.
    """
    means_s = pd.DataFrame(_times(plan, n, point) for point in points).mean()
    execution_s = means_s.pop("execution_time_s")
    table = pd.DataFrame({"part": means_s.index, "stall_s": means_s.to_numpy()})
    keys = run_keys(plan.description, points[0])
    table = table.assign(**keys, execution_time_s=execution_s, first_wait_s=0.0)
    return largest_stalls(table).iloc[0]


def _times(plan: Plan, n: int, point: Point) -> dict[str, float]:
    """Return the time of an epoch and the parts of its stall, in seconds."""
    without_s = {one: simulate_pace(plan, n, point, [one]).later_s for one in CLASSES}
    as_it_is_s = simulate_pace(plan, n, point).later_s
    ideal_s = simulate_pace(plan, n, point, CLASSES).later_s
    parts_s = divide_stall(as_it_is_s, without_s, ideal_s)
    return {"execution_time_s": as_it_is_s, **parts_s}
