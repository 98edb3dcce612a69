"""Check the decisions of a run's nodes, and their background traffic.

The log of decisions is checked in three ways: against the reads (each read was decided,
and done at the decided place), against the policy (another instance, given the same
events, decides the same) and against rules for any placement (a file is read from the
LFS only while it is there, and the quota holds).
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tierscope.audit.check import Check, equal
from tierscope.core.description import Run, RunDescription
from tierscope.core.scenario import Point
from tierscope.data.shuffle import run_order
from tierscope.policies import (
    POLICIES,
    Action,
    Evict,
    NodePolicy,
    Place,
    node_policy,
)
from tierscope.policies.decisions import LATE
from tierscope.policies.view import NodeView

_READ = ["rank", "epoch", "file_id"]  # for a copy: its server, epoch and file


def check_decisions(
    file_records: pd.DataFrame,
    decisions: pd.DataFrame,
    background: pd.DataFrame,
    run: Run,
) -> Iterator[Check]:
    """Yield the checks of a run whose policy decided while it ran.

    `background` is its table `background_records`.
    """
    yield from _check_reads(file_records, decisions)
    n_per_node = run.system.processes_per_node
    ranks_of = {
        node: sorted(part.loc[part["event"] == "begin", "rank"].unique().tolist())
        for node, part in decisions.groupby("node")
    }
    yield equal("nodes with decisions", len(ranks_of), run.system.n_nodes)
    yield equal(
        "processes that asked their node",
        sum(map(len, ranks_of.values())),
        run.system.n_nodes * n_per_node,
    )
    order = run_order(run, run.point.repetition)
    orders = [*map(order.of_all, range(run.training.epochs))]  # for all policies
    room = room_of(run, run.point)
    yield from check_again(
        decisions,
        {
            node: node_policy(run, run.point, ranks, orders=orders)
            for node, ranks in ranks_of.items()
        },
        room,
    )
    yield from check_traffic(decisions, background, room.sizes)


@dataclass(frozen=True)
class Room:
    """What an LFS has room for.

    Parameters
    ----------
    sizes : ndarray of int, shape (n_files,)
        Bytes of each file.
    quota_bytes : int
        Most bytes on an LFS.
    may_evict : bool
        Whether files may leave it.
    """

    sizes: np.ndarray
    quota_bytes: int
    may_evict: bool


def room_of(
    description: RunDescription, point: Point, manifest: pd.DataFrame | None = None
) -> Room:
    """Return what the LFS of a node has room for; arguments as for `NodeView`."""
    store = NodeView(description, point, (), manifest=manifest).store()
    may_evict = POLICIES[description.scenario.policy].evicts
    return Room(store.sizes, store.quota_bytes, may_evict)


def check_again(
    decisions: pd.DataFrame, policies: Mapping[int, NodePolicy], room: Room
) -> Iterator[Check]:
    """Check what nodes decided, by new instances of their policy and by rules.

    `policies` has that of each node at the start of the run.
    """
    differences = broken = 0
    for node, part in decisions.groupby("node"):
        rows = part.sort_values("step").to_dict("records")
        differences += n_differences(rows, policies[node])
        broken += n_broken_rules(rows, room)
    yield equal("decisions that the policy would not have made", differences, 0)
    yield equal("reads and copies that the contents of the LFS forbid", broken, 0)


def _check_reads(
    file_records: pd.DataFrame, decisions: pd.DataFrame
) -> Iterator[Check]:
    """Check that each read was decided once, and done at the decided place."""
    begun = decisions[decisions["event"] == "begin"]
    ended = decisions[decisions["event"] == "end"]
    yield equal("reads with a decision", len(begun), len(file_records))
    joined = file_records.merge(begun, on=_READ)
    yield equal(
        "records on the tier that the policy chose",
        int((joined["tier"] == joined["place"]).sum()),
        len(file_records),
    )
    both = begun.merge(ended, on=[*_READ, "place"])
    yield equal("reads that ended where they began", len(both), len(file_records))


def n_differences(rows: list[dict[str, Any]], policy: NodePolicy) -> int:
    """Return how many rows of a node's log a new instance of its policy contradicts.

    A program's read that is late was decided before its file was placed or evicted: the
    policy is not told of it, and its time must say so.

    Parameters
    ----------
    rows : list of mapping
        The node's rows of `decisions` in their order.
    policy : NodePolicy
        The node's policy at the start of a run.
    """
    n_different, due = 0, policy.start()
    changed_s: dict[int, float] = {}  # when a file was placed or evicted
    for number, row in enumerate(rows):
        if row["event"] in ("placed", "evict"):
            changed_s[row["file_id"]] = row["time_s"]
        if row["detail"] == LATE:
            is_begin = row["event"] == "begin"
            changed = changed_s.get(row["file_id"], -math.inf)
            n_different += is_begin and row["time_s"] > changed
            continue
        if row["event"] in ("copy", "evict"):
            wanted = (row["event"], row["file_id"])
            n_different += not due or _row_of(due.pop(0)) != wanted
            continue
        n_different += len(due)
        try:
            place, due = _tell(policy, row)
        except KeyError:  # the end of a read that the policy has not begun
            return n_different + len(rows) - number
        n_different += place != row["place"]
    return n_different + len(due)


def _tell(policy: NodePolicy, row: Mapping[str, Any]) -> tuple[str, list[Action]]:
    """Pass an event to a policy; return the place it decides and its actions."""
    file_id, event, place = row["file_id"], row["event"], row["place"]
    if event == "begin":
        return policy.begin_read(file_id), []
    if event == "end":
        return place, policy.end_read(file_id, Place(place))
    if event == "placed":
        return place, policy.placed(file_id)
    return place, policy.failed(file_id, full=row["detail"] == "full")


def _row_of(action: Action) -> tuple[str, int]:
    """Return event and file of an action's row."""
    return "evict" if isinstance(action, Evict) else "copy", action.file_id


def n_broken_rules(rows: list[dict[str, Any]], room: Room) -> int:
    """Return how many rows of a node's log break the rules of placement.

    These are: a read from the LFS of a file that is not there; an eviction of a file
    that is not there or is being read; a copy of a file that is there or being copied;
    more bytes than the cache rate allows; and, if the policy evicts nothing, any
    eviction or second placement.
    """
    may_evict, sizes = room.may_evict, room.sizes
    there, coming, ever = set(), set(), set()
    reading, n_broken, used_bytes = Counter(), 0, 0
    for row in rows:
        if row["detail"] == LATE:
            continue
        file_id, event, is_lfs = row["file_id"], row["event"], row["place"] == "lfs"
        if event == "begin" and is_lfs:
            n_broken += file_id not in there
            reading[file_id] += 1
        elif event == "end" and is_lfs:
            n_broken += reading[file_id] == 0
            reading[file_id] -= 1
        elif event == "copy":
            n_broken += file_id in there | coming
            coming.add(file_id)
            used_bytes += int(sizes[file_id])
            n_broken += used_bytes > room.quota_bytes
        elif event == "evict":
            n_broken += file_id not in there or reading[file_id] > 0 or not may_evict
            there.discard(file_id)
            used_bytes -= int(sizes[file_id])
        elif event in ("placed", "failed"):
            n_broken += file_id not in coming
            coming.discard(file_id)
        if event == "failed":
            used_bytes -= int(sizes[file_id])
        if event == "placed":
            n_broken += file_id in ever and not may_evict
            there.add(file_id)
            ever.add(file_id)
    return n_broken


def check_traffic(
    decisions: pd.DataFrame, background: pd.DataFrame, sizes: np.ndarray
) -> Iterator[Check]:
    """Check that background traffic moved exactly the placed files.

    A failed copy may have read and written any part of its file, so a file and epoch
    with a failed copy are only checked against upper bounds. `sizes` are bytes of files
    by id.
    """
    all_placed = decisions[decisions["event"] == "placed"]
    failed = decisions.loc[decisions["event"] == "failed", _READ]
    placed = all_placed[~_among(all_placed, failed)]
    is_failed = _among(background, failed)
    moved = background[~is_failed]
    n_copies = pd.concat([failed, all_placed.loc[_among(all_placed, failed), _READ]])
    n_copies = n_copies.groupby(_READ).size()
    yield _check_bounds(background[is_failed], n_copies, sizes)
    gfs, lfs = (moved[moved["tier"] == tier] for tier in ("gfs", "lfs"))
    read = placed[placed["detail"] == "read again"]
    read_bytes, placed_bytes = (sizes[one["file_id"]].sum() for one in (read, placed))
    for name, got, wanted in (
        ("opens on the GFS by copies", gfs["opens"].sum(), len(read)),
        ("bytes read from the GFS by copies", gfs["bytes_read"].sum(), read_bytes),
        ("opens on the LFS by copies", lfs["opens"].sum(), len(placed)),
        (
            "bytes written to the LFS by copies",
            lfs["bytes_written"].sum(),
            placed_bytes,
        ),
        ("bytes read from the LFS by copies", lfs["bytes_read"].sum(), 0),
        ("bytes written to the GFS by copies", gfs["bytes_written"].sum(), 0),
    ):
        yield equal(name, int(got), int(wanted))
    wanted = set(zip(*(placed[key] for key in _READ), strict=True))
    found = set(zip(*(moved[key] for key in _READ), strict=True))
    yield equal(
        "copies only in the log or only in the decisions", len(found ^ wanted), 0
    )


def _check_bounds(moved: pd.DataFrame, n_copies: pd.Series, sizes: np.ndarray) -> Check:
    """Check that failed copies moved no more than whole copies."""
    n_too_much = 0
    for tier, bytes_moved, never in (
        ("gfs", "bytes_read", "bytes_written"),
        ("lfs", "bytes_written", "bytes_read"),
    ):
        part = moved[moved["tier"] == tier].groupby(_READ)
        sums = part[["opens", bytes_moved, never]].sum()
        most = n_copies.reindex(sums.index)
        size = sizes[sums.index.get_level_values("file_id")]
        n_too_much += int(
            (
                (sums["opens"] > most)
                | (sums[bytes_moved] > size * most)
                | (sums[never] > 0)
            ).sum()
        )
    return equal("failed copies that moved more than their file", n_too_much, 0)


def _among(frame: pd.DataFrame, copies: pd.DataFrame) -> np.ndarray:
    """Return which rows have the file, epoch and server of one of the copies."""
    known = pd.MultiIndex.from_frame(copies[_READ])
    return pd.MultiIndex.from_frame(frame[_READ]).isin(known)
