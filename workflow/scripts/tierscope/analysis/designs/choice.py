"""Choose among designs: what they cost, which are on the front, which one to take.

`workflow/templates/designs.js` repeats `costs`, `front` and `choose` for other prices.
No time depends on a price.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tierscope.core.columns.designs import BOUND, MEETS, MISSES, NO_CHOICE, UNDECIDED
from tierscope.data.costs import HARDWARE, PRICE, ROOM, SUMS, Cost
from tierscope.data.designs import Goal

_COUNTS = ("object_servers", "n_links", "metadata_speed", "n_lfs_devices", "n_nodes")
QUANTITIES = (PRICE, "watts", "rack_units")  # that sum up, and that are limited
BY_HARDWARE, BY_HOUR = "hardware", "hour_price"
STORAGE = ["object_servers", "n_links", "metadata_speed"]
STORAGE += ["lfs_devices", "lfs_gib", "placement"]
_FIRST = list(dict.fromkeys(["n_accelerators", *_COUNTS, *STORAGE]))
NULL_MODELS = ("linear", "demand")


@dataclass(frozen=True)
class Choice:
    """What is chosen among designs, by their numbers; `NO_CHOICE` is none.

    Parameters
    ----------
    costs : DataFrame
        What designs cost (`costs`).
    by : str
        What is least: a column of it.
    need : int
        The accelerators that are fed at least.
    compared : Series of bool
        The designs that compete: they have room and enough accelerators.
    chosen : int
        The cheapest design that surely meets the goal.
    miss : int
        Of the cheaper ones that miss it the dearest; if none is chosen, of those that
        were simulated the nearest to the goal.
    undecided : tuple of int
        Those that are cheaper and undecided, the cheapest first.
    null : mapping of str to int
        What each model of `NULL_MODELS` chooses; without those that say nothing.
    """

    costs: pd.DataFrame
    by: str
    need: int
    compared: pd.Series
    chosen: int
    miss: int
    undecided: tuple[int, ...]
    null: Mapping[str, int]


def margins(table: pd.DataFrame, values: pd.Series | None = None) -> pd.Series:
    """Return by how much rows are better than their goal: points, or % of a time.

    Parameters
    ----------
    table : DataFrame
        Table ``designs``.
    values : Series, optional
        Values of the quantity of the goal; by default those of the table, and the best
        ones where only a bound is known.
    """
    signs = table["goal"].map(lambda goal: Goal(goal, 0.0).sign)
    goals = table["goal_value"]
    if values is None:
        values = value_of(table).fillna(value_of(table, "best"))
    better = signs * (values - goals)
    return better.where(signs > 0, better * 100 / goals)


def value_of(table: pd.DataFrame, end: str = "") -> pd.Series:
    """Return the quantity of the goal of each row.

    `end` is ``best`` or ``worst`` for an end of its interval: the value if there is
    none.
    """
    found = pd.Series(math.nan, table.index)
    for goal, rows in table.groupby("goal"):
        stem, _, unit = goal.rpartition("_")
        ends = ["high", "low"][:: Goal(goal, 0.0).sign]
        column = f"{stem}_{ends[end == 'worst']}_{unit}" if end else goal
        found[rows.index] = rows[column].fillna(rows[goal])
    return found


def ends_of(table: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Return the lower and the upper end of the quantity of the goal of each row."""
    ends = pd.DataFrame({end: value_of(table, end) for end in ("best", "worst")})
    return ends.min(axis=1), ends.max(axis=1)


def designs_of(table: pd.DataFrame) -> pd.DataFrame:
    """Return the designs that were looked at for all workloads.

    Parameters
    ----------
    table : DataFrame
        Table ``designs``.

    Returns
    -------
    DataFrame, shape (n_designs, ...); index: ``design``
        Its numbers of `HARDWARE` and `ROOM`, ``n_accelerators``,
        ``verdict`` over all workloads, ``is_simulated``, ``fits``, the least
        ``margin``, ``useful`` accelerators, which compute, and by `NULL_MODELS` the
        margin that each says.
    """
    rows = table.reset_index(drop=True)
    rows["margin"] = margins(rows)
    for name in NULL_MODELS:
        rows[name] = margins(rows, rows[name])
    rows["useful"] = rows["share"] * rows["n_accelerators"]
    rows["useful"] *= rows["utilisation_percent"] / 100
    rows["rank"] = rows["verdict"].map({MEETS: 0, UNDECIDED: 1, MISSES: 2})
    rows["bounds"] = rows["known_by"] == BOUND
    by = rows.groupby("design")
    found = by[_FIRST].first()
    found["verdict"] = by["rank"].max().map([MEETS, UNDECIDED, MISSES].__getitem__)
    found["is_simulated"], found["fits"] = ~by["bounds"].any(), by["fits_lfs"].all()
    for one in ("margin", *NULL_MODELS):
        found[one] = by[one].min().where(~by[one].agg(lambda part: part.isna().any()))
    found["useful"] = by["useful"].sum(min_count=1).where(found["is_simulated"])
    found[list(HARDWARE)] = found[list(_COUNTS)].astype(float)
    found[ROOM] = (found["n_lfs_devices"] * found["lfs_gib"]).fillna(0.0)
    return found[by.size() == table["workload"].nunique()]


def costs(designs: pd.DataFrame, cost: Cost) -> pd.DataFrame:
    """Return what designs cost.

    Parameters
    ----------
    designs : DataFrame
        Of `designs_of`.
    cost : Cost
        What hardware costs, as far as it is known.

    Returns
    -------
    DataFrame; index: ``design``
        `HARDWARE`; `QUANTITIES` and ``usable_tib``, missing if no kind has one;
        ``hour_price``, of a useful hour of an accelerator; ``hardware``: of each kind
        that varies its part of the most, their mean.
    """
    numbers = designs[[*HARDWARE, ROOM]].to_dict("records")
    sums = [one | cost.sums(one) for one in numbers]
    found = pd.DataFrame(sums, designs.index, [*HARDWARE, *SUMS])
    useful = 100 * designs["useful"] / designs["n_accelerators"]
    told = zip(found[PRICE], designs["n_accelerators"], useful, strict=True)
    found[BY_HOUR] = [cost.hour_price(*one) for one in told]
    varying = [one for one in (*HARDWARE, ROOM) if designs[one].nunique() > 1]
    parts = [designs[one] / designs[one].max() for one in varying]
    found[BY_HARDWARE] = pd.concat(parts, axis=1).mean(axis=1) if parts else 0.0
    # To nine digits: the same, whatever the order of a sum.
    return found.map(lambda price: float(f"{price:.9g}"))


def front(least: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Return which points are on the front: no other is as good and better in one.

    Parameters
    ----------
    least : array of float, shape (n_points, n_costs)
        What is the better the less it is.
    most : array of float, shape (n_points,)
        What is the better the more it is; missing if a point is not to be on it.

    Returns
    -------
    array of bool, shape (n_points,)
    """
    points = np.column_stack([np.asarray(least, float), -np.asarray(most, float)])
    as_good = (points[None] <= points[:, None]).all(axis=2)
    better = as_good & (points[None] < points[:, None]).any(axis=2)
    return ~better.any(axis=1) & ~np.isnan(points).any(axis=1)


def choose(
    designs: pd.DataFrame,
    cost: Cost,
    limits: Mapping[str, float] | None = None,
    *,
    by: str = "",
    need: int = 0,
) -> Choice:
    """Choose the cheapest design that surely meets the goal.

    Parameters
    ----------
    designs : DataFrame
        Of `designs_of`.
    cost : Cost
        What hardware costs, as far as it is known.
    limits : mapping of str to float, optional
        Most of `QUANTITIES` and of pieces of `HARDWARE`, and least ``usable_tib``; what
        is not known is within.
    by : str, optional
        What is least, a column of `costs`; by default the first that is known of
        `BY_HOUR`, `QUANTITIES` and `BY_HARDWARE`.
    need : int, optional
        The accelerators to feed at least; by default the most that any design feeds.
    """
    found = costs(designs, cost)
    order = (BY_HOUR, *QUANTITIES, BY_HARDWARE)
    by = by or next(one for one in order if found[one].notna().any())
    price = found[by]
    allowed = designs["fits"] & _within(found, limits or {})
    meets = allowed & price.notna() & (designs["verdict"] == MEETS)
    need = need or _most(designs, meets) or _most(designs, designs["fits"])
    compared = allowed & (designs["n_accelerators"] >= need)
    enough = compared & price.notna()
    chosen = _cheapest(designs, price, meets & enough)
    cheaper = enough & (price < price.get(chosen, math.inf))
    misses = cheaper & (designs["verdict"] == MISSES)
    unsure = designs["verdict"] == UNDECIDED
    rank = price
    if chosen == NO_CHOICE:  # the nearest to the goal
        rank = designs["margin"].where(designs["is_simulated"], -math.inf)
    next_ones = misses & (rank == rank[misses].max())
    return Choice(
        costs=found,
        by=by,
        need=need,
        compared=compared,
        chosen=chosen,
        miss=_cheapest(designs, price, next_ones),
        undecided=_in_order(designs, price, cheaper & unsure),
        null={
            one: _cheapest(designs, price, enough & (designs[one] >= 0), one)
            for one in NULL_MODELS
            if designs[one].notna().any()
        },
    )


def _within(found: pd.DataFrame, limits: Mapping[str, float]) -> pd.Series:
    """Return which designs are within limits, by their costs."""
    most = (*QUANTITIES, *HARDWARE)
    exceeds = [found[one] > limits.get(one, math.inf) for one in most]
    exceeds.append(found["usable_tib"] < limits.get("usable_tib", 0.0))
    return ~pd.concat(exceeds, axis=1).any(axis=1)


def _most(designs: pd.DataFrame, those: pd.Series) -> int:
    return int(designs.loc[those, "n_accelerators"].max()) if those.any() else 0


def _in_order(
    designs: pd.DataFrame, price: pd.Series, those: pd.Series, margin: str = "margin"
) -> tuple[int, ...]:
    """Return some designs, the cheapest first, of equally cheap ones the best."""
    rows = pd.DataFrame({"price": price, "worse": -designs[margin]})[those]
    return tuple(rows.sort_values(["price", "worse"], kind="stable").index.tolist())


def _cheapest(*asked: Any) -> int:
    return next(iter(_in_order(*asked)), NO_CHOICE)
