"""From which of several starts a calibration begins."""

import numpy as np
import pytest
from tierscope.model.calibration.objective import Objective
from tierscope.model.calibration.result import IN_SERIES

RATES = np.log([40.0, 700.0])  # of OSTs and of the link


class TwoMinima(Objective):
    """Probes are met with one rate at 40, points only if it is that of the OSTs."""

    def __init__(self, names=IN_SERIES):
        self.names = list(names)
        self.bounds = np.full(len(names), 0.0), np.full(len(names), 20.0)
        self.signs, self.begun = -np.ones(len(names)), []

    def _fit_probes(self, space, x):
        self.begun.append(np.exp(x).round(3).tolist())
        return np.where(x[0] <= x[-1], RATES, RATES[::-1])[: len(x)]

    def residuals(self, space, z):
        return np.array([1.0 if z[0] > RATES[0] else 1e-3])


@pytest.fixture
def both():
    return [[0], [1]]


def test_start_that_meets_only_the_probes_gives_way_to_one_that_meets_the_points(both):
    objective = TwoMinima()
    found = objective.best_start(both, np.log([100.0, 99.0]))
    assert objective.begun == [[100, 99], [400, 99], [100, 396]]
    assert found.tolist() == RATES.tolist()


def test_start_that_meets_all_is_taken(both):
    objective = TwoMinima()
    found = objective.best_start(both, np.log([99.0, 100.0]))
    assert objective.begun == [[99, 100]]
    assert found.tolist() == RATES.tolist()


def test_without_one_of_the_rates_there_is_nothing_to_exchange():
    objective = TwoMinima(names=IN_SERIES[:1])
    objective.best_start([[0]], np.log([100.0]))
    assert objective.begun == [[100]]
