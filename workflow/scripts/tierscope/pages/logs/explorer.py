"""Build the explorer of a job: the page of runs, with one point.

The explorer has four classes: READ and META of two tiers. So it needs a job with exact
times on two tiers; of other jobs, `explorer_data` says why there is none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tierscope.analysis.breakdown import process_times
from tierscope.analysis.training.limit import Advice
from tierscope.analysis.whatif import Goal
from tierscope.core.columns import CLASSES
from tierscope.core.provenance import Origin
from tierscope.core.tables import check_table
from tierscope.core.words import printable
from tierscope.figures.logs.classes import OTHER, UNNAMED, label
from tierscope.figures.logs.processes import WHOLE_JOB, has_epochs, times_in
from tierscope.pages.explorer.page import build_explorer
from tierscope.pages.explorer.subjects import LoggedJob

_SLOW_TIER, _FAST_TIER = "gfs", "lfs"  # what the explorer calls the two tiers
_PLACES = {_SLOW_TIER: 0, _FAST_TIER: 2}  # of other names: 1
_OPERATIONS = ("read", "meta")
_GOAL_PERCENT = 80  # of the time without improvement
_MOST_EPOCHS = 20
_MAX_PERCENT, _STEP_PERCENT = 400, 25
_KEYS = {
    "source": "measured",
    "dataset": "files of the job",
    "n_osts": 0,
    "policy": "as it ran",
    "loader": "as it ran",
    "cache_rate_percent": 0,
    "repetition": 0,
}


@dataclass(frozen=True)
class ExplorerData:
    """What the explorer of a job shows.

    Parameters
    ----------
    io_time : DataFrame, shape (n_processes * 4, 14)
        Table ``io_time`` with one point for each epoch.
    labels : mapping of str to str
        What to call each class: its tier and operation.
    note : str
        What the four classes are, and what is not in them.
    """

    io_time: pd.DataFrame
    labels: Mapping[str, str]
    note: str


def explorer_data(
    times: pd.DataFrame, job: str, tiers: Sequence[str]
) -> ExplorerData | str:
    """Return the data of a job's explorer, or the reason why there cannot be one.

    Parameters
    ----------
    times : DataFrame
        Rows of table ``job_times`` of the job.
    job : str
        Its name.
    tiers : sequence of str
        The tiers of the analysis, in their order: the slow one before the fast one.
    """
    times = times_in(times, WHOLE_JOB)
    posix = times[times["interface"].eq("POSIX") & times["operation"].isin(_OPERATIONS)]
    has_time = posix["least_s"].gt(0) | ~posix["most_s"].eq(0)
    found = set(posix.loc[has_time, "tier"]) - {OTHER, UNNAMED}
    used = [tier for tier in dict.fromkeys(tiers) if tier in found]
    used.sort(key=lambda tier: _PLACES.get(tier, 1))
    if len(used) != 2:
        which = f" ({', '.join(map(printable, used))})" if used else ""
        n_tiers = "no named tier" if not used else f"{len(used)} named tiers"
        n_tiers = "only one named tier" if len(used) == 1 else n_tiers
        return (
            "There is no explorer of this job: it shows READ and META of two tiers, "
            f"and the job reads files of {n_tiers}{which}."
        )
    rows = posix[posix["tier"].isin(used)]
    if not rows["least_s"].eq(rows["most_s"]).all():
        return (
            "There is no explorer of this job: it needs exact times of every process, "
            "and the logs hold bounds."
        )
    words = [_note(times, used), _epochs_note(rows)]
    io_time = _io_time(_of_shown_epochs(rows), times, used)
    io_time = io_time.assign(**_KEYS, system=printable(job) or "job")
    note = " ".join(filter(None, words))
    return ExplorerData(check_table(io_time, "io_time"), _labels(used), note)


def _labels(used: Sequence[str]) -> dict[str, str]:
    """Return what to call each class."""
    labels = (
        label(tier, "POSIX", operation) for tier in used for operation in _OPERATIONS
    )
    return dict(zip(CLASSES, labels, strict=True))


def _of_shown_epochs(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the epochs that take longest, of all if there are none."""
    if not has_epochs(rows):
        return rows
    of_epochs = rows[rows["epoch"] >= 0]
    of_process = of_epochs.groupby(["epoch", "rank"])["least_s"].sum()
    longest = of_process.groupby("epoch").max().nlargest(_MOST_EPOCHS)
    return of_epochs[of_epochs["epoch"].isin(longest.index)]


def _epochs_note(rows: pd.DataFrame) -> str:
    """Return which epochs are shown, if it is not all of them by their numbers."""
    if not has_epochs(rows):
        return ""
    shown = sorted(_of_shown_epochs(rows)["epoch"].unique())
    words = []
    if len(shown) < rows.loc[rows["epoch"] >= 0, "epoch"].nunique():
        words.append(f"Shown are the {len(shown)} epochs that take longest.")
    if len(shown) == 1:
        words.append(f"Shown is epoch {shown[0]}, the only one.")
    elif shown != list(range(len(shown))):
        numbers = ", ".join(map(str, shown))
        words.append(f"First, second and so on are epochs {numbers} of the logs.")
    return " ".join(words)


def _io_time(
    rows: pd.DataFrame, times: pd.DataFrame, used: Sequence[str]
) -> pd.DataFrame:
    """Return a row for each epoch, process and class; 0 s where a log has nothing."""
    names = dict(zip(used, (_SLOW_TIER, _FAST_TIER), strict=True))
    classes = rows["tier"].map(names) + "_" + rows["operation"]
    counts = rows[["operations", "bytes"]].fillna(0).round().astype("int64")
    known = rows[["epoch", "rank"]].assign(
        io_class=classes, time_s=rows["least_s"], **counts
    )
    every = pd.MultiIndex.from_product(
        [sorted(rows["epoch"].unique()), sorted(times["rank"].unique()), CLASSES],
        names=["epoch", "rank", "io_class"],
    )
    sums = known.groupby(list(every.names)).sum().reindex(every, fill_value=0)
    filled = sums.reset_index()
    filled["epoch"] = filled["epoch"].factorize(sort=True)[0]  # counted from 0
    return filled


def _note(times: pd.DataFrame, used: Sequence[str]) -> str:
    """Return what the four classes are, and what is not in them."""
    slow, fast = map(printable, used)
    words = (
        f"The four classes are READ and META of the tiers {slow} and {fast}. READ is "
        "all reading by POSIX calls; META is time in such calls on files that were not "
        "written. Writes, META of written files, STDIO and MPI-IO are not in the four "
        "classes."
    )
    counted = times[times["counted"]]
    is_shown = (
        counted["tier"].isin(used)
        & counted["interface"].eq("POSIX")
        & counted["operation"].isin(_OPERATIONS)
    )
    whole_s = counted["least_s"].sum()
    if whole_s > 0:
        percent = 100 * counted.loc[is_shown, "least_s"].sum() / whole_s
        words += f" The four are {percent:.0f} % of the I/O time of all processes."
    return words


def job_explorer(
    data: ExplorerData, job: str, *, advice: Advice, provenance: Origin
) -> str:
    """Return the explorer of a job as HTML.

    Parameters
    ----------
    data : ExplorerData
        What `explorer_data` returns.
    job : str
        Its name.
    advice : Advice
        What `tierscope.pages.logs.job_page.job_advice` returns.
    provenance : Origin
        Where the numbers come from.

    Returns
    -------
    str
        HTML. It begins with the epoch that takes longest; the goal is 80 % of its time
        in the four classes.
    """
    processes, times_s = process_times(data.io_time)
    longest = times_s.sum(axis=1).argmax()
    slowest_s, epoch = times_s[longest], int(processes["epoch"].iloc[longest])
    first, second = sorted(np.argsort(-slowest_s, kind="stable")[:2])
    goal_s = _GOAL_PERCENT / 100 * float(slowest_s.sum()) or 1.0
    subject = LoggedJob(
        io_time=data.io_time,
        scenario={"dataset": _KEYS["dataset"]},
        epoch=epoch,
        goal=Goal("io_time", goal_s),
        pair=(CLASSES[first], CLASSES[second]),
        max_improvement_percent=_MAX_PERCENT,
        step_percent=_STEP_PERCENT,
        cost_per_percent=dict.fromkeys(CLASSES, 1),
        labels=data.labels,
        origin=provenance,
        job_advice=advice,
    )
    return build_explorer(subject, f"What-if explorer: {printable(job)}", data.note)
