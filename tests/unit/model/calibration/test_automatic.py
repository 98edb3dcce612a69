"""What a calibration that chooses for itself leaves out, and how often it searches."""

import numpy as np
import pytest
from tierscope.model.calibration.automatic import _Search
from tierscope.model.calibration.objective import Objective, unsaid
from tierscope.model.calibration.result import BOUND, FITTED, JOINED, KEPT, PARAMETERS

NAMES = ("gfs.open_s", "gfs.read_latency_s", "lfs.request_s", "lfs.latency_s")
TRUTH = np.log([1e-3, 2e-3, 4e-3, 8e-3])
STEPS = np.array([1.0, -1.0, 2.0])


class Linear(Objective):
    """Terms that are linear in the parameters, and counted searches."""

    def __init__(self, effects):
        self.parameters = tuple(PARAMETERS[name] for name in NAMES)
        self.names, self.say = list(NAMES), unsaid
        bounds = np.log([[one.lower, one.upper] for one in self.parameters])
        self.bounds, self.signs = (bounds[:, 0], bounds[:, 1]), np.ones(len(NAMES))
        self.effects, self.measured_probes, self.searched = effects, {}, []

    def start(self):
        return TRUTH + 0.5

    def residuals(self, space, z):
        shift = space.at(z) - TRUTH
        terms = [step * (row @ shift) for row in self.effects for step in STEPS]
        return np.array([*terms, 0.0])

    def minimise(self, space, x):
        self.searched.append(space.directions.shape[1])
        return super().minimise(space, x)


def search(effects, written=TRUTH):
    """Return a finished search with the findings of its parameters, by status."""
    found = _Search(Linear(np.array(effects, dtype=float)), np.exp(written)).run()
    return found, [one.status for one in found.findings()]


def test_what_one_search_does_not_tell_takes_no_search_each():
    sum_only, weak = [1, 1, 0, 0], 0.01
    effects = [sum_only, [0, 0, weak, 0], [0, 0, 0, weak]]
    found, status = search(effects)
    assert status == [JOINED, JOINED, KEPT, KEPT]
    # All, the sum that remains, and once more with the values of those left out.
    assert found.objective.searched == [4, 1, 1]
    assert found.minimum.x[0] + found.minimum.x[1] == pytest.approx(TRUTH[:2].sum())


def test_all_that_the_data_tell_take_one_search():
    found, status = search(np.eye(4))
    assert status == [FITTED] * 4
    assert found.objective.searched == [4]
    assert found.minimum.x == pytest.approx(TRUTH, abs=1e-3)


def test_value_that_the_data_contradict_goes_to_their_limit():
    weak = 0.01
    effects = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, weak]]
    _, status = search(effects, TRUTH - np.array([0, 0, 0, 4.0]))
    assert status == [FITTED, FITTED, FITTED, BOUND]
