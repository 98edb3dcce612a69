"""Find the processes and the times that figures and pages of a job show."""

import numpy as np
import pandas as pd

from tierscope.core.columns import JOB_CLASS
from tierscope.figures.logs.classes import classes_of, counted

WHOLE_JOB = -1  # an epoch: all of them, with the files of no epoch


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


def with_io(processes: pd.DataFrame, epoch: int) -> pd.DataFrame:
    """Return the processes that can have I/O in an epoch, the longest first.

    Those that can be the slowest come first, then those with the longest certain time.

    Parameters
    ----------
    processes : DataFrame
        The rows of table ``job_processes`` of one job.
    epoch : int
        The epoch, or `WHOLE_JOB`.
    """
    shown = processes["epoch"].eq(epoch) & processes["most_s"].ne(0)
    by = {"can_be_slowest": False, "least_s": False, "most_s": False, "rank": True}
    ascending = list(by.values())
    return processes[shown].sort_values([*by], ascending=ascending, ignore_index=True)


def ordered_bounds(processes: pd.DataFrame, breakdown: pd.DataFrame) -> pd.DataFrame:
    """Bound the longest time of some processes, the second longest, and so on.

    Parameters
    ----------
    processes : DataFrame
        What `with_io` returns for a job and epoch.
    breakdown : DataFrame
        Their rows of table ``job_breakdown``, which hold the sum over the processes.

    Returns
    -------
    DataFrame, shape (n_processes, 2)
        ``least_s`` and ``most_s`` of the longest time, then of the next one. The k-th
        longest is at most the mean of the k longest, and at least that of the others
        and itself. Both means are bounded, as the sum of all times is known.
    """
    n = len(processes)
    least_s = np.sort(processes["least_s"])[::-1]
    most_s = np.sort(processes["most_s"].fillna(np.inf))[::-1]
    sum_s = breakdown.loc[breakdown["counted"], "sum_s"].sum()
    place = np.arange(n)
    shorter_s = np.cumsum(least_s[::-1])[::-1] - least_s
    longer_s = np.concatenate([[0.0], np.cumsum(most_s[:-1])])
    least_mean_s = (sum_s - longer_s) / (n - place)
    most_mean_s = (sum_s - shorter_s) / (place + 1)
    if np.isinf(most_s).any():  # records were lost: the sum can be more, too
        most_mean_s[:] = np.inf
    low_s = np.clip(least_mean_s, least_s, most_s)
    high_s = np.clip(most_mean_s, low_s, most_s)
    high_s[np.isinf(high_s)] = np.nan
    return pd.DataFrame({"least_s": low_s, "most_s": high_s})


def median_bounds(ordered: pd.DataFrame) -> tuple[float, float]:
    """Return the least and the most of the median of what `ordered_bounds` returns."""
    n_longer = (len(ordered) - 1) // 2
    middle = ordered.iloc[n_longer : len(ordered) - n_longer]
    return middle["least_s"].mean(), middle["most_s"].mean(skipna=False)


def class_times(times: pd.DataFrame, ranks: pd.Series) -> dict[tuple, np.ndarray]:
    """Return the least seconds of each counted class, for processes in this order.

    The times are those of `times_in` for one job and epoch.
    """
    rows = counted(times)
    wide = rows.pivot_table(
        index="rank", columns=JOB_CLASS, values="least_s", aggfunc="sum", fill_value=0
    ).reindex(ranks, fill_value=0)
    return {
        one: wide[one].to_numpy() for one in classes_of(rows) if one in wide.columns
    }
