"""Policies: where a file is read from, and what happens after the read.

`STATIC` policies decide before the first epoch (`held_files`); `DYNAMIC` ones are
state machines of a node that decide read by read (`NodePolicy`); `PEERS` read from
other nodes what their seeds and names say before the first epoch. `node_policy` makes
each kind for a node, so that driver, audit and simulator ask the same object; what
static ones decide, audit and simulator take for all files at once (`held_files`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tierscope.core.scenario import Dataset
from tierscope.policies.adhoc import NO_NODE, AdHoc, owner_nodes
from tierscope.policies.clairvoyant import Clairvoyant, node_accesses
from tierscope.policies.lru import LeastRecentlyUsed
from tierscope.policies.monarch import Monarch
from tierscope.policies.node import Action, Copy, Evict, NodePolicy, NodeStore, Place
from tierscope.policies.pinning import Pinning
from tierscope.policies.static import Fixed

STATIC = ("none", "pinning", "stratified-pinning")
_PLACEMENT = ("copy_threads", "drain", "hand_over")
OPTIONS = {
    "lru": _PLACEMENT,
    "monarch": (*_PLACEMENT, "stop"),
    "clairvoyant": _PLACEMENT,
}
DYNAMIC = tuple(OPTIONS)
PEERS = ("adhoc",)

__all__ = [
    "DYNAMIC",
    "OPTIONS",
    "PEERS",
    "STATIC",
    "Action",
    "AdHoc",
    "Copy",
    "Evict",
    "NodePolicy",
    "Pinning",
    "Place",
    "held_files",
    "node_policy",
    "owner_nodes",
    "policy_options",
    "strata",
]


def policy_options(policy: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the settings that runs of a policy depend on."""
    if policy in PEERS:
        return dict(settings[policy])
    return {name: settings[name] for name in OPTIONS.get(policy, ())}


def held_files(
    policy: str, n_files: int, cache_rate_percent: int, seed: int, repetition: int
) -> np.ndarray:
    """Return what every node's LFS holds before the first epoch: bool, (n_files,)."""
    if policy in ("pinning", "stratified-pinning"):
        return Pinning(n_files, cache_rate_percent, seed, repetition).on_lfs()
    return np.zeros(n_files, bool)


def strata(policy: str, on_lfs: np.ndarray) -> np.ndarray | None:
    """Return what a policy's shuffle deals apart (see `data.shuffle`), or None."""
    return on_lfs if policy == "stratified-pinning" else None


def node_policy(
    description: Mapping[str, Any],
    point: Mapping[str, int],
    ranks: Sequence[int],
    node: int | None = None,
    orders: Sequence[np.ndarray] | None = None,
) -> NodePolicy:
    """Return the policy of one node at the start of a run.

    Parameters
    ----------
    description : mapping
        What the scenario depends on (`Experiment.description`).
    point : mapping
        `cache_rate_percent` and `repetition`.
    ranks : sequence of int
        The processes on the node.
    node : int, optional
        Index of the node; needed where files belong to nodes (`PEERS`).
    orders : sequence of ndarray, optional
        What all processes read in each epoch (`epoch_order`), for callers that have it.
    """
    policy, dataset = description["scenario"]["policy"], description["dataset"]
    n_files, training = dataset["n_files"], description["training"]
    rate = point["cache_rate_percent"]
    seeds = training["seed"], point["repetition"]
    if policy in STATIC:
        return Fixed(held_files(policy, n_files, rate, *seeds))
    if policy in PEERS:
        paths = map(Dataset(**dataset).file_name, range(n_files))
        owners = owner_nodes(paths, description["system"]["n_nodes"])
        staged = Pinning(n_files, rate, *seeds).on_lfs()
        is_mounted = description["policy"]["mount"] is not None
        return AdHoc(staged, owners, NO_NODE if is_mounted else node)
    size = dataset["file_size_bytes"]
    n_held = Pinning(n_files, rate, *seeds).n_on_lfs
    store = NodeStore(np.broadcast_to(size, n_files), quota_bytes=n_held * size)
    if policy == "monarch":
        return Monarch(store, description["policy"]["stop"])
    if policy == "lru":
        return LeastRecentlyUsed(store)
    system = description["system"]
    accesses = node_accesses(
        n_files,
        ranks,
        system["n_nodes"] * system["processes_per_node"],
        shuffle=training["shuffle"],
        seed=training["seed"],
        repetition=point["repetition"],
        n_epochs=training["epochs"],
        orders=orders,
    )
    return Clairvoyant(store, accesses, description["policy"]["copy_threads"])
