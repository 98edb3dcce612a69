"""Draws of the parameters of a calibration."""

import json
from dataclasses import replace

import numpy as np
import pytest
from small_designs import plan
from tierscope.model.calibration.uncertainty import Source, Uncertainty
from tierscope.model.designs.draws import drawn_plans, total_covariance
from tierscope.storage.queueing_network import ModelError, network_of

NAMES = ("gfs.ost_bandwidth_bytes_per_s", "lfs.request_s")


def uncertainty(*sources):
    return Uncertainty(NAMES, sources).as_json()


def source(covariance=((0.0, 0.0), (0.0, 0.0)), degrees=np.inf, deviation=0.0):
    return Source("one", np.array(covariance), degrees, deviation)


def values_of(plans):
    return np.array(
        [
            [
                one.machine.devices["gfs"][NAMES[0][4:]],
                one.machine.devices["lfs"]["request_s"],
            ]
            for one in plans
        ]
    )


def test_the_first_draw_has_the_fitted_values_and_none_differs_without_errors():
    given = plan()
    assert drawn_plans(given, None, 3) == [given] * 3
    first, *others = drawn_plans(given, uncertainty(source([[0.01, 0], [0, 0.04]])), 6)
    assert first is given
    assert len(others) == 5
    assert len({tuple(one) for one in values_of(others)}) == 5


def test_logarithms_have_the_covariance_that_was_kept():
    covariance = [[0.01, 0.012], [0.012, 0.04]]
    drawn = drawn_plans(plan(), uncertainty(source(covariance)), 2001)
    logarithms = np.log(values_of(drawn[1:]) / values_of(drawn[:1]))
    assert np.cov(logarithms.T) == pytest.approx(np.array(covariance), rel=0.15)
    assert logarithms.mean(axis=0) == pytest.approx(0, abs=0.01)


def test_few_draws_reach_both_ends():
    """Of ten draws the lowest and the highest are beyond 1.6 deviations."""
    drawn = drawn_plans(plan(), uncertainty(source([[0.01, 0], [0, 0.0]])), 11)
    logarithms = np.log(values_of(drawn[1:]) / values_of(drawn[:1]))[:, 0]
    assert sorted(logarithms)[::9] == pytest.approx([-0.1645, 0.1645], abs=1e-3)


def test_sources_add_up_and_few_degrees_have_long_tails():
    one = source([[0.01, 0], [0, 0]], 4.0), source([[0.03, 0], [0, 0]], 12.0)
    covariance, degrees = total_covariance(Uncertainty(NAMES, one))
    assert covariance[0, 0] == pytest.approx(0.04)
    assert degrees == pytest.approx(0.04**2 / (0.01**2 / 4 + 0.03**2 / 12))
    few = drawn_plans(plan(), uncertainty(source([[0.01, 0], [0, 0]], 2.0)), 11)
    ratio = values_of(few[1:])[:, 0].max() / 1e8
    assert ratio == pytest.approx(np.exp(0.1 * 2.92), rel=1e-3)


def test_an_error_of_the_model_is_a_factor_of_all_times():
    _, first, second = drawn_plans(plan(), uncertainty(source(deviation=0.2)), 3)
    one, other = (network_of(each.machine, 1) for each in (first, second))
    factor = one.lfs.request_s / 0.1
    assert factor != pytest.approx(1, abs=0.05)
    assert one.gfs.bandwidth_bytes_per_s == pytest.approx(1e8 / factor)
    assert other.lfs.request_s == pytest.approx(0.1 / factor)


def test_devices_without_a_parameter_of_the_calibration_are_refused():
    given = plan()
    lfs = {"request_bytes": 1, "latency_s": 0.0, "processes_per_server": 1}
    devices = {**given.machine.devices, "lfs": lfs}
    system = replace(given.machine, devices=devices)
    given = replace(given, description=replace(given.description, system=system))
    with pytest.raises(ModelError, match=r"devices\.lfs.request_s: got none, expected"):
        drawn_plans(given, uncertainty(source([[0.01, 0], [0, 0.04]])), 3)


def test_draws_are_the_same_from_a_file():
    content = uncertainty(source([[0.01, 0], [0, 0.04]], 5.0))
    again = json.loads(json.dumps(content))
    one, other = (values_of(drawn_plans(plan(), each, 4)) for each in (content, again))
    assert one.tolist() == other.tolist()
