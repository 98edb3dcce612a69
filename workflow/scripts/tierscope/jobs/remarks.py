"""Say in sentences what a reader must know of a job's logs."""

from collections.abc import Sequence

import numpy as np

from tierscope.core.columns import INTERFACES
from tierscope.core.job_words import count_words, number_words
from tierscope.jobs.grouping import NO_PROCESS, LogGroup
from tierscope.jobs.summary import UNCOUNTED, Summary
from tierscope.jobs.summed_files import MOST_FILES
from tierscope.jobs.tiers import ROOT
from tierscope.trace.any_log import MPI_IO

MOST_RANKS_NAMED = 10
_COUNTED = (
    (
        *("n_shared_records", "record holds", "records hold"),
        "sums over all processes, so times of processes are bounds.",
    ),
    ("n_nameless_records", "record has", "records have", "no name."),
    (
        *("n_negative_times", "time is", "times are"),
        "below 0 in the logs and counted as 0.",
    ),
)


def remarks_of(group: LogGroup, parts: Sequence[Summary], most_s: float) -> str:
    """Return what a reader must know of a job's logs, in sentences.

    Parameters
    ----------
    group : LogGroup
    parts : sequence of Summary
        Of its logs.
    most_s : float
        The most seconds that its slowest process can have spent; infinite: unknown.
    """
    found = [*_of_logs(parts), *_waiting(group, parts, most_s), *_missing_logs(group)]
    return " ".join(found)


def _of_logs(parts: Sequence[Summary]) -> list[str]:
    """Return what the logs of a job lack or hold beside what is counted."""
    remarks = []
    lost = {module for part in parts for module in part.facts["partial"]}
    partial = sorted(lost & set(INTERFACES))
    if partial:
        remarks.append(
            f"The runtime lost records of {', '.join(partial)}, so times are at least "
            "those that are listed."
        )
    for fact, one, several, words in _COUNTED:
        if number := sum(part.facts[fact] for part in parts):
            remarks.append(f"{count_words(number, one, several)} {words}")
    if any(part.facts["hides_calls"] for part in parts):
        remarks.append(
            "The logs have MPI-IO calls without the POSIX calls that they make, so "
            "times are at least those that are listed."
        )
    modules = {module for part in parts for module in part.facts["modules"]}
    if uncounted := sorted(modules & UNCOUNTED):
        remarks.append(
            f"Calls of {' and '.join(uncounted)} are not counted and reach no POSIX "
            "call, so times are at least those that are listed."
        )
    if any(part.facts["n_files"] > MOST_FILES for part in parts):
        remarks.append(
            f"The sums of files and folders count the {MOST_FILES:,} with the most "
            "time of each log."
        )
    folders = sorted({one for part in parts for one in part.facts["root_folders"]})
    if folders:
        listed = ", ".join(folders[:MOST_RANKS_NAMED])
        remarks.append(
            f"Only / of the mount table holds {listed}, so this is tier {ROOT}. If "
            "a link leads to another file system, name the tiers."
        )
    if any(part.facts["ended_s"] < part.facts["started_s"] for part in parts):
        remarks.append("A log ends before it starts, so its run time is unknown.")
    n_killed = sum(part.facts["metadata"].get("end") == "last call" for part in parts)
    if n_killed:
        remarks.append(
            count_words(
                n_killed,
                "process was killed; its log ends with its last call.",
                "processes were killed; their logs end with their last calls.",
            )
        )
    if any(cell[2] == MPI_IO for part in parts for cell in part.cells):
        remarks.append("MPI-IO makes POSIX calls, so its times are not counted.")
    readers = {part.facts["reader"] for part in parts}
    if "PyDarshan" in readers:
        remarks.append("PyDarshan read logs that tierscope's own reader does not read.")
    return remarks


def _waiting(group: LogGroup, parts: Sequence[Summary], most_s: float) -> list[str]:
    """Return that MPI-IO calls took longer than the POSIX calls that they make."""
    mean_s = sum(
        sum_s
        for part in parts
        for cell, sum_s in zip(part.cells, part.sums["sum_s"], strict=True)
        if cell[2] == MPI_IO
    )
    mean_s /= group.n_processes
    if not mean_s > most_s:
        return []
    return [
        f"A process spent {number_words(mean_s)} s on average in MPI-IO calls, more "
        "than any process spent in POSIX and STDIO calls. In collective calls "
        "processes wait for each other and exchange data; no class counts that."
    ]


def _missing_logs(group: LogGroup) -> list[str]:
    """Return which processes have no log, if each process should have one."""
    known = set(group.processes) - {NO_PROCESS}
    if len(group.logs) == 1 or len(known) == group.n_processes:
        return []
    missing = np.setdiff1d(np.arange(group.n_processes), sorted(known))
    return [
        f"No log is of rank {rank_words(missing, group.n_processes)}: without I/O "
        "there is none, or it is missing."
    ]


def rank_words(ranks: np.ndarray, n_processes: int) -> str:
    """Return ranks in words: a list, cut if it is long."""
    if len(ranks) == n_processes > 1:
        return f"any of {n_processes}"
    named = ", ".join(map(str, ranks[:MOST_RANKS_NAMED].tolist()))
    left = len(ranks) - MOST_RANKS_NAMED
    return f"{named} and {left} more" if left > 0 else named
