"""A node's policy: a state machine without I/O and without a clock.

It receives each read, and returns the place of the read and the actions that follow.
The caller (the driver or the simulator) carries out the actions in the given order and
reports how each copy ended.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np


class Place(StrEnum):
    """The place from which a file is read."""

    GFS = "gfs"
    LFS = "lfs"
    PEER = "peer"  # another node's LFS


@dataclass(frozen=True)
class Copy:
    """Copy a file of the GFS to the node's LFS; ends in `placed` or `failed`."""

    file_id: int


@dataclass(frozen=True)
class Evict:
    """Remove a file from the node's LFS, before the next action."""

    file_id: int


Action = Copy | Evict


class NodePolicy(Protocol):
    """Decides for all processes of one node.

    ``may_copy`` says whether a copy may still follow a read.
    """

    may_copy: bool

    def start(self) -> list[Action]:
        """Return the actions at the start of the first epoch."""

    def begin_read(self, file_id: int) -> Place:
        """Return the place from which to read a file that is about to be opened."""

    def end_read(self, file_id: int, place: Place) -> list[Action]:
        """Return the actions after a file was read whole from a place."""

    def placed(self, file_id: int) -> list[Action]:
        """Return the actions after a copy; from now on the LFS has the file."""

    def failed(self, file_id: int, full: bool) -> list[Action]:
        """Return the actions after a failed copy; `full` if the LFS was full."""


class NodeStore:
    """The space on a node's LFS: held, reserved and free.

    Parameters
    ----------
    sizes : ndarray of int, shape (n_files,)
        Size of each file in bytes.
    quota_bytes : int
        Most bytes that held and reserved files may take together.
    """

    def __init__(self, sizes: "np.ndarray", quota_bytes: int):
        self.sizes, self.quota_bytes = sizes, quota_bytes
        self.used_bytes = 0
        self.held: dict[int, None] = {}  # oldest placement or use first
        self.reserved: set[int] = set()

    @property
    def free_bytes(self) -> int:
        """Return the bytes that can still be reserved."""
        return self.quota_bytes - self.used_bytes

    def size(self, file_id: int) -> int:
        """Return a file's size in bytes."""
        return int(self.sizes[file_id])

    def reserve(self, file_id: int) -> bool:
        """Reserve space for a file if there is enough; return whether there was."""
        if self.size(file_id) > self.free_bytes:
            return False
        self.used_bytes += self.size(file_id)
        self.reserved.add(file_id)
        return True

    def hold(self, file_id: int) -> None:
        """Record that a file with reserved space is on the LFS."""
        self.reserved.remove(file_id)
        self.held[file_id] = None

    def use(self, file_id: int) -> None:
        """Move a held file to the end of the order."""
        del self.held[file_id]
        self.held[file_id] = None

    def give_back(self, file_id: int) -> None:
        """Free the held or reserved space of a file."""
        if file_id in self.held:
            del self.held[file_id]
        else:
            self.reserved.remove(file_id)
        self.used_bytes -= self.size(file_id)

    def shrink(self) -> None:
        """Lower the quota to the used bytes: the LFS is smaller than expected."""
        self.quota_bytes = self.used_bytes


class PlacingPolicy:
    """What policies that place files have in common; the store is empty at first."""

    may_copy = True

    def __init__(self, store: NodeStore):
        self.store = store

    def start(self) -> list[Action]:
        """Return no action: nothing is known before a read."""
        return []

    def placed(self, file_id: int) -> list[Action]:
        """Switch the file to the LFS, and go on."""
        self.store.hold(file_id)
        return self._go_on()

    def failed(self, file_id: int, full: bool) -> list[Action]:
        """Leave the file on the GFS, and go on; if full, lower the quota before."""
        self.store.give_back(file_id)
        if full:
            self.store.shrink()
            self._note_full()
        return self._go_on()

    def _go_on(self) -> list[Action]:
        """Return the actions after a copy."""
        return []

    def _note_full(self) -> None:
        """Note that the LFS has less room than expected."""
