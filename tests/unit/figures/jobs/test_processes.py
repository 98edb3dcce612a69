import job_tables
import numpy as np
import pytest
from job_tables import META, READ, WHOLE, tables_of
from tierscope.figures.jobs.processes import (
    class_times,
    listed_ranks,
    process_totals,
    times_in,
)


def totals_of(job, epoch=WHOLE):
    tables = tables_of(job)
    slowest = tables["job_slowest"].set_index("epoch").loc[epoch]
    return process_totals(times_in(tables["job_times"], epoch), slowest)


def test_processes_are_sorted_by_their_counted_time():
    job = job_tables.exact_job()
    job.times[-1, job_tables.MPI_IO] = [50, 50]  # not counted
    totals = totals_of(job)
    assert totals["rank"].tolist() == [1, 0]
    assert totals["least_s"].tolist() == totals["most_s"].tolist() == [8, 4.5]
    assert totals["is_candidate"].tolist() == [True, False]


def test_the_whole_job_is_the_sum_of_its_epochs():
    job = job_tables.epochs_job()  # 10, 5 and 3.33 s; the other process half of 10 ...
    assert totals_of(job)["least_s"].iloc[0] == pytest.approx(10 + 5 + 10 / 3)
    assert totals_of(job, 1)["least_s"].iloc[0] == pytest.approx(5)


def test_every_process_behind_a_shared_record_can_be_the_slowest():
    totals = totals_of(job_tables.bounded_job())
    assert totals["least_s"].tolist() == [2, 2, 2]
    assert totals["most_s"].tolist() == [4, 4, 4]
    assert totals["is_candidate"].all()


def test_no_process_takes_longer_than_the_slowest():
    tables = tables_of(job_tables.bounded_job())
    slowest = tables["job_slowest"].iloc[0].copy()
    slowest["most_s"] = 3.0  # sharper than the sum over the classes
    totals = process_totals(tables["job_times"], slowest)
    assert totals["most_s"].tolist() == [3, 3, 3]


def test_a_process_that_must_be_the_slowest_has_its_sharper_bounds():
    """Its total may be exact although its classes are not."""
    tables = tables_of(job_tables.bounded_job())  # 2 to 4 s each
    slowest = tables["job_slowest"].iloc[0].copy()
    slowest[["least_s", "most_s", "n_slowest", "slowest_ranks"]] = [3.5, 3.5, 1, "2"]
    totals = process_totals(tables["job_times"], slowest).set_index("rank")
    assert totals.loc[2, ["least_s", "most_s"]].tolist() == [3.5, 3.5]
    assert totals.loc[0, ["least_s", "most_s"]].tolist() == [2, 3.5]


def test_a_list_that_is_cut_is_completed_from_the_bounds():
    """The candidates are those whose upper bound reaches the slowest process's time."""
    times = {(-1, READ): (np.full(30, 1.0), np.where(np.arange(30) < 20, 2.0, 1.0))}
    times[-1, META] = (np.zeros(30), np.zeros(30))
    job = job_tables.bounded_job(times=times)
    job.times[-1, READ][0][0] = 1.5
    assert tables_of(job)["job_slowest"]["slowest_ranks"].iloc[0].endswith("10 more")
    totals = totals_of(job)
    assert sorted(totals.loc[totals["is_candidate"], "rank"]) == list(range(20))


def test_lost_records_leave_no_upper_bound():
    totals = totals_of(job_tables.partial_job())
    assert totals["most_s"].isna().all()
    assert totals.set_index("rank")["is_candidate"].to_dict() == {0: True, 1: False}


def test_processes_that_only_called_mpi_io_took_no_time():
    job = job_tables.exact_job(
        times={(-1, READ): [1, 0], (-1, job_tables.MPI_IO): [5, 5]}
    )
    tables = tables_of(job)
    times = tables["job_times"][lambda rows: rows["interface"] == "MPI-IO"]
    totals = process_totals(times, tables["job_slowest"].iloc[0])
    assert totals.set_index("rank")["least_s"].loc[1] == 0
    assert len(totals) == 2


def test_logs_of_no_process_are_left_out():
    times = tables_of(job_tables.exact_job())["job_times"]
    helpers = times.assign(rank=times["rank"].replace(1, -1))
    assert times_in(helpers, WHOLE)["rank"].unique().tolist() == [0]


@pytest.mark.parametrize(
    ("words", "ranks"),
    [
        ("7", [7]),
        ("0, 3, 17", [0, 3, 17]),
        ("1, 4 to 6", [1, 4, 5, 6]),
        ("any of 64", []),
        ("0, 1 and 5 more", []),
        ("", []),
    ],
)
def test_ranks_are_read_from_whole_lists_only(words, ranks):
    assert listed_ranks(words) == ranks


def test_class_times_are_in_the_order_of_the_processes():
    times = times_in(tables_of(job_tables.epochs_job())["job_times"], 0)
    found = class_times(times, times["rank"].drop_duplicates().sort_values()[::-1])
    assert found[READ].tolist() == [3, 6]
    assert found[META].tolist() == [1.5, 3]
