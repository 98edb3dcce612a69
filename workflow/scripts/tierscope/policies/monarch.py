"""Monarch: whole files are placed after their first read, until the LFS is full.

It follows Dantas et al., CCGrid 2022, and their code: space is reserved before the
copy, nothing is evicted, and reads use the LFS once the copy is complete.
"""

from tierscope.policies.node import Action, Copy, NodeStore, Place, PlacingPolicy

STOP_RULES = ("first-misfit", "first-fit")


class Monarch(PlacingPolicy):
    """Places a file after its first read if there is space.

    If one does not fit, all placement ends (`stop` ``first-misfit``, Monarch's code),
    or smaller files may still be placed (``first-fit``, its paper). Files of one size
    make no difference. A file whose copy failed stays on the GFS.
    """

    def __init__(self, store: NodeStore, stop: str):
        if stop not in STOP_RULES:
            raise ValueError(f"stop: got {stop!r}, expected one of {STOP_RULES}.")
        super().__init__(store)
        self._stop = stop
        self._tried: set[int] = set()
        self._ended = False

    @property
    def may_copy(self) -> bool:
        """Return whether placement goes on."""
        return not self._ended

    def begin_read(self, file_id: int) -> Place:
        """Return the LFS for a file that has been placed."""
        return Place.LFS if file_id in self.store.held else Place.GFS

    def end_read(self, file_id: int, place: Place) -> list[Action]:
        """Place a file that was read from the GFS for the first time."""
        if place != Place.GFS or self._ended or file_id in self._tried:
            return []
        if not self.store.reserve(file_id):
            self._ended = self._stop == "first-misfit"
            return []
        self._tried.add(file_id)
        return [Copy(file_id)]

    def _note_full(self) -> None:
        """End placement, unless a smaller file may fit."""
        self._ended = self._stop == "first-misfit"
