"""Estimate by the model the I/O time of an epoch after improving some I/O classes.

The paper's rule (`tierscope.analysis.whatif`) does not move waiting between devices.
The model is a closed network of queues (`tierscope.storage.queueing_network`), in which
waiting moves to the next busy device. The model gives the factor by which an
improvement changes the I/O time of the slowest process. The estimate is the measured
I/O time times that factor. So without an improvement the estimate is the measured time,
and errors that the model makes in all cases cancel out.

The simulation also knows when each process computes. So execution times are estimated
in the same way, and accelerator utilisations (`improved_utilisation`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from tierscope.analysis.breakdown import (
    points_of,
    select_epoch,
    slowest_process,
)
from tierscope.analysis.whatif import improvement_percents
from tierscope.core.columns import (
    CLASS_TIMES,
    CLASSES,
    IMPROVEMENTS,
    INTERVAL,
    MODEL,
    POINT,
    RUN_EPOCH,
    TABLES,
)
from tierscope.core.description import RunDescription
from tierscope.core.io_class import total_s
from tierscope.core.scenario import Point
from tierscope.core.tables import with_later_columns
from tierscope.model.calibration.uncertainty import RelativeErrors, Uncertainty
from tierscope.model.predict import ORDER_STATISTICS, SIMULATION, predict_times
from tierscope.model.predicted_intervals import improved_errors
from tierscope.model.simulator.run import (
    class_times,
    planned_reads,
    slowest_class_times,
    workload_of,
)
from tierscope.storage.queueing_network import ModelError, Network, Workload, network_of

NO_RANK = -1  # the model's slowest process is not a rank of the run


def estimate_by_model(
    io_time: pd.DataFrame,
    improvements: Iterable[Mapping[str, int]],
    epoch: int,
    description: RunDescription,
    model: str = SIMULATION,
    epochs: pd.DataFrame | None = None,
    uncertainty: Uncertainty | None = None,
) -> pd.DataFrame:
    """Estimate I/O time, execution time and AU of an epoch after each improvement.

    Parameters
    ----------
    io_time : DataFrame, shape (n_processes * 4, 14)
        Table ``io_time`` of any number of runs of one scenario.
    improvements : iterable of mappings of str to int
        As for `tierscope.analysis.whatif.estimate`.
    epoch : int
        Epoch to estimate, counted from 0.
    description : RunDescription
        Settings of the scenario, with the devices for the model
        (`tierscope.model.calibration.fit.calibrated`).
    model : {"simulation", "order-statistics"}
        Evaluation of the network: event by event with the runs' own seeds, or by mean
        values and the distribution of the slowest process, which is faster for
        thousands of processes.
    epochs : DataFrame, optional
        Table ``epochs`` with at least these runs, for execution times and AU.
    uncertainty : Uncertainty, optional
        That of the calibration of the devices, for intervals of the I/O time.

    Returns
    -------
    DataFrame, shape (n_runs * n_improvements, 24)
        Table ``estimates``, sorted by run and improvement. ``method`` is ``model``.
        ``io_time_s`` is the measured I/O time times the model's I/O time with the
        improvement over that without, in seconds. The class times are those of the
        model's slowest process times the measured over the unimproved model's I/O time;
        they add up to ``io_time_s``. ``slowest_rank`` is -1. ``execution_time_s`` is
        the measured one times the model's with the improvement over that without;
        ``utilisation_percent`` is that of `improved_utilisation`. Both are missing
        without table ``epochs``, and by order statistics. ``io_time_low_s`` and
        ``io_time_high_s`` are those of `improved_errors`.

    Raises
    ------
    ModelError
        If the model is unknown, refuses the system, or gives a time of 0 s.

    Notes
    -----
    The paper's rule is from Fukai et al., Sec. 4.4. `tierscope.storage.emulated.scale.
    improve_tier` defines what N % more throughput of a class means for the devices.
    """
    percents = np.unique(improvement_percents([{}, *improvements]), axis=0)
    measured = slowest_process(select_epoch(io_time, epoch))
    points = points_of(measured)
    evaluate = evaluation(description, points, epoch, model)
    answers = [
        evaluate(improved_network(description, row)) for row in percents.tolist()
    ]
    classes_s = np.stack([one.classes_s for one in answers], axis=1)
    # Percents are sorted: the first one is no improvement.
    as_it_is_s = total_s(classes_s)[:, :1]
    if not (as_it_is_s > 0).all():
        raise ModelError(
            "model: got an I/O time of 0 s, expected devices that take some time."
        )
    measured_s = measured["io_time_s"].to_numpy()[:, np.newaxis]
    io_time_s = measured_s * (total_s(classes_s) / as_it_is_s)
    classes_s = classes_s * (measured_s / as_it_is_s)[..., np.newaxis]
    rows = measured[RUN_EPOCH].iloc[np.repeat(np.arange(len(points)), len(percents))]
    rows = rows.reset_index(drop=True).assign(method=MODEL, slowest_rank=NO_RANK)
    rows[IMPROVEMENTS] = np.tile(percents, (len(points), 1))
    rows["io_time_s"] = io_time_s.ravel()
    rows[CLASS_TIMES] = classes_s.reshape(-1, len(CLASSES))
    if uncertainty is not None:
        modelled_s = np.stack([one.classes_s for one in answers], axis=1)
        errors = _errors(modelled_s, description, points, evaluate, uncertainty)
        ends_s = errors.interval(io_time_s)
        rows[INTERVAL] = np.stack(ends_s, axis=-1).reshape(-1, 2)
    if epochs is not None and model == SIMULATION:
        execution_s, utilisation = measured_training(epochs, points, epoch)
        after_s = np.stack([one.execution_s for one in answers], axis=1)
        changed_s = execution_s[:, np.newaxis] * (after_s / after_s[:, :1])
        rows["execution_time_s"] = changed_s.ravel()
        after = np.stack([one.utilisation_percent for one in answers], axis=1)
        changed = improved_utilisation(utilisation[:, np.newaxis], after[:, :1], after)
        rows["utilisation_percent"] = changed.ravel()
    return with_later_columns(rows, "estimates")[list(TABLES["estimates"])]


def _errors(
    modelled_s: np.ndarray,
    description: RunDescription,
    points: Sequence[Point],
    evaluate: "Callable[[Network], _Answer]",
    uncertainty: Uncertainty,
) -> RelativeErrors:
    """Return the relative errors of estimates, the same for all runs of a cache rate.

    `modelled_s` has the shape (n_points, n_improvements, 4), the result (n_points,
    n_improvements). Means over the repetitions are rough to a lesser degree.
    """
    rates = [point.cache_rate_percent for point in points]
    _, place, counts = np.unique(rates, return_inverse=True, return_counts=True)
    means = (place == np.arange(len(counts))[:, np.newaxis]) / counts[:, np.newaxis]

    def times(changed: RunDescription) -> np.ndarray:
        network = network_of(changed.system, changed.scenario.n_osts)
        return means @ evaluate(network).classes_s

    improved_s = np.tensordot(means, modelled_s, axes=1)
    errors = improved_errors(improved_s, description, uncertainty, times)
    return RelativeErrors(errors.deviation[place], errors.degrees[place])


def measured_training(
    epochs: pd.DataFrame, points: list[Point], epoch: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the execution time of some runs of a scenario, and the AU of each rank.

    Parameters
    ----------
    epochs : DataFrame
        Table ``epochs`` of one scenario.
    points : list of Point
        The wanted runs.
    epoch : int
        The wanted epoch, counted from 0.

    Returns
    -------
    execution_s : ndarray, shape (n_points,)
        Execution time in seconds.
    utilisation : ndarray, shape (n_points, n_ranks)
        AU of each process in percent; not a number if it has only one step.
    """
    rows = select_epoch(epochs, epoch).set_index([*POINT, "rank"]).sort_index()
    wanted = [(one.cache_rate_percent, one.repetition) for one in points]
    runs = [rows.loc[one] for one in wanted]
    execution_s = np.array([one["execution_time_s"].max() for one in runs])
    return execution_s, np.stack([one["utilisation_percent"] for one in runs])


def improved_utilisation(
    measured: np.ndarray, before: np.ndarray, after: np.ndarray
) -> np.ndarray:
    """Return the AU of runs with an improvement, mean over the processes, in percent.

    The AU of a process is its computation over its time without the first step of the
    epoch. An improvement leaves the computation as it is. The estimate multiplies the
    measured time by what the model needs with the improvement over what it needs
    without; a process never takes less time than its computation. So without an
    improvement the estimate is the measured AU.

    Parameters
    ----------
    measured, before, after : ndarray, shape (..., n_ranks)
        AU of each process in percent: measured, and by the model without and with the
        improvement; not a number if the process has only one step. They broadcast.
    """
    factor = np.divide(after, before, out=np.ones_like(after), where=before > 0)
    changed = np.minimum(measured * factor, 100)
    n_known = np.isfinite(changed).sum(axis=-1)
    return np.divide(
        np.nansum(changed, axis=-1),
        n_known,
        out=np.full(n_known.shape, np.nan),
        where=n_known > 0,
    )


@dataclass(frozen=True)
class _Answer:
    """What the model says of some points on a network.

    `classes_s` are the seconds of the slowest process: shape (n_points, 4).
    `execution_s` has the shape (n_points,), and `utilisation_percent` is the AU of each
    process: (n_points, n_ranks). An analytic model does not know these two.
    """

    classes_s: np.ndarray
    execution_s: np.ndarray | None = None
    utilisation_percent: np.ndarray | None = None


def improved_network(description: RunDescription, percents: Sequence[int]) -> Network:
    """Return the network of a scenario on a system with faster devices.

    `percents` are the improvements in the order of the I/O classes.
    """
    improvements = dict(zip(CLASSES, percents, strict=True))
    improvements = {name: percent for name, percent in improvements.items() if percent}
    system = replace(description.system, improvements=improvements)
    return network_of(system, description.scenario.n_osts)


def evaluation(
    description: RunDescription, points: list[Point], epoch: int, model: str
) -> Callable[[Network], _Answer]:
    """Return what gives the model's answer for a network."""
    workload = workload_of(description)
    if model == SIMULATION:
        planned = [next(planned_reads(description, one, [epoch])) for one in points]

        percent = "utilisation_percent"

        def simulated(network: Network) -> _Answer:
            reads = [one.simulate(network, workload) for one in planned]
            return _Answer(
                np.stack([slowest_class_times(class_times(one)) for one in reads]),
                np.array([one.epoch.execution_time_s for one in reads]),
                np.stack([one.epoch.steps.columns()[percent] for one in reads]),
            )

        return simulated
    if model == ORDER_STATISTICS:
        return lambda network: _Answer(
            _predicted_times_s(network, workload, points, model)
        )
    raise ModelError(
        f"model.whatif: got {model!r}, expected {SIMULATION} or {ORDER_STATISTICS}."
    )


def _predicted_times_s(
    network: Network, workload: Workload, points: list[Point], model: str
) -> np.ndarray:
    """Return an analytic model's prediction, the same for every repetition."""
    rates = {point.cache_rate_percent for point in points}
    by_rate = {
        rate: predict_times(network, workload, rate, model).slowest_s for rate in rates
    }
    return np.stack([by_rate[point.cache_rate_percent] for point in points])
