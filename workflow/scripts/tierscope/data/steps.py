"""What a process does in the steps of an epoch: computation, stall, and the rest.

DLIO's counter of statistics (version 2.0.0), which MLPerf Storage uses, divides the
computation of a process by the time of its epoch, and leaves out the first step of
both: its batch, and the computation that follows. MLPerf Storage demands a least mean
over all processes (Rules.md 2.1).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from tierscope.core.description import ComputeTime

_STREAM = 4  # of random numbers; shuffle, pinning and the simulator have others
_NS_PER_S = 1e9


@dataclass(frozen=True)
class StepTimes:
    """What one or several processes did in an epoch, in whole nanoseconds.

    Parameters
    ----------
    compute_ns, stall_ns, rest_ns : int or ndarray of int
        Computation, waits for batches, and all else: their sum is the execution time.
    first_step_ns, first_compute_ns : int or ndarray of int
        Time until the first step ended, and its computation.
    n_steps : int or ndarray of int
        Number of steps.
    """

    compute_ns: Any
    stall_ns: Any
    rest_ns: Any
    first_step_ns: Any
    first_compute_ns: Any
    n_steps: Any

    def columns(self) -> dict[str, float]:
        """Return the columns of `tierscope.core.columns.benchmark.STEPS`.

        The utilisation is not a number where there is only one step.
        """
        execution_ns = self.compute_ns + self.stall_ns + self.rest_ns
        later_ns = np.where(
            np.asarray(self.n_steps) > 1, execution_ns - self.first_step_ns, np.nan
        )
        with np.errstate(invalid="ignore"):
            used = (self.compute_ns - self.first_compute_ns) / later_ns
        return {
            "compute_time_s": self.compute_ns / _NS_PER_S,
            "stall_s": self.stall_ns / _NS_PER_S,
            "rest_s": self.rest_ns / _NS_PER_S,
            "utilisation_percent": used * 100,
        }


@dataclass(frozen=True)
class UsedSteps:
    """How long the steps of a loop used its devices where seen, else the program.

    `idle_s` is the time in and between the steps in which they used nothing,
    `first_idle_s` that in the first step: the wait for the first batch of another
    loader, as in a zip.
    """

    n_steps: int
    busy_s: float
    first_busy_s: float
    idle_s: float
    first_idle_s: float

    @classmethod
    def of_loop(cls, loop: Mapping[str, Any]) -> Self:
        """Return the use of the devices in the note of a loop, else of the program."""
        if not (seen := loop.get("device")):
            return cls.of_program(loop)
        known = {name: seen[name] for name in ("busy_s", "first_busy_s", "idle_s")}
        first_idle_s = seen.get("first_idle_s", 0.0)
        return cls(_n_steps(loop), **known, first_idle_s=first_idle_s)

    @classmethod
    def of_program(cls, loop: Mapping[str, Any]) -> Self:
        """Return the use of the program: from each batch to the next request."""
        return cls(
            _n_steps(loop),
            loop["use_s"],
            loop["first_use_s"],
            loop["wait_s"] - loop["first_wait_s"],
            loop.get("first_idle_s", 0.0),
        )

    @property
    def usual_s(self) -> float:
        """The use of a usual step: the mean of all but the first.

        A single step is a usual one; without steps there is none, so it takes 0 s.
        """
        if self.n_steps < 2:
            return self.busy_s
        return (self.busy_s - self.first_busy_s) / (self.n_steps - 1)

    @property
    def warmup_s(self) -> float:
        """What the use of the first step took longer than a usual one."""
        longer_s = self.first_busy_s - self.usual_s
        return max(longer_s, 0.0) if self.n_steps > 1 else 0.0

    @property
    def percent(self) -> float:
        """The utilisation without the first step, if there are others."""
        later_s = self.busy_s - self.first_busy_s
        whole_s = later_s + self.idle_s - self.first_idle_s
        return 100 * later_s / whole_s if self.n_steps > 1 and whole_s else math.nan


def _n_steps(loop: Mapping[str, Any]) -> int:
    """Return the steps of a loop; older notes have no loops that were left."""
    return loop["batches"] - bool(loop.get("left"))


def compute_times_ns(
    compute: ComputeTime, n_steps: int, seeds: Sequence[int], rank: int
) -> np.ndarray:
    """Return the compute time of each step of a process, in whole nanoseconds.

    Parameters
    ----------
    compute : ComputeTime
        How it is distributed.
    n_steps : int
        Steps of the process in the epoch.
    seeds : sequence of int
        Seed, repetition and epoch.
    rank : int
        The process.

    Returns
    -------
    ndarray of int, shape (n_steps,)
        A longer epoch begins with the same times.
    """
    times_s = np.full(n_steps, compute.mean_s, float)
    if compute.is_random:
        sequence = np.random.SeedSequence((*seeds, rank), spawn_key=(_STREAM,))
        normal = np.random.default_rng(sequence).standard_normal(n_steps)
        if compute.distribution == "normal":
            times_s += compute.stdev_s * normal
        elif compute.mean_s > 0:
            variance = math.log1p((compute.stdev_s / compute.mean_s) ** 2)
            exponents = math.sqrt(variance) * normal - variance / 2
            # numpy's exponential function depends on the processor.
            times_s *= [math.exp(one) for one in exponents.tolist()]
    if compute.warmup_s:
        times_s[:1] += compute.warmup_s[seeds[2]]
    return np.rint(np.maximum(times_s, 0.0) * _NS_PER_S).astype(np.int64)
