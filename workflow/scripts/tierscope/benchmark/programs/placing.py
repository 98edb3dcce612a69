"""A policy that moves files of a node while a program reads.

The library has decided each read by the table. The policy is told of it, and what it
orders is carried out: the table changes once a copy has its name, or before it goes.
"""

import time
from collections.abc import Callable
from typing import Any

from tierscope.benchmark.placement.actions import Actions
from tierscope.benchmark.processes import BenchmarkError
from tierscope.benchmark.programs.copier import Copier, Ended
from tierscope.benchmark.programs.reads import Read
from tierscope.benchmark.programs.table import NodeTable
from tierscope.core.columns import AFTER
from tierscope.policies.decisions import LATE, UNSEEN, Decisions
from tierscope.policies.node import NodePolicy, Place

_POLL_S = 0.002
_MOST_S = 60.0  # in which at least one copy gets some bytes


class Placer(Actions):
    """Lets a policy move files.

    Parameters
    ----------
    policy : NodePolicy
        The policy of the node at the start of a run.
    table : NodeTable
        The node's table.
    copier : Copier
        Makes the copies, and removes them.
    decisions : Decisions
        Takes what is decided.
    say : callable
        Prints a line.
    """

    def __init__(
        self,
        policy: NodePolicy,
        table: NodeTable,
        copier: Copier,
        decisions: Decisions,
        say: Callable[[str], None],
    ):
        super().__init__(policy, decisions, copier.name, say)
        self._table, self._copier = table, copier
        self._staged: set[int] = set()  # as the table says
        self._written: set[int] = set()  # by this node, and so read from the GFS
        self._evicted_ns: dict[int, int] = {}  # when a file went last
        self.n_late_fallbacks = 0
        decisions.started_ns = time.monotonic_ns()
        self._carry_out(policy.start())

    # ---- what the program does ------------------------------------------------------

    def begin(self, read: Read, decided_ns: int) -> Read:
        """Tell the policy of a read; return it, marked if the table has changed since.

        The library has decided it by the table, so a policy that is told in time
        decides the same.
        """
        if read.file_id in self._written:
            return read
        if read.on_lfs != (read.file_id in self._staged):
            read = read._replace(is_late=True)
        self._note_read("begin", read, decided_ns)
        if not read.is_late:
            self._policy.begin_read(read.file_id)
        return read

    def end(self, read: Read, ended_ns: int, *, was_closed: bool = True) -> None:
        """Tell the policy that a read has ended, and carry out what it orders."""
        if read.file_id in self._written:
            return
        self._note_read("end", read, ended_ns, "" if was_closed else UNSEEN)
        if not read.is_late:
            if read.epoch < AFTER:
                self._epoch = max(self._epoch, read.epoch)
            place = _place(read)
            self._carry_out(self._policy.end_read(read.file_id, place), read.epoch)

    @property
    def may_copy(self) -> bool:
        """Return whether copies may follow the next reads, which need their pages."""
        return self._policy.may_copy

    def _note_read(
        self, event: str, read: Read, time_ns: int, detail: str = ""
    ) -> None:
        """Note that a read begins or ends; its rank is still that of its group."""
        self.decisions.now_ns = time_ns
        detail = LATE if read.is_late else detail
        self.decisions.add(
            event, read.epoch, read.file_id, _place(read), read.group, detail
        )

    def wrote(self, file_id: int) -> None:
        """Leave a file alone that the program changes."""
        self._written.add(file_id)

    def has_removed(self, file_id: int, decided_ns: int) -> bool:
        """Return whether an open missed its copy because the policy has removed it."""
        is_late = decided_ns <= self._evicted_ns.get(file_id, -1)
        self.n_late_fallbacks += is_late
        return is_late

    def is_copied(self, file_id: int) -> bool:
        """Return whether a file is being copied, which needs its pages."""
        return self._copier.is_copied(file_id)

    # ---- what the policy orders -----------------------------------------------------

    def step(self) -> list[Ended]:
        """Take the copies that have ended, and return them."""
        ended = list(self._copier.ended())
        for copy in ended:
            copied = copy.file_id, copy.epoch
            if copy.error is None:
                self._table.stage(copy.file_id, is_staged=True)
                self._staged.add(copy.file_id)
                self._placed(*copied, "read again")
            else:
                self._failed(*copied, copy.error, copy.number)
        return ended

    def _now_ns(self) -> int:
        """Return the time of the node."""
        return time.monotonic_ns()

    def _begin_copy(self, file_id: int, epoch: int) -> None:
        """Order a copy."""
        self._copier.order(file_id, epoch)

    def _withdraw(self, file_id: int) -> None:
        """Let the copy of a file serve no longer, before it goes."""
        self._table.stage(file_id, is_staged=False)
        self._staged.discard(file_id)
        self._evicted_ns[file_id] = self._now_ns()

    def _remove(self, file_id: int, epoch: int) -> None:
        """Remove the copy of a file."""
        self._copier.remove(file_id)

    # ---- the end --------------------------------------------------------------------

    def finish(self) -> dict[str, Any]:
        """Wait for the copies under way, and return what `run.json` says of them.

        A BenchmarkError says that they hang.
        """
        drain_time_s = self._drain()
        status = self._copier.close(_MOST_S)
        return {
            "pid": self._copier.pid,
            "status": status,
            "began_ns": self.decisions.started_ns,
            "drain_time_s": drain_time_s,
            "failed": self.n_failed,
            "not_removed": self.n_not_removed,
            "late_fallbacks": self.n_late_fallbacks,
        }

    @property
    def held_files(self) -> list[int]:
        """Return the files that the LFS holds."""
        return sorted(self._staged)

    def stop(self) -> None:
        """End the copies, also if some are under way."""
        self._copier.close()

    def _drain(self) -> float:
        """Wait for the copies under way; return how long that took, in seconds."""
        began_s = last_s = time.monotonic()
        before = None
        while self._copier.n_under_way:
            self.step()
            if (now := self._copier.progress) != before:
                before, last_s = now, time.monotonic()
            elif time.monotonic() - last_s > _MOST_S:
                raise BenchmarkError(
                    f"{self._copier.n_under_way} copies to the LFS hang: none has got "
                    f"a byte within {_MOST_S:g} s."
                )
            time.sleep(_POLL_S)
        return time.monotonic() - began_s


def _place(read: Read) -> Place:
    """Return where a file is read."""
    return Place.LFS if read.on_lfs else Place.GFS
