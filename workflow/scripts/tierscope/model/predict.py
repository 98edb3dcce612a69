"""Predict I/O time with one of four models, from bounds to simulation.

- ``bounds``: asymptotic bounds (`tierscope.model.analytic.bounds`);
- ``mva``: mean value analysis of the mean process in the steady state of the closed
  network (`tierscope.model.analytic.tiered`); the slowest process has the same times;
- ``order-statistics``: also models the slowest of P ranks and the end of the epoch,
  when fewer and fewer ranks read (`tierscope.model.analytic.order_statistics`);
- ``simulation``: event by event, with the real order of files
  (`tierscope.model.simulator.run`).

Only the last one knows the order of files. The others give the same result for every
repetition and epoch and for both kinds of shuffle (a local shuffle also deals files at
random, but once for all epochs), and leave out the warm-up of first steps. Only it
knows on which servers files lie; the others take them to lie evenly (`places_words`).
All models assume one read thread per rank.
"""

from collections.abc import Iterable
from dataclasses import astuple, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from tierscope.core.columns import CLASSES
from tierscope.core.description import RunDescription
from tierscope.core.scenario import Point
from tierscope.model.analytic.bounds import asymptotic_bounds
from tierscope.model.analytic.order_statistics import rank_times
from tierscope.model.analytic.tiered import mean_groups, tiered_network
from tierscope.model.demands import check_modelled, hit_fraction
from tierscope.model.simulator.run import (
    class_times,
    simulate_reads,
    slowest_class_times,
    workload_of,
)
from tierscope.storage.queueing_network import (
    MODULO,
    ModelError,
    Network,
    Workload,
    network_of,
)

SIMULATION, ORDER_STATISTICS = "simulation", "order-statistics"
ANALYTIC = ("bounds", "mva", ORDER_STATISTICS)
MODELS = (*ANALYTIC, SIMULATION)
COLUMNS = [
    "cache_rate_percent",
    "repetition",
    "epoch",
    "io_class",
    "time_s",
    "mean_time_s",
    "execution_time_s",
    "utilisation_percent",
]


class ClassTimes(NamedTuple):
    """I/O time by class, in the order of `IOClass`, both of shape (4,).

    Only the simulation knows the execution time of the epoch, and the accelerator
    utilisation, mean over the processes.
    """

    slowest_s: np.ndarray
    mean_s: np.ndarray
    execution_s: float = np.nan
    utilisation_percent: float = np.nan


def predict(
    description: RunDescription,
    points: Iterable[Point],
    model: str,
) -> pd.DataFrame:
    """Predict the I/O time of points of a scenario.

    Parameters
    ----------
    description : RunDescription
        Settings of the scenario (`Experiment.description`).
    points : iterable of Point
        The points.
    model : str
        One of `MODELS`.

    Returns
    -------
    DataFrame, shape (n_points * n_epochs * 4, 8)
        ``cache_rate_percent, repetition, epoch, io_class`` and, in seconds, ``time_s``
        of the slowest process, whose sum over the classes is the I/O time,
        ``mean_time_s`` over the processes, ``execution_time_s`` of the epoch and, in
        percent, ``utilisation_percent``; only the simulation knows the last two.

    Raises
    ------
    ModelError
        If the model is unknown or cannot describe the scenario.
    """
    _check_model(model, MODELS)
    _check_scenario(description)
    points = list(points)
    epochs = range(description.training.epochs)
    network = network_of(description.system, description.scenario.n_osts)
    if model == SIMULATION:
        predicted = [_simulate(description, point, network) for point in points]
    else:
        workload = _without_warmup(description)
        rates = {point.cache_rate_percent for point in points}
        by_rate = {
            rate: predict_times(network, workload, rate, model) for rate in rates
        }
        predicted = [
            [by_rate[point.cache_rate_percent]] * len(epochs) for point in points
        ]
    return _table(points, predicted)


def models_of(description: RunDescription, models: Iterable[str]) -> list[str]:
    """Return those of some models that know a scenario's training and storage."""
    return [one for one in models if one == SIMULATION or _is_analytic(description)]


def _is_analytic(description: RunDescription) -> bool:
    """Return whether the analytic models know a scenario."""
    limited = "limit_bytes_per_s" in description.system.devices["gfs"]
    return not (limited or _without_warmup(description).needs_steps)


def _without_warmup(description: RunDescription) -> Workload:
    """Return the workload of the analytic models: in all epochs the same."""
    workload = workload_of(description)
    is_random = description.training.compute_time.is_random
    return workload if is_random else replace(workload, compute=None)


def places_words(description: RunDescription, models: Iterable[str]) -> str:
    """Return what some of the models leave out of places of files; may be empty."""
    gfs = network_of(description.system, description.scenario.n_osts).gfs
    is_even = description.servers is None and gfs.placement == MODULO
    ignorant = [one for one in models if one in ANALYTIC]
    if is_even or gfs.n_object_servers == 1 or not ignorant:
        return ""
    return (
        f"{', '.join(ignorant)}: as if files lay evenly on {gfs.n_object_servers} "
        "servers; the simulation knows where they lie."
    )


def predict_times(
    network: Network, workload: Workload, cache_rate_percent: float, model: str
) -> ClassTimes:
    """Predict the class times of an epoch with an analytic model.

    Parameters
    ----------
    network, workload
        The machine, and the reads of its ranks.
    cache_rate_percent : float
        Percent of the files that are pinned on the LFS.
    model : str
        One of `ANALYTIC`.

    Raises
    ------
    ModelError
        If the model is unknown or an argument is impossible.
    """
    _check_model(model, ANALYTIC)
    if model == "bounds":
        bounds = asymptotic_bounds(network, workload, cache_rate_percent)
        times_s = bounds.class_time_s
        slowest = int(times_s.sum(axis=1).argmax())
        return ClassTimes(times_s[slowest], bounds.share @ times_s)
    if model == "mva":
        mean_s = _steady_state(network, workload, cache_rate_percent)
        return ClassTimes(mean_s, mean_s)
    return ClassTimes(*rank_times(network, workload, cache_rate_percent))


def _steady_state(
    network: Network, workload: Workload, cache_rate_percent: float
) -> np.ndarray:
    """Return the class times of the mean process while all others read."""
    check_modelled(network, workload, cache_rate_percent)
    groups, hits = mean_groups(network), hit_fraction(workload, cache_rate_percent)
    model = tiered_network(network, workload, groups)
    file_s, _ = model.solve(
        np.full(len(groups.share), hits),
        groups.n_ranks.astype(float),
        model.no_waiting(),
    )
    parts = np.array([1 - hits, 1 - hits, hits, hits])
    return groups.share @ file_s * parts * (workload.n_files / network.n_ranks)


def _simulate(
    description: RunDescription, point: Point, network: Network
) -> list[ClassTimes]:
    """Return the class times of each epoch of a simulated run."""
    predicted = []
    for reads in simulate_reads(description, point, network=network):
        times_s = class_times(reads)
        predicted.append(
            ClassTimes(
                slowest_class_times(times_s),
                times_s.mean(axis=0),
                reads.epoch.execution_time_s,
                float(reads.epoch.steps.columns()["utilisation_percent"].mean()),
            )
        )
    return predicted


def _table(points: list[Point], predicted: list[list[ClassTimes]]) -> pd.DataFrame:
    """Return the predictions of the epochs of all points as one table."""
    rows = [
        (*astuple(point), epoch, name, *times, *one[2:])
        for point, epochs in zip(points, predicted, strict=True)
        for epoch, one in enumerate(epochs)
        for name, *times in zip(CLASSES, one.slowest_s, one.mean_s, strict=True)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def _check_model(model: str, known: tuple[str, ...]) -> None:
    """Refuse an unknown model."""
    if model not in known:
        raise ModelError(f"model: got {model!r}, expected one of {', '.join(known)}.")


def _check_scenario(description: RunDescription) -> None:
    """Refuse a scenario that no model describes."""
    if (policy := description.scenario.policy) != "pinning":
        raise ModelError(f"policy: got {policy!r}, expected pinning.")
    if (threads := description.loader.read_threads) != 1:
        raise ModelError(f"loader.read_threads: got {threads}, expected 1.")
