"""Policies that decide before the first epoch, as state machines of a node."""

from typing import TYPE_CHECKING

from tierscope.policies.node import Action, Place

if TYPE_CHECKING:
    import numpy as np


class Fixed:
    """Files on the LFS stay there, and no files are added."""

    may_copy = False

    def __init__(self, on_lfs: "np.ndarray"):
        self._on_lfs = on_lfs

    def start(self) -> list[Action]:
        """Return no action: the driver has filled the LFS."""
        return []

    def begin_read(self, file_id: int) -> Place:
        """Return the LFS for a file that it holds."""
        return Place.LFS if self._on_lfs[file_id] else Place.GFS

    def end_read(self, file_id: int, place: Place) -> list[Action]:
        """Return no action."""
        return []

    def placed(self, file_id: int) -> list[Action]:
        """Return no action: this policy orders no copy."""
        return []

    def failed(self, file_id: int, full: bool) -> list[Action]:
        """Return no action: this policy orders no copy."""
        return []
