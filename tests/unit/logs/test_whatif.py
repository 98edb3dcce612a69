import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tierscope.analysis.search import Search, search_combinations
from tierscope.analysis.slowest.improved import improved_slowest
from tierscope.analysis.slowest.times import ProcessTimes
from tierscope.analysis.whatif import Goal, estimate
from tierscope.core.columns import CLASSES, IMPROVEMENTS, OPERATIONS, RUN_KEYS
from tierscope.core.tables import check_table
from tierscope.logs.combinations import (
    GRID_PERCENTS,
    combinations_for_goal,
    improved_classes,
)
from tierscope.logs.whatif import estimate_jobs

FOUR = [
    ("gfs", "POSIX", "read"),
    ("gfs", "POSIX", "meta"),
    ("lfs", "POSIX", "read"),
    ("lfs", "POSIX", "meta"),
]
TWO = FOUR[:2]
FIRST = np.zeros(1, np.int64)  # the first row of the only phase


def exact(*times_s):
    return ProcessTimes.exact(np.array(times_s, dtype=float))


def estimates_of(times, classes=FOUR):
    """Return the estimates of the only phase by improvement."""
    columns = estimate_jobs(times, [tuple(classes)])
    assert set(columns["phase"]) <= {0}
    return frame_of(columns).set_index("improvement")


def frame_of(columns):
    return pd.DataFrame(columns | {"improvement": columns["improvement"].series()})


def combinations_of(times, goal_s, classes=FOUR):
    table = combinations_for_goal("a", 1, times, classes, goal_s)
    return check_table(table, "job_combinations")


def io_time_of(times_s):
    """Return table io_time of one run and epoch, of times by rank and class."""
    rows = [
        {"rank": rank, "io_class": name, "time_s": time_s}
        for rank, process_s in enumerate(times_s)
        for name, time_s in zip(CLASSES, process_s, strict=True)
    ]
    keys = {name: "x" if kind == "str" else 0 for name, kind in RUN_KEYS.items()}
    keys |= {"source": "measured", "epoch": 1, "operations": 1, "bytes": 0}
    return check_table(pd.DataFrame(rows).assign(**keys), "io_time")


def test_an_improvement_shortens_its_class_by_the_rule():
    row = estimates_of(exact([6, 2, 0, 0])).loc["gfs READ +50 %"]
    assert row["least_s"] == row["most_s"] == 6  # 6 s / 1.5 + 2 s
    assert row["saved_least_s"] == row["saved_most_s"] == 2
    assert (row["n_classes"], row["improvement_percent"]) == (1, 50)


def test_another_process_can_be_the_slowest_after_an_improvement():
    table = estimates_of(exact([6, 0, 0, 1], [0, 0, 0, 5]))
    assert table.loc["gfs READ +200 %", "least_s"] == 5
    assert table.loc["gfs READ +200 %", "saved_most_s"] == 2


def test_single_classes_pairs_and_tiers_are_estimated():
    table = estimates_of(exact([4, 3, 2, 1]))
    assert table.index.is_unique
    assert len(table) == 4 * (4 + 6 + 2 * 2)
    assert table.loc["gfs READ +100 %, lfs META +100 %", "least_s"] == 7.5
    assert table.loc["metadata server of gfs +100 %", "least_s"] == 8.5
    assert table.loc["metadata server of gfs +100 %", "n_classes"] == 1
    assert table.loc["everything on gfs +100 %", "least_s"] == 6.5
    assert table.loc["everything on gfs +100 %", "n_classes"] == 2


def test_a_metadata_server_serves_all_metadata_of_its_tier():
    classes = [
        ("gfs", interface, operation)
        for interface in ("POSIX", "STDIO")
        for operation in OPERATIONS
    ]
    times = ProcessTimes.exact(np.full((1, 10), 2.0))
    row = estimates_of(times, classes).loc["metadata server of gfs +100 %"]
    assert (row["n_classes"], row["saved_least_s"]) == (6, 6)
    assert (
        "gfs STDIO META of files read and written +25 %"
        in estimates_of(times, classes).index
    )


def test_a_class_with_less_than_one_percent_is_left_out_of_singles_and_pairs():
    table = estimates_of(exact([100, 0.9, 0, 0]))
    assert "gfs META +25 %" not in table.index
    assert "metadata server of gfs +25 %" in table.index
    assert list(table.index[:4]) == [f"gfs READ +{n} %" for n in (25, 50, 100, 200)]


def test_paths_of_no_tier_have_no_metadata_server():
    classes = [("other", "POSIX", "meta"), ("unnamed", "POSIX", "meta")]
    table = estimates_of(exact([1, 1]), classes)
    assert set(table["n_classes"]) == {1, 2}
    assert not table.index.str.contains("server|everything").any()


def test_a_job_without_time_has_no_estimates():
    assert estimates_of(exact([0, 0, 0, 0])).empty


def test_bounds_of_a_process_become_bounds_of_the_estimate():
    # A process has 4 s, of which 1 to 3 s are reads: reads twice as fast leave 2.5 to
    # 3.5 s.
    times = ProcessTimes(
        np.array([[1.0, 1.0]]),
        np.array([[3.0, 3.0]]),
        np.array([4.0]),
        np.array([4.0]),
        np.array([[2.0, 2.0]]),
        FIRST,
    )
    row = estimates_of(times, TWO).loc["gfs READ +100 %"]
    # Its read time is known from the sum over one process, but not by its bounds.
    assert row["most_s"] == 3.5
    assert row["least_s"] == 3
    assert row["saved_least_s"] == 0.5
    assert row["saved_most_s"] == 1


def test_what_is_saved_is_not_the_difference_of_unrelated_bounds():
    # The first process reads 1 s and has 3 to 5 s of metadata; the second has 1 s.
    times = ProcessTimes(
        np.array([[1.0, 3.0], [0.0, 1.0]]),
        np.array([[1.0, 5.0], [0.0, 1.0]]),
        np.array([4.0, 1.0]),
        np.array([6.0, 1.0]),
        np.array([[1.0, 4.0]]),
        FIRST,
    )
    row = estimates_of(times, TWO).loc["gfs READ +100 %"]
    assert (row["least_s"], row["most_s"]) == (3.5, 5.5)
    assert row["saved_least_s"] == row["saved_most_s"] == 0.5


def test_what_is_saved_is_at_least_the_difference_of_times_that_are_known():
    # 10 s of reads take 2.5 s; then the 6 s of another process are the slowest.
    times = ProcessTimes(
        np.array([[10.0, 0.0], [0.0, 6.0], [0.0, 0.0]]),
        np.array([[10.0, 0.0], [0.0, 6.0], [1.0, 1.0]]),
        np.array([10.0, 6.0, 1.0]),
        np.array([10.0, 6.0, 1.0]),
        np.array([[10.5, 6.5]]),
        FIRST,
    )
    found = improved_slowest(times, np.array([[300, 0]]))
    assert (found.least_s[0], found.most_s[0]) == (6, 6)
    assert (found.saved_least_s[0], found.saved_most_s[0]) == (4, 4)


def test_lost_records_leave_no_upper_bounds():
    times = ProcessTimes(
        np.array([[2.0, 2.0]]),
        np.array([[np.nan, np.nan]]),
        np.array([4.0]),
        np.array([np.nan]),
        np.array([[2.0, 2.0]]),
        FIRST,
    )
    row = estimates_of(times, TWO).loc["gfs READ +100 %"]
    assert row["least_s"] == 3
    assert row["saved_least_s"] == 1
    assert np.isnan(row["most_s"])
    assert np.isnan(row["saved_most_s"])
    table = combinations_of(times, 3.0, TWO)
    assert not table["certain"].any()
    assert table["improvement"].iloc[0] == "gfs READ +25 %, gfs META +50 %"
    assert "gfs META +100 %" in set(table["improvement"])
    assert table["most_s"].isna().all()


four_times = st.lists(
    st.lists(st.integers(0, 1000).map(lambda n: n / 64), min_size=4, max_size=4),
    min_size=1,
    max_size=6,
).filter(lambda rows: np.sum(rows) > 0)


@given(four_times)
def test_estimates_of_the_four_classes_equal_those_of_a_run(times_s):
    table = estimates_of(exact(*times_s))
    labels = ("gfs READ", "gfs META", "lfs READ", "lfs META")
    sets = [*itertools.combinations(range(4), 1), *itertools.combinations(range(4), 2)]
    improvements, words = [], []
    for chosen, percent in itertools.product(sets, (25, 50, 100, 200)):
        improvements.append({CLASSES[i]: percent for i in chosen})
        words.append(", ".join(f"{labels[i]} +{percent} %" for i in chosen))
    estimates = estimate(io_time_of(times_s), improvements, [1])
    estimates = estimates.set_index(IMPROVEMENTS)["io_time_s"]
    found = [label for label in words if label in table.index]
    assert found
    for label, improvement in zip(words, improvements, strict=True):
        if label in found:
            expected = estimates[tuple(improvement.get(name, 0) for name in CLASSES)]
            row = table.loc[label]
            assert row["least_s"] == row["most_s"] == expected


@given(four_times, st.integers(20, 110))
def test_combinations_of_the_four_classes_equal_those_of_a_run(times_s, percent):
    goal_s = max(map(sum, times_s)) * percent / 100
    _, expected = search_combinations(
        io_time_of(times_s),
        Goal("io_time", goal_s),
        Search(400, 25, dict.fromkeys(CLASSES, 1.0), dataset_bytes=0),
    )
    found = combinations_of(exact(*times_s), goal_s)
    assert found["certain"].all()
    assert found["cost"].tolist() == expected["cost"].tolist()
    labels = ("gfs READ", "gfs META", "lfs READ", "lfs META")
    words = [
        ", ".join(f"{label} +{n} %" for label, n in zip(labels, row, strict=True) if n)
        or "no improvement"
        for row in expected[IMPROVEMENTS].to_numpy().tolist()
    ]
    assert set(found["improvement"]) == set(words)
    times_by_words = dict(zip(words, expected["io_time_s"], strict=True))
    assert found["least_s"].tolist() == [
        times_by_words[words] for words in found["improvement"]
    ]


@st.composite
def jobs(draw, most_classes=4):
    """Draw bounds of processes in whole seconds, and times within them."""
    n, n_classes = draw(st.integers(1, 3)), draw(st.integers(1, most_classes))
    cells = st.lists(st.integers(0, 4), min_size=n * n_classes, max_size=n * n_classes)
    truth, below, above = (
        np.reshape(draw(cells), (n, n_classes)).astype(float) for _ in range(3)
    )
    ends = st.lists(st.integers(0, 4), min_size=n, max_size=n)
    totals = truth.sum(axis=1)
    least, most = np.maximum(truth - below, 0), truth + above
    return truth, ProcessTimes(
        least,
        most,
        np.maximum(totals - draw(ends), least.sum(axis=1)),
        np.minimum(totals + draw(ends), most.sum(axis=1)),
        truth.sum(axis=0, keepdims=True),
        FIRST,
    )


@given(jobs(), st.data())
def test_the_true_slowest_process_is_inside_the_bounds_of_its_estimate(drawn, data):
    truth, times = drawn
    some = st.sampled_from([0, 25, 100, 400])
    percents = np.array([[data.draw(some) for _ in truth[0]] for _ in range(3)])
    found = improved_slowest(times, percents)
    for i, row in enumerate(percents):
        after_s = (truth * 100 / (100 + row)).sum(axis=1).max()
        saved_s = truth.sum(axis=1).max() - after_s
        assert found.least_s[i] <= found.most_s[i]
        assert found.least_s[i] - 1e-9 <= after_s <= found.most_s[i] + 1e-9
        assert found.saved_least_s[i] - 1e-9 <= saved_s <= found.saved_most_s[i] + 1e-9
        assert 0 <= found.saved_least_s[i] <= found.saved_most_s[i]


def stacked(phases):
    """Return times of phases with one or more classes, one below the other."""
    width = max(times.least_s.shape[1] for times in phases)

    def below(name):
        padded = (getattr(times, name) for times in phases)
        return np.concatenate(
            [np.pad(one, ((0, 0), (0, width - one.shape[1]))) for one in padded]
        )

    totals_s = (
        np.concatenate([getattr(times, name) for times in phases])
        for name in ("total_least_s", "total_most_s")
    )
    n_rows = [len(times.least_s) for times in phases]
    first = np.cumsum(n_rows) - n_rows
    return ProcessTimes(
        below("least_s"), below("most_s"), *totals_s, below("sum_s"), first
    )


@given(st.lists(jobs(), min_size=1, max_size=5))
def test_phases_together_are_estimated_as_each_alone_to_the_last_bit(drawn):
    phases = [times for _, times in drawn]
    classes = [tuple(FOUR[: times.least_s.shape[1]]) for times in phases]
    together = frame_of(estimate_jobs(stacked(phases), classes))
    alone = [
        frame_of(estimate_jobs(times, [one])).assign(phase=phase)
        for phase, (times, one) in enumerate(zip(phases, classes, strict=True))
    ]
    expected = pd.concat(alone, ignore_index=True)
    assert together.to_dict("list") == expected.to_dict("list")


def possible_times(times, process):
    """Return all times of a process in whole seconds within its bounds."""
    ranges = (
        range(int(low), int(high) + 1)
        for low, high in zip(times.least_s[process], times.most_s[process], strict=True)
    )
    wholes = np.array(list(itertools.product(*ranges)), dtype=float)
    totals = wholes.sum(axis=1)
    low, high = times.total_least_s[process], times.total_most_s[process]
    return wholes[(totals >= low) & (totals <= high)]


@given(jobs(most_classes=3), st.data())
def test_the_most_of_an_estimate_is_attained(drawn, data):
    _, times = drawn
    some = st.sampled_from([0, 25, 100, 400])
    percents = np.array([[data.draw(some) for _ in times.sum_s[0]]])
    found = improved_slowest(times, percents)
    largest_s = max(
        (possible_times(times, process) * 100 / (100 + percents)).sum(axis=1).max()
        for process in range(len(times.least_s))
    )
    assert found.most_s[0] == pytest.approx(largest_s)


def minimal_of(sufficient):
    """Return the positions in a grid from which no smaller one suffices."""
    return {
        position
        for position in zip(*np.nonzero(sufficient), strict=True)
        if not any(
            position[axis]
            and sufficient[
                (*position[:axis], position[axis] - 1, *position[axis + 1 :])
            ]
            for axis in range(len(position))
        )
    }


@given(jobs(most_classes=2), st.integers(25, 120))
def test_combinations_are_the_minimal_ones_of_the_whole_grid(drawn, percent):
    truth, times = drawn
    n = times.least_s.shape[1]
    goal_s = (truth.sum(axis=1).max() + 0.001) * percent / 100
    grid = np.array(list(itertools.product(GRID_PERCENTS, repeat=n)))
    after = improved_slowest(times, grid)
    shape = (len(GRID_PERCENTS),) * n
    certain = (after.most_s <= goal_s).reshape(shape)
    possible = (after.least_s <= goal_s).reshape(shape)
    expected = {}
    for position in minimal_of(certain) | minimal_of(possible):
        row = [int(GRID_PERCENTS[i]) for i in position]
        words = [
            f"{label} +{percent} %"
            for label, percent in zip(("gfs READ", "gfs META"), row, strict=False)
            if percent
        ]
        expected[", ".join(words) or "no improvement"] = bool(certain[position])
    found = combinations_of(times, goal_s, TWO[:n])
    assert dict(zip(found["improvement"], found["certain"], strict=True)) == expected
    assert found["position"].tolist() == list(range(1, len(found) + 1))
    order = list(zip(found["cost"], ~found["certain"], strict=True))
    assert order == sorted(order)


def test_classes_that_are_not_the_largest_stay_as_they_are():
    classes = [*FOUR, ("gfs", "POSIX", "write")]
    times = exact([4, 8, 4, 1, 4])
    assert improved_classes(times) == [0, 1, 2, 4]
    found = combinations_of(times, 15.0, classes)
    # 21 s: the 8 s take 2 s with +300 %, or 3.2 s with +150 % and ...
    assert "gfs META +300 %" in set(found["improvement"])
    assert not found["improvement"].str.contains("lfs META").any()
    assert (found["most_s"] <= 15).all()


def test_a_class_that_only_another_process_has_is_improved_too():
    found = combinations_of(exact([8, 0, 0, 0], [0, 0, 0, 6]), 4.0)
    assert found["improvement"].tolist() == ["gfs READ +100 %, lfs META +50 %"]


def test_a_goal_that_is_met_needs_no_improvement():
    found = combinations_of(exact([1, 2, 0, 0]), 3.0)
    assert found["improvement"].tolist() == ["no improvement"]
    assert found["cost"].tolist() == [0]


def test_a_goal_out_of_reach_has_no_combination():
    assert combinations_of(exact([10, 0, 0, 0]), 1.9).empty  # 2 s with +400 %


def test_a_goal_of_no_time_is_refused():
    with pytest.raises(ValueError, match="more than 0 s"):
        combinations_of(exact([1, 0, 0, 0]), 0.0)
