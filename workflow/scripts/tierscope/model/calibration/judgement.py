"""Judge a calibration: whether its structure fits, how sure its parameters are.

The parameters that were joined or left out count, too: what no data limit is known to a
factor e (`UNTOLD`).
"""

from collections.abc import Iterator

import numpy as np

from tierscope.model.calibration.lack_of_fit import (
    LackOfFit,
    discrepancies,
    lack_of_fit,
)
from tierscope.model.calibration.objective import Minimum, Objective
from tierscope.model.calibration.replicates import Observations, means
from tierscope.model.calibration.uncertainty import Source, Uncertainty

UNTOLD = 1.0  # standard error of a logarithm that no data limit


def judge(objective: Objective, found: Minimum) -> tuple[LackOfFit, Uncertainty]:
    """Return lack of fit and uncertainty of a calibration.

    Parameters
    ----------
    objective, found
        The sum of squares of a calibration, and where it is least.
    """
    observations = objective.observations(found)
    jacobian, noise = objective.all_derivatives(found)
    information = jacobian.T @ jacobian - 2 * np.diag(noise)
    prior = (found.s / UNTOLD) ** 2
    eigenvalues, directions = np.linalg.eigh(information)
    inverse = directions / (np.maximum(eigenvalues, 0) + prior) @ directions.T
    gain = observations.gain(means(jacobian, observations.of_terms), inverse)
    untold = inverse @ inverse * (prior * UNTOLD) ** 2
    sources = [Source("untold", untold, np.inf), *_sources(observations, gain)]
    test = lack_of_fit(observations)
    return test, Uncertainty(tuple(objective.names), tuple(sources))


def _sources(observations: Observations, gain: np.ndarray) -> Iterator[Source]:
    """Yield the sources of errors that the observations show.

    `gain` is what errors of observations do to the parameters: (n_parameters, n).
    """
    for block in observations.blocks:
        part = gain[:, block.members]
        covariance = part @ block.covariance @ part.T
        yield Source("pure error", covariance, block.degrees)
    for name, (deviation, degrees) in discrepancies(observations).items():
        moved = gain @ observations.deviations(name)
        covariance = deviation**2 * moved @ moved.T
        yield Source("structure", covariance, degrees, name, deviation)
