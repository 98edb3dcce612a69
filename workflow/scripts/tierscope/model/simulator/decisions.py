"""What nodes decide in a simulated run: their policies, told as the driver tells them.

The rules are those of a node's server (`tierscope.benchmark.placement.server`): what is
handed over, how many copies run at a time, what waits while copies are awaited. Asking
takes no time, and no copy fails.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from tierscope.model.simulator.placed_epoch import PlacedStorage
from tierscope.model.simulator.reader_steps import FROM_GFS, FROM_LFS
from tierscope.model.simulator.stations import NS_PER_S
from tierscope.policies.copy_limits import HELD_BYTES
from tierscope.policies.decisions import ROW, Decisions, columns_of
from tierscope.policies.node import Action, Copy, Evict, NodePolicy, Place

_PLACES = {FROM_GFS: Place.GFS, FROM_LFS: Place.LFS}
COUNTS = ("placed_files", "handed_over_files", "evicted_files")


@dataclass
class _Node:
    """A node's policy, what it decided if that is kept, and its copies."""

    policy: NodePolicy
    decisions: Decisions | None
    idle: list[tuple[int, int, int]]  # a heap: epoch and instant when free, copier
    epoch: int = 0
    held_bytes: int = 0
    last_copy_ns: int = 0
    waiting: deque[tuple[int, int, bool]] = field(default_factory=deque)
    held_back: list[int] = field(default_factory=list)
    under_way: dict[int, tuple[int, bool]] = field(default_factory=dict)


class Placement:
    """Decides for all nodes of a run (a `placed_epoch.Decider`).

    Parameters
    ----------
    policies : sequence of NodePolicy
        One a node.
    storage : PlacedStorage
        Makes the copies.
    n_epochs : int
        Epochs of the run.
    drain, hand_over : bool
        Whether the next epoch waits for the copies of the last; whether readers hand
        over the bytes that they have.
    with_decisions : bool
        Whether everything is noted for the table `decisions`.
    """

    def __init__(
        self,
        policies: Sequence[NodePolicy],
        storage: PlacedStorage,
        n_epochs: int,
        *,
        drain: bool,
        hand_over: bool,
        with_decisions: bool = False,
    ):
        self._storage, self._per_node = storage, storage.per_node
        self._size = storage.workload.file_size_bytes
        self._n_epochs, self._drain, self._hand_over = n_epochs, drain, hand_over
        idle = [(0, 0, copier) for copier in range(storage.n_copiers)]
        self._nodes = []
        for number, policy in enumerate(policies):
            rank = number * self._per_node  # the process that copies and evicts
            decisions = Decisions(number, rank) if with_decisions else None
            self._nodes.append(_Node(policy, decisions, list(idle)))
        self._epoch, self._awaits = 0, False
        self.counts = np.zeros((len(COUNTS), len(policies), n_epochs), np.int64)
        self.drain_s = np.zeros((len(policies), n_epochs))

    def begin(self) -> None:
        """Let the policies begin: the first epoch starts."""
        for number, node in enumerate(self._nodes):
            self._carry_out(number, node.policy.start(), 0)

    def begin_epoch(self, epoch: int) -> None:
        """Begin the copies that were held back, as those of this epoch."""
        self._epoch, self._awaits = epoch, False
        for number, node in enumerate(self._nodes):
            node.last_copy_ns = 0
            held_back, node.held_back = node.held_back, []
            if held_back:
                node.epoch = epoch
            for file_id in held_back:
                self._submit(number, file_id, epoch, from_gfs=True)

    def end_epoch(self) -> bool:
        """Return whether copies are awaited now that an epoch has ended."""
        self._awaits = self._drain or self._epoch == self._n_epochs - 1
        return self._awaits

    def note_drain(self, end_ns: int) -> None:
        """Note for how long each node waited for its copies after the epoch."""
        if self._awaits:
            last_ns = np.array([node.last_copy_ns for node in self._nodes])
            waited_ns = np.maximum(last_ns - end_ns, 0)
            self.drain_s[:, self._epoch] = waited_ns / NS_PER_S

    def begins(self, rank: int, file_id: int) -> int:
        """Return where a rank reads a file."""
        number = rank // self._per_node
        node = self._nodes[number]
        node.epoch = self._epoch
        place = node.policy.begin_read(file_id)
        if node.decisions:
            node.decisions.add("begin", self._epoch, file_id, place, rank)
        return FROM_LFS if place is Place.LFS else FROM_GFS

    def ended(self, rank: int, file_id: int, place: int) -> None:
        """Tell a rank's node that it has read a file."""
        number = rank // self._per_node
        node = self._nodes[number]
        if node.decisions:
            node.decisions.add("end", self._epoch, file_id, _PLACES[place], rank)
        actions = node.policy.end_read(file_id, _PLACES[place])
        if not actions:
            return
        is_handed_over = (
            self._hand_over
            and place == FROM_GFS
            and node.held_bytes < HELD_BYTES
            and Copy(file_id) in actions
        )
        self._carry_out(
            number, actions, self._epoch, file_id if is_handed_over else None
        )

    def copied(self, node: int, copier: int, file_id: int, now_ns: int) -> None:
        """Tell a node that a copy has ended; its copier takes the next one."""
        me = self._nodes[node]
        epoch, from_gfs = me.under_way.pop(copier)
        me.last_copy_ns = now_ns
        if not from_gfs:
            me.held_bytes -= self._size
        if me.waiting:
            self._start(node, copier, *me.waiting.popleft())
        else:
            heapq.heappush(me.idle, (self._epoch, now_ns, copier))
        self.counts[0, node, epoch] += 1
        self.counts[1, node, epoch] += not from_gfs
        if me.decisions:
            detail = "read again" if from_gfs else "handed over"
            me.decisions.add("placed", epoch, file_id, Place.LFS, detail=detail)
        self._carry_out(node, me.policy.placed(file_id), me.epoch)

    def decisions(self) -> pd.DataFrame:
        """Return the table `decisions`; its times are those of no clock, 0."""
        kept = [node.decisions for node in self._nodes if node.decisions]
        rows = np.concatenate([np.empty(0, ROW), *(one.table() for one in kept)])
        columns = columns_of(rows).items()
        return pd.DataFrame(
            {k: one.astype(str) if one.dtype.kind == "S" else one for k, one in columns}
        )

    def _carry_out(
        self,
        number: int,
        actions: list[Action],
        epoch: int,
        handed_over: int | None = None,
    ) -> None:
        """Evict at once, and begin copies or hold them back."""
        node = self._nodes[number]
        for action in actions:
            file_id = action.file_id
            if node.decisions:
                event = "evict" if isinstance(action, Evict) else "copy"
                node.decisions.add(event, epoch, file_id, Place.LFS)
            if isinstance(action, Evict):
                self.counts[2, number, epoch] += 1
            elif self._awaits:
                node.held_back.append(file_id)
            else:
                self._submit(number, file_id, epoch, file_id != handed_over)

    def _submit(self, number: int, file_id: int, epoch: int, from_gfs: bool) -> None:
        """Have a file copied by the copier that is free first, of several the first."""
        node = self._nodes[number]
        if not from_gfs:
            node.held_bytes += self._size
        if node.idle:
            *_, copier = heapq.heappop(node.idle)
            self._start(number, copier, file_id, epoch, from_gfs)
        else:
            node.waiting.append((file_id, epoch, from_gfs))

    def _start(
        self, number: int, copier: int, file_id: int, epoch: int, from_gfs: bool
    ) -> None:
        """Begin a copy."""
        self._nodes[number].under_way[copier] = (epoch, from_gfs)
        self._storage.order_copy(number, copier, file_id, epoch, from_gfs)
