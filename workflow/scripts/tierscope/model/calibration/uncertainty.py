"""How sure a prediction is: the uncertainty of a calibration, carried to what it says.

A prediction errs because the fitted parameters err, and because the structure of the
model may not describe the storage. Both are known from the calibration:

- *pure error*: what the scatter of repetitions does to the parameters (a sandwich of
  the fit's derivatives around `tierscope.model.calibration.replicates`, by cache rate);
- *untold*: parameters, or ratios of them, that the data hardly limit are taken as known
  to a factor e (one standard error);
- *structure*: each time differs from the model's by a part of the I/O time, as large as
  lack of fit says (`tierscope.model.calibration.lack_of_fit.discrepancy`). This moves
  the fitted parameters, and the model errs as much at the predicted place.

Errors are relative (of logarithms) and carried by derivatives. An interval is Student's
t; its degrees of freedom are those of its sources after Welch (Biometrika 34, 1947) and
Satterthwaite (Biometrics Bulletin 2, 1946). It is an interval of the true mean over
many repetitions, not of a single run.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import stdtrit

from tierscope.core.columns import CLASSES
from tierscope.core.description import RunDescription
from tierscope.core.files import write_text
from tierscope.core.validation import read_json
from tierscope.model.calibration.starting_values import with_values
from tierscope.storage.queueing_network import ModelError

LEVEL_PERCENT = 95
_STEP = 0.15  # of derivatives by the logarithm of a parameter
_SMALL = 1e-4  # of derivatives by class times, as a part of the I/O time
_MANY = 1e9  # degrees of freedom of a known error


class RelativeErrors(NamedTuple):
    """Relative standard errors of some positive numbers, and how well they are known.

    Parameters
    ----------
    deviation : ndarray of float
        Standard deviation of the logarithm of each number.
    degrees : ndarray of float
        Degrees of freedom of each deviation.
    """

    deviation: np.ndarray
    degrees: np.ndarray

    def interval(
        self, values: np.ndarray, level_percent: float = LEVEL_PERCENT
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return both ends of the intervals of the numbers."""
        t = stdtrit(self.degrees, 0.5 + level_percent / 200)
        factor = np.exp(t * self.deviation)
        return values / factor, values * factor

    @classmethod
    def of_sources(cls, sources: Sequence[tuple[np.ndarray, float]]) -> Self:
        """Return the errors from independent sources (Welch and Satterthwaite).

        Of each source the relative variance and its degrees of freedom.
        """
        total = reduce(add, (variance for variance, _ in sources), 0)
        rest = reduce(add, (variance**2 / n for variance, n in sources), 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            free = np.where(rest > 0, total**2 / rest, _MANY)
        return cls(np.sqrt(total), np.clip(free, 1.0, _MANY))


@dataclass(frozen=True)
class Source:
    """A source of errors.

    Parameters
    ----------
    name : str
        Which one, for readers.
    covariance : ndarray of float, shape (n_parameters, n_parameters)
        Covariance of the logarithms of the parameters due to it.
    degrees : float
        Degrees of freedom from which it is known.
    deviation : float
        Standard deviation of the predicted I/O time itself, as a part of it. The
        classes share it: the variance of each is in proportion to its time.
    """

    name: str
    covariance: np.ndarray
    degrees: float
    deviation: float = 0.0


@dataclass(frozen=True)
class Uncertainty:
    """The uncertainty of a calibration.

    Parameters
    ----------
    parameters : tuple of str
        Keys ``tier.key`` of `devices` that are uncertain.
    sources : tuple of Source
        Independent sources of errors.
    """

    parameters: tuple[str, ...]
    sources: tuple[Source, ...]

    def errors(
        self,
        description: RunDescription,
        times: Callable[[RunDescription], np.ndarray],
        value: Callable[[np.ndarray], np.ndarray],
        more: Sequence[tuple[np.ndarray, float]] = (),
    ) -> RelativeErrors:
        """Return the relative standard errors of numbers that a model computes.

        Parameters
        ----------
        description : RunDescription
            The scenario with the fitted devices, which are changed a little.
        times : callable
            I/O times of a description by class, in seconds: the last axis is that of
            `IOClass`. It is called twice for each parameter, and once more.
        value : callable
            The numbers, above 0, as a function of these times: for example ``lambda
            times_s: times_s.sum(axis=-1)``, or the ratio of an improved time to that
            without the improvement.
        more : sequence of tuple
            Other independent sources of error of the numbers: relative variance and
            degrees of freedom.
        """
        base_s = times(description)
        slopes = np.array(
            [self._slope(description, times, value, name) for name in self.parameters]
        )
        own = reduce(
            add, (_class_slope(base_s, value, i) ** 2 for i in range(len(CLASSES)))
        )
        variances = []
        for source in self.sources:
            shape = (source.covariance, slopes)
            variance = np.einsum("ij,i...,j...->...", *shape, slopes)
            variance = np.maximum(variance, 0) + source.deviation**2 * own
            variances.append((variance, source.degrees))
        return RelativeErrors.of_sources([*variances, *more])

    def _slope(
        self, description: RunDescription, times: Callable, value: Callable, name: str
    ) -> np.ndarray:
        """Return the derivative of the numbers' logarithms by that of a parameter."""
        tier, key = name.split(".")
        here = description.system.devices[tier][key]
        ends = [
            value(times(with_values(description, {name: here * np.exp(step)})))
            for step in (_STEP, -_STEP)
        ]
        return _logarithm(ends[0], ends[1]) / (2 * _STEP)

    def as_json(self) -> dict[str, Any]:
        """Return the uncertainty, ready for JSON; no degrees: the error is known."""
        sources = [
            {
                "name": one.name,
                "degrees": None if np.isinf(one.degrees) else one.degrees,
                "deviation": one.deviation,
                "covariance": one.covariance.tolist(),
            }
            for one in self.sources
        ]
        return {"parameters": list(self.parameters), "sources": sources}

    def write(self, path: str | Path) -> None:
        """Write the uncertainty to a file."""
        write_text(path, json.dumps(self.as_json(), indent=1) + "\n")

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Uncertainty":
        """Return the uncertainty from the output of `as_json`."""
        sources = [
            Source(
                one["name"],
                np.array(one["covariance"], dtype=float),
                np.inf if one["degrees"] is None else float(one["degrees"]),
                float(one["deviation"]),
            )
            for one in content["sources"]
        ]
        return cls(tuple(content["parameters"]), tuple(sources))

    @classmethod
    def read(cls, path: str | Path) -> "Uncertainty":
        """Read the uncertainty that target `calibrate` has written.

        Raises
        ------
        ModelError
            If the file has another form.
        """
        try:
            return cls.from_json(read_json(path))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelError(
                f"{path}: got no uncertainty of a calibration, expected that of target "
                f"calibrate ({error})."
            ) from error


def _logarithm(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Return the logarithm of a ratio; 0 for numbers that are 0."""
    known = (above > 0) & (below > 0)
    return np.log(np.where(known, above, 1.0) / np.where(known, below, 1.0))


def _class_slope(times_s: np.ndarray, value: Callable, column: int) -> np.ndarray:
    """Return the derivative of the numbers' logarithms by the error of a class."""
    mine = np.arange(len(CLASSES)) == column
    # The error is a part of the I/O time, times the root of the class's share.
    step_s = _SMALL * np.sqrt(times_s * times_s.sum(axis=-1, keepdims=True)) * mine
    return _logarithm(value(times_s + step_s), value(times_s)) / _SMALL
