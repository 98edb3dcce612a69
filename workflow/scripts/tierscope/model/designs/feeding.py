"""Simulate designs in several processes: their pace, and what limits it."""

import math
import multiprocessing
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from tierscope.analysis.training.stalls import largest_stalls
from tierscope.core.description import run_keys
from tierscope.core.io_class import ALL_CLASSES, total_s
from tierscope.core.processes.children import end_with_parent
from tierscope.core.scenario import Point
from tierscope.data.designs import Design, Plan
from tierscope.data.steps import compute_times_ns
from tierscope.model.designs.pace import Pace, pace_of, ready_times_ns
from tierscope.model.simulator.run import class_times, planned_reads, workload_of
from tierscope.model.simulator.stations import NS_PER_S
from tierscope.model.stalls import divide_stall
from tierscope.storage.queueing_network import ModelError, network_of


class Trial(NamedTuple):
    """A simulation of the first steps of an epoch.

    Parameters
    ----------
    plan : Plan
        The workload on the machine.
    design : Design
        Accelerators and storage.
    repetition : int
        Seed of its random numbers.
    without : collection of str
        I/O classes that cost nothing.
    """

    plan: Plan
    design: Design
    repetition: int = 0
    without: Collection[str] = ()


# Simulates trials, and returns their paces in the same order.
Simulate = Callable[[Sequence[Trial]], list[Pace]]


@contextmanager
def simulating(n_processes: int) -> Iterator[Simulate]:
    """Yield what simulates trials in so many processes; their number changes no result.

    Raises
    ------
    ModelError
        If the devices cannot be simulated, or a process is killed.
    """
    if n_processes == 1:
        yield lambda trials: list(map(simulate_pace, trials))
        return
    fork = multiprocessing.get_context("fork")  # what is compiled is there at once
    ends = {"initializer": end_with_parent, "initargs": (os.getpid(),)}
    with ProcessPoolExecutor(n_processes, mp_context=fork, **ends) as pool:
        try:
            yield lambda trials: list(pool.map(simulate_pace, trials))
        except BrokenProcessPool:
            raise ModelError(
                f"a simulation was killed: got {n_processes} at a time, expected "
                "enough memory for them: give this rule fewer threads."
            ) from None


def simulate_pace(trial: Trial) -> Pace:
    """Simulate the first steps of an epoch of a design.

    Raises
    ------
    ModelError
        If the devices cannot be simulated.
    """
    plan, design = trial.plan, trial.design
    description = plan.described(*design)
    network = network_of(description.system, description.scenario.n_osts)
    workload = replace(workload_of(description), sizes=plan.sizes)
    point = Point(plan.cache_rate_percent(*design), trial.repetition)
    (planned,) = planned_reads(description, point, [0])
    reads = planned.simulate(network.without(trial.without), workload)
    ready_ns = ready_times_ns(reads.epoch, workload, design.n, network.sample_s)
    n_readers, longer_ns = workload.workers or 1, 0.0
    if workload.compute:  # the steps that the simulator drew
        drawn = [
            compute_times_ns(workload.compute, ready_ns.shape[1], planned.seeds, rank)
            for rank in range(design.n)
        ]
        longer_ns = np.array(drawn) - workload.compute_time_s * NS_PER_S
    compute_s, n_steps = workload.compute_time_s, plan.n_steps(design.n)
    pace = pace_of(ready_ns, compute_s, n_steps, n_readers, longer_ns)
    is_whole = plan.n_simulated_steps(design.n) == n_steps
    return replace(
        pace,
        io_time_s=float(total_s(class_times(reads)).max()) if is_whole else math.nan,
        samples_per_second=design.n * plan.batch_size * (n_steps - 1) / pace.later_s,
    )


def limit_of(simulate: Simulate, plan: Plan, design: Design, repetitions: int) -> str:
    """Return what limits a design, as `stalls.largest_stalls`.

    The stall of a class is by how much the epoch is shorter if the class costs nothing;
    a mean over the repetitions.
    """
    classes = [str(one) for one in ALL_CLASSES]  # of pooled LFS, too
    changes = [*((one,) for one in classes), (), classes]
    paces = simulate(
        [Trial(plan, design, i, one) for i in range(repetitions) for one in changes]
    )
    times_s = np.reshape([one.later_s for one in paces], (repetitions, len(changes)))
    means_s = pd.DataFrame(map(_times, times_s)).mean()
    execution_s = means_s.pop("execution_time_s")
    table = pd.DataFrame({"part": means_s.index, "stall_s": means_s.to_numpy()})
    keys = run_keys(plan.description, Point(0, 0))
    table = table.assign(**keys, execution_time_s=execution_s, first_wait_s=0.0)
    return largest_stalls(table).iloc[0]


def _times(later_s: np.ndarray) -> dict[str, float]:
    """Return the time of an epoch and the parts of its stall, in seconds.

    `later_s` are the times without each class, as it is, and without all.
    """
    without_s = dict(zip(map(str, ALL_CLASSES), later_s, strict=False))
    as_it_is_s, ideal_s = later_s[-2:]
    parts_s = divide_stall(as_it_is_s, without_s, ideal_s)
    return {"execution_time_s": as_it_is_s, **parts_s}
