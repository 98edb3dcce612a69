"""Errors of made-up functions of a description, whose derivatives are known."""

import numpy as np
import pytest
from descriptions import describe_scenario
from scipy.stats import t as student
from tierscope.model.calibration.uncertainty import (
    RelativeErrors,
    Source,
    Uncertainty,
)
from tierscope.storage.queueing_network import ModelError

DEVICES = {"gfs": {"open_s": 2.0, "request_s": 3.0}, "lfs": {"request_s": 5.0}}
NAMES = ("gfs.open_s", "lfs.request_s")


@pytest.fixture
def description():
    return describe_scenario(system={"devices": DEVICES})


def times(description):
    """Return GFS-READ, GFS-META, LFS-READ and LFS-META of two points."""
    gfs, lfs = (description.system.devices[tier] for tier in ("gfs", "lfs"))
    return np.array(
        [
            [gfs["request_s"], gfs["open_s"], lfs["request_s"], 0.0],
            [0.0, gfs["open_s"], 0.0, 0.0],
        ]
    )


def total(times_s):
    return times_s.sum(axis=-1)


def test_errors_of_parameters_are_carried_by_the_shares_of_the_times(description):
    covariance = np.array([[0.04, 0.0], [0.0, 0.01]])
    one = Uncertainty(NAMES, (Source("pure error", covariance, 2.0),))
    found = one.errors(description, times, total)
    whole = np.sqrt((0.2 * 2 / 10) ** 2 + (0.1 * 5 / 10) ** 2)
    assert found.deviation == pytest.approx([whole, 0.2], rel=0.01)
    assert found.degrees == pytest.approx([2, 2])


def test_errors_that_depend_on_each_other_can_cancel(description):
    together = 0.04 * np.array([[1, -0.4], [-0.4, 0.16]])  # 2 * 0.2 = 5 * 0.08
    one = Uncertainty(NAMES, (Source("pure error", together, np.inf),))
    assert one.errors(description, times, total).deviation[0] < 0.002


def test_structure_adds_its_part_of_the_time_and_more_to_a_small_class(description):
    one = Uncertainty(NAMES, (Source("structure", np.zeros((2, 2)), 9.0, 0.1),))
    found = one.errors(description, times, total)
    assert found.deviation == pytest.approx([0.1, 0.1], rel=1e-3)
    of_class = one.errors(description, times, lambda times_s: times_s[:1, 1])
    assert of_class.deviation == pytest.approx([0.1 / np.sqrt(0.2)], rel=1e-3)


def test_a_ratio_of_times_lacks_what_both_have(description):
    one = Uncertainty(NAMES, (Source("structure", np.zeros((2, 2)), 9.0, 0.1),))

    def both(changed):
        times_s = times(changed)
        return np.stack([times_s, times_s / 2])

    found = one.errors(description, both, lambda t: total(t[1]) / total(t[0]))
    assert found.deviation == pytest.approx(0, abs=1e-9)


def test_other_sources_are_added_with_their_degrees(description):
    one = Uncertainty((), ())
    found = one.errors(description, times, total, [(np.full(2, 0.01), 4.0)])
    assert found.deviation == pytest.approx([0.1, 0.1])
    assert found.degrees == pytest.approx([4, 4])


def test_degrees_are_those_of_welch_and_satterthwaite():
    variances = np.array([1.0]), np.array([1.0]), np.array([2.0])
    found = RelativeErrors.of_sources(
        [*zip(variances, [2.0, 4.0, np.inf], strict=True)]
    )
    assert found.deviation == pytest.approx([2])
    assert found.degrees == pytest.approx([16 / (1 / 2 + 1 / 4)])


def test_interval_is_students_about_the_logarithm():
    low, high = RelativeErrors(np.array([0.1]), np.array([3.0])).interval(
        np.array([8.0])
    )
    factor = np.exp(student.ppf(0.975, 3) * 0.1)
    assert (low, high) == (pytest.approx([8 / factor]), pytest.approx([8 * factor]))


def test_what_was_written_is_read(tmp_path):
    sources = (
        Source("untold", np.eye(2), np.inf),
        Source("structure", 2 * np.eye(2), 3.5, 0.2),
    )
    path = tmp_path / "uncertainty.json"
    Uncertainty(NAMES, sources).write(path)
    found = Uncertainty.read(path)
    assert found.parameters == NAMES
    assert [one.degrees for one in found.sources] == [np.inf, 3.5]
    assert found.sources[1].deviation == 0.2
    assert found.sources[1].covariance.tolist() == [[2, 0], [0, 2]]


@pytest.mark.parametrize("text", ["", "[]", '{"parameters": []}', None])
def test_another_file_is_refused_in_one_line(tmp_path, text):
    path = tmp_path / "uncertainty.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ModelError, match="expected that of target calibrate") as error:
        Uncertainty.read(path)
    assert "\n" not in str(error.value)
