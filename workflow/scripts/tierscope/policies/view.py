"""The information of a policy on one node when a run begins."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tierscope.core.description import RunDescription
from tierscope.core.scenario import Point
from tierscope.policies.kinds import RunKind
from tierscope.policies.node import NodePolicy, NodeStore
from tierscope.policies.pinned_bytes import own_sizes, quota_of_bytes
from tierscope.policies.pinning import Pinning

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

_STREAM = 7  # others: pinning, shuffle, samples, training, simulator


@dataclass(frozen=True)
class NodeView:
    """A run as a node sees it before the first epoch.

    Parameters
    ----------
    description : RunDescription
        Settings of the scenario (`Experiment.description`).
    point : Point
        Cache rate and repetition.
    ranks : sequence of int
        The processes on the node.
    node : int, optional
        Index of the node; only for kind `PEERS`.
    orders : sequence of ndarray, optional
        Order of all processes' reads in each epoch, if the caller has it.
    manifest : DataFrame, optional
        Table `user_manifest` of a dataset of the user, which has files of any size.
    """

    description: RunDescription
    point: Point
    ranks: Sequence[int]
    node: int | None = None
    orders: "Sequence[np.ndarray] | None" = None
    manifest: "pd.DataFrame | None" = None

    @property
    def n_files(self) -> int:
        """Return the number of files of the dataset."""
        return self.description.dataset.n_files

    @property
    def pinning(self) -> Pinning:
        """Return the pinned part of the dataset at the cache rate."""
        return Pinning(
            self.n_files,
            self.point.cache_rate_percent,
            self.description.training.seed,
            self.point.repetition,
        )

    def store(self) -> NodeStore:
        """Return the node's empty LFS, with the space of the cache rate."""
        import numpy as np

        if self.manifest is not None:
            rate = self.point.cache_rate_percent
            quota_bytes = quota_of_bytes(own_sizes(self.manifest), rate)
            return NodeStore(self.manifest["size_bytes"].to_numpy(), quota_bytes)
        size = self.description.dataset.file_size_bytes
        sizes = np.broadcast_to(size, self.n_files)
        return NodeStore(sizes, quota_bytes=self.pinning.n_on_lfs * size)

    def generator(self) -> "np.random.Generator":
        """Return a generator for the policy of this node, in this repetition.

        Its stream differs from those of the shuffle, the pinned part and samples.
        """
        import numpy as np

        seeds = (self.pinning.seed, self.pinning.repetition, min(self.ranks))
        stream = np.random.SeedSequence(seeds, spawn_key=(_STREAM,))
        return np.random.default_rng(stream)

    def option(self, name: str) -> Any:
        """Return an option of the policy from the configuration."""
        return self.description.policy_options[name]


def nothing(pinning: Pinning) -> "np.ndarray":
    """Return that no file is held: bool, shape (n_files,)."""
    import numpy as np

    return np.zeros(pinning.n_files, bool)


def no_owners(n_files: int, n_nodes: int) -> None:
    """Return that no file belongs to a node."""


@dataclass(frozen=True)
class Policy:
    """An entry of the registry (`tierscope.policies.POLICIES`).

    Parameters
    ----------
    name : str
        Name in the configuration.
    kind : RunKind
        Kind of its runs, which determines how they are made and checked.
    of_node : callable
        Returns the state machine of a node from its `NodeView`.
    options : tuple of str
        Keys of the section `policies` that its runs depend on; for kind `PEERS`, all
        keys of the subsection with its name.
    held : callable
        For kind `FILES`: returns from the `Pinning` which files each LFS holds before
        the first epoch: bool, shape (n_files,).
    staged : callable
        For kind `PEERS`: likewise which files the LFS of their owners get then.
    owners : callable
        Returns the node that has each of so many files on so many nodes; None: each
        node has its own copy.
    is_stratified : bool
        Whether the shuffle distributes held files and other files separately.
    evicts : bool
        Whether it may remove files from the LFS, and place a file again.
    """

    name: str
    kind: RunKind
    of_node: Callable[[NodeView], NodePolicy]
    options: tuple[str, ...] = ()
    held: "Callable[[Pinning], np.ndarray]" = nothing
    staged: "Callable[[Pinning], np.ndarray]" = nothing
    owners: "Callable[[int, int], np.ndarray | None]" = no_owners
    is_stratified: bool = False
    evicts: bool = False
