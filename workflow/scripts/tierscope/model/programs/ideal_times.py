"""What a program takes its time for beside storage, by its ideal runs.

Their files are all in memory. Models take means of usual steps and fetches: all but
the first, which also load modules and search for algorithms. What the first ones take
longer is a part of their epoch: its warm-up, or its rest.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tierscope.core.columns.benchmark import NEVER_BEHIND
from tierscope.core.words import in_seconds
from tierscope.data.steps import UsedSteps
from tierscope.model.programs.facts import SeenRun, refuse

_TOLD = 0.9  # of the samples, whose fetches must have been timed


@dataclass(frozen=True)
class IdealTimes:
    """The times of a program's ideal runs, in seconds.

    Parameters
    ----------
    compute_s, sample_s : float
        Computation of a usual step, and processor time of a sample.
    told_by : str
        What told the latter.
    warmup_s, rest_s : tuple of float
        By epoch: what the first step takes longer than a usual one; and what passes
        outside of the loop, with what its first batch takes longer than its samples.
    least_because : str
        Why computation is only a least; empty if it is exact.
    launch_s : float
        What a usual step takes the program itself, if its devices compute on while it
        goes on; else 0.
    """

    compute_s: float
    sample_s: float
    told_by: str
    warmup_s: tuple[float, ...]
    rest_s: tuple[float, ...]
    least_because: str
    launch_s: float = 0.0

    @property
    def compute_time(self) -> dict[str, Any]:
        """Return the fields of a `ComputeTime`."""
        return {"mean_s": self.compute_s, "warmup_s": [*self.warmup_s]}

    @property
    def words(self) -> str:
        """Return the times in one to three sentences."""
        least, known = "", ""
        if self.least_because:
            least = "at least "
            known = (
                f" Computation is a least ({self.least_because}): predicted "
                "utilisation is, too."
            )
        rest_s = max(float(np.mean(self.rest_s)), 0.0)  # a device may outlive an epoch
        return (
            f"By its ideal runs it computes for {least}{in_seconds(self.compute_s)} a "
            f"usual step, takes {in_seconds(self.sample_s)} of processor time a sample "
            f"({self.told_by}), and {in_seconds(rest_s)} an epoch for "
            f"the rest.{self._warmup_words}{known}"
        )

    @property
    def _warmup_words(self) -> str:
        """Return a sentence on first steps, if one takes twice as long as usual."""
        first_s, *later_s = self.warmup_s
        if max(self.warmup_s) < self.compute_s:
            return ""
        words = f" Its first step takes {in_seconds(first_s)} longer in the first epoch"
        if later_s:
            words += f", and {in_seconds(float(np.mean(later_s)))} in later ones"
        return f"{words}: warm-up."


def ideal_times(
    ideal: Sequence[SeenRun], between_s: np.ndarray, batch_size: int
) -> IdealTimes:
    """Return the times of a program.

    Parameters
    ----------
    ideal : sequence of SeenRun
        Its ideal runs.
    between_s : ndarray of float, shape (n_times,)
        Times between their reads (`times_between_reads`), in seconds.
    batch_size : int
        Samples of a step.

    Raises
    ------
    ModelError
        If a time is not known.
    """
    loops = [loop for seen in ideal for loop in seen.loops]
    sample_s, told_by = _sample_s(ideal, between_s)
    n_samples = sum(int(seen.epochs["samples"].sum()) for seen in ideal)
    read_s = math.fsum(seen.io_time_s for seen in ideal) / n_samples
    first_batch_s = batch_size * (sample_s + read_s)
    rests_s = [
        (one, _rest_s(seen, one, first_batch_s)) for seen in ideal for one in seen.loops
    ]
    used = [UsedSteps.of_loop(one) for one in loops]
    reasons = dict.fromkeys(filter(None, (one.get("least_because") for one in loops)))
    return IdealTimes(
        float(np.mean([one.usual_s for one in used])),
        sample_s,
        told_by,
        _by_epoch((loop, one.warmup_s) for loop, one in zip(loops, used, strict=True)),
        _by_epoch(rests_s),
        " and ".join(reasons),
        float(np.mean(list(map(_launch_s, loops)))),
    )


def _launch_s(loop: Mapping[str, Any]) -> float:
    """Return the program's own part of a usual step if its devices ran behind it."""
    if not loop.get("device") or loop.get("least_because") == NEVER_BEHIND:
        return 0.0
    return UsedSteps.of_program(loop).usual_s


def _rest_s(seen: SeenRun, loop: Mapping[str, Any], first_batch_s: float) -> float:
    """Return what an epoch takes beside usual steps, warm-up and waits for samples."""
    execution_s = seen.epochs.set_index(["rank", "epoch"])["execution_time_s"]
    used, first_wait_s = UsedSteps.of_loop(loop), loop["first_wait_s"]
    stall_s = first_wait_s + used.idle_s
    steps_s = used.n_steps * used.usual_s + used.warmup_s
    outside_s = execution_s[loop["rank"], loop["epoch"]] - stall_s - steps_s
    return float(outside_s) + max(first_wait_s - first_batch_s, 0.0)


def _by_epoch(times: Iterable[tuple[Mapping[str, Any], float]]) -> tuple[float, ...]:
    """Return the mean of times of loops by epoch."""
    found: dict[int, list[float]] = {}
    for loop, time_s in times:
        found.setdefault(loop["epoch"], []).append(time_s)
    return tuple(float(np.mean(found[epoch])) for epoch in sorted(found))


def _sample_s(ideal: Sequence[SeenRun], between_s: np.ndarray) -> tuple[float, str]:
    """Return the processor time of a sample, and what told it."""
    fetches = [one for seen in ideal for one in seen.run.observed["fetches"]]
    n_fetched = sum(int(one["samples"]) for one in fetches)
    n_samples = sum(int(seen.epochs["samples"].sum()) for seen in ideal)
    if n_fetched > _TOLD * n_samples:
        io_s = math.fsum(seen.io_time_s for seen in ideal)
        return max(_usual_fetch_s(fetches) - io_s / n_samples, 0.0), "from its fetches"
    if not len(between_s):
        refuse(ideal[0], "no times between reads", "calls of open, read and close")
    return float(between_s.mean()), "between its reads"


def _usual_fetch_s(fetches: Sequence[Mapping[str, Any]]) -> float:
    """Return the fetch of a sample, without each process's first if notes tell that."""
    all_s, n_all, first_s, n_first = (
        math.fsum(one.get(name, 0) for one in fetches)
        for name in ("fetch_s", "samples", "first_fetch_s", "first_samples")
    )
    if n_all == n_first:  # there is no other
        return all_s / n_all
    return (all_s - first_s) / (n_all - n_first)
