"""What figures and pages ask the tables of logged jobs.

An upper bound of hours that is missing is not known; a sum with such a part is missing.
"""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from tierscope.analysis.logs.asking import JobTables

# Jobs with the upper bound of their hours, and a mark of those whose hours are of
# processes among jobs with hours of nodes.
_COSTS = """(
    SELECT *,
        CASE WHEN io_most_s = 0 THEN 0
            WHEN io_least_s > 0 THEN io_most_s * (io_hours / io_least_s) END
            AS most_hours,
        greatest(meta_saved_least_hours, meta_saved_most_hours) AS saved_hours,
        hours_of = 'processes' AND
            (SELECT count(DISTINCT hours_of) > 1 FROM fleet) AS is_marked
    FROM fleet
)"""
_CLASSES = "(SELECT * FROM fleet_classes WHERE interface <> 'MPI-IO')"  # that count
_UNITS = {"day": 35, "week": 1200, "month": 36500}  # the longest time in days for each
_FEWEST_BARS = 3
_LEAST_FILLED = 0.25  # of the bars
_LEAST_OF_JOBS = 0.001  # in a month at the begin or end of the time that is shown
_MOST_POINTS = 2000  # more jobs are counted in cells
_CELLS = (72, 40)  # over the run time and over the part of I/O


def _sum(column: str) -> str:
    """Return SQL of a sum that is missing if a part is, alike in any order of rows."""
    return f"CASE WHEN count({column}) = count(*) THEN fsum({column}) END"


# How many jobs, users and programs there are, and what they cost together.
_OF_JOBS = f"""count(*) AS n_jobs, count(DISTINCT "user") AS n_users,
    count(DISTINCT exe) AS n_programs,
    count(*) FILTER (WHERE outlier <> '') AS n_outliers,
    fsum(io_hours) AS least_hours, {_sum("most_hours")} AS most_hours"""


def totals(tables: JobTables) -> dict[str, Any]:
    """Return how many jobs, users and programs there are, and what they cost together.

    ``kinds`` holds the distinct values of ``hours_of``, ``times_are`` those of the
    column of this name.
    """
    return tables.ask_one(f"""
        SELECT {_OF_JOBS}, count(*) FILTER (WHERE io_hours > 0) AS n_costly,
            coalesce(list(DISTINCT hours_of ORDER BY hours_of), []) AS kinds,
            coalesce(list(DISTINCT times_are ORDER BY times_are), []) AS times_are,
            fsum(meta_saved_least_hours) AS saved_least_hours,
            {_sum("meta_saved_most_hours")} AS saved_most_hours
        FROM {_COSTS}
    """)


def count(tables: JobTables, name: str) -> int:
    """Return the number of rows of a table."""
    return int(tables.ask_one(f"SELECT count(*) AS n FROM {name}")["n"])


def class_costs(tables: JobTables) -> pd.DataFrame:
    """Return what all jobs cost by class, of those classes that count.

    ``n_least`` jobs have the class, and at most ``n_most``.
    """
    return tables.ask(f"""
        SELECT tier, interface, operation, fsum(least_hours) AS least_hours,
            {_sum("most_hours")} AS most_hours,
            count(*) FILTER (WHERE least_hours <> 0) AS n_least,
            count(*) FILTER (WHERE most_hours IS DISTINCT FROM 0) AS n_most
        FROM {_CLASSES} GROUP BY tier, interface, operation
        HAVING least_hours <> 0 OR most_hours IS DISTINCT FROM 0
        ORDER BY ALL
    """)


def costs_by(tables: JobTables, column: str, n: int) -> pd.DataFrame:
    """Return what the jobs cost by a column of table ``fleet``, the dearest first.

    Parameters
    ----------
    tables : JobTables
        With table ``fleet``.
    column : str
        Such as ``user``; its values are column ``name`` of the answer.
    n : int
        The most rows.
    """
    rows = f"""
        SELECT "{column}" AS name, {_OF_JOBS}
        FROM {_COSTS} GROUP BY name ORDER BY least_hours DESC, name LIMIT ?
    """
    return tables.ask(rows, n)


def most_costly(tables: JobTables, n: int) -> pd.DataFrame:
    """Return the rows of the jobs with the most hours, and ``most_hours``."""
    question = f"SELECT * FROM {_COSTS} ORDER BY io_hours DESC, job LIMIT ?"
    return tables.ask(question, n)


def jobs_with_pages(tables: JobTables, n_pages: int) -> list[str]:
    """Return the jobs that get pages of their own: those with the most hours first."""
    question = "SELECT job FROM fleet ORDER BY io_hours DESC, job LIMIT ?"
    return tables.ask(question, n_pages)["job"].tolist()


def surest_savings(tables: JobTables, n: int) -> pd.DataFrame:
    """Return the jobs whose metadata time can fall, those with certain hours first."""
    question = f"""
        SELECT * FROM {_COSTS}
        WHERE meta_saved_least_hours > 0 OR meta_saved_most_hours IS DISTINCT FROM 0
        ORDER BY meta_saved_least_hours DESC, meta_saved_most_hours DESC NULLS LAST,
            io_hours DESC, job LIMIT ?
    """
    return tables.ask(question, n)


def largest_savings(tables: JobTables, n: int) -> pd.DataFrame:
    """Return the jobs that can save most, by the upper bound if there is one."""
    question = f"""
        SELECT * FROM {_COSTS} WHERE saved_hours > 0
        ORDER BY saved_hours DESC, job LIMIT ?
    """
    return tables.ask(question, n)


def outlying(tables: JobTables, n: int) -> pd.DataFrame:
    """Return the outliers, those with the most hours first."""
    question = "SELECT * FROM fleet WHERE outlier <> '' ORDER BY io_hours DESC, job"
    return tables.ask(f"{question} LIMIT ?", n)


def classes_of_jobs(tables: JobTables, jobs: list[str]) -> pd.DataFrame:
    """Return the rows of table ``fleet_classes`` of some jobs: classes that count."""
    return tables.ask(f"SELECT * FROM {_CLASSES} WHERE list_contains(?, job)", jobs)


def first_rows(tables: JobTables, name: str, n: int) -> pd.DataFrame:
    """Return the first rows of a table."""
    return tables.ask(f"SELECT * FROM {name} LIMIT ?", n)


def prefixes(tables: JobTables) -> pd.DataFrame:
    """Return table ``tier_prefixes`` in its order."""
    return tables.ask("SELECT * FROM tier_prefixes")


@dataclass(frozen=True)
class Parts:
    """Each job's part of I/O in its run time, as a figure can show it.

    Parameters
    ----------
    points : DataFrame
        Rows of jobs: all, or outliers if there are too many.
    cells : DataFrame
        How many jobs are in a cell, if they are too many: ``run_time_s`` and
        ``percent``, where it begins, ``to_s`` and ``to_percent``, where it ends, and
        ``n_jobs``.
    n_unknown : int
        Jobs whose part or run time is not known.
    largest_percent : float
        The largest part; missing (NaN) if none is known.
    """

    points: pd.DataFrame
    cells: pd.DataFrame
    n_unknown: int
    largest_percent: float


def parts_of_io(tables: JobTables, most_percent: float, n_outliers: int) -> Parts:
    """Return the part of I/O of each job; those above `most_percent` are put there.

    Of many jobs, only `n_outliers` outliers are single points.
    """
    known = f"""(
        SELECT *, least({most_percent}, io_least_percent) AS percent
        FROM fleet WHERE io_least_percent IS NOT NULL AND run_time_s > 0
    )"""
    found = tables.ask_one(f"""
        SELECT count(*) AS n, max(io_least_percent) AS largest,
            coalesce(max(percent), 0) AS top,
            coalesce(min(log10(run_time_s)), 0) AS low,
            coalesce(max(log10(run_time_s)), 0) AS high,
            (SELECT count(*) FROM fleet) - n AS n_unknown
        FROM {known}
    """)
    is_single = found["n"] <= _MOST_POINTS
    points = tables.ask(
        f"""
        SELECT * FROM {known} WHERE ? OR outlier <> ''
        ORDER BY io_hours DESC, job LIMIT ?
        """,
        is_single,
        _MOST_POINTS if is_single else n_outliers,
    )
    columns, rows = _CELLS
    width = max(found["high"] - found["low"], 1e-9) / columns
    height = max(found["top"], 1.0) / rows
    cells = tables.ask(
        f"""
        WITH placed AS (
            SELECT least(floor((log10(run_time_s) - {found["low"]}) / {width}),
                    {columns - 1}) AS x,
                least(floor(percent / {height}), {rows - 1}) AS y
            FROM {known} WHERE ?
        )
        SELECT pow(10, {found["low"]} + x * {width}) AS run_time_s,
            pow(10, {found["low"]} + (x + 1) * {width}) AS to_s,
            y * {height} AS percent, (y + 1) * {height} AS to_percent,
            count(*) AS n_jobs
        FROM placed GROUP BY x, y ORDER BY x, y
        """,
        not is_single,
    )
    return Parts(points, cells, int(found["n_unknown"]), float(found["largest"]))


@dataclass(frozen=True)
class Course:
    """What jobs cost over the time, by when they began.

    Parameters
    ----------
    unit : str
        The time of a bar: ``day``, ``week`` (from Monday on) or ``month``, in UTC.
    bars : DataFrame
        When each bar begins (``begin``), ``n_jobs`` and ``least_hours``, without gaps.
    classes : DataFrame
        ``least_hours`` of each class by ``begin``.
    n_outside : int
        Jobs long before or after all others, which are left out.
    """

    unit: str
    bars: pd.DataFrame
    classes: pd.DataFrame
    n_outside: int


def over_time(tables: JobTables) -> Course | None:
    """Return what jobs cost over the time, or None if a few bars would be all.

    A bar is a day, a week or a month, by how long the time from first to last job is.
    Months with less than a thousandth of the jobs are left out at begin and end.
    """
    months = tables.ask("SELECT month, count(*) AS n FROM fleet GROUP BY ALL")
    shown = months.loc[months["n"] >= _LEAST_OF_JOBS * months["n"].sum(), "month"]
    if shown.empty:
        return None
    jobs = f"""(
        SELECT *, make_timestamp(CAST(floor(started_s) AS BIGINT) * 1000000) AS started
        FROM fleet WHERE month BETWEEN '{shown.min()}' AND '{shown.max()}'
    )"""
    ends = tables.ask_one(f"SELECT min(started) AS a, max(started) AS b FROM {jobs}")
    days = (ends["b"] - ends["a"]).days
    unit = next((one for one, longest in _UNITS.items() if days <= longest), "month")
    begin = f"date_trunc('{unit}', started)"
    bars = tables.ask(f"""
        WITH filled AS (
            SELECT {begin} AS begin, count(*) AS n_jobs, fsum(io_hours) AS least_hours
            FROM {jobs} GROUP BY ALL
        ), bars AS (
            SELECT unnest(range(min(begin), max(begin) + INTERVAL 1 MICROSECOND,
                INTERVAL 1 {unit})) AS begin FROM filled
        )
        SELECT CAST(begin AS TIMESTAMP) AS begin, coalesce(n_jobs, 0) AS n_jobs,
            coalesce(least_hours, 0) AS least_hours
        FROM bars LEFT JOIN filled USING (begin) ORDER BY begin
    """)
    n_filled = bars["least_hours"].gt(0).sum()
    if n_filled < max(_FEWEST_BARS, _LEAST_FILLED * len(bars)):
        return None
    classes = tables.ask(f"""
        SELECT CAST({begin} AS TIMESTAMP) AS begin, tier, interface, operation,
            fsum(least_hours) AS least_hours
        FROM {_CLASSES} AS classes JOIN {jobs} AS jobs USING (job)
        GROUP BY ALL ORDER BY ALL
    """)
    n_outside = int(months["n"].sum() - bars["n_jobs"].sum())
    return Course(unit, bars, classes, n_outside)
