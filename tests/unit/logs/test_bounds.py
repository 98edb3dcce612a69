import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tierscope.analysis.slowest.times import (
    ProcessTimes,
    slowest_bounds,
    slowest_candidates,
    slowest_class_bounds,
)
from tierscope.logs.bounds import SharedRecords, other_bounds, shared_bounds

FIRST = np.zeros(1, np.int64)  # the first row of the only phase

# A sum of squares is known to about 1e-14 of itself, so a time to its root.
NEAR = 1e-6
seconds = st.one_of(
    st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    st.floats(1e-7, 10.0, allow_subnormal=False),
)


def reduce_pair(left, right):
    """Reduce two records as posix_record_reduction_op and darshan_variance_reduce do.

    A record is (sums of the parts, slowest, fastest, (n, sum, sum of squares)), where
    slowest and fastest are (time, rank).
    """
    (parts, slowest, fastest, (n, total, squares)), other = left, right
    parts_, slowest_, fastest_, (n_, total_, squares_) = other
    difference = (n_ / n) * total - total_
    return (
        parts + parts_,
        slowest if slowest[0] > slowest_[0] else slowest_,
        fastest if fastest[0] < fastest_[0] else fastest_,
        (
            n + n_,
            total + total_,
            squares + squares_ + (n / (n_ * (n + n_))) * difference * difference,
        ),
    )


def reduce_record(parts_s, order=None):
    """Return what Darshan keeps of the times of all processes, shape (n, 3)."""
    records = []
    for rank, parts in enumerate(parts_s):
        time = parts[0] + parts[1] + parts[2]
        records.append((parts, (time, rank), (time, rank), (1.0, time, 0.0)))
    records = [records[i] for i in (range(len(records)) if order is None else order)]
    while len(records) > 1:  # MPI reduces in a tree
        pairs = [records[i : i + 2] for i in range(0, len(records), 2)]
        records = [reduce_pair(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    parts, slowest, fastest, (n, _, squares) = records[0]
    return [*parts, slowest[1], slowest[0], fastest[1], fastest[0], squares / n]


def shared_of(*records):
    """Return the shared records of per-process times, each of shape (n, 3)."""
    rows = [reduce_record(np.asarray(record, dtype=float)) for record in records]
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    return SharedRecords(*columns)


def reads(*times_s):
    """Return processes that only read."""
    return [[time_s, 0.0, 0.0] for time_s in times_s]


def bounds_of_others(*times_s):
    """Return the bounds in a record of processes that only read."""
    least_s, most_s, named = other_bounds(shared_of(reads(*times_s)), len(times_s))
    return float(least_s[0]), float(most_s[0]), bool(named[0])


def test_two_others_are_known_by_their_sum_and_variance():
    assert bounds_of_others(1, 2, 3, 6) == (
        pytest.approx(2, rel=NEAR),
        pytest.approx(3, rel=NEAR),
        True,
    )


def test_a_third_process_is_exact():
    assert bounds_of_others(1, 2, 6) == (
        pytest.approx(2, rel=1e-12),
        pytest.approx(2, rel=1e-12),
        True,
    )


def test_the_same_time_in_all_processes_is_exact():
    assert bounds_of_others(*[0.1] * 3072) == (0.1, 0.1, False)


def test_no_time_at_all_is_exact():
    assert bounds_of_others(0, 0, 0, 0) == (0, 0, False)


def test_a_single_process_is_exact():
    assert bounds_of_others(0.3) == (0.3, 0.3, False)


def test_all_others_are_near_their_mean_beside_one_outlier():
    least_s, most_s, _ = bounds_of_others(10, *[1] * 3071)
    assert least_s == 1  # no time is below the fastest
    assert most_s == pytest.approx(1, abs=1e-3)


def test_times_at_both_extremes_leave_others_between_them():
    assert bounds_of_others(0, 0, 0, 4, 4, 4) == (0, 4, True)


def test_two_equally_slow_processes_are_bounded_by_the_slowest():
    least_s, most_s, _ = bounds_of_others(0, 5, 5)
    assert (least_s, most_s) == (pytest.approx(5), 5)


def test_a_variance_that_contradicts_the_times_is_not_used():
    shared = shared_of(reads(1, 2, 3, 6))
    shared.variance_s2[0] = 0.0
    least_s, most_s, _ = other_bounds(shared, 4)
    assert (least_s[0], most_s[0]) == (1, pytest.approx(4))  # 5 s of two others


@pytest.mark.parametrize("sum_s", [5.0, 20.0])
def test_a_sum_that_contradicts_the_times_bounds_all_processes(sum_s):
    shared = shared_of(reads(1, 2, 3, 6))
    shared.read_s[0] = sum_s  # 9 to 19 s are possible
    least_s, most_s, named = other_bounds(shared, 4)
    assert (least_s[0], most_s[0], named[0]) == (0, sum_s, False)


@pytest.mark.parametrize("rank", [-1, 4])
def test_a_rank_that_no_process_has_leaves_all_processes_alike(rank):
    shared = shared_of(reads(1, 2, 3, 6))
    shared.slowest_rank[0] = rank
    least_s, most_s, named = other_bounds(shared, 4)
    assert not named[0]
    assert (least_s[0], most_s[0]) == (1, pytest.approx(6))
    shared.variance_s2[0] = 0.0  # contradicts 1 and 6 s
    least_s, most_s, _ = other_bounds(shared, 4)
    assert (least_s[0], most_s[0]) == (1, 6)


@pytest.mark.parametrize("bad", [np.nan, -1.0, np.inf])
@pytest.mark.parametrize("name", ["slowest_s", "fastest_s", "variance_s2", "read_s"])
def test_bounds_are_numbers_in_order_whatever_a_record_holds(name, bad):
    shared = shared_of(reads(1, 2, 3, 6))
    getattr(shared, name)[0] = bad
    least_s, most_s, _ = other_bounds(shared, 4)
    assert 0 <= least_s[0] <= most_s[0]


def extreme(n, total, low, high):
    """Return n times in [low, high] with a sum, as many as possible at both ends."""
    times, left = np.full(n, low), total - n * low
    for i in range(n):
        more = min(high - low, max(left, 0.0))
        times[i] += more
        left -= more
    return times


def with_squares(n, total, squares, low, high):
    """Return n times in [low, high] with a sum and a sum of squares, if there are."""
    if n == 0:
        return np.zeros(0)
    equal = np.full(n, total / n)
    direction = extreme(n, total, low, high) - equal
    largest = (direction**2).sum()
    wanted = squares - n * (total / n) ** 2
    share = np.sqrt(np.clip(wanted / largest, 0, 1)) if largest > 0 else 0.0
    return equal + share * direction


def assert_same_reduction(parts_s, expected, largest_s):
    """Compare what Darshan keeps, ranks apart."""
    found = reduce_record(parts_s)
    for i in (0, 1, 2, 4, 6):
        assert found[i] == pytest.approx(expected[i], abs=10 * NEAR * largest_s)
    assert found[7] == pytest.approx(expected[7], abs=10 * NEAR * largest_s**2)


@given(st.lists(seconds, min_size=3, max_size=9))
def test_bounds_of_others_hold_the_truth_and_are_attained(times_s):
    times_s = np.array(times_s)
    expected = reduce_record(np.array(reads(*times_s)))
    slowest, slowest_s, fastest, fastest_s = expected[3:7]
    least_s, most_s, named = bounds_of_others(*times_s)
    others_s = np.delete(times_s, [slowest, fastest]) if named else times_s
    assert (others_s >= least_s * (1 - 1e-12)).all()
    assert (others_s <= most_s * (1 + 1e-12)).all()
    for bound_s in (least_s, most_s):
        rest_s = with_squares(
            len(others_s) - 1,
            others_s.sum() - bound_s,
            (others_s**2).sum() - bound_s**2,
            fastest_s,
            slowest_s,
        )
        known = [slowest_s, fastest_s] if named else []
        witness = np.array(reads(*known, bound_s, *rest_s))
        assert_same_reduction(witness, expected, slowest_s)


@pytest.mark.parametrize("n", [4, 5, 100, 3072])
def test_random_times_are_inside_bounds_that_are_attained(n):
    rng = np.random.default_rng(n)
    for times_s in (
        rng.exponential(1, n),
        rng.choice([0.0, 1.0], n),
        np.where(np.arange(n) == 1, 100.0, rng.uniform(1, 1.01, n)),
        rng.uniform(5, 5 + 1e-7, n),
        np.where(np.arange(n) == 1, 1000.0, rng.uniform(1, 1 + 1e-9, n)),
    ):
        expected = reduce_record(np.array(reads(*times_s)))
        slowest, slowest_s, fastest, fastest_s = expected[3:7]
        least_s, most_s, _ = bounds_of_others(*times_s)
        others_s = np.delete(times_s, [slowest, fastest])
        assert least_s <= others_s.min()
        assert others_s.max() <= most_s
        for bound_s in (least_s, most_s):
            rest_s = with_squares(
                n - 3,
                others_s.sum() - bound_s,
                (others_s**2).sum() - bound_s**2,
                fastest_s,
                slowest_s,
            )
            witness = np.array(reads(slowest_s, fastest_s, bound_s, *rest_s))
            assert_same_reduction(witness, expected, slowest_s)


def fill(totals_s, sums_s, process, parts):
    """Split the totals into parts with these sums; a process takes parts in an order.

    `parts` is that order; what the process leaves goes to the others as it comes.
    """
    filled, left = np.zeros((len(totals_s), 3)), np.array(sums_s)
    others = [rank for rank in range(len(totals_s)) if rank != process]
    for rank in [process, *others]:
        missing = totals_s[rank]
        for part in parts if rank == process else (0, 1, 2):
            taken = min(left[part], missing)
            filled[rank, part] += taken
            left[part] -= taken
            missing -= taken
    return filled


@st.composite
def records_of_processes(draw, most_records=4):
    """Draw times by record, process and part, and their cells and totals."""
    n = draw(st.integers(1, 6))
    n_records = draw(st.integers(1, most_records))
    times = draw(
        st.lists(seconds, min_size=3 * n * n_records, max_size=3 * n * n_records)
    )
    cells = draw(
        st.lists(st.integers(-1, 2), min_size=3 * n_records, max_size=3 * n_records)
    )
    totals = draw(st.lists(st.integers(-1, 1), min_size=n_records, max_size=n_records))
    return (
        np.reshape(times, (n_records, n, 3)),
        np.reshape(cells, (n_records, 3)),
        np.array(totals),
    )


def sums_by_place(times_s, cells, totals):
    """Return the true times by process and cell, and by process and total."""
    by_cell = np.zeros((times_s.shape[1], 3))
    by_total = np.zeros((times_s.shape[1], 2))
    for record_s, of_parts, total in zip(times_s, cells, totals, strict=True):
        for part, cell in enumerate(of_parts):
            if cell >= 0:
                by_cell[:, cell] += record_s[:, part]
        if total >= 0:
            by_total[:, total] += record_s.sum(axis=1)
    return by_cell, by_total


def inside(least_s, truth_s, most_s):
    return (least_s <= truth_s + 1e-9).all() and (truth_s <= most_s + 1e-9).all()


@given(records_of_processes())
def test_each_process_is_inside_its_bounds_in_each_cell_and_total(drawn):
    times_s, cells, totals = drawn
    bounds = shared_bounds(shared_of(*times_s), times_s.shape[1], cells, 3, totals, 2)
    by_cell, by_total = sums_by_place(*drawn)
    assert (bounds.least_s <= bounds.most_s).all()
    assert (bounds.total_least_s <= bounds.total_most_s).all()
    assert inside(bounds.least_s, by_cell, bounds.most_s)
    assert inside(bounds.total_least_s, by_total, bounds.total_most_s)


@given(records_of_processes())
def test_processes_that_are_not_named_share_a_row(drawn):
    times_s, cells, totals = drawn
    shared, n = shared_of(*times_s), times_s.shape[1]
    every = shared_bounds(shared, n, cells, 3, totals, 2)
    named = np.union1d(shared.slowest_rank, shared.fastest_rank)
    few = shared_bounds(shared, n, cells, 3, totals, 2, np.append(-1, named))
    others = np.setdiff1d(np.arange(n), named)
    for name, values in vars(few).items():
        assert np.array_equal(values[1:], getattr(every, name)[named])
        assert (getattr(every, name)[others] == values[0]).all()


@given(records_of_processes(most_records=1), st.data())
def test_bounds_of_a_part_of_a_record_are_attained(drawn, data):
    (times_s,), _, _ = drawn
    n = len(times_s)
    process, part = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, 2))
    expected = reduce_record(times_s)
    slowest, slowest_s, fastest, fastest_s = expected[3:7]
    totals_s = times_s[:, 0] + times_s[:, 1] + times_s[:, 2]
    bounds = shared_bounds(
        shared_of(times_s), n, np.array([[0, 1, 2]]), 3, np.array([0]), 1
    )
    for ends, total_ends, order in (
        (bounds.least_s, bounds.total_least_s, [i for i in range(3) if i != part]),
        (bounds.most_s, bounds.total_most_s, [part]),
    ):
        total_s = total_ends[process, 0]
        witness_s = totals_s.copy()
        named = {slowest, fastest} if slowest != fastest else set()
        if process not in named:
            others = [i for i in range(n) if i not in {process, *named}]
            of_all = [process, *others]
            witness_s[process] = total_s
            if others:
                witness_s[others] = with_squares(
                    len(others),
                    totals_s[of_all].sum() - total_s,
                    (totals_s[of_all] ** 2).sum() - total_s**2,
                    fastest_s,
                    slowest_s,
                )
        order = [*order, *(i for i in range(3) if i not in order)]
        witness = fill(witness_s, expected[:3], process, order)
        assert_same_reduction(witness, expected, slowest_s)
        near = pytest.approx(ends[process, part], abs=10 * NEAR * slowest_s)
        assert witness[process, part] == near


def test_the_slowest_and_the_fastest_process_of_a_record_have_their_own_times():
    # Only read, and 4, 1 and 2 s: the third process is what the sum leaves.
    shared = shared_of(reads(4, 1, 2))
    bounds = shared_bounds(shared, 3, np.array([[0, -1, -1]]), 1, np.array([0]), 1)
    assert bounds.least_s.ravel() == pytest.approx([4, 1, 2], rel=1e-12)
    assert bounds.most_s.ravel() == pytest.approx([4, 1, 2], rel=1e-12)
    assert bounds.total_most_s.ravel() == pytest.approx([4, 1, 2], rel=1e-12)


def test_bounds_of_two_processes_are_equal_to_the_last_bit():
    times_s = np.random.default_rng(0).exponential(1, (50, 2))
    shared = shared_of(*(reads(*record_s) for record_s in times_s))
    cells = np.tile([0, -1, -1], (50, 1))
    bounds = shared_bounds(shared, 2, cells, 1, np.zeros(50, int), 1)
    assert bounds.least_s.ravel() == pytest.approx(times_s.sum(axis=0))
    assert (bounds.least_s == bounds.most_s).all()
    assert (bounds.total_least_s == bounds.total_most_s).all()


def test_a_part_takes_what_the_other_parts_cannot_hold():
    # 5 s of reads and 2 s of metadata: of the slowest 4 s, 2 to 4 s are reads.
    shared = shared_of([[3, 0, 1], [1, 0, 0], [1, 0, 1]])
    bounds = shared_bounds(shared, 3, np.array([[0, -1, 1]]), 2, np.array([-1]), 0)
    assert (bounds.least_s[0, 0], bounds.most_s[0, 0]) == (2, 4)
    assert (bounds.least_s[0, 1], bounds.most_s[0, 1]) == (0, 2)


def test_no_shared_record_leaves_no_time():
    none = np.zeros(0)
    shared = SharedRecords(
        *[none] * 3, none.astype(int), none, none.astype(int), *[none] * 2
    )
    empty = np.zeros((0, 3), dtype=int)
    bounds = shared_bounds(shared, 2, empty, 2, empty[:, 0], 1)
    assert bounds.most_s.tolist() == [[0, 0], [0, 0]]
    assert bounds.total_most_s.tolist() == [[0], [0]]


@given(records_of_processes())
def test_the_slowest_process_is_inside_its_bounds(drawn):
    times_s, cells, _ = drawn
    n = times_s.shape[1]
    cells = np.abs(cells)  # each part in a class
    totals = np.zeros(len(times_s), dtype=int)
    shared = shared_bounds(shared_of(*times_s), n, cells, 3, totals, 1)
    by_class, by_total = sums_by_place(times_s, cells, totals)
    times = ProcessTimes(
        shared.least_s,
        shared.most_s,
        shared.total_least_s[:, 0],
        shared.total_most_s[:, 0],
        by_class.sum(axis=0, keepdims=True),
        FIRST,
    )
    slowest = by_total[:, 0].argmax()
    least_s, most_s = slowest_bounds(times)
    assert inside(least_s, by_total[slowest, 0], most_s)
    assert slowest_candidates(times)[slowest]
    (least_s,), (most_s,) = slowest_class_bounds(times)
    assert inside(least_s, by_class[slowest], most_s)
