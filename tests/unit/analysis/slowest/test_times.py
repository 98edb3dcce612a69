import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tierscope.analysis.slowest.times import (
    ProcessTimes,
    least_maximum,
    slowest_bounds,
    slowest_candidates,
    slowest_class_bounds,
    sums_before,
    upper_envelope,
)

FIRST = np.zeros(1, np.int64)  # the first row of the only phase


def bounded(least_s, most_s, sum_s, first=FIRST):
    """Return processes with one class, of one phase or more."""
    least_s, most_s = np.array(least_s, dtype=float), np.array(most_s, dtype=float)
    sum_s = np.atleast_1d(np.array(sum_s, dtype=float))[:, np.newaxis]
    own_s = least_s[:, np.newaxis], most_s[:, np.newaxis]
    return ProcessTimes(*own_s, least_s, most_s, sum_s, np.array(first))


def candidates(times):
    """Return the processes that can be the slowest of a phase."""
    return np.flatnonzero(slowest_candidates(times)).tolist()


def ends(bounds):
    """Return the least and the most of the only phase."""
    (least,), (most,) = bounds
    return least.tolist(), most.tolist()


def test_exact_times_have_one_slowest_process():
    times = ProcessTimes.exact(np.array([[1.0, 2.0], [4.0, 1.0]]))
    assert times.is_exact.all()
    assert ends(slowest_bounds(times)) == (5, 5)
    assert candidates(times) == [1]
    assert ends(slowest_class_bounds(times)) == ([4, 1], [4, 1])


def test_equally_slow_processes_are_all_candidates():
    assert candidates(bounded([3, 1, 3], [3, 1, 3], 7.0)) == [0, 2]


def test_a_process_below_what_the_slowest_needs_is_no_candidate():
    # 10 s in three processes, of which the first has 1 s at most: 4.5 s or more.
    times = bounded([0, 0, 0], [1, 9, 9], 10.0)
    assert not times.is_exact.any()
    assert ends(slowest_bounds(times)) == (4.5, 9)
    assert candidates(times) == [1, 2]


@pytest.mark.parametrize("unknown", [np.nan, np.inf])
def test_lost_records_leave_the_slowest_process_open(unknown):
    times = bounded([2, 3], [unknown, 3], 5.0)
    assert not times.is_exact.any()
    assert ends(slowest_bounds(times)) == (3, np.inf)
    assert candidates(times) == [0, 1]
    assert ends(slowest_class_bounds(times)) == ([3], [np.inf])


def test_a_class_of_the_slowest_takes_what_its_other_class_cannot_hold():
    least_s = np.array([[0.0, 0.0], [0.0, 0.0]])
    most_s = np.array([[5.0, 1.0], [1.0, 1.0]])
    total_least_s, total_most_s = np.array([4.0, 0.0]), np.array([6.0, 2.0])
    sum_s = np.array([[4.0, 1.0]])
    times = ProcessTimes(least_s, most_s, total_least_s, total_most_s, sum_s, FIRST)
    assert ends(slowest_class_bounds(times)) == ([3, 0], [5, 1])


def test_phases_of_any_size_are_bounded_each_for_itself():
    """1, 2, 3, 5 and 17 processes, that have 0 to 3, 1 to 4 s and so on."""
    sizes = [1, 2, 3, 5, 17]
    least_s = [np.arange(size, dtype=float) for size in sizes]
    sums_s = [one.sum() + 1 for one in least_s]
    alone = [
        bounded(one, one + 3, sum_s) for one, sum_s in zip(least_s, sums_s, strict=True)
    ]
    stacked = np.concatenate(least_s)
    first = np.cumsum([0, *sizes[:-1]])
    together = bounded(stacked, stacked + 3, sums_s, first)
    for of in (slowest_bounds, slowest_class_bounds):
        for found, expected in zip(
            of(together), zip(*map(of, alone), strict=True), strict=True
        ):
            assert found.tolist() == np.concatenate(expected).tolist()
    expected = np.concatenate([slowest_candidates(one) for one in alone])
    assert slowest_candidates(together).tolist() == expected.tolist()


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.data())
def test_sums_before_are_those_of_each_group_to_the_last_bit(sizes, data):
    values = np.array([data.draw(st.floats(0, 1e9)) for _ in range(sum(sizes))])
    first = np.cumsum(sizes) - sizes
    found = sums_before(values, first)
    for begin, size in zip(first, sizes, strict=True):
        expected = [0.0, *np.cumsum(values[begin : begin + size - 1])]
        assert found[begin : begin + size].tolist() == expected


@given(st.data(), st.integers(1, 4))
def test_least_maximum_is_attained_and_never_exceeded(data, n):
    grid = st.integers(0, 6)
    least = np.array([data.draw(grid) for _ in range(n)])
    most = np.array([low + data.draw(grid) for low in least])
    total = data.draw(st.integers(int(least.sum()), int(most.sum())))
    (found,) = least_maximum(bounded(least, most, total))
    ranges = (range(a, b + 1) for a, b in zip(least, most, strict=True))
    assert all(
        max(whole) >= found - 1e-9
        for whole in itertools.product(*ranges)
        if sum(whole) >= total
    )
    assert np.minimum(most, found).sum() >= total - 1e-9
    assert (np.minimum(most, found) >= least - 1e-9).all()


def test_upper_envelope_keeps_what_can_become_the_slowest():
    times_s = np.array([[1, 1, 0, 0], [2, 1, 0, 0], [0, 3, 0, 0], [2, 1, 0, 0]])
    assert upper_envelope(times_s.astype(float)).tolist() == [1, 2]


def test_upper_envelope_keeps_a_lower_rank_that_could_tie_by_rounding():
    times_s = np.array([[1.0, 0, 0, 0], [1.0, 1e-17, 0, 0]])
    assert upper_envelope(times_s).tolist() == [0, 1]
    assert upper_envelope(times_s[::-1]).tolist() == [0]
    # Of what a higher rank is no less slow by rounding, it is left out only by more.
    times_s = np.array([[1.0, 0, 0, 0], [1.0 + 1e-12, 0, 0, 0]])
    assert upper_envelope(times_s).tolist() == [0, 1]
    times_s = np.array([[1.0, 0, 0, 0], [1.0 + 1e-6, 0, 0, 0]])
    assert upper_envelope(times_s).tolist() == [1]


def test_the_envelope_of_each_phase_keeps_its_own_processes():
    times = ProcessTimes.exact(
        np.array([[1.0, 1.0], [2.0, 2.0], [0.0, 3.0], [1.0, 0.0], [2.0, 0.0]]),
        np.array([0, 3]),
    )
    rows, kept = times.enveloped()
    assert rows.tolist() == [1, 2, 4]
    assert kept.first.tolist() == [0, 2]
    assert kept.least_s.tolist() == [[2, 2], [0, 3], [2, 0]]
