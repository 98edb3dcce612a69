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
service times are too short. If the data cannot determine a parameter, calibration stops
(`Calibration.check`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from scipy.optimize import least_squares

from tierscope.core.description import ProbeDescription, RunDescription
from tierscope.model.calibration.observations import (
    measured_epochs,
    measured_probes,
    modelled_epochs,
)
from tierscope.model.calibration.probe_times import probe_times
from tierscope.model.calibration.result import (
    FURTHER_PARAMETERS,
    IN_SERIES,
    LARGEST_ERROR,
    NOTHING_KNOWN,
    PARAMETERS,
    Calibration,
    Parameter,
)
from tierscope.model.calibration.starting_values import (
    starting_values,
    station,
    with_values,
)
from tierscope.storage.network import ModelError

NOISE = 0.01  # relative precision of any time, at best
_CLEARLY = 3.0  # standard errors by which any other solution must be worse
_STEP = 0.1  # step of derivatives in the search, in logarithms
# The simulator is not smooth: a small change can reorder two ranks and so change all
# later events. So it is averaged over neighbours at this distance (logarithms). Their
# number gives `_READS` reads in total, so it is small for a run with many reads.
_NEAR = 0.01
_READS, _MOST_PAIRS = 16_000, 8
_DISTANCES = 4  # number of distances for the standard errors
_TOLERANCE = 1e-5
_MOST_EVALUATIONS = 60


def calibrated(
    description: RunDescription, devices: Mapping[str, Any]
) -> RunDescription:
    """Return a scenario's description with other devices, for the models.

    Parameters
    ----------
    description : RunDescription
        As `Experiment.model_description` returns it.
    devices : mapping
        The section `devices`, such as `Calibration.devices` or the file written by
        target `calibrate`.
    """
    system = description.system
    changed = replace(system, devices={**system.devices, **devices})
    return replace(description, system=changed)


def read_devices(path: str | Path) -> dict[str, Any]:
    """Return the section `devices` of a file that target `calibrate` has written.

    Raises
    ------
    ModelError
        If the file cannot be read or lacks this section.
    """
    try:
        content = yaml.safe_load(Path(path).read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ModelError(f"{path}: {' '.join(str(error).split())}") from error
    devices = content.get("devices") if isinstance(content, dict) else None
    if not isinstance(devices, dict):
        raise ModelError(f"{path}: got no section devices, expected a mapping.")
    return devices


def calibrate(
    description: RunDescription,
    io_time: pd.DataFrame,
    probes: pd.DataFrame | None,
    parameters: Sequence[str],
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
    parameters : sequence of str
        Keys of `PARAMETERS` and `FURTHER_PARAMETERS` to fit.

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
    known = PARAMETERS | FURTHER_PARAMETERS
    if unknown := sorted(set(parameters) - set(known)):
        raise ModelError(
            f"parameters: got {unknown[0]}, expected some of {', '.join(known)}."
        )
    chosen = tuple(one for name, one in known.items() if name in parameters)
    fit = _Fit(description, io_time, probes, chosen)
    return fit.run()


class _Fit:
    """The sum of squares of a calibration, and its minimisation."""

    def __init__(
        self,
        description: RunDescription,
        io_time: pd.DataFrame,
        probes: pd.DataFrame | None,
        parameters: tuple[Parameter, ...],
    ):
        self.description, self.parameters = description, parameters
        self.names = [one.name for one in parameters]
        bounds = np.log([[one.lower, one.upper] for one in parameters])
        self.bounds = bounds[:, 0], bounds[:, 1]
        self.measured = measured_epochs(description, io_time)
        self.measured_probes = measured_probes(description, probes)
        self.shifts = self._shifts()

    def _shifts(self) -> np.ndarray:
        """Return the neighbours for averaging the simulator, in logarithms."""
        n_files = self.description.dataset.n_files
        n_pairs = min(_MOST_PAIRS, _READS // (2 * n_files))
        shifts = np.random.default_rng(0).standard_normal((n_pairs, len(self.names)))
        if n_pairs == 0:
            return np.zeros((1, 1))
        return _NEAR * np.concatenate([shifts, -shifts])

    def _start(self) -> np.ndarray:
        """Return the logarithms of the starting values."""
        found = {one.name: np.sqrt(one.lower * one.upper) for one in self.parameters}
        found |= starting_values(self.description, self.measured, self.measured_probes)
        start = np.log([found[name] for name in self.names])
        return np.clip(start, self.bounds[0] + 0.1, self.bounds[1] - 0.1)

    def at(self, x: np.ndarray) -> RunDescription:
        """Return the description with the parameters of these logarithms."""
        values = dict(zip(self.names, np.exp(x), strict=True))
        return with_values(self.description, values)

    def table_residuals(self, x: np.ndarray) -> np.ndarray:
        """Return the terms of the points."""
        near = [self.at(x + shift) for shift in self.shifts]
        terms = []
        for point, measured in self.measured.items():
            modelled = np.mean([modelled_epochs(one, point) for one in near], axis=0)
            share = (modelled - measured) / measured[:, -1:]
            terms.append(share[~np.isnan(measured)])
        return np.concatenate(terms)

    def probe_residuals(self, x: np.ndarray) -> np.ndarray:
        """Return the terms of the probes."""
        probed, terms = ProbeDescription.of(self.at(x)), []
        for n_osts, measured in self.measured_probes.items():
            modelled = probe_times(probed, n_osts)
            terms += [
                NOISE / np.hypot(NOISE, one.error) * np.log(modelled[name] / one.time_s)
                for name, one in measured.items()
                if modelled[name] > 0
            ]
        return np.array(terms)

    def residuals(self, x: np.ndarray) -> np.ndarray:
        """Return all terms."""
        return np.concatenate([self.table_residuals(x), self.probe_residuals(x)])

    def run(self) -> Calibration:
        """Return the parameters with the least sum of squares; fit probes first."""
        x = self._start()
        if len(self.probe_residuals(x)):
            x = self._least_squares(self.probe_residuals, x)
        x = self._least_squares(self.residuals, x)
        terms = self.residuals(x)
        n_free = len(terms) - len(x)
        if n_free < 1:
            raise ModelError(
                f"parameters: got {len(x)} to fit to {len(terms)} observations, "
                "expected fewer."
            )
        s = max(np.sqrt((terms**2).sum() / n_free), NOISE)
        errors, correlation = _uncertainty(*_broad_derivatives(self.residuals, x), s)
        return Calibration(
            self.description,
            self.parameters,
            np.exp(x),
            np.exp(x) * errors,
            correlation,
            len(terms),
            float(100 * np.sqrt((terms**2).mean())),
            self._is_ambiguous(x, (terms**2).sum() + (_CLEARLY * s) ** 2),
        )

    def _is_ambiguous(self, x: np.ndarray, limit: float) -> bool:
        """Return whether exchanging OSTs and links keeps the sum below a limit."""
        if not set(IN_SERIES) <= set(self.names):
            return False
        n_osts = self.description.scenario.n_osts
        at = [self.names.index(name) for name in IN_SERIES]
        osts, links = (
            np.log(station(self.at(x), n_osts, name)) - x[i]
            for name, i in zip(IN_SERIES, at, strict=True)
        )
        exchanged = x.copy()
        exchanged[at] = x[at[1]] + links - osts, x[at[0]] + osts - links
        return bool((self.residuals(exchanged) ** 2).sum() < limit)

    def _least_squares(self, residuals, start: np.ndarray) -> np.ndarray:
        """Return the minimum of a sum of squares."""
        found = least_squares(
            residuals,
            start,
            jac=lambda x: _derivatives(residuals, x),
            bounds=self.bounds,
            xtol=_TOLERANCE,
            ftol=_TOLERANCE,
            max_nfev=_MOST_EVALUATIONS,
        )
        if not found.success:
            raise ModelError(
                f"{', '.join(self.names)}: the fit has not converged after "
                f"{found.nfev} evaluations; measure again, or fit fewer parameters."
            )
        return found.x


def _derivatives(residuals, x: np.ndarray, step: float = _STEP) -> np.ndarray:
    """Return the derivatives of residuals, central: shape (n_terms, n_parameters)."""
    columns = []
    for shift in np.eye(len(x)) * step:
        columns.append((residuals(x + shift) - residuals(x - shift)) / (2 * step))
    return np.column_stack(columns)


def _broad_derivatives(residuals, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return derivatives over the range of an acceptable error, and their noise.

    ``a h + b h^3`` is fitted to half the differences at several distances h. ``a`` is
    the derivative, and the residual is the simulator's roughness.

    Returns
    -------
    jacobian : ndarray of float, shape (n_terms, n_parameters)
    noise : ndarray of float, shape (n_parameters,)
        Sum over the terms of the squared standard error of ``a``.
    """
    distances = np.log1p(LARGEST_ERROR) * np.arange(1, _DISTANCES + 1) / _DISTANCES
    basis = np.column_stack([distances, distances**3])
    inverse = np.linalg.inv(basis.T @ basis)
    columns, noise = [], []
    for one in np.eye(len(x)):
        halves = [
            (residuals(x + h * one) - residuals(x - h * one)) / 2 for h in distances
        ]
        coefficients, *_ = np.linalg.lstsq(basis, np.array(halves), rcond=None)
        left = np.array(halves) - basis @ coefficients
        columns.append(coefficients[0])
        noise.append((left**2).sum() / (_DISTANCES - 2) * inverse[0, 0])
    return np.column_stack(columns), np.array(noise)


def _uncertainty(
    jacobian: np.ndarray, noise: np.ndarray, s: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return standard errors and correlations of the logarithms of the parameters.

    Noise adds to the diagonal of J'J like information, so it is subtracted twice. A
    direction without remaining information has the error `NOTHING_KNOWN`.
    """
    information = jacobian.T @ jacobian - 2 * np.diag(noise)
    eigenvalues, directions = np.linalg.eigh(information)
    scaled = directions * np.minimum(
        s / np.sqrt(np.maximum(eigenvalues, 1e-300)), NOTHING_KNOWN
    )
    covariance = scaled @ scaled.T
    errors = np.sqrt(np.diag(covariance))
    return errors, covariance / np.outer(errors, errors)
