"""What SQL says of tables of logged jobs, beside numbers that one can check."""

import numpy as np
import pandas as pd
import pytest
from job_tables import META, READ, bounded_job, exact_job, partial_job, tables_of
from tierscope.analysis.logs.asking import JobTables
from tierscope.analysis.logs.questions import (
    class_costs,
    costs_by,
    jobs_with_pages,
    most_costly,
    over_time,
    parts_of_io,
    totals,
)
from tierscope.core.tables import TableError, empty_table, write_table

DAY = 86400
MONDAY = 1_767_571_200.0  # 2026-01-05


def job_of(name, hours, **changes):
    """Return a job of two nodes that costs so many node-hours, half of them META."""
    seconds = 3600 * hours / 4
    times = {(-1, READ): [seconds, 0], (-1, META): [seconds, 0]}
    return exact_job(name, times=times, run_time_s=1e4, **changes)


def asked(*jobs, **changes):
    """Return the tables of jobs, with other values in columns of table fleet."""
    tables = tables_of(*jobs)
    fleet = tables["fleet"].assign(**changes)
    return JobTables({"fleet": fleet, "fleet_classes": tables["fleet_classes"]})


def began(*days):
    """Return the tables of jobs of one hour each that began on these days."""
    return asked(
        *(job_of(f"{n}", 1, started_s=MONDAY + DAY * day) for n, day in enumerate(days))
    )


def test_totals_have_no_upper_bound_if_a_job_has_none():
    known = totals(asked(bounded_job(n_nodes=3600.0), job_of("a", 1)))
    assert (known["least_hours"], known["most_hours"]) == (3, 5)
    assert known["n_jobs"] == 2
    lost = totals(asked(partial_job(n_nodes=3600.0), job_of("a", 1)))
    assert lost["least_hours"] == 4
    assert np.isnan(lost["most_hours"])


def test_totals_of_no_job_are_nothing():
    tables = JobTables({"fleet": empty_table("fleet")})
    known = totals(tables)
    assert known["n_jobs"] == 0
    assert list(known["kinds"]) == []


def test_the_upper_bound_of_hours_follows_from_that_of_seconds():
    known = {
        "job": ["a", "b", "c"],
        "io_least_s": [2.0, 0, 0],
        "io_most_s": [4.0, 0, 1],
        "io_hours": [1.0, 0, 0],
    }
    jobs = (job_of("a", 1), job_of("b", 2), job_of("c", 3))
    bounds = most_costly(asked(*jobs, **known), 3)["most_hours"]  # a, b, c
    assert bounds.tolist() == pytest.approx([2, 0, np.nan], nan_ok=True)


def test_users_that_cost_most_come_first():
    jobs = [
        job_of("a", 1, user="x"),
        job_of("b", 2, user="y"),
        job_of("c", 3, user="x"),
    ]
    rows = costs_by(asked(*jobs), "user", 9)
    assert rows[["name", "n_jobs", "least_hours"]].values.tolist() == [
        ["x", 2, 4.0],
        ["y", 1, 2.0],
    ]
    assert costs_by(asked(*jobs), "user", 1)["name"].tolist() == ["x"]


def test_the_jobs_with_the_most_hours_get_pages():
    tables = asked(*(exact_job(f"job-{n}", n_nodes=float(n)) for n in (1, 3, 2)))
    assert jobs_with_pages(tables, 2) == ["job-3", "job-2"]
    assert jobs_with_pages(tables, 0) == []
    assert len(jobs_with_pages(tables, 9)) == 3


def test_an_answer_is_the_same_from_files_and_from_frames(tmp_path):
    jobs = [job_of(f"job-{n}", 1 + n) for n in range(4)]
    frames = tables_of(*jobs)
    for number in range(4):
        for name in ("fleet", "fleet_classes"):
            rows = frames[name][frames[name]["job"] == f"job-{number}"]
            path = tmp_path / f"{name}.parquet" / "2026-01" / f"{number}.parquet"
            write_table(rows, path, name)
    places = {name: tmp_path / f"{name}.parquet" for name in ("fleet", "fleet_classes")}
    pd.testing.assert_frame_equal(
        class_costs(JobTables(places)), class_costs(asked(*jobs))
    )


def test_a_damaged_table_is_named(tmp_path):
    path = tmp_path / "fleet.parquet"
    rows = tables_of(*(job_of(f"job-{n}", 1) for n in range(50)))["fleet"]
    write_table(rows, path, "fleet")
    damaged = bytearray(path.read_bytes())
    damaged[8:400] = bytes(392)
    path.write_bytes(damaged)
    with pytest.raises(TableError, match=r"cannot (be asked|read)"):
        most_costly(JobTables({"fleet": path}), 9)


def test_few_jobs_are_points_and_unknown_ones_are_counted():
    parts = parts_of_io(
        asked(job_of("a", 1), job_of("b", 2), io_least_percent=[np.nan, 10]), 150, 9
    )
    assert parts.points["percent"].tolist() == [10]
    assert (len(parts.cells), parts.n_unknown) == (0, 1)
    none = parts_of_io(asked(job_of("a", 1), io_least_percent=np.nan), 150, 9)
    assert (len(none.points), none.n_unknown) == (0, 1)


def test_hours_of_a_year_are_those_of_weeks_without_gaps():
    """A job each Wednesday of 52 weeks; two in the second, none in the third."""
    weeks = [0, 1, 1, *range(3, 52)]
    course = over_time(began(*(7 * week + 2 for week in weeks)))
    assert course.unit == "week"
    assert course.bars["begin"].dt.day_of_week.eq(0).all()
    assert course.bars["least_hours"].tolist() == [1, 2, 0, *[1] * 49]
    assert course.bars["n_jobs"].tolist() == [1, 2, 0, *[1] * 49]
    assert course.classes["least_hours"].sum() == pytest.approx(52)
    assert course.n_outside == 0


@pytest.mark.parametrize(
    ("days", "unit"),
    [
        ([0, 1, 2, 3, 4], "day"),
        ([7 * week for week in range(8)], "week"),
        ([30 * month for month in range(60)], "month"),
    ],
)
def test_bars_are_days_weeks_or_months(days, unit):
    assert over_time(began(*days)).unit == unit


@pytest.mark.parametrize("days", [[0], [0, 0.1, 0.2, 0.3], [0, 1], [0, 1, 300]])
def test_few_bars_are_no_course(days):
    assert over_time(began(*days)) is None


def test_a_job_of_another_time_does_not_stretch_the_course():
    jobs = began(*range(30)).ask("SELECT * FROM fleet")
    many = pd.concat([jobs] * 40, ignore_index=True)
    odd = jobs.head(1).assign(started_s=0.0, month="1970-01")
    tables = tables_of(job_of("0", 1))
    fleet = pd.concat([many, odd], ignore_index=True)
    course = over_time(
        JobTables({"fleet": fleet, "fleet_classes": tables["fleet_classes"]})
    )
    assert (course.unit, len(course.bars), course.n_outside) == ("day", 30, 1)
