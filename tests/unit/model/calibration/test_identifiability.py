"""What data tell about parameters: sums of squares whose truth is known."""

import numpy as np
import pytest
from tierscope.model.calibration.identifiability import (
    NOTHING_KNOWN,
    advice,
    broad_derivatives,
    derivatives,
    errors_alone,
    uncertainty,
)

S = 0.01
QUIET = np.zeros(2)


def advised(rows, s=S):
    jacobian = np.array(rows, dtype=float)
    return advice(jacobian, np.zeros(jacobian.shape[1]), s)


def test_nothing_is_changed_if_all_are_determined():
    assert advised([[1, 0, 0], [0, 1, 0], [1, 1, 1]]) == ()


def test_a_parameter_without_effect_is_left_out():
    assert advised([[1, 0], [2, 0], [3, 0]]) == (1,)


def test_a_parameter_with_hardly_any_effect_is_left_out():
    assert advised([[1, 0.04], [-1, 0.04]]) == ()  # error: 0.01 / 0.057
    assert advised([[1, 0.03], [-1, 0.03]]) == (1,)


def test_two_parameters_of_which_data_show_the_sum_only_are_joined():
    found = advised([[0.6, 0.2, 0.0], [0.6, 0.2, 0.0], [0, 0, 1]])
    assert sorted(found) == [0, 1]


def test_the_one_with_the_larger_error_is_joined_with_its_own_partner():
    rows = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1.001, 0], [0, 1, 0, 2]]
    found = advised(rows)
    assert sorted(found) == [0, 2]


def test_scatter_makes_less_known():
    rows = [[1, 0], [0, 0.1]]
    assert advised(rows, s=0.01) == ()
    assert advised(rows, s=0.05) == (1,)


def test_nothing_is_advised_about_no_parameter():
    assert advice(np.zeros((3, 0)), np.zeros(0), S) == ()


def test_roughness_of_the_simulator_is_no_information():
    jacobian = np.array([[1.0, 0.1], [0.0, 0.1]])
    assert advice(jacobian, QUIET, S) == ()
    assert advice(jacobian, np.array([0.0, 0.01]), S) == (1,)


def test_errors_are_those_of_a_linear_fit():
    jacobian = np.array([[1.0, 1.0], [1.0, -1.0], [0.0, 1.0]])
    errors, correlation = uncertainty(jacobian, QUIET, S)
    covariance = S**2 * np.linalg.inv(jacobian.T @ jacobian)
    assert errors == pytest.approx(np.sqrt(np.diag(covariance)))
    assert correlation[0, 1] == pytest.approx(0)
    assert errors_alone(jacobian, QUIET, S) == pytest.approx(S / np.sqrt([2, 3]))
    assert errors_alone(np.zeros((3, 2)), QUIET, S) == pytest.approx(NOTHING_KNOWN)


def test_broad_derivatives_are_those_of_a_smooth_function():
    def residuals(x):
        return np.array([x[0] * x[1], x[0] ** 3])

    at = np.array([2.0, 3.0])
    jacobian, noise = broad_derivatives(residuals, at)
    assert jacobian == pytest.approx(np.array([[3, 2], [12, 0]]), abs=1e-9)
    assert noise == pytest.approx(np.zeros(2), abs=1e-12)
    assert derivatives(residuals, at, 1e-4) == pytest.approx(jacobian, abs=1e-6)
