"""Fit one parameter of the devices to a utilisation that somebody has measured."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from tierscope.data.designs import Design, Plan, Storage
from tierscope.model.calibration.result import FURTHER_PARAMETERS, PARAMETERS, Parameter
from tierscope.model.calibration.starting_values import with_values
from tierscope.model.designs.feeding import Simulate, Trial
from tierscope.storage.queueing_network import ModelError

_NEAR_POINTS = 0.01  # of the utilisation: near enough
_NEAR = 1e-4  # of the value, where the utilisation jumps


@dataclass(frozen=True)
class Fitted:
    """A fitted parameter, and the plans with its value and with both ends of it.

    Parameters
    ----------
    parameter : Parameter
        Which one it is.
    value, low, high : float
        Values that give the utilisation, and that less and plus its deviation.
    plans : tuple of Plan
        The plans with `value`, `low` and `high`.
    """

    parameter: Parameter
    value: float
    low: float
    high: float
    plans: tuple[Plan, ...]


def fit_parameter(
    simulate: Simulate,
    plan: Plan,
    fit: Mapping[str, Any],
    storage: Storage,
    repetitions: int,
    say: Callable[[str], None],
) -> Fitted:
    """Fit a parameter of a plan's devices to a measured utilisation.

    Parameters
    ----------
    simulate : callable
        What simulates.
    plan : Plan
        The workload on the machine; its value of the parameter is ignored.
    fit : mapping
        Key ``fit`` of the configuration.
    storage : Storage
        The storage that was measured.
    repetitions : int
        Simulations of each value.
    say : callable
        Gets a line on each value that is tried.

    Raises
    ------
    ModelError
        If no value of the parameter gives the utilisation.
    """
    parameter = (PARAMETERS | FURTHER_PARAMETERS)[fit["parameter"]]

    def changed(value: float) -> Plan:
        values = {parameter.name: value}
        return replace(plan, description=with_values(plan.description, values))

    @cache  # the searches begin with the same values
    def utilisation(value: float) -> float:
        found, design = changed(value), Design(fit["accelerators"], storage)
        paces = simulate([Trial(found, design, i) for i in range(repetitions)])
        percent = float(np.mean([one.utilisation_percent for one in paces]))
        say(f"{parameter.name} {value:.4g} {parameter.unit}: AU {percent:.2f} %")
        return percent

    ends = [utilisation(value) for value in _bounds(parameter)]
    given, half = fit["utilisation_percent"], fit["deviation_points"]
    _check_reached(ends, parameter, given, half)
    low, value, high = (
        solve(utilisation, wanted, parameter)
        for wanted in (given - half, given, given + half)
    )
    plans = tuple(changed(one) for one in (value, low, high))
    return Fitted(parameter, value, low, high, plans)


def _bounds(parameter: Parameter) -> tuple[float, float]:
    """Return the bounds, that of the slower storage first: a long time, a low rate."""
    bounds = parameter.lower, parameter.upper
    return bounds if parameter.sign < 0 else bounds[::-1]


def _check_reached(
    ends: Sequence[float], parameter: Parameter, given: float, half: float
) -> None:
    """Refuse a utilisation, less and plus its deviation, that no value gives."""
    if ends[0] <= given - half and given + half <= ends[1]:
        return
    raise ModelError(
        f"config: designs.fit: got utilisation_percent {given:g} and "
        f"deviation_points {half:g}, expected {given - half:g} to {given + half:g} % "
        f"between {ends[0]:.2f} and {ends[1]:.2f} %, which {parameter.name} gives from "
        f"{parameter.lower:g} to {parameter.upper:g} {parameter.unit}: fit another "
        "parameter, or check the system's other values."
    )


def solve(
    utilisation: Callable[[float], float], wanted_percent: float, parameter: Parameter
) -> float:
    """Return the value of a parameter that gives a utilisation, by bisection.

    The bounds of the parameter enclose it.
    """
    least, most = np.log(_bounds(parameter))
    while abs(most - least) > _NEAR:
        middle = (least + most) / 2
        found = utilisation(float(np.exp(middle)))
        if abs(found - wanted_percent) <= _NEAR_POINTS:
            break
        least, most = (middle, most) if found < wanted_percent else (least, middle)
    return float(np.exp((least + most) / 2))
