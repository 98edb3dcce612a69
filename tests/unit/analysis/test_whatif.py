import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tierscope.analysis.breakdown import break_down, slowest_process
from tierscope.analysis.slowest.improved import improve
from tierscope.analysis.whatif import (
    Goal,
    best_point,
    cheapest_sufficient,
    estimate,
    estimated_breakdown,
    grid_percents,
    improvement_grid,
    make_goal,
    map_percents,
    mean_difference_s,
    mean_over_repetitions,
    select_improvements,
    wanted_improvements,
)
from tierscope.core.columns import IMPROVEMENTS
from tierscope.core.io_class import IOClass
from tierscope.core.tables import check_table

RUN = {
    "source": "measured",
    "system": "laptop",
    "dataset": "tiny",
    "n_osts": 1,
    "policy": "pinning",
    "loader": "posix",
    "cache_rate_percent": 50,
    "repetition": 0,
}
CLASSES = [str(io_class) for io_class in IOClass]


def io_time_of(times_s, epoch=0, **keys):
    """Return an I/O time table; times_s holds four seconds for each rank."""
    rows = [
        {"epoch": epoch, "rank": rank, "io_class": name, "time_s": float(time_s)}
        for rank, process_s in enumerate(times_s)
        for name, time_s in zip(CLASSES, process_s, strict=True)
    ]
    frame = pd.DataFrame(rows).assign(**(RUN | keys), operations=1, bytes=0)
    return check_table(frame, "io_time")


def io_time_s_of(io_time, improvement):
    """Return the estimated I/O time of the only run and epoch, in seconds."""
    return estimate(io_time, [improvement], epochs=[0])["io_time_s"].item()


@pytest.mark.parametrize(
    ("improvement_percent", "expected_s"), [(0, 6.0), (50, 4.0), (100, 3.0)]
)
def test_improvement_by_n_percent_takes_100_of_100_plus_n_of_the_time(
    improvement_percent, expected_s
):
    assert improve(6.0, improvement_percent) == pytest.approx(expected_s)


def test_no_improvement_keeps_every_bit_of_the_time():
    assert improve(0.07, 0) == 0.07


@pytest.mark.parametrize("wrong", [-1, 50.0, np.array([10, -10])])
def test_improvement_that_is_no_natural_number_is_rejected(wrong):
    with pytest.raises(ValueError, match="expected integers of at least 0"):
        improve(1.0, wrong)


def test_slowest_process_can_change_after_an_improvement():
    io_time = io_time_of([[0, 6, 1, 0], [0, 1, 5, 0]])
    estimates = estimate(io_time, [{"gfs_meta": 100}, {}], epochs=[0])
    assert check_table(estimates, "estimates").equals(estimates)
    assert estimates["gfs_meta_improvement_percent"].tolist() == [0, 100]
    assert estimates["slowest_rank"].tolist() == [0, 1]
    assert estimates["io_time_s"].tolist() == [7.0, 5.5]


def test_the_papers_goal_follows_from_its_shares():
    """Shares of 8.0 s at 65 %: GFS-META .18, LFS-READ .72 (Sec. 5.4)."""
    io_time = io_time_of([[0.10 * 8, 0.18 * 8, 0.72 * 8, 0]])
    assert io_time_s_of(io_time, {"lfs_read": 50}) == pytest.approx(0.76 * 8)
    both = {"gfs_meta": 140, "lfs_read": 120}
    assert io_time_s_of(io_time, both) == pytest.approx(4.0, abs=0.1)


def test_of_equally_slow_processes_the_lowest_rank_is_reported():
    io_time = io_time_of([[1, 0, 0, 0], [0, 4, 0, 0], [0, 0, 4, 0], [0, 4, 0, 0]])
    estimates = estimate(io_time, [{}, {"gfs_meta": 100}], epochs=[0])
    assert estimates["slowest_rank"].tolist() == [1, 2]


def naive(times_s, percents):
    """Return slowest rank and time by looping over the processes, as in Sec. 4.4."""
    slowest, slowest_s = None, -1.0
    for rank, process_s in enumerate(times_s):
        total_s = 0.0
        for time_s, percent in zip(process_s, percents, strict=True):
            total_s += time_s * (100 / (100 + percent))
        if total_s > slowest_s:
            slowest, slowest_s = rank, total_s
    return slowest, slowest_s


def four(numbers):
    return st.lists(numbers, min_size=4, max_size=4)


# Eighths tie often; the others tie after rounding only.
SECONDS = [0, 1e-17, 1 / 8, 2 / 8, 3 / 8, 3 / 8 + 1e-16, 1.1, 1.1 + 3e-16, 4 / 8]


@given(
    times_s=st.lists(four(st.sampled_from(SECONDS)), min_size=1, max_size=12),
    percents=st.lists(
        four(st.sampled_from([0, 10, 50, 100, 300])),
        min_size=1,
        max_size=4,
        unique_by=tuple,
    ),
)
def test_estimate_equals_the_loop_over_processes(times_s, percents):
    improvements = [dict(zip(CLASSES, row, strict=True)) for row in percents]
    estimates = estimate(io_time_of(times_s), improvements, epochs=[0])
    expected = [naive(times_s, row) for row in sorted(percents)]
    columns = ["slowest_rank", "io_time_s"]
    assert list(estimates[columns].itertuples(index=False, name=None)) == expected
    assert estimates[IMPROVEMENTS].to_numpy().tolist() == sorted(percents)


def test_runs_and_epochs_are_estimated_each_on_their_own():
    io_time = pd.concat(
        [
            io_time_of([[2, 0, 0, 0], [0, 4, 0, 0]], cache_rate_percent=0),
            io_time_of([[2, 0, 0, 0]], cache_rate_percent=10, epoch=1),
            io_time_of([[9, 0, 0, 0]], cache_rate_percent=0, epoch=1),
        ]
    )
    estimates = estimate(io_time, [{}, {"gfs_meta": 100}], epochs=[0, 1])
    columns = ["cache_rate_percent", "epoch", "io_time_s"]
    assert estimates[columns].to_numpy().tolist() == [
        [0, 0, 4],
        [0, 0, 2],
        [0, 1, 9],
        [0, 1, 9],
        [10, 1, 2],
        [10, 1, 2],
    ]
    assert len(estimate(io_time, [{}], epochs=[1])) == 2


def test_runs_that_read_from_peers_are_left_out():
    four = io_time_of([[2, 0, 0, 0]])
    five = io_time_of([[9, 9, 9, 9]]).assign(policy="adhoc")
    net = five.iloc[[0]].assign(io_class="net_read")
    both = pd.concat([four, five, net], ignore_index=True)
    pd.testing.assert_frame_equal(
        estimate(both, [{}, {"gfs_read": 100}], epochs=[0]),
        estimate(four, [{}, {"gfs_read": 100}], epochs=[0]),
    )


def test_an_improvement_given_twice_is_estimated_once():
    twice = [{}, {"gfs_meta": 0}, {"lfs_read": 0}]
    assert len(estimate(io_time_of([[1, 1, 1, 1]]), twice, epochs=[0])) == 1


@pytest.mark.parametrize(
    ("improvement", "message"),
    [
        ({"gfs_write": 50}, r"got I/O classes \['gfs_write'\].*expected some of"),
        ({"gfs_meta": -50}, "got -50 percent, expected an integer of at least 0"),
        ({"gfs_meta": 12.5}, "got 12.5 percent, expected an integer"),
        ({"gfs_meta": True}, "got True percent, expected an integer"),
    ],
)
def test_wrong_improvements_are_named(improvement, message):
    with pytest.raises(ValueError, match=message):
        estimate(io_time_of([[1, 1, 1, 1]]), [improvement], epochs=[0])


def test_an_epoch_that_was_not_measured_is_named():
    with pytest.raises(ValueError, match=r"got 4, expected one of \[0\]"):
        estimate(io_time_of([[1, 1, 1, 1]]), [{}], epochs=[4])


def test_breakdown_after_an_improvement_is_that_of_the_new_slowest_process():
    io_time = io_time_of([[0, 6, 1, 0], [0, 1, 5, 0]])
    improvements = [{}, {"gfs_meta": 100}]
    estimates = estimate(io_time, improvements, epochs=[0])
    improved = estimated_breakdown(estimates, improvements)
    measured = improved[improved["gfs_meta_improvement_percent"] == 0]
    assert measured["time_s"].tolist() == break_down(io_time)["time_s"].tolist()
    after = improved[improved["gfs_meta_improvement_percent"] == 100]
    assert after["slowest_rank"].tolist() == [1] * 4
    assert after["time_s"].tolist() == [0.0, 0.5, 5.0, 0.0]


def test_grid_holds_every_combination_of_the_classes():
    assert improvement_grid(["gfs_meta", "lfs_read"], 20, 20) == [
        {"gfs_meta": 0, "lfs_read": 0},
        {"gfs_meta": 0, "lfs_read": 20},
        {"gfs_meta": 20, "lfs_read": 0},
        {"gfs_meta": 20, "lfs_read": 20},
    ]
    assert len(improvement_grid(["gfs_meta", "lfs_read"], 200, 10)) == 21 * 21


def test_smallest_step_of_a_grid_is_one_percent():
    grid = improvement_grid(["gfs_read"], max_improvement_percent=2, step_percent=1)
    assert grid == [{"gfs_read": percent} for percent in range(3)]


def test_grid_without_a_step_is_rejected():
    with pytest.raises(ValueError, match="got 0, expected 1 or more"):
        improvement_grid(["gfs_meta"], 100, 0)


def test_wanted_improvements_begin_with_none():
    pairs = [["gfs_meta"], ["lfs_read"]]
    assert wanted_improvements([{"lfs_read": 50}], pairs, grid_percents(10, 10)) == [
        {},
        {"lfs_read": 50},
        {"gfs_meta": 0},
        {"gfs_meta": 10},
        {"lfs_read": 0},
        {"lfs_read": 10},
    ]


@pytest.fixture
def knee():
    """GFS-META 8, 2, 0 s and LFS-READ 0, 4, 8 s; GFS-READ 0 and 2 s in turn.

    Mean I/O time over the two repetitions: 9, 7, 9 s at 0, 50, 100 %.
    """
    times_s = {0: (8, 0), 50: (2, 4), 100: (0, 8)}
    return pd.concat(
        [
            io_time_of(
                [[gfs_read, gfs_meta, lfs_read, 0]],
                cache_rate_percent=rate,
                repetition=gfs_read // 2,
            )
            for rate, (gfs_meta, lfs_read) in times_s.items()
            for gfs_read in (0, 2)
        ]
    )


@pytest.fixture
def estimates(knee):
    grid = improvement_grid(["gfs_meta", "lfs_read"], 100, 100)
    return estimate(knee, grid, epochs=[0])


def test_best_point_takes_the_mean_of_the_repetitions(estimates):
    best = best_point(estimates)
    assert best["cache_rate_percent"].tolist() == [50, 50, 0, 50]
    assert best["io_time_s"].tolist() == [7.0, 5.0, 5.0, 4.0]


def test_of_equally_good_cache_rates_the_lower_one_is_best(estimates):
    outer = estimates[estimates["cache_rate_percent"] != 50]
    assert best_point(outer)["cache_rate_percent"].iloc[0] == 0


def test_mean_over_repetitions_carries_the_coefficient_of_variation(knee):
    """Repetitions are 8 and 10, 6 and 8, 8 and 10 s; their deviation is sqrt(2) s."""
    points = mean_over_repetitions(slowest_process(knee))
    assert points["io_time_s"].tolist() == [9, 7, 9]
    assert points["max_io_time_s"].tolist() == [10, 8, 10]
    assert points["cv"].tolist() == pytest.approx(
        [math.sqrt(2) / 9, math.sqrt(2) / 7, math.sqrt(2) / 9]
    )


def test_spread_of_one_repetition_is_unknown_and_of_equal_ones_zero(knee):
    once = knee[knee["repetition"] == 0]
    assert mean_over_repetitions(slowest_process(once))["cv"].isna().all()
    same = pd.concat([once, once.assign(repetition=1)]).assign(time_s=0.0)
    assert mean_over_repetitions(slowest_process(same))["cv"].tolist() == [0, 0, 0]


def epochs_of(io_time, difference_s):
    """Return an epochs table in which an epoch takes longer than its I/O time."""
    runs = slowest_process(io_time)
    others = ["rank", "node", "samples", "bytes", "lfs_files", "gfs_files"]
    frame = runs.drop(columns=["slowest_rank", "io_time_s"]).assign(
        execution_time_s=runs["io_time_s"] + difference_s, lfs_fill_time_s=0.0
    )
    return check_table(frame.assign(**dict.fromkeys(others, 0)), "epochs")


def test_goal_is_a_percentage_of_the_best_measured_time_or_given_in_seconds(knee):
    assert make_goal(knee) == Goal("io_time", 3.5)
    assert make_goal(knee, percent_of_best=100).seconds == 7.0
    assert make_goal(knee, seconds=4) == Goal("io_time", 4.0)


@given(
    times_s=st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=3),
    difference_s=st.floats(-0.5, 100),
    of=st.sampled_from(["io_time", "execution_time"]),
)
def test_100_percent_of_the_best_is_met_today(times_s, difference_s, of):
    io_time = pd.concat(
        [io_time_of([[time_s] * 4], repetition=n) for n, time_s in enumerate(times_s)]
    )
    shortest_s = slowest_process(io_time)["io_time_s"].min()
    epochs = epochs_of(io_time, max(difference_s, -shortest_s / 2))
    goal = make_goal(io_time, epochs, of=of, percent_of_best=100)
    today = estimate(io_time, [{}], epochs=[0])
    met = goal.sufficient(today)
    assert met["sufficient"].tolist() == [True]


def test_goal_of_execution_time_adds_the_mean_difference_to_the_io_time(knee):
    """Differences of 1 to 6 s, 3.5 s on the mean: best execution time 10.5 s."""
    epochs = epochs_of(knee, np.arange(1.0, 7.0))
    assert mean_difference_s(epochs, knee) == 3.5
    goal = make_goal(knee, epochs, of="execution_time", percent_of_best=80)
    assert (goal.seconds, goal.difference_s) == (8.4, 3.5)
    assert goal.is_met(np.array([4.9, 5.0])).tolist() == [True, False]
    assert goal.io_time_s == pytest.approx(4.9)


def test_mean_difference_counts_each_point_once_however_often_repeated(knee):
    again = (knee["cache_rate_percent"] == 50) & (knee["repetition"] == 1)
    runs = knee[~again]
    epochs = epochs_of(runs, np.array([1.0, 3.0, 5.0, 8.0, 8.0]))
    assert mean_difference_s(epochs, runs) == (2 + 5 + 8) / 3


def test_goal_of_execution_time_needs_the_execution_time_of_every_run(knee):
    epochs = epochs_of(knee, 1.0)
    with pytest.raises(ValueError, match="no execution time of 1 of 6 runs"):
        make_goal(knee, epochs.iloc[1:], of="execution_time")
    with pytest.raises(ValueError, match="expected table epochs"):
        make_goal(knee, of="execution_time")


@pytest.mark.parametrize("wrong", [0, -1.0, math.nan, math.inf])
def test_a_goal_that_no_time_can_be_compared_with_is_rejected(wrong):
    with pytest.raises(ValueError, match="expected more than 0 s"):
        Goal("io_time", wrong)


def test_a_goal_of_something_else_is_rejected():
    with pytest.raises(ValueError, match="expected io_time or execution_time"):
        Goal("meta_time", 1.0)


def test_a_goal_belongs_to_one_epoch_of_one_scenario(knee):
    with pytest.raises(ValueError, match="of 2 pairs of scenario and epoch"):
        make_goal(pd.concat([knee, knee.assign(epoch=1)]))


def test_sufficient_combinations_have_the_least_cache_rate_that_meets_the_goal(
    estimates,
):
    combinations = Goal("io_time", 5.0).sufficient(estimates)
    columns = ["gfs_meta_improvement_percent", "lfs_read_improvement_percent"]
    assert combinations[columns].to_numpy().tolist() == [
        [0, 0],
        [0, 100],
        [100, 0],
        [100, 100],
    ]
    assert combinations["sufficient"].tolist() == [False, True, True, True]
    least = combinations["min_cache_rate_percent"]
    assert least.isna().tolist() == [True, False, False, False]
    assert least[1:].tolist() == [50, 0, 0]
    in_every = combinations["in_every_repetition"]
    assert in_every.tolist() == [False, False, False, False]


def test_a_combination_can_meet_the_goal_in_every_repetition(estimates):
    """With both +100 % the times at 0, 50, 100 % are 5, 4, 5 s, a second around."""
    combinations = Goal("io_time", 6.0).sufficient(estimates)
    assert combinations["in_every_repetition"].tolist() == [False, True, True, True]


def test_the_measured_difference_counts_against_the_goal(estimates):
    later = Goal("io_time", 7.0, 2.0).sufficient(estimates)
    assert later.equals(Goal("io_time", 5.0).sufficient(estimates))


def test_no_combination_meets_an_impossible_goal(estimates):
    combinations = Goal("io_time", 0.5).sufficient(estimates)
    assert not combinations["sufficient"].any()
    assert combinations["min_cache_rate_percent"].isna().all()


def test_estimates_outside_the_grid_are_left_out(estimates):
    grid = improvement_grid(["gfs_meta"], 100, 50)
    selected = select_improvements(estimates, grid)
    assert selected["gfs_meta_improvement_percent"].unique().tolist() == [0, 100]
    assert (selected["lfs_read_improvement_percent"] == 0).all()


@pytest.mark.parametrize("improvement", [{}, {"gfs_meta": 100}, {"lfs_read": 30}])
def test_estimates_hold_the_classes_of_the_then_slowest_process(knee, improvement):
    estimates = estimate(knee, [{}, improvement, {"gfs_read": 9}], epochs=[0])
    rows = estimated_breakdown(estimates, [improvement])
    keys = ["cache_rate_percent", "repetition", "io_class"]
    percent = knee["io_class"].map(improvement).fillna(0).astype(int)
    faster = knee.assign(time_s=improve(knee["time_s"], percent))
    expected = break_down(faster).set_index(keys)["time_s"]
    assert rows.set_index(keys)["time_s"].sort_index().equals(expected.sort_index())
    assert set(rows["method"]) == {"rule"}


def test_each_method_is_answered_for_itself(estimates):
    slower = estimates.assign(method="model", io_time_s=2 * estimates["io_time_s"])
    both = Goal("io_time", 5.0).sufficient(pd.concat([estimates, slower]))
    alone = Goal("io_time", 5.0).sufficient(estimates)
    by_rule = both[both["method"] == "rule"].reset_index(drop=True)
    assert by_rule.equals(alone)
    by_model = both[both["method"] == "model"]
    assert by_model["sufficient"].sum() < by_rule["sufficient"].sum()


def test_the_cheapest_is_that_of_least_cost_then_rate_then_improvement():
    rows = [
        ((0, 50, 0, 0), 60, True),
        ((0, 0, 50, 0), 50, True),
        ((50, 0, 0, 0), 50, True),
        ((10, 0, 0, 0), 20, False),
    ]
    table = pd.DataFrame([percents for percents, *_ in rows], columns=IMPROVEMENTS)
    table["min_cache_rate_percent"] = [rate for _, rate, _ in rows]
    table["sufficient"] = [sufficient for *_, sufficient in rows]
    equal = dict.fromkeys(CLASSES, 0.1)
    cheapest = cheapest_sufficient(table, equal)
    assert (cheapest.name, cheapest["n_as_cheap"]) == (1, 2)
    cheapest = cheapest_sufficient(table, equal | {"gfs_meta": 0.05})
    assert (cheapest.name, cheapest["n_as_cheap"]) == (0, 0)
    assert cheapest_sufficient(table.iloc[3:], equal) is None


@pytest.mark.parametrize(
    ("most", "step", "expected"),
    [
        (200, 10, [*range(0, 201, 10)]),
        (210, 10, [*range(0, 201, 20), 210]),
        (200, 3, [*range(0, 193, 12), 198]),
        (5, 5, [0, 5]),
    ],
)
def test_a_map_of_too_many_steps_gets_wider_ones_and_keeps_its_end(
    most, step, expected
):
    assert map_percents(most, step) == expected
