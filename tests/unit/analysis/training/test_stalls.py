"""How the time of a training is divided, on hand-made tables."""

import pandas as pd
import pytest
from descriptions import SCENARIO
from tierscope.analysis.training.stalls import (
    NOT_STORAGE,
    largest_stalls,
    least_notes,
    limit_label,
    stall_words,
)
from tierscope.core.columns import CLASSES, TOGETHER


def stalls(points, first_wait_s=0.0, **keys):
    """Return table `class_stalls` of epochs of 100 s; `points` are parts by rate."""
    rows = [
        SCENARIO
        | keys
        | {"cache_rate_percent": rate, "epoch": 1, "part": part, "stall_s": float(one)}
        for rate, parts in points.items()
        for part, one in zip([*CLASSES, TOGETHER], parts, strict=True)
    ]
    times = {"execution_time_s": 100.0, "first_wait_s": first_wait_s}
    return pd.DataFrame(rows).assign(**times)


@pytest.mark.parametrize(
    ("parts", "first_wait_s", "expected"),
    [
        ((5, 20, 0, 0, 9), 0, "gfs_meta"),
        ((7, 7, 0, 0, 0), 0, "gfs_read"),  # of equal ones the first
        ((2, 9, 0, 0, 9), 0, "gfs_meta"),  # as much as all together: the class
        ((2.7, 3.5, 0, 4.2, 89), 0, TOGETHER),  # more than each class
        ((0.9, 0.9, 0.9, 0.9, 0.5), 0, TOGETHER),  # each is practically none
        ((0, 0.5, 0.4, 0, 0), 0, NOT_STORAGE),
        ((0, 0, 0, 0, 0), 0, NOT_STORAGE),
        ((0, 5, 0, 0, 0), 4.5, NOT_STORAGE),  # but for the first batch
        ((0, 5, 0, 0, 0), 3.9, "gfs_meta"),
    ],
)
def test_the_class_with_the_largest_stall_limits_unless_there_is_practically_none(
    parts, first_wait_s, expected
):
    assert largest_stalls(stalls({40: parts}, first_wait_s)).tolist() == [expected]


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((5, 20, 0, 0, 9), "GFS-META 20.0 s of 34.0 s"),
        ((2, 5, 0, 0, 9), "several classes together 9.00 s of 16.0 s"),
        ((0, 0.5, 0, 0, 0), "0.500 s"),
    ],
)
def test_words_of_a_point_have_the_largest_stall_and_all_of_it(parts, words):
    found = stall_words(stalls({0: (9, 0, 0, 0, 0), 40: parts}))
    assert found[(*SCENARIO.values(), 40)] == f"stall by the model: {words}"


def test_limits_that_are_no_class_have_words():
    assert limit_label(TOGETHER) == "several classes together"
    assert limit_label("lfs_meta") == "LFS-META"


def test_each_reason_why_computation_is_a_least_has_a_sentence():
    reasons = ["", "no events", "never behind", "no events"]
    first, second = least_notes(pd.DataFrame({"least_because": reasons}))
    assert first.startswith("The device was never behind the program")
    assert second.startswith("The device has no events that tell its own time. So comp")
    assert least_notes(pd.DataFrame({"least_because": [""]})) == []
