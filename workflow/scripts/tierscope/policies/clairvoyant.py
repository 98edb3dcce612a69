"""Clairvoyant: the node knows all future reads and fetches its most used files.

The seeds determine all reads. As in NoPFS (Dryden et al., SC 2021), the node fetches
the files that its processes will read most often, in the order of first use.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tierscope.data.shuffle import RunOrder, process_share, run_order
from tierscope.policies.node import Action, Copy, NodeStore, Place, PlacingPolicy
from tierscope.policies.view import NodeView

if TYPE_CHECKING:
    import numpy as np


def node_accesses(
    order: RunOrder,
    ranks: Sequence[int],
    n_epochs: int,
    orders: "Sequence[np.ndarray] | None" = None,
) -> "np.ndarray":
    """Return the files that a node's processes read in all epochs, in order.

    Within an epoch the processes take turns, as they do at equal speed. `orders` are
    those of all processes' reads in each epoch, if known.
    """
    import numpy as np

    epochs = []
    for epoch in range(n_epochs):
        if orders is not None:
            sizes = order.n_files, order.n_processes
            shares = (process_share(sizes[0], rank, sizes[1]) for rank in ranks)
            parts = [orders[epoch][share] for share in shares]
        else:
            parts = [order.of_process(rank, epoch) for rank in ranks]
        turn = np.concatenate([np.arange(len(part)) for part in parts])
        epochs.append(np.concatenate(parts)[np.argsort(turn, kind="stable")])
    return np.concatenate(epochs)


def files_to_fetch(
    accesses: "np.ndarray", sizes: "np.ndarray", quota_bytes: int
) -> "np.ndarray":
    """Return the files that a clairvoyant node fetches, in the order of first use.

    The most frequent of its reads are taken until one does not fit into `quota_bytes`;
    of equally frequent files, those used first.
    """
    import numpy as np

    files, first, n_uses = np.unique(accesses, return_index=True, return_counts=True)
    best = np.lexsort((first, -n_uses))
    best = best[np.cumsum(sizes[files[best]]) <= quota_bytes]
    return files[best[np.argsort(first[best])]]


class Clairvoyant(PlacingPolicy):
    """Fetches the most frequently used files of the node in the order of use.

    If a reader reads a file before its fetch, the file is placed then (its bytes may be
    handed over). A file without further reads is no longer fetched. `n_ahead` fetches
    are under way. A file whose copy failed stays on the GFS.
    """

    def __init__(self, store: NodeStore, accesses: "np.ndarray", n_ahead: int):
        super().__init__(store)
        self._n_ahead = n_ahead
        wanted = files_to_fetch(accesses, store.sizes, store.quota_bytes)
        self._waiting = dict.fromkeys(wanted.tolist())
        self._n_left = Counter(accesses.tolist())

    def start(self) -> list[Action]:
        """Begin the fetches."""
        return self._fetch(self._n_ahead)

    def begin_read(self, file_id: int) -> Place:
        """Return the LFS for a file that has been fetched."""
        return Place.LFS if file_id in self.store.held else Place.GFS

    def end_read(self, file_id: int, place: Place) -> list[Action]:
        """Place a file that its reader read before its fetch."""
        self._n_left[file_id] -= 1
        if place != Place.GFS or file_id not in self._waiting:
            return []
        del self._waiting[file_id]
        if not self._n_left[file_id] or not self.store.reserve(file_id):
            return []
        return [Copy(file_id)]

    def _go_on(self) -> list[Action]:
        """Start as many fetches as are missing from `n_ahead`."""
        return self._fetch(self._n_ahead - len(self.store.reserved))

    def _note_full(self) -> None:
        """Fetch no more files."""
        self._waiting.clear()

    def _fetch(self, n_files: int) -> list[Action]:
        """Return the copies of the next files that are wanted."""
        fetched = []
        while self._waiting and len(fetched) < n_files:
            file_id = next(iter(self._waiting))
            del self._waiting[file_id]
            if self._n_left[file_id] and self.store.reserve(file_id):
                fetched.append(Copy(file_id))
        return fetched


def clairvoyant_of_node(view: NodeView) -> Clairvoyant:
    """Return the policy of a node, which knows all that its processes will read."""
    order = run_order(view.description, view.point.repetition)
    n_epochs = view.description.training.epochs
    accesses = node_accesses(order, view.ranks, n_epochs, view.orders)
    return Clairvoyant(view.store(), accesses, view.option("copy_threads"))
