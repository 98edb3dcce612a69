"""Put I/O time and stall of each class side by side, where a training computes."""

from collections.abc import Hashable

import pandas as pd

from tierscope.analysis.breakdown import select_epoch
from tierscope.analysis.training.limit import point_words
from tierscope.analysis.training.stalls import (
    STALL_PARTS,
    stalls_of_points,
)
from tierscope.core.columns import CLASSES, SCENARIO, TOGETHER
from tierscope.core.io_class import IOClass
from tierscope.core.words import seconds_words

_POINT = [*SCENARIO, "cache_rate_percent"]


def times_beside_stalls(
    breakdown: pd.DataFrame,
    stalls: pd.DataFrame | None,
    limits: pd.DataFrame,
    titles: pd.DataFrame,
    epoch: int,
) -> pd.DataFrame:
    """Return I/O time and stall of each class, a row a scenario and cache rate.

    Parameters
    ----------
    breakdown : DataFrame
        Table ``breakdown``.
    stalls : DataFrame or None
        Table ``class_stalls`` of the epoch; None if no model tells the stall.
    limits : DataFrame
        Table ``limits`` of the epoch.
    titles : DataFrame
        What `tierscope.core.words.scenario_titles` returns.
    epoch : int
        The epoch, counted from 0.

    Returns
    -------
    DataFrame of str
        In a cell of a class stand the seconds of I/O time of the slowest process and of
        the stall, with a stroke between them; both are means over the repetitions. Last
        is what limits the point.
    """
    times = select_epoch(breakdown, epoch).groupby([*_POINT, "io_class"])["time_s"]
    times_s = times.mean().unstack("io_class")
    limited = limits.set_index(_POINT).apply(point_words, axis=1)
    parts_s = None if stalls is None else stalls_of_points(stalls)
    rows = []
    for scenario in titles.to_dict("records"):
        of_scenario = times_s.xs(tuple(scenario[key] for key in SCENARIO))
        for rate, class_times_s in of_scenario.iterrows():
            point = (*(scenario[key] for key in SCENARIO), rate)
            rows.append(
                {"Scenario": scenario["title"], "Cache rate (%)": str(rate)}
                | _cells(class_times_s, _stalls_at(parts_s, point))
                | {"Limited by": limited[point]}
            )
    return pd.DataFrame(rows)


def _stalls_at(
    parts_s: pd.DataFrame | None, point: tuple[Hashable, ...]
) -> dict[str, float]:
    """Return the stall of each part at a point, missing if it is not known."""
    if parts_s is None or point not in parts_s.index:
        return dict.fromkeys(STALL_PARTS, float("nan"))
    return parts_s.loc[point].to_dict()


def _cells(times_s: pd.Series, stalls_s: dict[str, float]) -> dict[str, str]:
    """Return the cells of the classes, and of the stall of several together."""
    cells = {
        f"{IOClass(name).label} (s)": f"{seconds_words(times_s[name])} / "
        f"{seconds_words(stalls_s[name])}"
        for name in CLASSES
    }
    return cells | {"Together (s)": f"/ {seconds_words(stalls_s[TOGETHER])}"}
