"""Find the processes and the times that figures and pages of a job show."""

import re

import numpy as np
import pandas as pd

from tierscope.core.columns import JOB_CLASS
from tierscope.figures.jobs.classes import classes_of, counted

WHOLE_JOB = -1  # an epoch: all of them, with the files of no epoch
_RANKS = re.compile(r"\d+(?: to \d+)?(?:, \d+(?: to \d+)?)*")
_ROUNDING = 1e-9  # of a time: sums in another order


def has_epochs(rows: pd.DataFrame) -> bool:
    """Return whether a job's table has epochs."""
    return bool(rows["epoch"].ge(0).any())


def whole_job(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the whole job from table ``job_slowest`` or one like it."""
    return rows[rows["epoch"] == WHOLE_JOB]


def times_in(times: pd.DataFrame, epoch: int) -> pd.DataFrame:
    """Return the rows of table ``job_times`` of the processes in an epoch.

    `WHOLE_JOB` has the rows of all epochs, and those of files of no epoch. Logs that
    belong to no process, such as those of helpers, are left out.
    """
    of_process = times[times["rank"] >= 0]
    if epoch == WHOLE_JOB:
        return of_process
    return of_process[of_process["epoch"] == epoch]


def process_totals(times: pd.DataFrame, slowest: pd.Series) -> pd.DataFrame:
    """Return the counted time of each process in an epoch, the longest first.

    Parameters
    ----------
    times : DataFrame
        What `times_in` returns for one job and epoch.
    slowest : Series
        Their row of table ``job_slowest``. No process takes longer than its ``most_s``.

    Returns
    -------
    DataFrame, shape (n_processes, 4)
        ``rank``, ``least_s``, ``most_s`` and ``is_candidate``, whether the process can
        be the slowest. The bounds are sums over the classes, so they hold but need not
        be sharp; those of a process that must be the slowest are its own.
    """
    ends = ["least_s", "most_s"]
    of_counted = times[ends].fillna(np.inf).where(times["counted"], 0.0)
    totals = of_counted.groupby(times["rank"]).sum().reset_index()
    totals["most_s"] = totals["most_s"].replace(np.inf, np.nan)
    if not np.isnan(slowest["most_s"]):
        limit_s = np.maximum(slowest["most_s"], totals["least_s"])
        totals["most_s"] = np.minimum(totals["most_s"], limit_s)
    reached = (1 - _ROUNDING) * slowest["least_s"]
    ranks = listed_ranks(slowest["slowest_ranks"])
    if len(ranks) == slowest["n_slowest"]:
        totals["is_candidate"] = totals["rank"].isin(ranks)
    else:  # the list is shortened
        totals["is_candidate"] = totals["most_s"].fillna(np.inf) >= reached
    if totals["is_candidate"].sum() == 1:  # it is the slowest: sharper than the sums
        totals.loc[totals["is_candidate"], ["least_s", "most_s"]] = [
            slowest["least_s"],
            slowest["most_s"],
        ]
    totals["end_s"] = totals["most_s"].fillna(totals["least_s"])
    by = ["end_s", "least_s", "rank"]
    totals = totals.sort_values(by, ascending=[False, False, True], ignore_index=True)
    return totals.drop(columns="end_s")


def listed_ranks(words: str) -> list[int]:
    """Return the ranks of a list such as ``3, 17, 40 to 47``; none of other texts."""
    if not _RANKS.fullmatch(words):
        return []
    ranks = []
    for part in words.split(", "):
        first, _, last = part.partition(" to ")
        ranks += range(int(first), int(last or first) + 1)
    return ranks


def class_times(times: pd.DataFrame, ranks: pd.Series) -> dict[tuple, np.ndarray]:
    """Return the least seconds of each counted class, for processes in this order.

    Parameters
    ----------
    times : DataFrame
        What `times_in` returns for one job and epoch.
    ranks : Series of int
        The processes.
    """
    rows = counted(times)
    wide = rows.pivot_table(
        index="rank", columns=JOB_CLASS, values="least_s", aggfunc="sum", fill_value=0
    ).reindex(ranks, fill_value=0)
    return {
        one: wide[one].to_numpy() for one in classes_of(rows) if one in wide.columns
    }
