"""Savings of runs compared with their references, in percent, over the repetitions.

The reference of a run reads the same files in the same order with nothing on the LFS
(`tierscope.analysis.policies.is_reference`).
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tierscope.core.columns import RUN_KEYS, SCENARIO_KEYS

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
    """Return the mean of the repetitions' `paired_cuts`, and their standard deviation.

    Parameters
    ----------
    totals : DataFrame
        Rows of table ``policy_totals``, with any index.
    by : sequence of str
        Keys that leave one row of each repetition.

    Returns
    -------
    DataFrame, shape (n_keys, 5); index: `by`
        ``n_repetitions``, and of both times ``..._cut_percent`` and
        ``..._cut_sd_points``, which is missing for one repetition.
    """
    points = totals[list(by)].assign(**paired_cuts(totals)).groupby(list(by))
    columns = {"n_repetitions": points.size()}
    for name in _TIMES:
        cuts = points[f"{name}_cut_percent"]
        columns[f"{name}_cut_percent"] = cuts.mean()
        columns[f"{name}_cut_sd_points"] = cuts.std()
    return pd.DataFrame(columns)


def cut_words(percent: float, sd_points: float) -> str:
    """Return a cut and its standard deviation if there is one: ``30.1 ± 0.8``."""
    spread = "" if np.isnan(sd_points) else f" ± {sd_points:.1f}"
    return f"{percent:z.1f}{spread}"  # z: no negative zero


def spread_words(n_repetitions: pd.Series) -> str:
    """Return in words what the spread of cuts is, by numbers of repetitions."""
    is_alone = n_repetitions == 1
    if is_alone.all():
        return "1 repetition: spread unknown." if len(is_alone) else ""
    words = "±: standard deviation of the repetitions"
    if is_alone.any():
        words += "; without it, 1 repetition: spread unknown"
    return f"{words}."
