"""The time that a program spends in calls on files of no tier, such as checkpoints.

An ideal run has its dataset in memory, and makes these calls as any run. Our tracer
sums them up by epoch, mount and thread (``workflow/native/trace/others.c``). Here it is
said which of them the training loop made itself: only these make an epoch longer.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from tierscope.core.columns import AFTER_TRAINING, TABLES
from tierscope.storage.mounts import plain
from tierscope.trace.log import SUM_NAME, AnyLog
from tierscope.trace.runtime import BUILTIN

READ, WRITE, FSYNC, OTHER, MAP = "read", "write", "fsync", "other", "map"
_SEES_OTHERS = 4  # the first version of our tracer that does
_BEFORE = -1  # the first epoch
_MAIN, _LOOP = "main", "loop"
_COLUMNS = {  # of a record of a log: operations, bytes, time
    READ: ("reads", "bytes_read", "read_time_s"),
    WRITE: ("writes", "bytes_written", "write_time_s"),
    FSYNC: ("writes", "bytes_written", "write_time_s"),
    OTHER: ("opens", "bytes_read", "meta_time_s"),
    MAP: ("opens", "bytes_read", "meta_time_s"),
}
_STARTED_BY_PYTHON = re.compile("multiprocessing[.-]")
_KEYS = ["rank", "epoch", "mount", "fs_type", "holds", "call", "in_loop"]
_COUNTS = ["operations", "bytes", "time_s"]


class Sum(NamedTuple):
    """Calls of one kind on one mount, in an epoch, by one kind of threads."""

    epoch: int
    thread: str
    call: str
    fs_type: str
    mount: str
    operations: int
    bytes: int
    time_s: float


class ProcessSums(NamedTuple):
    """What a process of a rank did on files of no tier.

    Its parents are process ids, the nearest first; `command` is its command line.
    """

    rank: int
    host: str
    pid: int
    parents: tuple[int, ...]
    command: str
    sums: Sequence[Sum]


def sums_of(log: AnyLog, rank: int) -> ProcessSums:
    """Return the sums in a log of a process."""
    said, sums = log.metadata, []
    for name, columns in log.sums.items():
        epoch, thread, call, fs_type, mount = SUM_NAME.fullmatch(name).groups()
        operations, n_bytes, time_s = (columns[column] for column in _COLUMNS[call])
        one = int(epoch), thread, call, fs_type, plain(mount)
        sums.append(Sum(*one, int(operations), int(n_bytes), time_s))
    parents = tuple(map(int, filter(None, said.get("parents", "").split(","))))
    pid = int(said.get("pid", 0))
    return ProcessSums(rank, said.get("host", ""), pid, parents, log.exe, sums)


def other_time(
    processes: Sequence[ProcessSums],
    marks: pd.DataFrame,
    tier_mounts: Mapping[str, Iterable[str]],
    epoch_of: Callable[[int, int], int],
) -> pd.DataFrame:
    """Return table `run_other_time`.

    What a process did before its rank began an epoch is in no epoch, and so is what one
    that marks epochs did before its first mark. Mappings last, so these are of epoch 0.
    The loop is the thread that marks. If what marks is another process, such as a
    command of a script, it is the main thread of each process that is no child of one
    that marks, and no worker.

    Parameters
    ----------
    processes : sequence of ProcessSums
        What the processes of a run did.
    marks : DataFrame
        Table `marks`.
    tier_mounts : mapping of str to iterable of str
        Mount points of each tier.
    epoch_of : callable
        Returns the epoch of a rank and of a number in its place.
    """
    begun = marks[marks["what"] == "epoch"]
    marking = set(zip(begun["rank"], begun["pid"], strict=True))
    commands = {(one.host, one.pid): one.command for one in processes}
    rows = []
    for one in processes:
        is_marking = (one.rank, one.pid) in marking
        runs_loop = not is_marking and not _is_child(one, marking, commands)
        for each in one.sums:
            is_map = each.call == MAP
            epoch = max(each.epoch, 0) if begun.empty or is_map else each.epoch
            if epoch == _BEFORE or (is_marking and each.thread == _MAIN and not is_map):
                continue
            is_main = each.thread == _MAIN and (runs_loop or is_marking)
            in_loop = each.thread == _LOOP or is_main
            rows.append(
                {
                    **each._asdict(),
                    "rank": one.rank,
                    "pid": one.pid,
                    "epoch": epoch_of(one.rank, epoch),
                    "holds": _tiers_on(each.mount, tier_mounts),
                    "in_loop": in_loop,
                    "marks": is_marking,
                }
            )
    columns = list(TABLES["run_other_time"])
    if not rows:
        return pd.DataFrame(columns=columns).astype(TABLES["run_other_time"])
    table = _with_one_loop(pd.DataFrame(rows)).groupby(_KEYS, as_index=False)
    return table[_COUNTS].sum()[columns].astype(TABLES["run_other_time"])


def _is_child(
    process: ProcessSums,
    marking: set[tuple[int, int]],
    commands: Mapping[tuple[str, int], str],
) -> bool:
    """Return whether a process descends from one that marks, or is a worker."""
    if any((process.rank, pid) in marking for pid in process.parents):
        return True
    above = [commands.get((process.host, pid)) for pid in process.parents]
    return process.command in above or bool(_STARTED_BY_PYTHON.search(process.command))


def _with_one_loop(rows: pd.DataFrame) -> pd.DataFrame:
    """Return sums in which each epoch of a rank has one loop, the slowest."""
    slowest_s: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    is_training = rows["epoch"] > AFTER_TRAINING  # loops after it follow each other
    # Trainers of a script without a launcher have one rank, and mark at the same time.
    loops = rows[rows["in_loop"] & rows["marks"] & is_training]
    for row in loops.itertuples():
        slowest_s[row.rank, row.epoch][row.pid] += row.time_s
    chosen = {key: sums.most_common(1)[0][0] for key, sums in slowest_s.items()}
    is_other = [
        row.marks and chosen.get((row.rank, row.epoch), row.pid) != row.pid
        for row in rows.itertuples()
    ]
    return rows.assign(in_loop=rows["in_loop"] & ~pd.Series(is_other, rows.index))


def _tiers_on(mount: str, tier_mounts: Mapping[str, Iterable[str]]) -> str:
    """Return which tiers are on a mount, in words of the table."""
    tiers = [tier for tier, points in tier_mounts.items() if mount in points]
    return " and ".join(sorted(tiers)) or "none"


def sees_others(tracer: Mapping[str, str]) -> bool:
    """Return whether the tracer of a run sees calls on files of no tier."""
    return tracer.get("runtime") == BUILTIN and int(tracer["version"]) >= _SEES_OTHERS


def unmeasured_time(epochs: pd.DataFrame) -> pd.DataFrame:
    """Return table `run_other_time` of a run whose tracer does not see these calls.

    `epochs` is table `run_epochs`; times are missing.
    """
    row: dict[str, Any] = {"mount": "", "fs_type": "", "holds": "none", "call": OTHER}
    row |= {"in_loop": True, "operations": 0, "bytes": 0, "time_s": float("nan")}
    table = epochs[["rank", "epoch"]].assign(**row)
    return table[list(TABLES["run_other_time"])].astype(TABLES["run_other_time"])
