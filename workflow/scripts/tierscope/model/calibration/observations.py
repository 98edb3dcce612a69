"""The data of a calibration: five times per epoch, and the time of each probe."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from tierscope.analysis.breakdown import process_times
from tierscope.core.columns import CLASSES, POINT
from tierscope.core.description import ProbeDescription, RunDescription
from tierscope.core.io_class import total_s
from tierscope.core.scenario import Point
from tierscope.model.simulator.run import (
    PlannedReads,
    SimulatedReads,
    class_times,
    simulate_in_turn,
)
from tierscope.storage.probes import Probe, plan
from tierscope.storage.queueing_network import ModelError, Network, Workload


def measured_epochs(
    description: RunDescription, io_time: pd.DataFrame
) -> dict[Point, np.ndarray]:
    """Return the measured times of each point: shape (n_epochs, 5), in seconds.

    Columns: the mean of each I/O class over the processes, in the order of `IOClass`,
    then the I/O time of the slowest process. A class without operations is missing.

    Raises
    ------
    ModelError
        If the table has another scenario or size, or an epoch of 0 s.
    """
    _check_scenario(description, io_time)
    processes, times_s = process_times(io_time)
    classes = io_time.groupby([*POINT, "epoch", "io_class"])["operations"].sum()
    system, training = description.system, description.training
    n_processes = system.n_processes
    points = {}
    for keys, part in processes.groupby(POINT):
        point = Point(*map(int, keys))
        here = times_s[part.index]
        epochs = part["epoch"].to_numpy()
        if len(here) != n_processes * training.epochs:
            raise ModelError(
                f"I/O time: got {len(here)} processes and epochs at cache rate "
                f"{point.cache_rate_percent} %, expected "
                f"{n_processes} x {training.epochs}."
            )
        rows = []
        for epoch in range(training.epochs):
            mine = here[epochs == epoch]
            done = [classes[(*keys, epoch, name)] > 0 for name in CLASSES]
            means_s = np.where(done, mine.mean(axis=0), np.nan)
            rows.append([*means_s, total_s(mine).max()])
        points[point] = np.array(rows)
        if not (points[point][:, -1] > 0).all():
            raise ModelError(
                "I/O time: got an epoch of 0 s at cache rate "
                f"{point.cache_rate_percent} %, expected more."
            )
    return points


def _check_scenario(description: RunDescription, io_time: pd.DataFrame) -> None:
    """Refuse a table of another scenario."""
    for key, wanted in description.scenario.keys.items():
        if len(io_time) == 0 or set(io_time[key]) != {wanted}:
            found = sorted(set(io_time[key])) or "nothing"
            raise ModelError(f"I/O time: got {key} {found}, expected {wanted} only.")


def modelled_epochs(
    planned: Sequence[PlannedReads], network: Network, workload: Workload
) -> np.ndarray:
    """Return the simulated times of a point in the form of `measured_epochs`."""
    return np.array([_epoch(o) for o in simulate_in_turn(planned, network, workload)])


def _epoch(reads: SimulatedReads) -> list[float]:
    """Return the class means and the slowest process's I/O time of an epoch."""
    times_s = class_times(reads)
    return [*times_s.mean(axis=0), total_s(times_s).max()]


def class_of_probe(probe: Probe) -> str:
    """Return the I/O class whose calls a probe makes."""
    return f"{probe.tier}_{'read' if probe.operation == 'read' else 'meta'}"


# Factors of the median distance to the median of few values.
_OF_FEW = dict(
    enumerate((1.0, 1.196, 1.495, 1.363, 1.206, 1.200, 1.140, 1.129, 1.107), 1)
)


@dataclass(frozen=True)
class ProbeTime:
    """A probe's time: median of the repeats in seconds, and its relative error."""

    time_s: float
    error: float


def measured_probes(
    description: RunDescription, probes: pd.DataFrame | None
) -> dict[int, dict[str, ProbeTime]]:
    """Return the time of each probe, by OST count and name.

    The error is that of a median of normally distributed logarithms of times: sqrt(pi /
    2) times their standard deviation over the root of the number of repeats. The
    standard deviation is 1.4826 times the median distance to the median, so one
    disturbed repeat has no effect. Of few repeats it is too small; that is corrected
    (Croux and Rousseeuw, Computational Statistics 1, 1992). By chance it may still be
    far too small, so no probe counts as more exact than half of those of its tier.

    Raises
    ------
    ModelError
        If the probes have another dataset or other calls than `plan`, or one took 0 s.
    """
    if probes is None or probes.empty:
        return {}
    expected = {
        one.name: (one.n_clients, one.n_operations, one.n_bytes)
        for one in plan(ProbeDescription.of(description))
    }
    found = {}
    for (dataset, n_osts), part in probes.groupby(["dataset", "n_osts"]):
        calls = part.groupby("probe")[["n_clients", "operations", "bytes"]].first()
        made = {name: tuple(row) for name, row in calls.iterrows()}
        if dataset != description.dataset.name or made != expected:
            raise ModelError(
                f"probes of {dataset} on {n_osts} OSTs: got other calls than those of "
                f"dataset {description.dataset.name}; delete them to probe again."
            )
        # In virtual time a close on the LFS passes no queue and takes 0 s.
        is_free = (part["time_s"] == 0) & (part["tier"] == "lfs")
        part = part[~(is_free & (part["operation"] == "close"))]
        worst = part.loc[part["time_s"].idxmin()]
        if not worst["time_s"] > 0:
            raise ModelError(
                f"probe {worst['probe']} on {n_osts} OSTs: got {worst['time_s']} s, "
                "expected more than 0 s."
            )
        found[int(n_osts)] = {}
        for _, of_tier in part.groupby("tier", sort=False):
            times = {
                name: _probe_time(repeats.to_numpy())
                for name, repeats in of_tier.groupby("probe", sort=False)["time_s"]
            }
            found[int(n_osts)] |= _not_too_exact(times)
    return found


def probes_of_program(
    description: RunDescription,
    measured: Mapping[Point, np.ndarray],
    probes: Mapping[int, Mapping[str, ProbeTime]],
    noise: float,
) -> dict[int, dict[str, ProbeTime]]:
    """Return the probes of a program's storage as far as they matter for its runs.

    What a call takes is a part of the I/O time of a file, of which `noise` stays
    unknown. So cheap calls, such as closes, count little. Small reads of the LFS are
    left out: the program makes none, and in the model they take as long as large ones.

    Parameters
    ----------
    description : RunDescription
        The program as the models know it.
    measured, probes : mapping
        Results of `measured_epochs` and `measured_probes`.
    noise : float
        Relative deviation of a time, at best.
    """
    calls = {one.name: one for one in plan(ProbeDescription.of(description))}
    unknown_s = {
        tier: noise * file_s for tier, file_s in _file_s(description, measured).items()
    }

    def of_runs(one: ProbeTime, probe: Probe) -> ProbeTime:
        call_s = one.time_s * probe.n_clients / probe.n_operations
        error = np.hypot(one.error, unknown_s[probe.tier] / call_s)
        return replace(one, error=float(error))

    return {
        n_osts: {
            name: of_runs(one, calls[name])
            for name, one in times.items()
            if name != "lfs_small_read_latency"
        }
        for n_osts, times in probes.items()
    }


def _file_s(
    description: RunDescription, measured: Mapping[Point, np.ndarray]
) -> dict[str, float]:
    """Return the I/O time of a file on each tier, 0 if the points have none there."""
    n_files = description.dataset.n_files / description.system.n_processes
    found = {}
    for tier, point in (("gfs", min(measured)), ("lfs", max(measured))):
        here = [name.startswith(tier) for name in CLASSES]
        times_s = np.nansum(measured[point][:, : len(CLASSES)][:, here], axis=1)
        share = point.cache_rate_percent / 100
        n_here = n_files * (share if tier == "lfs" else 1 - share)
        found[tier] = float(times_s.mean() / n_here) if n_here else 0.0
    return found


def _not_too_exact(times: Mapping[str, ProbeTime]) -> dict[str, ProbeTime]:
    """Return probes, none more exact than half are: few repeats may agree by chance."""
    typical = float(np.median([one.error for one in times.values()]))
    return {
        name: replace(one, error=max(one.error, typical)) for name, one in times.items()
    }


def _probe_time(times_s: np.ndarray) -> ProbeTime:
    """Return the median of the repeats of a probe with its error."""
    logarithms = np.log(times_s)
    distances = np.abs(logarithms - np.median(logarithms))
    n = len(times_s)
    deviation = 1.4826 * np.median(distances) * _OF_FEW.get(n, n / (n - 0.8))
    error = np.sqrt(np.pi / 2 / n) * deviation
    return ProbeTime(float(np.median(times_s)), float(error))
