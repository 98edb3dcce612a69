"""Search the least improvements of a job's classes that meet a goal."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tierscope.analysis.logs.asking import JobTables
from tierscope.analysis.logs.questions import jobs_with_pages
from tierscope.analysis.slowest.improved import improved_slowest
from tierscope.analysis.slowest.search import Sufficient, least_sufficient
from tierscope.analysis.slowest.times import ProcessTimes
from tierscope.analysis.whatif import Goal
from tierscope.core.columns import JOB_CLASS, RULE, TABLES
from tierscope.core.tables import empty_table, read_table, write_table
from tierscope.core.words import changes_words, class_label
from tierscope.logs.whatif import (
    JobClass,
    or_missing,
    slowest_sizes,
)

GRID_PERCENTS = np.arange(0, 401, 25)
GOAL_PERCENT = 80  # of today's I/O time, if no goal is given
_WHOLE_JOB = -1
_N_IMPROVED = 4  # classes of a combination
OF_TIMES = ("job_times", "job_processes", "job_slowest", "job_breakdown")


def write_combinations(folder: Path, n_pages: int, goal_s: float | None) -> None:
    """Write table ``job_combinations`` of the jobs with pages beside the other tables.

    Parameters
    ----------
    folder : Path
        The folder of the tables.
    n_pages : int
        How many jobs get pages.
    goal_s : float, optional
        As of `combinations_of_jobs`.
    """
    places = {name: folder / f"{name}.parquet" for name in ("fleet", *OF_TIMES)}
    jobs = jobs_with_pages(JobTables({"fleet": places["fleet"]}), n_pages)
    shown = pc.field("job").isin(pa.array(jobs, pa.string()))
    tables = {name: read_table(places[name], name, shown) for name in OF_TIMES}
    found = combinations_of_jobs(tables, jobs, goal_s)
    path = folder / "job_combinations.parquet" / "all" / "all.parquet"
    write_table(found, path, "job_combinations")


def combinations_of_jobs(
    tables: Mapping[str, pd.DataFrame],
    jobs: Sequence[str],
    goal_s: float | None = None,
) -> pd.DataFrame:
    """Find the least improvements that meet the goal, for some jobs of an analysis.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Tables ``job_times``, ``job_processes``, ``job_slowest`` and
        ``job_breakdown``, with these jobs at least.
    jobs : sequence of str
        Names of jobs.
    goal_s : float, optional
        Goal for the I/O time of the slowest process in the whole job. By default 80 %
        of today's, for the whole job and for each epoch.

    Returns
    -------
    DataFrame, shape (n_combinations, 10)
        Table ``job_combinations`` of these jobs, in their order.
    """
    of_job = {name: _by_job(tables[name], jobs) for name in OF_TIMES}
    found = []
    for job in jobs:
        of = {name: rows[job] for name, rows in of_job.items()}
        slowest = of["job_slowest"]
        for epoch, least_s in zip(slowest["epoch"], slowest["least_s"], strict=True):
            wanted_s = least_s * GOAL_PERCENT / 100
            if goal_s:  # it is one of the whole job
                wanted_s = goal_s if epoch == _WHOLE_JOB else 0.0
            times, classes = phase_of_tables(of, epoch)
            if wanted_s > 0 and classes:
                found.append(
                    combinations_for_goal(job, epoch, times, classes, wanted_s)
                )
    found = [frame for frame in found if len(frame)]
    if not found:
        return empty_table("job_combinations")
    return pd.concat(found, ignore_index=True)


def _by_job(table: pd.DataFrame, jobs: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Return the rows of each of some jobs, which may be none."""
    chosen = table[table["job"].isin(list(jobs))]
    found = dict(tuple(chosen.groupby("job", sort=False)))
    return {job: found.get(job, chosen.iloc[:0]) for job in jobs}


def phase_of_tables(
    tables: Mapping[str, pd.DataFrame], epoch: int
) -> tuple[ProcessTimes, list[JobClass]]:
    """Return the times of a job's processes in an epoch, and their classes.

    `tables` have rows of this job only.
    """
    processes = tables["job_processes"]
    processes = processes[processes["epoch"] == epoch]
    breakdown = tables["job_breakdown"]
    breakdown = breakdown[breakdown["counted"] & (breakdown["epoch"] == epoch)]
    classes = list(breakdown[JOB_CLASS].itertuples(index=False, name=None))
    rows = tables["job_times"]
    rows = rows[rows["counted"] & ((rows["epoch"] == epoch) | (epoch == _WHOLE_JOB))]
    number = {one: position for position, one in enumerate(classes)}
    of_row = rows[JOB_CLASS].itertuples(index=False, name=None)
    column = np.array([number[one] for one in of_row], np.int64)
    is_own = rows["rank"].to_numpy() >= 0
    n_classes, n_processes = len(classes), len(processes)
    place = rows["rank"].to_numpy() * n_classes + column
    lost = processes["most_s"].isna().to_numpy()

    def by_process(name: str) -> np.ndarray:
        values = rows[name].to_numpy()[is_own]
        summed = np.bincount(place[is_own], values, n_processes * n_classes)
        return summed.reshape(n_processes, n_classes)

    # Which class a process has lost is unknown, and it may have no row of that class.
    most_s = np.where(lost[:, np.newaxis], np.nan, by_process("most_s"))
    of_helpers_s = np.bincount(
        column[~is_own], rows["least_s"].to_numpy()[~is_own], n_classes
    )
    return ProcessTimes(
        by_process("least_s"),
        most_s,
        processes["least_s"].to_numpy(),
        processes["most_s"].to_numpy(),
        (breakdown["sum_s"].to_numpy() - of_helpers_s)[np.newaxis],
        np.zeros(1, np.int64),
    ), classes


def improved_classes(times: ProcessTimes) -> list[int]:
    """Return the classes that combinations improve: the four largest, ascending.

    `times` are of one phase. A class counts with what it can be in the slowest process;
    of equal ones, with its sum over the processes, since after an improvement another
    one can be the slowest.
    """
    (sizes_s,), (sum_s,) = slowest_sizes(times), times.sum_s
    largest = np.lexsort([-sum_s, -sizes_s])[:_N_IMPROVED]
    return sorted(int(i) for i in largest if sizes_s[i] + sum_s[i] > 0)


def combinations_for_goal(
    job: str,
    epoch: int,
    times: ProcessTimes,
    classes: Sequence[JobClass],
    goal_s: float,
) -> pd.DataFrame:
    """Find the least improvements of the largest classes that meet a goal.

    Parameters
    ----------
    job : str
        The job's name.
    epoch : int
        The epoch, -1 for no epoch.
    times : ProcessTimes
        The times of all its processes, of this phase only.
    classes : sequence of (tier, interface, operation)
        The counted classes, in the order of `times`.
    goal_s : float
        The largest time of the slowest process that meets the goal, above 0.

    Returns
    -------
    DataFrame, shape (n_combinations, 10)
        Table ``job_combinations``. The four largest classes of the slowest process
        (`improved_classes`) take 0, 25, ... 400 %; the others stay as they are. A
        combination is minimal: with one step less of any class the goal is not met. It
        is certain if the goal is met whatever the processes' times are within their
        bounds. Those that are not are minimal among those that could meet it. Sorted by
        cost, the sum of the improvements in percent; of equal cost, certain ones come
        first. ``position`` counts from 1.

    Raises
    ------
    ValueError
        If the goal is not above 0.
    """
    goal = Goal("io_time", goal_s)
    chosen = improved_classes(times)
    certain, possible = least_sufficient(_merged(times, chosen), goal, GRID_PERCENTS)
    percents = tuple(GRID_PERCENTS.tolist())
    minimal = [
        Sufficient((0,), percents, least[np.newaxis]).minimal()
        for least in (certain, possible)
    ]
    minimal = np.unique(np.concatenate(minimal), axis=0)
    minimal = minimal[(minimal[:, len(chosen) :] == 0).all(axis=1)]  # no fillers
    first, second, third, fourth = np.searchsorted(GRID_PERCENTS, minimal.T)
    are_certain = certain[first, second, third] <= fourth
    improvements = np.zeros((len(minimal), len(classes)), np.int64)
    improvements[:, chosen] = minimal[:, : len(chosen)]
    estimates = improved_slowest(times, improvements)
    table = pd.DataFrame(
        {
            "improvement": [_in_words(classes, row) for row in improvements.tolist()],
            "cost": minimal.sum(axis=1).astype(float),
            "certain": are_certain,
            "least_s": estimates.least_s,
            "most_s": or_missing(estimates.most_s),
        }
    )
    table = table.assign(job=job, epoch=epoch, method=RULE, goal_s=goal.seconds)
    order = ["cost", "certain"]
    table = table.sort_values(order, ascending=[True, False], kind="stable")
    table = table.assign(position=np.arange(1, len(table) + 1))
    return table.reset_index(drop=True)[list(TABLES["job_combinations"])]


def _in_words(classes: Sequence[JobClass], percents: Sequence[int]) -> str:
    """Return improvements of classes in words."""
    return changes_words(
        (class_label(*job_class), percent)
        for job_class, percent in zip(classes, percents, strict=True)
        if percent
    )


def _merged(times: ProcessTimes, chosen: Sequence[int]) -> ProcessTimes:
    """Return times of four classes, and of all others together as a fifth.

    Classes without time fill up the four.
    """
    others = [i for i in range(times.least_s.shape[1]) if i not in set(chosen)]

    def merge(values_s: np.ndarray) -> np.ndarray:
        merged_s = np.zeros((*values_s.shape[:-1], _N_IMPROVED + 1))
        merged_s[..., : len(chosen)] = values_s[..., chosen]
        merged_s[..., -1] = values_s[..., others].sum(axis=-1)
        return merged_s

    return replace(
        times,
        least_s=merge(times.least_s),
        most_s=merge(times.most_s),
        sum_s=merge(times.sum_s),
    )
