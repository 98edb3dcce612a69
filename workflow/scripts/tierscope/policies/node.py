"""What a node's policy is: a state machine without I/O and without a clock.

It is told of reads and answers with a place; what is to be done besides, it returns as
actions. Whoever asks it (the driver, the simulator) carries the actions out in the
order given and reports how each copy ended.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np


class Place(StrEnum):
    """Where a file is read from."""

    GFS = "gfs"
    LFS = "lfs"
    PEER = "peer"  # another node's LFS


@dataclass(frozen=True)
class Copy:
    """Put a file of the GFS on the node's LFS; ends in `placed` or `failed`."""

    file_id: int


@dataclass(frozen=True)
class Evict:
    """Remove a file from the node's LFS, before the next action."""

    file_id: int


Action = Copy | Evict


class NodePolicy(Protocol):
    """Decides for all processes of one node."""

    def start(self) -> list[Action]:
        """Return what is to be done when the first epoch begins."""

    def begin_read(self, file_id: int) -> Place:
        """Return where a file that is about to be opened is read from."""

    def end_read(self, file_id: int, place: Place) -> list[Action]:
        """Return what is to be done after a file was read whole from a place."""

    def placed(self, file_id: int) -> list[Action]:
        """Return what is to be done after a copy: from now on the LFS has the file."""

    def failed(self, file_id: int, full: bool) -> list[Action]:
        """Return what is to be done after a copy failed, `full` for want of space."""


class NodeStore:
    """The room on a node's LFS: what is held, what is reserved, what is left.

    Parameters
    ----------
    sizes : ndarray of int, shape (n_files,)
        Size of each file in bytes.
    quota_bytes : int
        Most bytes that files held and reserved may take together.
    """

    def __init__(self, sizes: np.ndarray, quota_bytes: int):
        self.sizes, self.quota_bytes = sizes, quota_bytes
        self.used_bytes = 0
        self.held: dict[int, None] = {}  # the longest held, or used, first
        self.reserved: set[int] = set()

    @property
    def free_bytes(self) -> int:
        """Return the bytes that may still be reserved."""
        return self.quota_bytes - self.used_bytes

    def size(self, file_id: int) -> int:
        """Return a file's size in bytes."""
        return int(self.sizes[file_id])

    def reserve(self, file_id: int) -> bool:
        """Take room for a file if there is enough, and return whether there was."""
        if self.size(file_id) > self.free_bytes:
            return False
        self.used_bytes += self.size(file_id)
        self.reserved.add(file_id)
        return True

    def hold(self, file_id: int) -> None:
        """Note that the file is there for which room was reserved."""
        self.reserved.remove(file_id)
        self.held[file_id] = None

    def use(self, file_id: int) -> None:
        """Move a file that is held to the end of their order."""
        del self.held[file_id]
        self.held[file_id] = None

    def give_back(self, file_id: int) -> None:
        """Give back the room of a file that is held or was to be."""
        if file_id in self.held:
            del self.held[file_id]
        else:
            self.reserved.remove(file_id)
        self.used_bytes -= self.size(file_id)

    def shrink(self) -> None:
        """Lower the quota to what is used: the LFS is smaller than it was said."""
        self.quota_bytes = self.used_bytes
