"""What is said of the copies of a policy that moved files while a program ran."""

import numpy as np
import pandas as pd

from tierscope.core.certificate import NO, NOT_MEASURED, YES
from tierscope.core.columns import AFTER_TRAINING
from tierscope.core.words import count_words, size_words
from tierscope.policies.decisions import LATE, UNSEEN

_EPOCH = ["node", "epoch"]
_COPY = [*_EPOCH, "file_id"]
_WHY_FAILED = {
    "full": "as the LFS was full",
    "changed": "as their files had changed since the dataset was listed",
    "error": "as the log of the launch says",
}


def copies_made(decisions: pd.DataFrame, sizes: np.ndarray) -> tuple[str, str]:
    """Return whether the copies that a policy ordered were made, and in words.

    `decisions` is table `decisions` of a run, `sizes` are bytes of the files by id.
    """
    placed = decisions[decisions["event"] == "placed"]
    failed = decisions[decisions["event"] == "failed"]
    late = int(((decisions["detail"] == LATE) & (decisions["event"] == "begin")).sum())
    moved = size_words(int(sizes[placed["file_id"]].sum()))
    words = f"{count_words(len(placed), 'copy was', 'copies were')} made ({moved})"
    if late:
        words += (
            f"; {count_words(late, 'open was', 'opens were')} decided while a file "
            "changed its place"
        )
    if not len(failed):
        return YES, f"{words}, and none failed."
    counts = failed["detail"].value_counts()
    why = [
        f"{counts[one]:,} {how}" for one, how in _WHY_FAILED.items() if one in counts
    ]
    failures = count_words(len(failed), "copy", "copies")
    return NO, f"{words}; {failures} failed: {', '.join(why)}."


def copies_in_time(decisions: pd.DataFrame) -> tuple[str, str]:
    """Return whether copies had ended before the next epoch's first open, and why not.

    `decisions` is table `decisions` of a run. No epoch follows what is after training.
    """
    decisions = decisions[decisions["epoch"] > AFTER_TRAINING]
    begun = decisions[decisions["event"] == "begin"]
    next_s = begun.groupby(_EPOCH)["time_s"].min().rename("next_s").reset_index()
    next_s["epoch"] -= 1
    placed = decisions[decisions["event"] == "placed"].merge(next_s, on=_EPOCH)
    if not len(placed):
        return NOT_MEASURED, "No epoch that opened files followed one with copies."
    late = placed[placed["time_s"] > placed["next_s"]]
    if not len(late):
        words = "Each copy had ended before the next epoch's first open on its node."
        return YES, words
    return NO, (
        f"{len(late):,} of {len(placed):,} copies ended after the next epoch's first "
        "open on their node, so that epoch may have read their files from the GFS: "
        f"{_why_late(decisions, late)}."
    )


def _why_late(decisions: pd.DataFrame, late: pd.DataFrame) -> str:
    """Return what kept late copies from being made in time, with numbers.

    A policy orders a copy at the end of a read. `late` has the begin of the next epoch,
    `next_s`.
    """
    reads = decisions[decisions["event"] == "end"].sort_values("time_s", kind="stable")
    reads = reads.drop_duplicates(_COPY)[[*_COPY, "time_s", "detail"]]
    both = late.merge(reads, on=_COPY, how="left", suffixes=("", "_read"))
    was_open = both["time_s_read"] > both["next_s"]
    is_unseen = was_open & (both["detail_read"] == UNSEEN)
    causes = {
        "were ordered in time but took longer": ~was_open,
        "had to wait for a close that nobody saw in time (the program closes its files "
        "by calls of the kernel, as Node.js does, or never)": is_unseen,
        "had to wait until the program closed the file": was_open & ~is_unseen,
    }
    return ", ".join(
        f"{some.sum():,} {way}" for way, some in causes.items() if some.any()
    )
