"""Savings of runs compared with their references, in percent, over the repetitions.

The reference of a run reads the same files in the same order with nothing on the LFS
(`tierscope.analysis.comparing.policies.is_reference`). So intervals are those of pairs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tierscope.analysis.intervals import (
    LEVEL_PERCENT,
    METHOD,
    NO_INTERVAL,
    leaves_sign_open,
    mean_intervals,
    n_words,
)
from tierscope.core.columns import RUN_KEYS, SCENARIO_KEYS
from tierscope.core.words import capitalised, count_words

RUN = list(RUN_KEYS)
VARIANT = [*SCENARIO_KEYS, "cache_rate_percent"]
# Keys that a run and its reference share.
PAIR_KEYS = ["source", "system", "dataset", "n_osts", "loader", "repetition"]
_TIMES = ("time", "io_time")


def paired_cuts(totals: pd.DataFrame) -> pd.DataFrame:
    """Return how much less time each run takes than its reference, in percent.

    Parameters
    ----------
    totals : DataFrame
        Rows of table ``policy_totals``.

    Returns
    -------
    DataFrame, shape (n_rows, 2)
        Columns ``time_cut_percent`` and ``io_time_cut_percent``, index as given.
    """
    return pd.DataFrame(
        {
            f"{name}_cut_percent": 100
            * (1 - totals[f"{name}_s"] / totals[f"reference_{name}_s"])
            for name in _TIMES
        }
    )


def mean_cuts(totals: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return the mean of the repetitions' `paired_cuts` with its interval.

    Parameters
    ----------
    totals : DataFrame
        Rows of table ``policy_totals``, with any index.
    by : sequence of str
        Keys that leave one row of each repetition.

    Returns
    -------
    DataFrame, shape (n_keys, 7); index: `by`
        ``n_repetitions``, and of both times ``..._cut_percent`` and the ends of its
        interval, ``..._cut_low_percent`` and ``..._cut_high_percent``, which are
        missing for one repetition.
    """
    points = totals[list(by)].assign(**paired_cuts(totals))
    columns = {"n_repetitions": points.groupby(list(by)).size()}
    for name in _TIMES:
        found = mean_intervals(points, by, f"{name}_cut_percent")
        columns[f"{name}_cut_percent"] = found["mean"]
        columns[f"{name}_cut_low_percent"] = found["low"]
        columns[f"{name}_cut_high_percent"] = found["high"]
    return pd.DataFrame(columns)


def is_undecided(row: Mapping[str, Any], name: str = "time") -> bool:
    """Return whether a row of cuts leaves open if time is saved or lost.

    Parameters
    ----------
    row : mapping
        A row with the columns of `mean_cuts`.
    name : {"time", "io_time"}, optional
        Which of both times.
    """
    return leaves_sign_open(
        *(row[f"{name}_cut_{end}_percent"] for end in ("low", "high"))
    )


def cut_words(row: Mapping[str, Any], name: str) -> str:
    """Return a cut of a time with half its interval, such as ``30.1 ± 1.2``.

    An undecided one is marked by ``?``: its interval holds 0, or there is none.
    """
    low, high = (row[f"{name}_cut_{end}_percent"] for end in ("low", "high"))
    half = "" if np.isnan(low) else f" ± {(high - low) / 2:.1f}"
    mark = "?" if is_undecided(row, name) else ""
    return f"{mark}{row[f'{name}_cut_percent']:z.1f}{half}"  # z: no negative zero


def interval_words(n_repetitions: pd.Series) -> str:
    """Return in words what the intervals of cuts are, by numbers of repetitions."""
    if n_repetitions.empty:
        return ""
    words = n_words(n_repetitions)
    if n_repetitions.max() > 1:
        words = f"\N{PLUS-MINUS SIGN}: {METHOD} (Student's t, of pairs), {words}"
    return f"{capitalised(words)}. ?: undecided whether time is saved or lost."


def best_policy(summary: pd.DataFrame) -> pd.Series:
    """Return the row of table ``policy_summary`` with files on the LFS that saves most.

    Raises
    ------
    ValueError
        If no row has files on the LFS.
    """
    on_lfs = summary[summary["cache_rate_percent"] > 0]
    return on_lfs.loc[on_lfs["time_cut_percent"].idxmax()]


def best_policy_words(summary: pd.DataFrame | None) -> str:
    """Return in a sentence or two which policy saves most time, and how sure that is.

    Parameters
    ----------
    summary : DataFrame or None
        Table ``policy_summary`` of one dataset, OST count and loader; without one
        nothing is said.
    """
    if summary is None:
        return ""
    best = best_policy(summary)
    percent, is_open = best["time_cut_percent"], is_undecided(best)
    does = "saves most time" if percent > 0 else "loses least time"
    than = f" {'less' if percent > 0 else 'more'} than with nothing on the LFS"
    if is_open:
        does = "takes least time"
    words = (
        f"Of the policies, {best['policy']} at a cache rate of "
        f"{best['cache_rate_percent']} % {does} in "
        f"{count_words(best['n_epochs'], 'epoch')}, staging and copies included: "
        f"{abs(percent):.1f} %{than * is_open}{_ends_words(best, percent)}."
    )
    if is_open:
        words += " It is undecided whether that saves or loses time."
    return words


def _ends_words(best: pd.Series, percent: float) -> str:
    """Return the interval of the time saved, or lost if `percent` is not above 0."""
    ends = [best[f"time_cut_{end}_percent"] for end in ("low", "high")]
    if np.isnan(ends[0]):
        return f" ({NO_INTERVAL})"
    low, high = ends if percent > 0 else (-end for end in reversed(ends))
    return f" ({LEVEL_PERCENT} % confidence interval {low:z.1f} to {high:z.1f} %)"
