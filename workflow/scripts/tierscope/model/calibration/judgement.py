"""Judge a calibration: whether its structure fits, how sure its parameters are.

The parameters that were joined or left out count, too: what no data limit is known to a
factor e (`UNTOLD`).
"""

from collections.abc import Iterator

import numpy as np

from tierscope.model.calibration.lack_of_fit import (
    LackOfFit,
    discrepancy,
    lack_of_fit,
)
from tierscope.model.calibration.objective import Minimum, Objective
from tierscope.model.calibration.replicates import Observations, means
from tierscope.model.calibration.uncertainty import Source, Uncertainty

UNTOLD = 1.0  # standard error of a logarithm that no data limit
# Lack of fit above this p value is taken for pure error: the level that Bancroft
# (Biometrics 20, 1964) recommends for a decision whether to pool.
POOLED = 0.25


def judge(objective: Objective, found: Minimum) -> tuple[LackOfFit, Uncertainty]:
    """Return lack of fit and uncertainty of a calibration.

    Parameters
    ----------
    objective, found
        The sum of squares of a calibration, and where it is least.
    """
    observations = objective.observations(found)
    jacobian, noise = objective.all_derivatives(found)
    means_of = means(jacobian, observations.of_terms)
    prior = (found.s / UNTOLD) ** 2
    gain = observations.gain(means_of, _inverse(jacobian.T @ jacobian, prior))
    # Roughness of the simulator looks like information, so it is subtracted twice.
    told = _inverse(jacobian.T @ jacobian - 2 * np.diag(noise), prior)
    untold = Source("untold", told @ told * (prior * UNTOLD) ** 2, np.inf)
    test = lack_of_fit(observations)
    sources = (untold, *_sources(observations, gain, test.p_value > POOLED))
    return test, Uncertainty(tuple(objective.names), sources)


def _inverse(information: np.ndarray, prior: float) -> np.ndarray:
    """Return the inverse of information that is at least that of the prior."""
    eigenvalues, directions = np.linalg.eigh(information)
    return directions / (np.maximum(eigenvalues, 0) + prior) @ directions.T


def _sources(
    observations: Observations, gain: np.ndarray, is_pooled: bool
) -> Iterator[Source]:
    """Yield the sources of errors that the observations show."""
    for block in observations.blocks:
        part = gain[:, block.members]  # what errors of observations do to parameters
        covariance = part @ block.covariance @ part.T
        yield Source("pure error", covariance, block.degrees)
    if is_pooled:
        return
    deviation, degrees = discrepancy(observations)
    moved = deviation * gain * observations.spread
    yield Source("structure", moved @ moved.T, degrees, deviation)
