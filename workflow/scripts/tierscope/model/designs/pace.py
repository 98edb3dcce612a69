"""How fast trainings take batches, in an epoch of which some steps are known.

When a batch is ready follows from the reads; a training takes it when it has ended its
step before, and all end a step together. Loaders read ahead, so the first batches hide
that the storage is too slow: the later steps of the epoch take as long as batches take
to be read, once what was read ahead is used up. The pace is therefore the longer of two
times of the second half of the known steps: that of a step, and that between two
batches that are ready, a mean over the processes.
"""

import math
from dataclasses import dataclass

import numpy as np

from tierscope.model.simulator.epoch import SimulatedEpoch
from tierscope.model.simulator.loop import CLOSED, LAST_BYTE
from tierscope.model.simulator.stations import NS_PER_S
from tierscope.storage.queueing_network import Workload


@dataclass(frozen=True)
class Pace:
    """The steps of an epoch of some processes.

    Parameters
    ----------
    utilisation_percent : float
        Accelerator utilisation as DLIO defines it, without the first step: mean over
        the processes. Missing if they compute nothing.
    later_s : float
        Time of the epoch without the first step, mean over the processes.
    epoch_time_s : float
        Time of the epoch.
    io_time_s : float
        I/O time of the slowest process; missing if some steps are not known.
    samples_per_second : float
        Samples a second of all processes, without the first step.
    """

    utilisation_percent: float
    later_s: float
    epoch_time_s: float
    io_time_s: float = math.nan
    samples_per_second: float = math.nan


def ready_times_ns(
    epoch: SimulatedEpoch, workload: Workload, n_ranks: int, sample_s: float
) -> np.ndarray:
    """Return when each batch was ready, in nanoseconds: shape (n_ranks, n_steps).

    All processes read equally many whole batches.
    """
    by_batch = workload.workers is not None
    read_ns = epoch.instants_ns[:, CLOSED if by_batch else LAST_BYTE]
    batches = read_ns.reshape(n_ranks, -1, workload.batch_size)
    last_ns = batches.max(axis=2)
    return last_ns if by_batch else last_ns + round(sample_s * NS_PER_S)


def step_ends_ns(
    ready_ns: np.ndarray, compute_ns: float | np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return when processes that meet at the end of each step end their steps.

    Parameters
    ----------
    ready_ns : ndarray, shape (n_ranks, n_steps)
        When each batch was ready.
    compute_ns : float or ndarray, shape (n_ranks, n_steps)
        Computation of a step.

    Returns
    -------
    ends_ns : ndarray, shape (n_steps,)
        When the slowest process ends each step.
    first_ns : ndarray, shape (n_ranks,)
        When each process ends its first step.
    """
    ends_ns, now_ns = np.zeros(ready_ns.shape[1]), 0.0
    compute_ns = np.broadcast_to(compute_ns, ready_ns.shape)
    for step in range(len(ends_ns)):
        begins_ns = np.maximum(ready_ns[:, step], now_ns)
        ends_ns[step] = now_ns = (begins_ns + compute_ns[:, step]).max()
    return ends_ns, ready_ns[:, 0] + compute_ns[:, 0]


def pace_of(
    ready_ns: np.ndarray,
    compute_time_s: float,
    n_steps: int,
    n_readers: int = 1,
    longer_ns: np.ndarray | float = 0.0,
) -> Pace:
    """Return the pace of an epoch of `n_steps` steps, of which the first are known.

    Parameters
    ----------
    ready_ns : ndarray, shape (n_ranks, n_known)
        When each batch of the known steps was ready.
    compute_time_s : float
        Computation of a step.
    n_steps : int
        Steps of the epoch, at least two.
    n_readers : int
        Readers of a process, each of which reads a batch.
    longer_ns : ndarray, shape (n_ranks, n_known), optional
        What the known steps compute longer; those after them compute as said.
    """
    compute_ns = compute_time_s * NS_PER_S
    longer_ns = np.broadcast_to(longer_ns, ready_ns.shape)
    ends_ns, first_ns = step_ends_ns(ready_ns, compute_ns + longer_ns)
    n_left = n_steps - len(ends_ns)
    end_ns = ends_ns[-1] + (
        n_left * _later_step_ns(ready_ns, ends_ns, n_readers) if n_left else 0
    )
    later_ns = end_ns - first_ns
    later_compute_ns = (n_steps - 1) * compute_ns + longer_ns[:, 1:].sum(axis=1)
    utilisation = later_compute_ns / later_ns
    return Pace(
        float(utilisation.mean() * 100),
        float(later_ns.mean()) / NS_PER_S,
        float(end_ns) / NS_PER_S,
    )


def _later_step_ns(ready_ns: np.ndarray, ends_ns: np.ndarray, n_readers: int) -> float:
    """Return what a step takes after the known ones."""
    half = len(ends_ns) // 2
    # The last batches are left out: other readers have ended, and storage is less busy.
    end = max(len(ends_ns) - n_readers, half + 2)
    step_ns = (ends_ns[end - 1] - ends_ns[half - 1]) / (end - half)
    second_ns = ready_ns[:, half:end].mean(axis=0)
    slope_ns = np.polyfit(np.arange(len(second_ns)), second_ns, 1)[0]
    return float(max(step_ns, slope_ns))
