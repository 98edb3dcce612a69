"""A policy that moves files of a node while a program reads.

The library has decided each read by the table. The policy is told of it, and what it
orders is carried out: the table changes once a copy has its name, or before it goes.
"""

import time
from collections.abc import Callable
from typing import Any

from tierscope.benchmark.processes import BenchmarkError
from tierscope.benchmark.programs.copier import Copier, Ended
from tierscope.benchmark.programs.reads import Read
from tierscope.benchmark.programs.table import NodeTable
from tierscope.core.columns import AFTER
from tierscope.policies.decisions import LATE, UNSEEN, Decisions
from tierscope.policies.node import Action, Evict, NodePolicy, Place

_POLL_S = 0.002
_MOST_S = 60.0  # in which at least one copy gets some bytes
_SAID = 3  # failures of a kind that are printed


class Placer:
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
        self._policy, self._table, self._copier = policy, table, copier
        self.decisions, self._say = decisions, say
        self._staged: set[int] = set()  # as the table says
        self._written: set[int] = set()  # by this node, and so read from the GFS
        self._evicted_ns: dict[int, int] = {}  # when a file went last
        self._epoch = 0
        self.n_failed = self.n_not_removed = self.n_late_fallbacks = 0
        decisions.started_ns = time.monotonic_ns()
        self._carry_out(policy.start(), 0)

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
            if copy.error is None:
                self._place(copy)
            else:
                self._fail(copy)
        return ended

    def _carry_out(self, actions: list[Action], epoch: int) -> None:
        """Evict at once, and order copies."""
        if epoch < AFTER:
            self._epoch = max(self._epoch, epoch)
        for action in actions:
            if isinstance(action, Evict):
                self._evict(action.file_id, epoch)
            else:
                self._note("copy", epoch, action.file_id)
                self._copier.order(action.file_id, epoch)

    def _note(
        self, event: str, epoch: int, file_id: int, place=Place.LFS, detail: str = ""
    ) -> None:
        """Note what happens now."""
        self.decisions.now_ns = time.monotonic_ns()
        no_group = -1
        self.decisions.add(event, epoch, file_id, place, no_group, detail)

    def _place(self, copy: Ended) -> None:
        """Let the copy serve from now on."""
        self._table.stage(copy.file_id, is_staged=True)
        self._staged.add(copy.file_id)
        self._note("placed", copy.epoch, copy.file_id, detail="read again")
        self._carry_out(self._policy.placed(copy.file_id), self._epoch)

    def _fail(self, copy: Ended) -> None:
        """Leave a file on the GFS whose copy has failed."""
        self.n_failed += 1
        detail = "changed" if copy.has_changed else "error"
        detail = "full" if copy.is_full else detail
        self._note("failed", copy.epoch, copy.file_id, Place.GFS, detail)
        self._tell("copying", copy.file_id, "to", copy.error, self.n_failed)
        self._carry_out(self._policy.failed(copy.file_id, copy.is_full), self._epoch)

    def _evict(self, file_id: int, epoch: int) -> None:
        """Remove a copy: it serves no longer, then it goes."""
        self._table.stage(file_id, is_staged=False)
        self._staged.discard(file_id)
        self._note("evict", epoch, file_id)
        self._evicted_ns[file_id] = self.decisions.now_ns
        try:
            self._copier.remove(file_id)
        except OSError as error:
            self.n_not_removed += 1
            reason = error.strerror
            self._tell("removing", file_id, "from", reason, self.n_not_removed)

    def _tell(self, what: str, file_id: int, way: str, why: str, number: int) -> None:
        """Print the first few failures of a kind."""
        if number <= _SAID:
            more = "; further failures are counted" * (number == _SAID)
            name = self._copier.name(file_id)
            self._say(f"{what} {name} {way} the LFS failed: {why}{more}")

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
