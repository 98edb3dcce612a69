"""What a training loop waits for besides its dataset: other storage I/O, in words.

An ideal run takes the time of the dataset away, and not that of checkpoints, caches and
other files. Table ``other_time`` has it, by file system.
"""

import re

import pandas as pd

from tierscope.analysis.training.stalls import LEAST_PERCENT
from tierscope.core.columns import RUN_EPOCH
from tierscope.core.words import in_seconds

_PLACE = ["mount", "fs_type", "holds"]
_CALLS = ("write", "fsync", "read", "other")  # in the order that a reader expects
_CALL_WORDS = {"other": "metadata"}
_TIERS = {"gfs": "the GFS", "lfs": "the LFS", "gfs and lfs": "GFS and LFS"}
# What `other_words` names of a mount besides its type.
MOUNT_NAMES = re.compile(r" on /.*?(?= \([\w.]+[;)])", re.DOTALL)


def slowest_rows(other: pd.DataFrame, in_loop: bool) -> pd.DataFrame:
    """Return the calls of the loop, or of others, of each epoch's slowest process.

    Parameters
    ----------
    other : DataFrame
        Table ``other_time``, or ``run_other_time``.
    in_loop : bool
        Whether they are those of the training loop's thread.

    Returns
    -------
    DataFrame
        Rows of the rank that spends the most time in such calls.
    """
    rows = other[other["in_loop"] == in_loop]
    keys = [key for key in RUN_EPOCH if key in other]
    sums_s = rows.groupby([*keys, "rank"])["time_s"].sum(min_count=1).reset_index()
    slowest = sums_s.sort_values("time_s", ascending=False, kind="stable")
    return rows.merge(slowest.drop_duplicates(keys)[[*keys, "rank"]])


def other_words(rows: pd.DataFrame, n_repetitions: int = 1) -> str:
    """Return what the calls of some rows of table ``other_time`` are, by file system.

    Words are such as ``write 0.310 s and fsync 1.29 s on /scratch (ext4)``. Times are
    means over the repetitions. What is below 1 % of all is left out.
    """
    rows = rows[rows["call"] != "map"]  # no call takes its time
    calls_s = rows.groupby([*_PLACE, "call"])["time_s"].sum() / n_repetitions
    shown_s = calls_s[calls_s >= calls_s.sum() * LEAST_PERCENT / 100]
    places_s = shown_s.groupby(_PLACE).sum().sort_values(ascending=False)
    words = []
    for place in places_s.index:
        mount, fs_type, holds = place
        *first, last = (
            f"{_CALL_WORDS.get(call, call)} {in_seconds(time_s)}"
            for call in _CALLS
            if (time_s := shown_s[place].get(call)) is not None
        )
        calls = f"{', '.join(first)} and {last}" if first else last
        tiers = f"; holds {_TIERS[holds]}" if holds in _TIERS else ""
        words.append(f"{calls} on {mount} ({fs_type}{tiers})")
    return "; ".join(words)
