"""LRU: every file read from the GFS replaces the least recently used files.

LRU is a control: if each file is read once an epoch, it evicts the files needed next.
"""

from collections import Counter

from tierscope.policies.node import Action, Copy, Evict, NodeStore, Place, PlacingPolicy


class LeastRecentlyUsed(PlacingPolicy):
    """Places each file that is read, and evicts the least recently used files.

    Files that are being read or copied are not evicted. If that leaves no space, the
    new file is not placed. A file whose copy failed stays on the GFS until its next
    read.
    """

    def __init__(self, store: NodeStore):
        super().__init__(store)
        self._readers: Counter[int] = Counter()

    def begin_read(self, file_id: int) -> Place:
        """Return the LFS for a file that it holds; mark the file as last used."""
        if file_id not in self.store.held:
            return Place.GFS
        self.store.use(file_id)
        self._readers[file_id] += 1
        return Place.LFS

    def end_read(self, file_id: int, place: Place) -> list[Action]:
        """Place a file that was read from the GFS; evict the oldest ones for it."""
        if place == Place.LFS:
            self._readers[file_id] -= 1
            return []
        if file_id in self.store.held or file_id in self.store.reserved:
            return []
        victims = self._victims(self.store.size(file_id) - self.store.free_bytes)
        if victims is None:
            return []
        for victim in victims:
            self.store.give_back(victim)
        self.store.reserve(file_id)
        return [*map(Evict, victims), Copy(file_id)]

    def _victims(self, needed_bytes: int) -> list[int] | None:
        """Return the oldest files with so many bytes, None if they are too few."""
        victims = []
        for file_id in self.store.held:
            if needed_bytes <= 0:
                break
            if not self._readers[file_id]:
                victims.append(file_id)
                needed_bytes -= self.store.size(file_id)
        return victims if needed_bytes <= 0 else None
