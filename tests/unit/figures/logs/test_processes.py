import job_tables
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from job_tables import META, READ, WHOLE, tables_of
from tierscope.figures.logs.processes import (
    class_times,
    median_bounds,
    ordered_bounds,
    times_in,
    with_io,
)


def processes_of(job, epoch=WHOLE):
    return with_io(tables_of(job)["job_processes"], epoch)


def ordered(least_s, most_s, sum_s):
    """Return the bounds of the sorted times of processes with these bounds and sum."""
    processes = pd.DataFrame({"least_s": least_s, "most_s": most_s}, dtype=float)
    rows = {"counted": [True, False], "sum_s": [sum_s, 1e6]}
    return ordered_bounds(processes, pd.DataFrame(rows))


def test_processes_are_sorted_by_their_time():
    processes = processes_of(job_tables.exact_job())
    assert processes["rank"].tolist() == [1, 0]
    assert processes["least_s"].tolist() == processes["most_s"].tolist() == [8, 4.5]
    assert processes["can_be_slowest"].tolist() == [True, False]


def test_an_epoch_has_the_processes_of_its_own():
    processes = processes_of(job_tables.epochs_job(), 1)
    assert processes["least_s"].iloc[0] == pytest.approx(5)


def test_processes_without_io_are_left_out():
    job = job_tables.exact_job(times={(-1, READ): ([3, 0, 0], [3, 0, 1])})
    assert processes_of(job)["rank"].tolist() == [0, 2]


def test_what_is_certain_decides_the_order_of_those_that_can_be_the_slowest():
    """Rank 1 takes 3.36 s for sure; rank 0 up to 3.37 s, but perhaps nearly nothing."""
    job = job_tables.exact_job(times={(-1, READ): ([0.1, 3.36], [3.37, 3.36])})
    processes = processes_of(job)
    assert processes["rank"].tolist() == [1, 0]
    assert processes["can_be_slowest"].all()


def test_processes_without_upper_bound_are_sorted_by_what_is_certain():
    processes = processes_of(job_tables.partial_job())
    assert processes["most_s"].isna().all()
    assert processes["least_s"].tolist() == [3, 2]


def test_the_kth_longest_time_is_at_most_the_kth_part_of_the_sum():
    """Of 2,048 processes any one could take 337 s, but not half of them."""
    found = ordered(np.zeros(2048), np.full(2048, 337.0), 9246.0)
    assert found["most_s"].iloc[0] == 337
    assert found["most_s"].iloc[99] == pytest.approx(92.46)
    assert found["most_s"].iloc[-1] == pytest.approx(9246 / 2048)
    least_s, most_s = median_bounds(found)
    assert least_s == 0
    assert 9.0 < most_s < 9.1


def test_the_kth_longest_time_is_at_least_what_the_others_leave():
    """The longest two are at most 4 s each, so 4 s are left for two times."""
    found = ordered([1, 1, 1, 1], [4, 4, 4, 4], 12)
    assert found["least_s"].tolist() == [3, 8 / 3, 2, 1]
    assert found["most_s"].tolist() == [4, 4, 11 / 3, 3]


def test_exact_times_stay_as_they_are():
    times_s = [0.1, 0.2, 0.3]
    found = ordered(times_s, times_s, sum(times_s))
    assert found["least_s"].tolist() == found["most_s"].tolist() == times_s[::-1]
    assert median_bounds(found) == (0.2, 0.2)
    assert median_bounds(ordered([1, 3], [1, 3], 4)) == (2, 2)


def test_lost_records_leave_no_upper_bound():
    found = ordered([3, 2], [np.nan, np.nan], 5)
    assert found["least_s"].tolist() == [3, 2]
    assert found["most_s"].isna().all()
    assert np.isnan(median_bounds(found)[1])


@given(
    arrays(float, st.integers(1, 9), elements=st.floats(0, 100)),
    st.lists(st.floats(0, 1), min_size=18, max_size=18),
)
def test_sorted_times_lie_within_their_bounds(times_s, parts):
    below, above = np.reshape(parts, (2, 9))[:, : len(times_s)]
    found = ordered(times_s * below, times_s * (1 + above), times_s.sum())
    sorted_s, slack_s = np.sort(times_s)[::-1], 1e-9
    assert (found["least_s"] <= sorted_s + slack_s).all()
    assert (found["most_s"] >= sorted_s - slack_s).all()
    least_s, most_s = median_bounds(found)
    assert least_s - slack_s <= np.median(times_s) <= most_s + slack_s


def test_logs_of_no_process_are_left_out():
    times = tables_of(job_tables.exact_job())["job_times"]
    helpers = times.assign(rank=times["rank"].replace(1, -1))
    assert times_in(helpers, WHOLE)["rank"].unique().tolist() == [0]


def test_class_times_are_in_the_order_of_the_processes():
    times = times_in(tables_of(job_tables.epochs_job())["job_times"], 0)
    found = class_times(times, times["rank"].drop_duplicates().sort_values()[::-1])
    assert found[READ].tolist() == [3, 6]
    assert found[META].tolist() == [1.5, 3]
