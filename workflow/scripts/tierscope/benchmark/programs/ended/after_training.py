"""What follows loops of a program: the rest of an epoch, or no training any more.

Each end of all loops of a process has a number (`table.AFTER`), which stands in place
of the epoch from then on. The epoch goes on if this process begins another loop, or if
it ends and another one of its group then begins a loop in the same epoch.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tierscope.core.columns import AFTER, AFTER_TRAINING


class LoopEnd(NamedTuple):
    """An end of all loops of a process.

    `under_way` is the epoch of the loops, `epoch` that of what follows.
    """

    number: int
    pid: int
    group: int
    time_ns: int
    device_bytes: int
    under_way: int
    epoch: int

    @property
    def is_last(self) -> bool:
        """Return whether no loop follows."""
        return self.epoch == AFTER_TRAINING


class _Loop(NamedTuple):
    """A loop that a process begins."""

    time_ns: int
    pid: int
    group: int
    epoch: int


def begins_of(marks: Sequence[Mapping[str, int]]) -> list[Mapping[str, int]]:
    """Return the marks at which an epoch begins, or goes on, in their order."""
    begins = (mark for mark in marks if mark["epoch"] < AFTER)
    return sorted(begins, key=lambda mark: mark["time_ns"])


def loop_ends(
    marks: Sequence[Mapping[str, int]],
    notes: Sequence[Mapping[str, Any]],
    processes: Sequence[Mapping[str, int]],
) -> list[LoopEnd]:
    """Return the ends of loops on a node, the last one first.

    Parameters
    ----------
    marks, notes, processes : sequence of mapping
        What its keeper and its hooks have noted.
    """
    if all(mark["epoch"] < AFTER for mark in marks):
        return []
    later: list[LoopEnd | _Loop] = []
    under_way: dict[int, int] = {}  # by group
    for mark in sorted(marks, key=lambda mark: mark["time_ns"]):
        group, number = mark["group"], mark["epoch"]
        if number < AFTER:
            under_way[group] = number
            later.append(_Loop(mark["time_ns"], mark["pid"], group, number))
            continue
        last = under_way.get(group, 0)
        where = number, mark["pid"], group, mark["time_ns"], mark["device_bytes"]
        later.append(LoopEnd(*where, last, AFTER_TRAINING))
    later += _evaluations(notes, processes)
    later.sort(key=lambda one: one.time_ns, reverse=True)
    ended_ns = {one["pid"]: one["end_ns"] for one in processes}
    ends: list[LoopEnd] = []
    begins: set[int] = set()  # processes that begin a loop later
    last_ns: dict[tuple[int, int], int] = {}  # such loops, by group and epoch
    for one in later:
        if isinstance(one, _Loop):
            begins.add(one.pid)
            last_ns.setdefault((one.group, one.epoch), one.time_ns)
            continue
        follows_ns = last_ns.get((one.group, one.under_way), 0)
        goes_on = one.pid in begins or 0 < ended_ns.get(one.pid, 0) < follows_ns
        ends.append(one._replace(epoch=one.under_way) if goes_on else one)
    return ends


def _evaluations(
    notes: Sequence[Mapping[str, Any]], processes: Sequence[Mapping[str, int]]
) -> list[_Loop]:
    """Return the evaluations that frameworks began; not all of them are marked."""
    group_of = {one["pid"]: one["group"] for one in processes}
    return [
        _Loop(one["time_ns"], one["pid"], group_of.get(one["pid"], 0), one["epoch"])
        for one in notes
        if one["kind"] == "begin" and one["evaluation"]
    ]
