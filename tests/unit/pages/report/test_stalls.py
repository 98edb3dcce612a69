"""I/O time and stall side by side in the report."""

import pandas as pd
from descriptions import SCENARIO
from tierscope.core.columns import CLASSES, TOGETHER
from tierscope.core.words import scenario_titles
from tierscope.pages.report.stalls import stalled_points, times_beside_stalls
from tierscope.pages.report.summary import summary_table

TITLES = scenario_titles(pd.DataFrame([SCENARIO]))
POINT = SCENARIO | {"cache_rate_percent": 0, "epoch": 1}
# LFS-READ has the most I/O time, but GFS-META the largest stall.
BREAKDOWN = pd.DataFrame(
    POINT | {"repetition": 0, "slowest_rank": 0, "io_class": name, "time_s": one}
    for name, one in zip(CLASSES, (0.0, 2.0, 6.0, 0.0), strict=True)
).assign(share=0.25)
STALLS = pd.DataFrame(
    POINT | {"part": part, "stall_s": one}
    for part, one in zip([*CLASSES, TOGETHER], (0.0, 1.5, 0.5, 0.0, 0.0), strict=True)
).assign(execution_time_s=10.0, first_wait_s=0.0)
SPREAD = pd.DataFrame(
    [POINT | {"quantity": "I/O time", "flagged": False, "cv": 0.0}]
).assign(max_spread_percent=10)
NONE = pd.DataFrame(columns=[*SCENARIO, "epoch", "goal_of"])


def summary(stalled):
    table = summary_table(BREAKDOWN, SPREAD, NONE, NONE, TITLES, 1, stalled=stalled)
    (row,) = table.replace("\N{NO-BREAK SPACE}", " ", regex=True).to_dict("records")
    return row


def test_io_time_and_stall_of_a_class_stand_in_one_cell():
    (row,) = times_beside_stalls(BREAKDOWN, STALLS, TITLES, 1).to_dict("records")
    assert row["GFS-META (s)"] == "2.00 / 1.50"
    assert row["LFS-READ (s)"] == "6.00 / 0.500"
    assert row["Limited by"] == "GFS-META"


def test_without_a_model_the_stall_is_not_known():
    (row,) = times_beside_stalls(BREAKDOWN, None, TITLES, 1).to_dict("records")
    assert row["GFS-META (s)"] == "2.00 / \N{EN DASH}"
    assert row["Limited by"] == "not known"


def test_the_summary_names_the_largest_stall_beside_the_most_io_time():
    row = summary(stalled_points(STALLS))
    assert row["Limited by (stall)"] == "GFS-META at 0 %"
    assert row["Most I/O time"] == "LFS-READ at 0 %"
    assert "Limited by" not in row


def test_the_summary_of_a_training_without_computation_is_as_before():
    row = summary(None)
    assert row["Limited by"] == "LFS-READ at 0 %"
    assert "Most I/O time" not in row


def test_the_summary_says_that_no_model_knows_the_stall():
    assert summary(stalled_points(None))["Limited by (stall)"] == "not known"
