"""What the nodes of a program's run have noted, as the tables of the run.

Groups of processes have a rank of the program, and begin epochs. A rank's epoch lasts
from its beginning to that of the next one, or to the end of the last loop of the
process that began it, and of programs after that which only evaluate. If that end is
not known, it lasts to the end of the process.
What a program reads before its first mark counts to epoch 0, and its time does not.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tierscope.benchmark.programs.ended.after_training import (
    LoopEnd,
    begins_of,
    loop_ends,
)
from tierscope.benchmark.programs.keeper import IO_COUNTS, TIERS
from tierscope.core.columns import AFTER, AFTER_TRAINING, TABLES
from tierscope.core.columns.benchmark import STEPS
from tierscope.core.files import read_array
from tierscope.core.tables import check_below
from tierscope.core.validation import read_json
from tierscope.data.steps import UsedSteps
from tierscope.policies.decisions import NO_GROUP, columns_of

NO_RANK = -1
_OF_DEVICES = ("busy_s", "idle_s", "behind_s")  # of what a note says of them
EVALUATION, EPOCH, WHOLE_RUN = "evaluation", "epoch", "whole run"
AFTER_LOOPS = "after training"


@dataclass(frozen=True)
class NodeNotes:
    """What a node has noted: the facts of its file, and the opens of its files.

    `decisions` are rows of `tierscope.policies.decisions.ROW` with groups in place of
    ranks, and -1 for what the node does itself; None if no policy moves files.
    """

    facts: Mapping[str, Any]
    opens: np.ndarray
    decisions: np.ndarray | None = None

    @property
    def number(self) -> int:
        """Return the number of the node."""
        return self.facts["node"]

    def rank_of(self, group: int) -> int:
        """Return the rank of a group; of one without a launcher's rank the first."""
        rank = self.facts["groups"][group]["rank"]
        return rank if rank != NO_RANK else self.facts["ranks"][0]

    @property
    def ranks(self) -> np.ndarray:
        """Return the rank of each group, and last that of the node itself."""
        groups = range(len(self.facts["groups"]))
        return np.array([*map(self.rank_of, groups), self.facts["ranks"][0]])

    def rank_of_note(self, note: Mapping[str, Any]) -> int:
        """Return the rank of what a hook has noted; without one that of the node."""
        return self.facts["ranks"][0] if note["rank"] is None else note["rank"]

    @cached_property
    def loop_ends(self) -> list[LoopEnd]:
        """Return the ends of all loops of a process, the last one first."""
        facts = self.facts
        return loop_ends(facts["marks"], facts["notes"], facts["processes"])

    @cached_property
    def epochs_after(self) -> list[int]:
        """Return the epoch of each number from `AFTER` on."""
        epoch_of = {end.number: end.epoch for end in self.loop_ends}
        numbers = range(AFTER, max(epoch_of, default=AFTER - 1) + 1)
        return [epoch_of.get(number, AFTER_TRAINING) for number in numbers]

    def epochs(self, numbers: np.ndarray) -> np.ndarray:
        """Return the epochs of opens or decisions, of which the library has numbers."""
        known = np.array([*self.epochs_after, AFTER_TRAINING])
        places = np.clip(numbers - AFTER, 0, len(known) - 1)
        return np.where(numbers < AFTER, numbers, known[places])

    def reading_ranks(self) -> set[int]:
        """Return the ranks that have opened files on this node."""
        return {self.rank_of(int(group)) for group in np.unique(self.opens[:, 0])}


def read_notes(shared: Path) -> list[NodeNotes]:
    """Return what all nodes have noted, by their numbers."""
    notes = []
    for path in shared.glob("node-*.json"):
        rank, facts = path.stem.removeprefix("node-"), read_json(path)
        n_groups = len(facts["groups"])
        known = {0: range(n_groups), 2: range(len(TIERS))}
        opens = _read_rows(shared / f"opens-{rank}.npy", known)
        known = {"rank": range(NO_GROUP, n_groups)}
        path = shared / f"decisions-{rank}.npy"
        decisions = _read_rows(path, known) if path.exists() else None
        notes.append(NodeNotes(facts, opens, decisions))
    return sorted(notes, key=lambda one: one.number)


def _read_rows(path: Path, known: Mapping[Any, range]) -> np.ndarray:
    """Return rows that a node has noted, whose numbers by column are known ones.

    Raises
    ------
    ValueError
        If a number is not; with file, column, number, and what was expected.
    """
    rows = read_array(path)
    for column, numbers in known.items():
        found = rows.T[column]
        if (odd := found[~np.isin(found, numbers)]).size:
            raise ValueError(
                f"{path}: column {column}: got {odd[0]}, expected {numbers.start} to "
                f"{numbers.stop - 1}"
            )
    return rows


def placing_reports(
    nodes: Iterable[NodeNotes], n_epochs: int, ended_ns: Mapping[int, int]
) -> list[dict[str, Any]]:
    """Return what each node says of its copies, with its part of table `decisions`."""
    reports = []
    for node in nodes:
        placing = node.facts["placing"]
        rows = node.decisions.copy()
        rows["rank"] = node.ranks[rows["rank"]]  # at -1: the node itself
        rows["epoch"] = node.epochs(rows["epoch"])
        rows["time_s"] += (placing["began_ns"] - _origin_ns(node, ended_ns)) * 1e-9
        times_s = [*[0.0] * (n_epochs - 1), placing["drain_time_s"]]
        own = {name: one for name, one in placing.items() if name != "began_ns"}
        reports.append(
            {
                **own,
                "node": node.number,
                "rank": node.facts["ranks"][0],
                "drain_time_s": times_s,
                "decisions": columns_of(rows),
            }
        )
    return reports


def opens_table(nodes: Iterable[NodeNotes]) -> pd.DataFrame:
    """Return the table `opens`: what ranks opened on which tier, by epoch and file."""
    parts = []
    for node in nodes:
        group, epoch, tier, for_writing, file, opens = node.opens.T
        parts.append(
            pd.DataFrame(
                {
                    "rank": node.ranks[group],
                    "node": node.number,
                    "epoch": node.epochs(epoch),
                    "tier": pd.Series(np.array(TIERS, object)[tier], dtype="str"),
                    "file_id": file,
                    "opens": opens,
                    "for_writing": for_writing.astype(bool),
                }
            )
        )
    keys = ["epoch", "rank", "node", "tier", "file_id", "for_writing"]
    table = pd.concat(parts).groupby(keys, as_index=False)["opens"].sum()
    return table[list(TABLES["opens"])]


def marks_table(
    nodes: Sequence[NodeNotes], ended_ns: Mapping[int, int]
) -> pd.DataFrame:
    """Return the table `marks`: what each rank began, and when.

    Times are seconds since the first process of the rank's node began. `ended_ns` is
    when the program of each rank of the launcher ended.
    """
    rows = []
    for node in nodes:
        origin_ns = _origin_ns(node, ended_ns)
        for group in sorted({mark["group"] for mark in node.facts["marks"]}):
            rows += _marks_of_group(node, group, origin_ns, ended_ns)
        rows += _evaluations(node, origin_ns)
    if not any(row["what"] == EPOCH for row in rows):
        rows += _whole_runs_of_readers(nodes, ended_ns)
    table = pd.DataFrame(rows, columns=list(TABLES["marks"])).astype({"what": "str"})
    return table.sort_values(["rank", "began_s"], kind="stable", ignore_index=True)


def _origin_ns(node: NodeNotes, ended_ns: Mapping[int, int]) -> int:
    """Return when the first process of a node began."""
    known = [one["start_ns"] for one in node.facts["processes"]]
    return min(known, default=min(ended_ns.values(), default=0))


class _Phase(NamedTuple):
    """What a process began, and bytes of devices; not a number is not known.

    These are what the devices had read for its group until then, or meanwhile.
    """

    what: str
    epoch: int
    pid: int
    began_ns: int
    ended_ns: float = np.nan
    device_bytes: float = np.nan

    def row(self, node: NodeNotes, rank: int, origin_ns: int) -> dict[str, Any]:
        """Return the row of a rank in table `marks`."""
        return {
            "rank": rank,
            "node": node.number,
            "what": self.what,
            "epoch": self.epoch,
            "pid": self.pid,
            "began_s": (self.began_ns - origin_ns) * 1e-9,
            "ended_s": (self.ended_ns - origin_ns) * 1e-9,
            "device_bytes": self.device_bytes,
        }


def _marks_of_group(
    node: NodeNotes, group: int, origin_ns: int, ended_ns: Mapping[int, int]
) -> list[dict[str, Any]]:
    """Return the epochs that a group began, and what followed them."""
    phases = [
        *_epochs_of_group(node, group, ended_ns),
        *_after_loops(node, group, ended_ns),
    ]
    phases.sort(key=lambda one: one.began_ns)
    read = np.array(
        [one.device_bytes for one in phases]
        + [node.facts["groups"][group]["device_bytes"]],
        float,
    )
    is_known = read >= 0
    # At a mark the keeper asks what the other processes have read: they may have read
    # on by then. No earlier count may exceed a later one.
    read = np.fmin.accumulate(np.where(is_known, read, np.nan)[::-1])[::-1]
    read[~is_known] = np.nan
    return [
        one._replace(device_bytes=n_bytes).row(node, node.rank_of(group), origin_ns)
        for one, n_bytes in zip(phases, np.diff(read).tolist(), strict=True)
    ]


def _epochs_of_group(
    node: NodeNotes, group: int, ended_ns: Mapping[int, int]
) -> list[_Phase]:
    """Return the epochs that a group began; a mark of the current epoch is none."""
    marks: list[Mapping[str, int]] = []
    for mark in begins_of(node.facts["marks"]):
        is_later = not marks or mark["epoch"] > marks[-1]["epoch"]
        if mark["group"] == group and is_later:
            marks.append(mark)
    ends = _ends_of_epochs(node, group, marks, ended_ns)
    names = "epoch", "pid", "time_ns", "device_bytes"
    return [
        _Phase(EPOCH, epoch, pid, began_ns, end, device_bytes)
        for mark, end in zip(marks, ends, strict=True)
        for epoch, pid, began_ns, device_bytes in [[mark[name] for name in names]]
    ]


def _after_loops(
    node: NodeNotes, group: int, ended_ns: Mapping[int, int]
) -> list[_Phase]:
    """Return what follows the last loop of each process of a group."""
    return [
        _Phase(AFTER_LOOPS, one.epoch, one.pid, one.time_ns, end, one.device_bytes)
        for one in node.loop_ends
        if one.is_last and one.group == group
        for end in [max(one.time_ns, _end_of(node, one.pid, ended_ns))]
    ]


def _ends_of_epochs(
    node: NodeNotes,
    group: int,
    marks: Sequence[Mapping[str, int]],
    ended_ns: Mapping[int, int],
) -> list[int]:
    """Return when the epochs of these marks ended.

    What marks explicitly may be a small program that ends at once. So only a process
    with a hook ends its epoch before the next one begins.
    """
    loops = [one for one in node.facts["notes"] if one["kind"] == "begin"]
    hooked = {one["pid"] for one in loops}
    group_of = {one["pid"]: one["group"] for one in node.facts["processes"]}
    last_ns = {one.pid: one.time_ns for one in node.loop_ends if one.is_last}
    ends = []
    for mark, after in zip(marks, [*marks[1:], None], strict=True):
        pids = {mark["pid"]} | {
            one["pid"]
            for one in loops
            if one["evaluation"]
            and one["epoch"] == mark["epoch"]
            and group_of.get(one["pid"]) == group
        }
        end = max(last_ns.get(pid) or _end_of(node, pid, ended_ns) for pid in pids)
        if after and (mark["pid"] == after["pid"] or mark["pid"] not in hooked):
            end = after["time_ns"]
        elif after:
            end = min(end, after["time_ns"])
        ends.append(max(end, mark["time_ns"]))
    return ends


def _end_of(node: NodeNotes, pid: int, ended_ns: Mapping[int, int]) -> int:
    """Return when a process ended; of one that was killed, when it was seen last.

    If it never was, it is taken to have ended with the launcher's ranks.
    """
    found = [one for one in node.facts["processes"] if one["pid"] == pid]
    known = max((one["end_ns"] or one.get("seen_ns", 0) for one in found), default=0)
    return known or max(ended_ns[rank] for rank in node.facts["ranks"])


def _evaluations(node: NodeNotes, origin_ns: int) -> list[dict[str, Any]]:
    """Return the evaluations that frameworks began; their ends are not known."""
    return [
        _Phase(EVALUATION, one["epoch"], one["pid"], one["time_ns"]).row(
            node, node.rank_of_note(one), origin_ns
        )
        for one in node.facts["notes"]
        if one["kind"] == "begin" and one["evaluation"]
    ]


def hook_times(nodes: Iterable[NodeNotes], kind: str) -> list[dict[str, Any]]:
    """Return the notes of loops, or of fetches, each with the rank of its process."""
    return [
        {name: value for name, value in one.items() if name not in ("kind", "pid")}
        | {"rank": node.rank_of_note(one)}
        for node in nodes
        for one in node.facts["notes"]
        if one["kind"] == kind
    ]


def with_steps(
    epochs: pd.DataFrame,
    loops: Iterable[Mapping[str, Any]],
    loaders: Iterable[Mapping[str, Any]],
) -> pd.DataFrame:
    """Return table `run_epochs` with what the ranks did, where the hook has seen it.

    It has if a rank trained in one loop; one that it left counts if there is no whole
    one. Utilisation is of that loop, or of the devices that were seen in it. Of ranks
    that meet in each step nobody tells computation from waits for others.

    Parameters
    ----------
    epochs : DataFrame
        Output of `epochs_table`, by epoch.
    loops : iterable of mapping
        The notes of loops (`hook_times`).
    loaders : iterable of mapping
        The notes of loaders.
    """
    if any(one.get("in_steps") for one in loaders):
        loops = []
    by_epoch: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for loop in loops:
        if not loop["evaluation"]:
            by_epoch.setdefault((loop["rank"], loop["epoch"]), []).append(loop)
    rows, late_s = [], dict.fromkeys(epochs["rank"], (0.0, 0.0))
    keys = epochs[["rank", "epoch", "execution_time_s"]]
    for rank, epoch, execution_s in keys.itertuples(index=False):
        loop = _loop_of_epoch(by_epoch.get((rank, epoch), []))
        none: tuple[dict[str, Any], tuple[float, float]] = ({}, (0.0, 0.0))
        row, late_s[rank] = _steps(loop, execution_s, late_s[rank]) if loop else none
        rows.append(row)
    numbers = [name for name in STEPS if name != "least_because"]
    steps = pd.DataFrame(rows, index=epochs.index, columns=numbers, dtype="float64")
    words = [row.get("least_because", "") for row in rows]
    because = pd.Series(words, index=epochs.index, dtype="str")
    return epochs.join(steps.assign(least_because=because))


def _loop_of_epoch(loops: list[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the loop that tells of an epoch, None if several may.

    One that was left after its first batch, as a look at a sample, tells nothing.
    """
    used = [one for one in loops if one["batches"] > one["left"]]
    whole = [one for one in used if not one["left"]] or used
    return whole[0] if len(whole) == 1 else None


def _steps(
    loop: Mapping[str, Any], execution_s: float, late_s: tuple[float, float]
) -> tuple[dict[str, Any], tuple[float, float]]:
    """Return the columns of `STEPS` of a loop, and what its device did after its epoch.

    That is computation and warm-up. `late_s` is the same of the loop before: a device
    may still work for that one while the program waits for the first batch of this one.
    """
    used, program = UsedSteps.of_loop(loop), UsedSteps.of_program(loop)
    warm_s = used.warmup_s
    stall_s = max(loop["first_wait_s"] - math.fsum(late_s), 0.0) + used.idle_s
    compute_s = used.busy_s - warm_s + late_s[0]
    warm_s += late_s[1]
    # How long the device went on when the loop was asked for the last time.
    on_s = compute_s + warm_s + stall_s - loop["first_wait_s"]
    on_s -= program.busy_s + program.idle_s
    end_s = max(loop["end_s"] - max(on_s, 0.0), 0.0)
    rest_s = execution_s - (compute_s + warm_s + stall_s + end_s)
    after_s = min(max(-rest_s, 0.0), compute_s)  # the warm-up comes first
    warm_after_s = min(max(-rest_s - after_s, 0.0), warm_s)
    columns = {
        "compute_time_s": compute_s - after_s,
        "warmup_s": warm_s - warm_after_s,
        "stall_s": stall_s,
        "loader_end_s": end_s,
        "rest_s": max(rest_s, 0.0),
        "utilisation_percent": used.percent,
        "loop_utilisation_percent": program.percent,
        "least_because": loop["least_because"],
    }
    if device := loop["device"]:
        columns |= {f"device_{name}": device[name] for name in _OF_DEVICES}
    return columns, (after_s, warm_after_s)


def hook_faults(notes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return sentences on what the hook of epochs missed or failed at, each once."""
    faults = {}
    for one in notes:
        if one["kind"] == "error":
            faults[f"The hook failed in {one['of']}: {one['text']}."] = None
        elif one["kind"] == "hook" and one.get("missing"):
            faults[
                f"The hook does not find {', '.join(one['missing'])} in "
                f"{one['framework']} {one['version']}, so what its workers read ahead "
                "counts to the epoch under way."
            ] = None
    return list(faults)


def _whole_runs_of_readers(
    nodes: Sequence[NodeNotes], ended_ns: Mapping[int, int]
) -> list[dict[str, Any]]:
    """Return the phases of all ranks, each on the node that opens its files.

    A launcher on each node has a rank, too, which one that it starts on another node
    may have.
    """
    readers = {(node.number, rank) for node in nodes for rank in node.reading_ranks()}
    elsewhere = {rank for _, rank in readers}
    return [
        row
        for node in nodes
        for row in _whole_runs(node, ended_ns)
        if (node.number, row["rank"]) in readers or row["rank"] not in elsewhere
    ]


def _whole_runs(node: NodeNotes, ended_ns: Mapping[int, int]) -> list[dict[str, Any]]:
    """Return one phase for each rank of a program that marks no epoch."""
    origin_ns = _origin_ns(node, ended_ns)
    processes = node.facts["processes"]
    is_known = not node.facts.get("counts", {}).get("unknown_processes")
    rows = []
    for rank in sorted({node.rank_of(one["group"]) for one in processes}):
        mine = [one for one in processes if node.rank_of(one["group"]) == rank]
        first = min(mine, key=lambda one: one["start_ns"])
        ends = [one["end_ns"] for one in mine if one["end_ns"]]
        read_bytes = [one["read_bytes"] for one in mine]
        is_whole = is_known and min(read_bytes) >= 0
        end_ns = max(ends, default=_end_of(node, first["pid"], ended_ns))
        n_bytes = sum(read_bytes) if is_whole else np.nan
        began = first["pid"], first["start_ns"]
        one = _Phase(WHOLE_RUN, 0, *began, end_ns, n_bytes)
        rows.append(one.row(node, rank, origin_ns))
    return rows


def epochs_table(
    opens: pd.DataFrame,
    marks: pd.DataFrame,
    sizes: np.ndarray,
    filled: Mapping[int, Mapping[str, Any]],
) -> pd.DataFrame:
    """Return the table `run_epochs` of a program's run.

    A sample is an open of a file for reading; its bytes are those of the file. `sizes`
    are bytes of the files by id, `filled` by node what filling its LFS took. An open of
    a file that they lack is a TableError.
    """
    check_below(opens, "opens", {"file_id": len(sizes)})
    epochs = _by_rank(marks[marks["what"] != EVALUATION])
    opens = opens[~opens["for_writing"]]
    counted = opens.assign(
        bytes=opens["opens"] * sizes[opens["file_id"]],
        lfs_files=opens["opens"].where(opens["tier"] == "lfs", 0),
        gfs_files=opens["opens"].where(opens["tier"] == "gfs", 0),
    )
    sums = counted.groupby(["rank", "epoch"])[
        ["opens", "bytes", "lfs_files", "gfs_files"]
    ].sum()
    keys = pd.MultiIndex.from_frame(epochs[["rank", "epoch"]])
    found = sums.reindex(keys, fill_value=0).reset_index(drop=True)
    rows = epochs.join(found)
    rows["samples"] = rows["opens"]
    seconds = {node: one["time_s"] for node, one in filled.items()}
    rows["lfs_fill_time_s"] = rows["node"].map(seconds).astype("float64")
    return rows.sort_values(["epoch", "rank"], ignore_index=True)


def _by_rank(epochs: pd.DataFrame) -> pd.DataFrame:
    """Return marks with one row for each epoch of a rank.

    Processes that no launcher has given a rank may each begin the same epoch, as two
    trainers of a script do. It lasts from the first begin to the last end. What follows
    training lasts as long as any process of the rank is in it.
    """
    epochs = epochs.sort_values("began_s")
    before_s = epochs.groupby(["rank", "epoch"])["ended_s"].transform(
        lambda ended_s: ended_s.cummax().shift()
    )
    idle_s = (epochs["began_s"] - before_s).clip(lower=0.0).fillna(0.0)
    idle_s = idle_s.where(epochs["epoch"] == AFTER_TRAINING, 0.0)
    table = epochs.assign(idle_s=idle_s).groupby(["rank", "epoch"], as_index=False)
    table = table.agg(
        node=("node", "first"),
        began_s=("began_s", "min"),
        ended_s=("ended_s", "max"),
        idle_s=("idle_s", "sum"),
        device_bytes=("device_bytes", lambda read: read.sum(skipna=False)),
    )
    time_s = table["ended_s"] - table["began_s"] - table["idle_s"]
    return table.drop(columns="idle_s").assign(execution_time_s=time_s)


def n_marks_back(nodes: Iterable[NodeNotes]) -> int:
    """Return how often a group began an epoch before the one that was under way."""
    n_back = 0
    for node in nodes:
        last: dict[int, int] = {}
        for mark in begins_of(node.facts["marks"]):
            before = last.get(mark["group"], 0)
            n_back += mark["epoch"] < before
            last[mark["group"]] = max(before, mark["epoch"])
    return n_back


def n_unmarked_opens(node: NodeNotes) -> int:
    """Return opens of processes for which nobody begins epochs, though others have.

    They count to the first epoch, and were made when a later one was under way. Of a
    launcher's ranks the audit itself sees whether they begin epochs.
    """
    groups = node.facts["groups"]
    marked = {mark["group"] for mark in node.facts["marks"]}
    group_of = {one["pid"]: one["group"] for one in node.facts["processes"]}
    return sum(
        int(n)
        for pid, n in node.facts["late_opens"].items()
        if (group := group_of.get(int(pid), 0)) not in marked
        and groups[group]["rank"] == NO_RANK
    )


def processes_table(nodes: Iterable[NodeNotes]) -> pd.DataFrame:
    """Return the table `program_processes`: who ran, and what they read of devices."""
    rows = []
    for node in nodes:
        processes = node.facts["processes"]
        origin_ns = _origin_ns(node, {})
        for one in processes:
            has_ended = one["end_ns"] > 0
            ended_s = (one["end_ns"] - origin_ns) * 1e-9 if has_ended else np.nan
            rows.append(
                {
                    "rank": node.rank_of(one["group"]),
                    "node": node.number,
                    "pid": one["pid"],
                    "began_s": (one["start_ns"] - origin_ns) * 1e-9,
                    "ended_s": ended_s,
                    **{name: one[name] for name in IO_COUNTS},
                    "io_is_last_seen": not has_ended,
                }
            )
    columns = ["rank", "node", "pid", "began_s", "ended_s", *IO_COUNTS]
    return pd.DataFrame(rows, columns=[*columns, "io_is_last_seen"]).astype(
        {"io_is_last_seen": "bool"}
    )
