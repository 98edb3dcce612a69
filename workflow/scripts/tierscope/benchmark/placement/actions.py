"""A node carries out what its policy orders, and tells the policy how copies end."""

import errno
from collections.abc import Callable, Iterable

from tierscope.policies.decisions import Decisions
from tierscope.policies.node import Action, Evict, NodePolicy, Place

CHANGED = -1  # in place of an errno: the file is not as it was listed
_DETAILS = {errno.ENOSPC: "full", errno.EDQUOT: "full", CHANGED: "changed"}
_MESSAGES = 3  # per kind of failure; further failures are only counted


class Actions:
    """Carries out the actions of a policy; others say who copies.

    Parameters
    ----------
    policy : NodePolicy
        The policy of the node.
    decisions : Decisions
        Takes what is decided and done.
    file_name : callable
        Returns the name of a file.
    say : callable
        Prints a line.
    """

    def __init__(
        self,
        policy: NodePolicy,
        decisions: Decisions,
        file_name: Callable[[int], str],
        say: Callable[[str], None],
    ):
        self._policy, self.decisions = policy, decisions
        self._file_name, self._say = file_name, say
        self._epoch = 0  # of actions that follow a copy
        self.n_failed = self.n_not_removed = 0

    def _begin_copy(self, file_id: int, epoch: int) -> None:
        """Begin to copy a file; `_placed` or `_failed` is called at its end."""
        raise NotImplementedError

    def _withdraw(self, file_id: int) -> None:
        """Let no read begin that takes a file from the LFS."""

    def _remove(self, file_id: int, epoch: int) -> None:
        """Remove a file from the LFS, or raise an OSError."""
        raise NotImplementedError

    def _now_ns(self) -> int:
        """Return the instant of what is done now."""
        return self.decisions.now_ns

    def _carry_out(self, actions: Iterable[Action], epoch: int | None = None) -> None:
        """Evict at once, and order copies."""
        epoch = self._epoch if epoch is None else epoch
        for action in actions:
            if isinstance(action, Evict):
                self._evict(action.file_id, epoch)
            else:
                self._note("copy", epoch, action.file_id)
                self._begin_copy(action.file_id, epoch)

    def _placed(self, file_id: int, epoch: int, detail: str) -> None:
        """Note that a copy is there, and do what follows."""
        self._note("placed", epoch, file_id, detail=detail)
        self._carry_out(self._policy.placed(file_id))

    def _failed(self, file_id: int, epoch: int, why: str, number: int) -> None:
        """Note that a copy has failed, with an errno, and do what follows."""
        self.n_failed += 1
        detail = _DETAILS.get(number, "error")
        self._note("failed", epoch, file_id, Place.GFS, detail)
        what = f"copying {self._file_name(file_id)} to the LFS failed: {why}"
        self._tell(f"{what}; reads go on from the GFS", self.n_failed)
        self._carry_out(self._policy.failed(file_id, detail == "full"))

    def _evict(self, file_id: int, epoch: int) -> None:
        """Remove a file from the LFS; a file that cannot be removed takes up space."""
        self._withdraw(file_id)
        self._note("evict", epoch, file_id)
        try:
            self._remove(file_id, epoch)
        except OSError as error:
            self.n_not_removed += 1
            why = error.strerror or repr(error)
            what = f"removing {self._file_name(file_id)} from the LFS failed: {why}"
            self._tell(f"{what}; it still takes up space", self.n_not_removed)

    def _note(
        self, event: str, epoch: int, file_id: int, place=Place.LFS, detail: str = ""
    ) -> None:
        """Note what the node does now."""
        self.decisions.now_ns = self._now_ns()
        self.decisions.add(event, epoch, file_id, place, detail=detail)

    def _tell(self, line: str, number: int) -> None:
        """Print the first few failures of a kind."""
        if number <= _MESSAGES:
            more = "; further failures are counted" * (number == _MESSAGES)
            self._say(f"{line}{more}")
