"""Decide what limits a training: storage, and which class of it, or what else.

All pages, figures and lines of the terminal ask here, by table ``limits``, so that none
names a class or recommends an improvement where storage can save little. What storage
costs is known from ideal runs only. Without them I/O time tells it where nothing hides
that: where a training of ours does not compute.

Other storage I/O, in files of no tier, is not counted to storage: no improvement of a
class makes it shorter. It is named where it is what takes most.
"""

import itertools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tierscope.analysis.breakdown import select_epoch
from tierscope.analysis.intervals import (
    MOST_REPETITIONS,
    leaves_sign_open,
    repetitions_for,
)
from tierscope.analysis.training.stalls import (
    COMPUTATION,
    NOT_KNOWN,
    NOT_KNOWN_APART,
    PROCESSOR,
    largest_stalls,
    limit_label,
    parts_besides_storage,
)
from tierscope.core.columns import CLASSES, NOT_STORAGE, SCENARIO, TABLES
from tierscope.core.columns.analysis import (
    HOLDS_0,
    LIMITS,
    NO_IDEAL,
    NO_LIMIT,
    NOTHING_HIDES,
    ONCE,
    UNDECIDED,
)
from tierscope.core.io_class import NET_READ
from tierscope.core.words import capitalised, in_seconds

LEAST_STORAGE_PERCENT = 10  # of an epoch: if storage can cost less, it is no limit
BY_STALL, BY_TIME = "stall", "I/O time"
IDEAL_HINT = "only ideal runs tell, by --ideal DIRECTORY or sweep.ideal"
METHOD = (
    "Storage limits where its part of the epoch, the difference to ideal runs, is "
    f"above 0 and may reach {LEAST_STORAGE_PERCENT} %; it is undecided where the "
    "interval of that part holds 0 and reaches further"
)
_POINT = [*SCENARIO, "cache_rate_percent"]
_NONE = math.nan


class Decision(NamedTuple):
    """Whether storage limits a point, and what it can save at most.

    Parameters
    ----------
    storage : str
        `LIMITS`, `NO_LIMIT` or `UNDECIDED`.
    why : str
        What leaves it open, or that nothing hides I/O time; else empty.
    most_s, most_percent : float
        Upper end of storage's part, at most the epoch, and this in percent of the
        epoch; missing if there is no interval.
    n_deciding : float
        About how many repetitions decide; missing if it is decided, if no spread is
        known, and if `MOST_REPETITIONS` do not.
    """

    storage: str
    why: str = ""
    most_s: float = _NONE
    most_percent: float = _NONE
    n_deciding: float = _NONE


class Advice(NamedTuple):
    """Whether an improvement of storage may be recommended, and what to say first."""

    is_given: bool = True
    words: str = ""


def decide(row: Mapping[str, Any] | None, may_hide: bool) -> Decision:
    """Return whether storage limits a point.

    Parameters
    ----------
    row : mapping or None
        Its row of table ``storage_time``; None without ideal runs.
    may_hide : bool
        Whether computation may hide I/O time, as that of a program may.
    """
    half_s = _NONE if row is None else row["storage_interval_s"]
    if math.isnan(half_s):
        if not may_hide:
            return Decision(LIMITS, NOTHING_HIDES)
        return Decision(UNDECIDED, NO_IDEAL if row is None else ONCE)
    mean_s, whole_s = row["storage_s"], row["execution_time_s"]
    most_s = min(max(0.0, mean_s + half_s), whole_s)
    least_s = whole_s * LEAST_STORAGE_PERCENT / 100
    most = most_s, 100 * most_s / whole_s if whole_s > 0 else 0.0
    if most_s < least_s or not most_s > 0:
        return Decision(NO_LIMIT, "", *most)
    if not leaves_sign_open(mean_s - half_s, mean_s + half_s):
        return Decision(LIMITS, "", *most)
    wanted_s = max(mean_s, least_s - mean_s)  # then it is above 0, or below the least
    n_deciding = repetitions_for(wanted_s, half_s, int(row["n_repetitions"]))
    return Decision(UNDECIDED, HOLDS_0, *most, n_deciding or _NONE)


def decide_limits(
    breakdown: pd.DataFrame,
    storage_time: pd.DataFrame | None,
    stalls: pd.DataFrame | None,
    epoch: int,
    may_hide: bool,
) -> pd.DataFrame:
    """Return table ``limits`` of an epoch: what limits each point of a sweep.

    Parameters
    ----------
    breakdown : DataFrame
        Table ``breakdown``.
    storage_time : DataFrame or None
        This table, if there are ideal runs.
    stalls : DataFrame or None
        Table ``class_stalls`` of the epoch, if the training computes and a model tells
        the stall.
    epoch : int
        The epoch, counted from 0.
    may_hide : bool
        As for `decide`.
    """
    classes = most_time(select_epoch(breakdown, epoch))
    table = classes.rename("limit").to_frame().assign(named_by=BY_TIME)
    if stalls is not None:
        found = largest_stalls(stalls).reindex(table.index).fillna(NOT_KNOWN)
        # Where the model sees no stall, it does not tell which class limits.
        found = found.replace(NOT_STORAGE, NOT_KNOWN)
        table = table.assign(limit=found, named_by=BY_STALL)
    points = pd.DataFrame(columns=list(TABLES["storage_time"]))
    if storage_time is not None:
        points = select_epoch(storage_time, epoch)
    points = points.set_index(_POINT)
    besides = besides_storage(points, may_hide)
    rows = points.to_dict("index")
    decisions = [decide(rows.get(point), may_hide) for point in table.index]
    decided = pd.DataFrame(decisions, table.index, Decision._fields)
    shortest = points.groupby(SCENARIO)["execution_time_s"].idxmin()
    table = table.join(decided).assign(
        besides=besides.reindex(table.index).fillna(NOT_STORAGE),
        n_repetitions=points["n_repetitions"]
        .reindex(table.index)
        .fillna(0)
        .astype(int),
        is_shortest=table.index.isin(shortest),
        may_hide=may_hide,
        epoch=epoch,
    )
    return table.reset_index()[list(TABLES["limits"])]


def most_time(breakdown: pd.DataFrame) -> pd.Series:
    """Return the class with the most I/O time of each point of an epoch.

    The mean over the repetitions counts.
    """
    times_s = breakdown.groupby([*_POINT, "io_class"], sort=False)["time_s"].mean()
    times_s = times_s.unstack("io_class")
    classes = [name for name in (*CLASSES, NET_READ) if name in times_s]
    return times_s[classes].idxmax(axis=1)


def besides_storage(points: pd.DataFrame, may_hide: bool) -> pd.Series:
    """Return which part of points of table ``storage_time`` is the longest besides it.

    Computation and processor are one where they are not known apart. Only a training
    that `may_hide` I/O time (see `decide`) computes.
    """
    if not may_hide:
        points = points.assign(compute_time_s=0.0)
    parts_s = pd.DataFrame(parts_besides_storage(points)).astype("float64")
    is_apart = parts_s[COMPUTATION].notna() & parts_s[NOT_KNOWN_APART].isna()
    joined = parts_s[[COMPUTATION, PROCESSOR, NOT_KNOWN_APART]].sum(axis=1)
    parts_s[NOT_STORAGE] = joined.where(~is_apart)
    for part in (COMPUTATION, PROCESSOR):
        parts_s[part] = parts_s[part].where(is_apart)
    parts_s = parts_s.drop(columns=NOT_KNOWN_APART).fillna(-math.inf)
    return parts_s.idxmax(axis=1) if len(parts_s) else pd.Series(dtype="str")


def is_plain(limits: pd.DataFrame) -> bool:
    """Return whether the largest class limits, as nothing hides I/O time.

    Ideal runs may tell that storage does not limit such a training either.
    """
    return limits["why"].eq(NOTHING_HIDES).all()


def doubt_words(limits: pd.DataFrame) -> str:
    """Return why the class with the most I/O time need not limit, without a stop."""
    if limits["may_hide"].any():
        return "Computation may hide I/O time"
    return "The processor may take most of the time"


def limits_of(limits: pd.DataFrame, scenario: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows of table ``limits`` of a scenario, by cache rate."""
    keys = pd.Series({key: scenario[key] for key in SCENARIO})
    rows = limits[(limits[SCENARIO] == keys).all(axis=1)]
    return rows.sort_values("cache_rate_percent")


def limited_words(rows: pd.DataFrame) -> str:
    """Return what limits a scenario: lines such as ``GFS-META at 0 to 60 %``.

    `rows` is what `limits_of` returns. Neighbouring cache rates with the same limit
    stand in a line.
    """
    lines = []
    for _, group in itertools.groupby(rows.to_dict("records"), key=_kind):
        points = list(group)
        lines.append(f"{_name(points[0])} at {_span(points)}{_in_brackets(points)}")
    return "\n".join(lines) or NOT_KNOWN


def point_words(row: Mapping[str, Any]) -> str:
    """Return what limits a point, a row of table ``limits``."""
    return f"{_name(row)}{_in_brackets([row])}"


def spans_words(classes: pd.Series) -> str:
    """Return lines that say which class it is where; `classes` by cache rate."""
    lines = []
    for name, group in itertools.groupby(classes.items(), key=lambda item: item[1]):
        points = [{"cache_rate_percent": rate} for rate, _ in group]
        lines.append(f"{limit_label(name)} at {_span(points)}")
    return "\n".join(lines)


def _kind(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what rows of neighbouring cache rates must share to stand in a line."""
    named = row["besides"] if row["storage"] == NO_LIMIT else row["limit"]
    return row["storage"], row["why"], named


def _span(points: list[Mapping[str, Any]]) -> str:
    """Return cache rates such as ``0 to 60 %``."""
    rates = [row["cache_rate_percent"] for row in points]
    span = f"{rates[0]} to {rates[-1]}" if len(rates) > 1 else f"{rates[0]}"
    return f"{span}\N{NO-BREAK SPACE}%"


def _name(row: Mapping[str, Any]) -> str:
    """Return what limits a point, without numbers."""
    if row["storage"] == UNDECIDED:
        return UNDECIDED
    if row["storage"] == NO_LIMIT:
        return row["besides"]
    if row["limit"] == NOT_KNOWN:
        return "storage, of which class is not known,"
    return limit_label(row["limit"])


def _in_brackets(points: list[Mapping[str, Any]]) -> str:
    """Return what storage is at most, or what it would be and what decides it."""
    first, most = points[0], _largest(points, "most_percent")
    if first["storage"] == NO_LIMIT:
        return f" (storage at most {_percent(most)} of the epoch)"
    if first["storage"] != UNDECIDED:
        return ""
    label = limit_label(first["limit"])
    if first["limit"] == NOT_KNOWN:
        label = "of which class is not known"
    n_deciding = _largest(points, "n_deciding")
    return f" ({label} if storage limits; {_what_decides(first['why'], n_deciding)})"


def _largest(points: list[Mapping[str, Any]], name: str) -> float:
    """Return the largest number of some points, missing if it is of any."""
    return float(np.max([row[name] for row in points]))


def _what_decides(why: str, n_deciding: float) -> str:
    """Return what would decide whether storage limits."""
    if why == NO_IDEAL:
        return IDEAL_HINT
    if why == ONCE:
        return "one repetition has no interval, two or more tell"
    if math.isnan(n_deciding):
        return f"even {MOST_REPETITIONS} repetitions would not decide"
    return f"about {n_deciding:.0f} repetitions would decide"


def _percent(percent: float) -> str:
    """Return a part of an epoch such as ``9.6 %``."""
    return f"{percent:.1f}\N{NO-BREAK SPACE}%"


def limit_notes(limits: pd.DataFrame, scenarios: pd.DataFrame) -> list[str]:
    """Return sentences that say what limits; none if `is_plain`.

    Parameters
    ----------
    limits : DataFrame
        Table ``limits``.
    scenarios : DataFrame
        What `tierscope.core.words.scenario_titles` returns.
    """
    if is_plain(limits):
        return []
    notes = [f"{doubt_words(limits)}. {limits_method(limits)}."]
    for scenario in scenarios.to_dict("records"):
        words = limited_words(limits_of(limits, scenario)).replace("\n", ", ")
        notes.append(f"{scenario['title']}: {words}.")
    return notes


def ideal_notes(limits: pd.DataFrame) -> list[str]:
    """Return a sentence if only ideal runs tell whether storage limits some point."""
    rows = limits[limits["why"] == NO_IDEAL]
    return [limit_sentence(row) for row in rows.head(1).to_dict("records")]


def limits_method(limits: pd.DataFrame) -> str:
    """Return in sentences how it is decided what limits, for the reader of a table."""
    if is_plain(limits):
        return ""
    named = "most I/O time"
    if limits["named_by"].eq(BY_STALL).any():
        named = "the largest stall by the model"
    unknown = ", or where there is none" if limits["may_hide"].any() else ""
    return f"{METHOD}{unknown}. If it limits, it is by the class with {named}"


def advice_on(rows: pd.DataFrame, phase: str = "epoch") -> Advice:
    """Return whether an improvement may be recommended for a scenario.

    The point with the shortest epoch decides: who can choose it gains nothing from
    improvements of storage if it does not limit there.

    Parameters
    ----------
    rows : DataFrame
        The scenario's rows of table ``limits``.
    phase : {"epoch", "run"}, optional
        What a program without epochs has is a run.
    """
    if rows.empty:
        return Advice()
    row = rows.sort_values("is_shortest", ascending=False, kind="stable").iloc[0]
    words = limit_sentence(row, phase)
    if row["storage"] == NO_LIMIT:
        return Advice(False, f"{words} So no improvement of storage is recommended.")
    if row["storage"] == UNDECIDED:
        return Advice(True, f"{words} Improvements save time only if it does.")
    return Advice()


def limit_sentence(row: Mapping[str, Any], phase: str = "epoch") -> str:
    """Return what limits a point of a sweep, if storage does not or may not.

    `row` has the fields of `Decision`, ``besides``, ``n_repetitions`` and the cache
    rate.
    """
    if row["storage"] == LIMITS:
        return ""
    if row["why"] == NO_IDEAL:
        return f"It is undecided whether storage limits: {IDEAL_HINT}."
    where = f"at cache rate {row['cache_rate_percent']} %"
    if row["why"] == ONCE:
        tells = _what_decides(ONCE, _NONE)
        return f"It is undecided whether storage limits {where}: {tells}."
    most = (
        f"{in_seconds(row['most_s'])} ({_percent(row['most_percent'])}) of the {phase}"
    )
    if row["storage"] == NO_LIMIT:
        verb = "limit" if row["besides"] == NOT_STORAGE else "limits"
        words = f"{row['besides']} {verb} {where}: no faster storage of the dataset"
        return f"{capitalised(words)} saves more than {most}."
    tells = _what_decides(row["why"], row["n_deciding"])
    return (
        f"It is undecided whether storage limits {where}: its part may be 0 or up to "
        f"{most}; {tells}, {row['n_repetitions']} were run."
    )
