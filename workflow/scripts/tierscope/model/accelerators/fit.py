"""Fit one parameter of the devices to a utilisation that somebody has measured."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tierscope.core.scenario import Point
from tierscope.data.accelerators import Plan
from tierscope.model.accelerators.feeding import simulate_pace
from tierscope.model.calibration.result import (
    FURTHER_PARAMETERS,
    PARAMETERS,
    Parameter,
)
from tierscope.model.calibration.starting_values import with_values
from tierscope.storage.queueing_network import ModelError

_NEAR_POINTS = 0.01  # of the utilisation: near enough
_NEAR = 1e-4  # of the value, where the utilisation jumps


@dataclass(frozen=True)
class Fitted:
    """A fitted parameter, and the plans with its value and with both ends.

    Parameters
    ----------
    parameter : Parameter
        Which one it is.
    value, low, high : float
        Values that give the utilisation, and that less and plus its deviation.
    plan : Plan
        The plan with `value`.
    ends : tuple of Plan
        The plans with `low` and `high`.
    """

    parameter: Parameter
    value: float
    low: float
    high: float
    plan: Plan
    ends: tuple[Plan, Plan]


def fit_parameter(
    plan: Plan, fit: Mapping[str, Any], points: Sequence[Point]
) -> Fitted:
    """Fit a parameter of a plan's devices to a measured utilisation.

    Parameters
    ----------
    plan : Plan
        The workload on the machine; its value of the parameter is ignored.
    fit : mapping
        Key ``fit`` of the configuration.
    points : sequence of Point
        Repetitions of the cache rate that was measured.

    Raises
    ------
    ModelError
        If no value of the parameter gives the utilisation.
    """
    parameter = (PARAMETERS | FURTHER_PARAMETERS)[fit["parameter"]]

    def changed(value: float) -> Plan:
        values = {parameter.name: value}
        return replace(plan, description=with_values(plan.description, values))

    def utilisation(value: float) -> float:
        found = changed(value)
        paces = [simulate_pace(found, fit["accelerators"], one) for one in points]
        return float(np.mean([one.utilisation_percent for one in paces]))

    middle, half = fit["utilisation_percent"], fit["deviation_points"]
    low, value, high = (
        solve(utilisation, wanted, parameter)
        for wanted in (middle - half, middle, middle + half)
    )
    ends = changed(low), changed(high)
    return Fitted(parameter, value, low, high, changed(value), ends)


def solve(
    utilisation: Callable[[float], float], wanted_percent: float, parameter: Parameter
) -> float:
    """Return the value of a parameter that gives a utilisation, by bisection.

    The utilisation falls with a time and grows with a rate.

    Raises
    ------
    ModelError
        If the bounds of the parameter do not enclose it.
    """
    bounds = (parameter.lower, parameter.upper)
    least, most = np.log(bounds if parameter.sign < 0 else bounds[::-1])
    ends = utilisation(float(np.exp(least))), utilisation(float(np.exp(most)))
    if not ends[0] <= wanted_percent <= ends[1]:
        raise ModelError(
            f"{parameter.name}: got utilisations from {ends[0]:.2f} to {ends[1]:.2f} % "
            f"between its bounds {parameter.lower:g} and {parameter.upper:g} "
            f"{parameter.unit}, expected one of {wanted_percent:.2f} %: fit another "
            "parameter, or check the system's other values."
        )
    while abs(most - least) > _NEAR:
        middle = (least + most) / 2
        found = utilisation(float(np.exp(middle)))
        if abs(found - wanted_percent) <= _NEAR_POINTS:
            break
        least, most = (middle, most) if found < wanted_percent else (least, middle)
    return float(np.exp((least + most) / 2))
