"""I/O time and stall side by side in the report."""

import pandas as pd
from descriptions import SCENARIO
from tierscope.analysis.training.limit import decide_limits
from tierscope.core.columns import CLASSES, IMPROVEMENTS, TOGETHER
from tierscope.core.tables import with_later_columns
from tierscope.core.words import scenario_titles
from tierscope.pages.report.stalls import times_beside_stalls
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


GOALS = pd.DataFrame(
    [POINT | {"goal_of": "io_time", "goal_s": 3.0, "difference_s": 0.0}]
).assign(goal_percent=float("nan"), best_utilisation_percent=float("nan"))
COMBINATIONS = GOALS.assign(
    **dict.fromkeys(IMPROVEMENTS, 0) | {"lfs_read_improvement_percent": 30},
    cost=30.0,
    cheapest=True,
    min_cache_rate_percent=0,
    lfs_gib_per_node=0.5,
    in_every_repetition=True,
)


def storage(storage_s, half_s):
    """Return table `storage_time`: an epoch of 10 s."""
    row = POINT | {"execution_time_s": 10.0, "n_repetitions": 3, "compute_time_s": 5.0}
    row |= {"storage_s": storage_s, "storage_interval_s": half_s}
    return with_later_columns(pd.DataFrame([row]), "storage_time")


def limits(storage_time=None, stalls=STALLS, may_hide=True):
    return decide_limits(BREAKDOWN, storage_time, stalls, 1, may_hide)


def summary(limits, goals=NONE, combinations=NONE):
    tables = {"breakdown": BREAKDOWN, "spread": SPREAD, "goals": goals}
    tables |= {"combinations": combinations, "limits": limits}
    table = summary_table(tables, TITLES, 1)
    (row,) = table.replace("\N{NO-BREAK SPACE}", " ", regex=True).to_dict("records")
    return row


def beside(stalls, limits):
    table = times_beside_stalls(BREAKDOWN, stalls, limits, TITLES, 1)
    (row,) = table.to_dict("records")
    return row


def test_io_time_and_stall_of_a_class_stand_in_one_cell():
    row = beside(STALLS, limits(storage(3.0, 1.0)))
    assert row["GFS-META (s)"] == "2.00 / 1.50"
    assert row["LFS-READ (s)"] == "6.00 / 0.500"
    assert row["Limited by"] == "GFS-META"


def test_without_a_model_the_stall_is_not_known():
    row = beside(None, limits(storage(3.0, 1.0), stalls=None))
    assert row["GFS-META (s)"] == "2.00 / \N{EN DASH}"


def test_the_summary_names_what_limits_beside_the_most_io_time():
    row = summary(limits(storage(3.0, 1.0)))
    assert row["Limited by"] == "GFS-META at 0 %"
    assert row["Most I/O time"] == "LFS-READ at 0 %"


def test_the_summary_of_a_training_without_computation_is_as_before():
    row = summary(limits(stalls=None, may_hide=False))
    assert row["Limited by"] == "LFS-READ at 0 %"
    assert "Most I/O time" not in row


def test_the_summary_names_the_cheapest_improvement_as_far_as_storage_limits():
    cheapest = "Cheapest improvement that meets it"
    limited = summary(limits(storage(3.0, 1.0)), GOALS, COMBINATIONS)
    assert limited[cheapest] == "LFS-READ +30 %"
    assert limited["LFS per node then (GiB)"] == "0.5"
    unsure = summary(limits(storage(0.5, 1.0)), GOALS, COMBINATIONS)
    assert unsure[cheapest].startswith("LFS-READ +30 %\n")
    assert unsure[cheapest].endswith("only if storage limits: undecided)")
    none = summary(limits(storage(0.2, 0.2)), GOALS, COMBINATIONS)
    assert (
        none["Limited by"] == "computation at 0 % (storage at most 4.0 % of the epoch)"
    )
    assert none[cheapest] == "none: storage does not limit"
    assert none["Goal (s of I/O time)"] == limited["Goal (s of I/O time)"] == "3.00"
    assert none["Least cache rate then (%)"] == "\N{EN DASH}"
    assert none["LFS per node then (GiB)"] == "\N{EN DASH}"
