"""Divide the time of a training into computation, processor and stall by I/O class.

Where a training computes, the class with the most I/O time may be hidden behind the
computation. So the model divides the stall (`tierscope.model.stalls`): among the
classes, and what goes only with several of them together. The wait for the first batch
of an epoch counts only if it is longer than the computation of a step, which would hide
it if the epoch had a step before.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from tierscope.core.columns import CLASSES, NOT_STORAGE, SCENARIO, TOGETHER
from tierscope.core.columns.benchmark import NEVER_BEHIND, NO_EVENTS, UNSEEN_STREAMS
from tierscope.core.io_class import ALL_CLASSES, io_class_of
from tierscope.core.words import in_seconds

# Parts of an execution time besides classes and `TOGETHER`: in the processes, and stall
# that no model divides.
COMPUTATION, PROCESSOR, STALL = "computation", "processor", "stall"
WARMUP, LOADER_END = "warm-up", "end of the loader"
NOT_KNOWN_APART = "computation or processor"  # where computation is only a least
OTHER_IO = "other storage I/O"  # in files of no tier
STALL_PARTS = [*CLASSES, TOGETHER]
_ANY_PARTS = [*map(str, ALL_CLASSES), TOGETHER]
_LEAST_WORDS = {
    UNSEEN_STREAMS: "The device may have had work that was not seen, on other streams",
    NEVER_BEHIND: "The device was never behind the program, so its time is not known",
    NO_EVENTS: "The device has no events that tell its own time",
}
LEAST_PERCENT = 1  # of the execution time: less is practically none
NOT_KNOWN = "not known"
_LABELS = {
    NOT_STORAGE: NOT_STORAGE,
    TOGETHER: "several classes together",
    NOT_KNOWN: NOT_KNOWN,
}
_POINT = [*SCENARIO, "cache_rate_percent"]
_SAME_PERCENT = 0.05  # of AU
_ROUNDING = 1e-9  # of a time: a number as little below 0 is 0


def stalls_of_points(stalls: pd.DataFrame) -> pd.DataFrame:
    """Return the stall of each part in seconds, a row a point, a column a part.

    `stalls` is table ``class_stalls`` of one epoch; the index is the scenario and
    ``cache_rate_percent``. Reads from other nodes are a part where there is one.
    """
    parts_s = stalls.set_index([*_POINT, "part"])["stall_s"].unstack()
    return parts_s[[one for one in _ANY_PARTS if one in parts_s]]


def largest_stalls(stalls: pd.DataFrame) -> pd.Series:
    """Return what stalls each point: an I/O class, `TOGETHER` or `NOT_STORAGE`.

    Parameters
    ----------
    stalls : DataFrame, shape (n_points * 5, 11)
        Table ``class_stalls`` of one epoch.

    Returns
    -------
    Series of str, shape (n_points,); index: the scenario and ``cache_rate_percent``
        The class with the largest stall, of equal ones the first. It is `NOT_STORAGE`
        where the stall without `first_wait_s` is below `LEAST_PERCENT` of the execution
        time, else `TOGETHER` where the stall of each class is, or where what goes only
        with several of them is more than that of each.
    """
    parts_s = stalls_of_points(stalls)
    times_s = stalls.groupby(_POINT)[["execution_time_s", "first_wait_s"]].first()
    times_s = times_s.reindex(parts_s.index)
    least_s = times_s["execution_time_s"] * LEAST_PERCENT / 100
    later_s = parts_s.sum(axis=1) - times_s["first_wait_s"]
    found = parts_s.idxmax(axis=1)
    found = found.mask(parts_s.drop(columns=TOGETHER).max(axis=1) < least_s, TOGETHER)
    return found.mask((later_s < least_s) | (least_s == 0), NOT_STORAGE).rename("limit")


def stall_words(stalls: pd.DataFrame) -> pd.Series:
    """Return what stalls each point in words, by scenario and cache rate.

    `stalls` is table ``class_stalls`` of one epoch. Words are such as ``stall by the
    model: LFS-READ 3.15 s of 8.60 s``.
    """
    parts_s, found = stalls_of_points(stalls), largest_stalls(stalls)
    words = []
    for limit, (_, of_point_s) in zip(found, parts_s.iterrows(), strict=True):
        whole = in_seconds(of_point_s.sum())
        if limit == NOT_STORAGE:
            words.append(f"stall by the model: {whole}")
            continue
        part = in_seconds(of_point_s[limit])
        words.append(f"stall by the model: {limit_label(limit)} {part} of {whole}")
    return pd.Series(words, parts_s.index, name="words")


def limit_label(limit: str) -> str:
    """Return what to call a limit: a class's label, or words."""
    return _LABELS.get(limit) or io_class_of(limit).label


def divide_execution_time(
    storage_time: pd.DataFrame, stalls: pd.DataFrame | None
) -> pd.DataFrame:
    """Divide the execution time of points into parts that add up to it.

    Parameters
    ----------
    storage_time : DataFrame
        Table ``storage_time`` of one epoch.
    stalls : DataFrame or None
        Table ``class_stalls`` of the same epoch, of some of these points; None if there
        is no model.

    Returns
    -------
    DataFrame
        A row a point and part: the keys of the point, ``part`` and ``time_s``. Parts
        are those of `parts_besides_storage`, and what storage costs. This is divided as
        the model divides its own stall, and is one `STALL` where the model has none.
        ``is_negative`` says that noise made a part negative; its time is 0.
    """
    points = storage_time.set_index(_POINT)
    shares = _shares(stalls, points.index)
    whole = shares.isna().all(axis=1)
    times_s = parts_besides_storage(points)
    times_s[STALL] = points["storage_s"].where(whole)
    times_s |= {part: shares[part] * points["storage_s"] for part in STALL_PARTS}
    rows = pd.concat(
        [one.rename("time_s").to_frame().assign(part=p) for p, one in times_s.items()]
    ).dropna(subset=["time_s"])
    least_s = -_ROUNDING * points["execution_time_s"].reindex(rows.index)
    rows["is_negative"] = rows["time_s"] < least_s
    return rows.assign(time_s=rows["time_s"].clip(lower=0.0)).reset_index()


def parts_besides_storage(points: pd.DataFrame) -> dict[str, pd.Series]:
    """Return what of the execution time of points is not the dataset's storage.

    Parameters
    ----------
    points : DataFrame
        Table ``storage_time`` with any index.

    Returns
    -------
    dict of str to Series of float
        Seconds by part; missing where there is no such part. `PROCESSOR` is what the
        ideal run takes besides all others; where computation is not known, it is part
        of it. Where computation is only a least, it is `NOT_KNOWN_APART`.
    """
    other_s, warmup_s = (_where_both(points, one) for one in ("other_s", "warmup_s"))
    others_s = other_s + warmup_s + points["loader_end_s"].fillna(0.0)
    ideal_s = points["execution_time_s"] - points["storage_s"] - others_s
    compute_s = points["compute_time_s"]  # a loop may write in between
    compute_s = compute_s.where(~(other_s > 0), compute_s.clip(upper=ideal_s))
    rest_s = ideal_s - compute_s.fillna(0.0)
    is_least = points["least_because"] != ""
    return {
        COMPUTATION: compute_s,
        WARMUP: warmup_s.where(warmup_s > 0),
        PROCESSOR: rest_s.where(~is_least),
        NOT_KNOWN_APART: rest_s.where(is_least),
        LOADER_END: points["loader_end_s"],
        OTHER_IO: other_s,
    }


def least_notes(table: pd.DataFrame) -> list[str]:
    """Return why computation and AU are only a least in a table, a sentence a reason.

    `table` has column ``least_because``.
    """
    return [
        f"{_LEAST_WORDS[reason]}. So computation and AU are at least what is shown, "
        "and what a loop waits for storage at most."
        for reason in sorted(set(table["least_because"]) - {""})
    ]


def has_other_loop(row: Mapping[str, Any]) -> bool:
    """Return whether the loop saw another utilisation than the device had."""
    apart = row["loop_utilisation_percent"] - row["utilisation_percent"]
    return abs(apart) > _SAME_PERCENT


def _where_both(points: pd.DataFrame, part: str) -> pd.Series:
    """Return a part, 0 where a run or its ideal lacks it: ``storage_s`` has it then."""
    known = points[[part, f"ideal_{part}"]].notna().all(axis=1)
    return points[part].where(known, 0.0)


def _shares(stalls: pd.DataFrame | None, index: pd.MultiIndex) -> pd.DataFrame:
    """Return which part of a point's stall each part is; missing if not known."""
    if stalls is None:
        return pd.DataFrame(float("nan"), index, STALL_PARTS)
    parts_s = stalls_of_points(stalls).reindex(index)
    sums_s = parts_s.sum(axis=1)
    return parts_s.div(sums_s.where(sums_s > 0), axis=0)
