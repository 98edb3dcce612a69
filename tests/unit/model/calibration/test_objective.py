"""From which of several starts a calibration begins, and where its search ends."""

import re

import numpy as np
import pytest
from descriptions import describe_scenario
from tierscope.core.scenario import Point
from tierscope.model.calibration.objective import (
    NOISE,
    Minimum,
    Objective,
    Space,
    unsaid,
)
from tierscope.model.calibration.result import IN_SERIES

RATES = np.log([40.0, 700.0])  # of OSTs and of the link


class TwoMinima(Objective):
    """Probes are met with one rate at 40, points only if it is that of the OSTs."""

    def __init__(self, names=IN_SERIES):
        self.names = list(names)
        self.bounds = np.full(len(names), 0.0), np.full(len(names), 20.0)
        self.signs, self.begun = -np.ones(len(names)), []
        self.say = unsaid

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


class Valley(Objective):
    """A sum of squares that falls to 1/11 in each step of a search, beside a noise."""

    def __init__(self, noise):
        self.bounds, self.signs = (np.full(1, -20.0), np.full(1, 20.0)), np.ones(1)
        self.noise, self.said = np.full(10, noise), []
        self.say = self.said.append

    def residuals(self, space, z):
        return np.append(self.noise, 10 * space.at(z) ** 3)

    def steps(self):
        """Return the numbers of the steps of a search that begins at 3."""
        found = self.minimise(
            Space.of(np.full(1, 3.0), [[0]], self.signs), np.full(1, 3.0)
        )
        assert found.converged
        steps = [line.split()[3] for line in self.said if ", step " in line]
        return [int(one.removesuffix(":")) for one in steps]


def test_search_ends_where_a_step_gains_less_than_the_noise_shows(monkeypatch):
    exact, usual, loud = (Valley(noise).steps() for noise in (0, NOISE, 10))
    assert exact == usual == list(range(1, len(usual) + 1))
    assert len(loud) < len(usual)
    monkeypatch.setattr("tierscope.model.calibration.objective._GAIN", 0.0)
    assert len(Valley(0).steps()) > len(exact) + 5


def test_steps_say_how_much_is_left():
    valley = Valley(NOISE)
    n_steps = len(valley.steps())
    assert re.fullmatch(r"1 parameter, step 1: \d+\.\d\d % off", valley.said[0])
    assert valley.said[n_steps:] == ["1 parameter: what the data tell"]


def minimum_of(jacobian, noise, directions):
    """Return a minimum with these derivatives."""
    n = len(directions)
    space = Space(np.zeros(n), np.array(directions, dtype=float))
    return Minimum(
        np.zeros(n),
        space,
        np.zeros(len(jacobian)),
        NOISE,
        np.array(jacobian, dtype=float),
        np.array(noise, dtype=float),
        True,
    )


def test_minimum_in_fewer_directions_has_sums_of_their_derivatives():
    found = minimum_of([[1, 2, 4], [8, 16, 32]], [1, 2, 4], np.eye(3))
    signs = np.array([1, 1, -1])
    fewer = found.within(Space.of(found.x, [[0, 2]], signs))
    assert fewer.jacobian.round(12).tolist() == [[1 - 4], [8 - 32]]
    assert fewer.noise.round(12).tolist() == [1 + 4]
    none = fewer.within(Space.of(found.x, [], signs))
    assert none.jacobian.shape == (2, 0)


class Measured(Objective):
    """Runs of cache rates with some repetitions."""

    def __init__(self, n_files, epochs, repetitions):
        self.description = describe_scenario(
            dataset={"n_files": n_files}, training={"epochs": epochs}
        )
        self.measured = {
            Point(rate, k): None for rate, n in repetitions.items() for k in range(n)
        }


@pytest.mark.parametrize(
    ("n_files", "epochs", "repetitions", "expected"),
    [
        (1000, 1, {0: 1}, 16),
        (1000, 1, {0: 1, 50: 1, 100: 1}, 16),
        (2000, 1, {0: 1, 50: 1, 100: 1}, 8),
        (1000, 2, {0: 2, 50: 2}, 6),
        (1000, 2, {0: 2, 50: 10}, 2),
        (1000, 2, {rate: 3 for rate in range(11)}, 1),
        (880, 3, {0: 2, 50: 2, 100: 2}, 2),
    ],
)
def test_points_and_epochs_take_the_place_of_neighbours(
    n_files, epochs, repetitions, expected
):
    assert len(Measured(n_files, epochs, repetitions)._shifts(3)) == expected
