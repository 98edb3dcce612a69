"""Draws of the parameters of a calibration, by the errors that it has kept.

Draw 0 has the fitted values. The logarithms of the others err by Student's t with the
covariance and the degrees of freedom of all sources together. The model errs as well,
by a part of the I/O time: that is a factor of all times of the devices. Draws are
stratified: of `n` draws each error takes the middles of `n` equally likely parts once,
in random order, so that few draws reach both ends.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy.special import stdtrit

from tierscope.core.columns import CLASSES
from tierscope.data.designs import Plan
from tierscope.model.calibration.result import FURTHER_PARAMETERS, PARAMETERS
from tierscope.model.calibration.starting_values import with_values
from tierscope.model.calibration.uncertainty import RelativeErrors, Uncertainty
from tierscope.storage.queueing_network import ModelError

_STREAM = 11  # of random numbers; shuffle, pinning and the simulator have others


def drawn_plans(
    plan: Plan, content: Mapping[str, Any] | None, n_draws: int
) -> list[Plan]:
    """Return a plan with the fitted parameters, then with drawn ones.

    Parameters
    ----------
    plan : Plan
        With the fitted devices, and the seed of the draws.
    content : mapping or None
        What the calibration wrote (`Uncertainty.as_json`); None: there is none, and all
        plans are the same.
    n_draws : int
        Plans to return.

    Raises
    ------
    ModelError
        If the devices lack a parameter of the calibration.
    """
    if content is None or n_draws == 1:
        return [plan] * n_draws
    uncertainty = Uncertainty.from_json(content)
    seed = plan.description.training.seed
    errors = _errors(uncertainty, n_draws - 1, seed)
    return [plan, *(_changed(plan, uncertainty.parameters, one) for one in errors)]


def total_covariance(uncertainty: Uncertainty) -> tuple[np.ndarray, float]:
    """Return the covariance of parameters and of a common factor, and its degrees.

    Returns
    -------
    covariance : ndarray, shape (n_parameters + 1, n_parameters + 1)
        Of the logarithms; the last one is the factor of all times.
    degrees : float
        By Welch and Satterthwaite, of the traces.
    """
    n, parts = len(uncertainty.parameters), []
    for source in uncertainty.sources:
        part = np.zeros((n + 1, n + 1))
        part[:n, :n] = source.covariance
        part[n, n] = source.deviation**2
        parts.append((part, source.degrees))
    traces = [(np.trace(part), degrees) for part, degrees in parts]
    degrees = float(RelativeErrors.of_sources(traces).degrees)
    return reduce(add, (part for part, _ in parts)), degrees


def _errors(uncertainty: Uncertainty, n_draws: int, seed: int) -> np.ndarray:
    """Return drawn errors of the logarithms: shape (n_draws, n_parameters + 1)."""
    covariance, degrees = total_covariance(uncertainty)
    variances, axes = np.linalg.eigh(covariance)
    stream = np.random.SeedSequence(seed, spawn_key=(_STREAM,))
    generator = np.random.default_rng(stream)
    middles = np.tile((np.arange(n_draws) + 0.5) / n_draws, (len(variances), 1))
    t = stdtrit(degrees, generator.permuted(middles, axis=1))
    return (axes @ (np.sqrt(np.maximum(variances, 0))[:, None] * t)).T


def _changed(plan: Plan, names: Sequence[str], errors: np.ndarray) -> Plan:
    """Return a plan whose parameters, and all times of whose devices, err."""
    description, values = plan.description, {}
    for name, error in zip(names, errors, strict=False):
        value, known = value_of(plan, name), (PARAMETERS | FURTHER_PARAMETERS)[name]
        values[name] = np.clip(value * np.exp(error), known.lower, known.upper)
    faster_percent = 100 * float(np.expm1(-errors[-1]))
    system = with_values(description, values).system
    if faster_percent:
        classes = dict.fromkeys(CLASSES, faster_percent)
        system = replace(system, improvements=classes)
    return replace(plan, description=replace(description, system=system))


def value_of(plan: Plan, name: str) -> float:
    """Return the value of a key ``part.key`` of a plan's devices."""
    part, key = name.split(".")
    if (value := plan.machine.devices.get(part, {}).get(key)) is None:
        raise ModelError(
            f"devices.{name}: got none, expected the value that the calibration gave: "
            "take its devices.yaml."
        )
    return value
