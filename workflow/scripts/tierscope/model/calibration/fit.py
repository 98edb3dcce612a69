"""Fit a system's devices to measurements: a few points of the sweep and micro-probes.

The model is the simulator with the experiment's own seeds. So it reads the same files
as the measured processes, in the same order and from the same tier. The fitted
parameters are keys of the system's `devices`, in units of the machine (`PARAMETERS`).
All other values stay as in the system file, such as the structure of the storage
(servers, groups, request sizes) and the processor time of a sample. The file's value of
a fitted parameter is ignored.

The sum of squares (`scipy.optimize.least_squares`, logarithms of the parameters,
bounds) has one term for

- each epoch of a point and each I/O class with operations: mean over the processes;
- each epoch of a point: I/O time of the slowest process; both as difference of model
  and measurement over the measured I/O time of the slowest process;
- each probe on each OST count with a duration in the model: logarithm of modelled over
  measured time, the median of its repeats.

Terms have weight 1. The weight of a probe is lower if its repeats scatter: `NOISE` over
the root of the sum of the squares of `NOISE` and the median's error.

Standard errors are those of a linear fit, s^2 (J'J)^-1 with s^2 the sum of squares over
the degrees of freedom. s is at least `NOISE`, because an exact fit of a simulated table
does not make its parameters exact. Standard errors include the scatter of these data,
not effects that the model omits. If the system file omits processor time, the fitted
service times are too short. If the data cannot determine a parameter of a given list,
calibration stops (`Calibration.check`). Without a list the data choose
(`tierscope.model.calibration.automatic`).
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tierscope.core.description import RunDescription
from tierscope.core.tables import read_table
from tierscope.core.validation import ConfigError, read_yaml
from tierscope.model.calibration.automatic import fit_what_data_tell
from tierscope.model.calibration.judgement import judge
from tierscope.model.calibration.objective import (
    Objective,
    Space,
    refuse_unfinished,
    unsaid,
)
from tierscope.model.calibration.result import (
    FURTHER_PARAMETERS,
    PARAMETERS,
    Calibration,
)
from tierscope.model.calibration.starting_values import calibrated
from tierscope.model.calibration.structures import (
    fit_structure,
    with_observed_servers,
    without_structures,
)
from tierscope.storage.queueing_network import ModelError


def read_described(
    content: Mapping[str, Any], devices: Sequence[str], manifest: Sequence[str] = ()
) -> RunDescription:
    """Return the description of a scenario for the models.

    Parameters
    ----------
    content : mapping
        The description (`RunDescription.as_json`).
    devices : sequence of path
        The file of fitted devices (`read_devices`), or none.
    manifest : sequence of path
        The manifest of the scenario's dataset, for the servers of its files, or none.
    """
    return as_fitted(RunDescription.from_json(content), devices, manifest)


def as_fitted(
    description: RunDescription, devices: Sequence[str], manifest: Sequence[str] = ()
) -> RunDescription:
    """Return a description with what files say, as `read_described`."""
    if devices:
        description = calibrated(description, read_devices(devices))
    if manifest:
        files = read_table(manifest, "manifest")
        description = with_observed_servers(description, files)
    return description


def read_devices(path: str | Path) -> dict[str, Any]:
    """Return the section `devices` of a file that target `calibrate` has written.

    Raises
    ------
    ModelError
        If the file cannot be read or lacks this section.
    """
    try:
        content = read_yaml(path)
    except ConfigError as error:
        raise ModelError(str(error)) from error
    devices = content.get("devices")
    if not isinstance(devices, dict):
        raise ModelError(f"{path}: got no section devices, expected a mapping.")
    return devices


def calibrate(
    description: RunDescription,
    io_time: pd.DataFrame,
    probes: pd.DataFrame | None,
    parameters: Sequence[str] | None = None,
    tries_structures: bool = True,
    say: Callable[[str], None] = unsaid,
) -> Calibration:
    """Fit devices to measured points of a scenario and to probes.

    Parameters
    ----------
    description : RunDescription
        As `Experiment.model_description` returns it.
    io_time : DataFrame
        Table ``io_time`` of some points of the scenario.
    probes : DataFrame or None
        Table ``probes`` of any OST counts.
    parameters : sequence of str, optional
        Keys of `PARAMETERS` and `FURTHER_PARAMETERS` to fit; default: those that the
        data can tell.
    tries_structures : bool
        Whether files lie on the servers of the description, if it knows them, and
        structures of the GFS are tried (`tierscope.model.calibration.structures`).
        False: file i lies on server i modulo their number.
    say : callable, optional
        Gets a line on each step of the fit.

    Returns
    -------
    Calibration
        The calibration, not yet checked (`Calibration.check`).

    Raises
    ------
    ModelError
        If a parameter is unknown, tables do not fit the description, or there are
        fewer observations than parameters.
    """
    if not tries_structures:
        description = without_structures(description)
    if parameters is None:
        fit = fit_structure if tries_structures else fit_what_data_tell
        return fit(description, io_time, probes, say=say)
    known = PARAMETERS | FURTHER_PARAMETERS
    if unknown := sorted(set(parameters) - set(known)):
        raise ModelError(
            f"parameters: got {unknown[0]}, expected some of {', '.join(known)}."
        )
    chosen = tuple(one for name, one in known.items() if name in parameters)
    return _fit_all(Objective(description, io_time, probes, chosen, say))


def _fit_all(objective: Objective) -> Calibration:
    """Return the parameters of an objective with the least sum of squares."""
    start, names = objective.start(), objective.names
    groups = [[i] for i in range(len(names))]
    space = Space.of(start, groups, objective.signs)
    found = objective.minimise(space, objective.best_start(groups, start))
    refuse_unfinished(found, names)
    if len(found.terms) <= len(names):
        raise ModelError(
            f"parameters: got {len(names)} to fit to {len(found.terms)} observations, "
            "expected fewer."
        )
    errors, correlation = found.uncertainty()
    test, uncertainty = judge(objective, found)
    return Calibration(
        objective.description,
        objective.parameters,
        np.exp(found.x),
        np.exp(found.x) * errors,
        len(found.terms),
        found.rms_percent,
        correlation=correlation,
        lack_of_fit=test,
        uncertainty=uncertainty,
        is_ambiguous=objective.is_ambiguous(found),
    )
