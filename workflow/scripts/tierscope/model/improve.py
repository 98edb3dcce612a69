"""Estimate by the model the I/O time of an epoch after improving some I/O classes.

The paper's rule (`tierscope.analysis.whatif`) does not move waiting between devices.
The model is a closed network of queues (`tierscope.storage.queueing_network`), in which
waiting moves to the next busy device. The model gives the factor by which an
improvement changes the I/O time of the slowest process. The estimate is the measured
I/O time times that factor. So without an improvement the estimate is the measured time,
and errors that the model makes in all cases cancel out.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

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
    MODEL,
    RUN_EPOCH,
    TABLES,
)
from tierscope.core.description import RunDescription
from tierscope.core.io_class import total_s
from tierscope.core.scenario import Point
from tierscope.model.predict import ORDER_STATISTICS, SIMULATION, predict_times
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
) -> pd.DataFrame:
    """Estimate the I/O time of the slowest process after each improvement.

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

    Returns
    -------
    DataFrame, shape (n_runs * n_improvements, 20)
        Table ``estimates``, sorted by run and improvement. ``method`` is ``model``.
        ``io_time_s`` is the measured I/O time times the model's I/O time with the
        improvement over that without, in seconds. The class times are those of the
        model's slowest process times the measured over the unimproved model's I/O time;
        they add up to ``io_time_s``. ``slowest_rank`` is -1.

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
    evaluate = _evaluation(description, points, epoch, model)
    networks = (_improved_network(description, row) for row in percents.tolist())
    classes_s = np.stack([evaluate(network) for network in networks], axis=1)
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
    return rows[list(TABLES["estimates"])]


def _improved_network(description: RunDescription, percents: list[int]) -> Network:
    """Return the network of a scenario on a system with faster devices."""
    improvements = dict(zip(CLASSES, percents, strict=True))
    improvements = {name: percent for name, percent in improvements.items() if percent}
    system = replace(description.system, improvements=improvements)
    return network_of(system, description.scenario.n_osts)


def _evaluation(
    description: RunDescription, points: list[Point], epoch: int, model: str
) -> Callable[[Network], np.ndarray]:
    """Return what gives the slowest process's seconds by class: (n_points, 4)."""
    workload = workload_of(description)
    if model == SIMULATION:
        planned = [next(planned_reads(description, one, [epoch])) for one in points]

        def simulated_times_s(network: Network) -> np.ndarray:
            reads = (one.simulate(network, workload) for one in planned)
            return np.stack([slowest_class_times(class_times(one)) for one in reads])

        return simulated_times_s
    if model == ORDER_STATISTICS:
        return lambda network: _predicted_times_s(network, workload, points, model)
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
