"""Data of the explorer if the goal is one of utilisation: the model's answers only."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from tierscope.analysis.utilisation import best_utilised, mean_utilisation
from tierscope.core.columns import CLASSES, IMPROVEMENTS
from tierscope.pages.explorer.data import Start, map_cells, short


def utilisation_points(
    estimates: pd.DataFrame, pairs: Sequence[Sequence[str]], start: Start
) -> list[dict[str, Any]]:
    """Return what the page holds of every cache rate of its scenario and epoch.

    Parameters
    ----------
    estimates : DataFrame, shape (n_estimates, 22)
        Table ``estimates`` by the model, of the scenario and epoch that are shown.
    pairs : sequence of pairs of str
        Pairs of I/O classes; every cell of their maps must be in the table.
    start : Start
        What the page shows first.

    Returns
    -------
    list of dict
        ``cache_rate_percent``, ``repetitions`` (their number), ``today_percent``, the
        AU without improvement, and ``model``: for each pair the AU of each cell of the
        map, in rows of the first class's improvement. All are means over the
        repetitions. The lists of the classes are empty, as the page computes no rule.

    Raises
    ------
    ValueError
        If a cell of a map is not in the table.
    """
    means = mean_utilisation(estimates).set_index(IMPROVEMENTS)
    points = []
    for rate, rows in means.groupby("cache_rate_percent"):
        percents = rows["utilisation_percent"]
        runs = estimates[estimates["cache_rate_percent"] == rate]
        points.append(
            {
                "scenario": 0,
                "epoch": start.epoch,
                "cache_rate_percent": int(rate),
                "repetitions": runs["repetition"].nunique(),
                "today_percent": short(percents[(0,) * len(CLASSES)]),
                "model": [
                    list(map(short, percents[map_cells(rows.index, pair, start.grid)]))
                    for pair in pairs
                ],
                **{io_class: [] for io_class in CLASSES},
            }
        )
    return points


def best_today(estimates: pd.DataFrame) -> pd.Series:
    """Return the best cache rate without improvement, and its AU."""
    today = estimates[(estimates[IMPROVEMENTS] == 0).all(axis=1)]
    return best_utilised(mean_utilisation(today)).iloc[0]
