"""Policies: they decide the place of each read, and the copies that follow it.

`POLICIES` is the registry, with one line per policy. Driver, audit and simulator use
the same policy object of a node (`node_policy`). For a static policy, audit and
simulator take the files all at once (`held_files`, `served_files`).
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tierscope.core.description import RunDescription
from tierscope.core.scenario import Point, Scenario
from tierscope.policies.adhoc import AdHoc, adhoc_of_node, file_owners
from tierscope.policies.clairvoyant import clairvoyant_of_node
from tierscope.policies.kinds import (
    DATABASE,
    FILES,
    PEERS,
    PLACED,
    PLACED_PROGRAM,
    PROGRAM,
    RunKind,
)
from tierscope.policies.lru import LeastRecentlyUsed
from tierscope.policies.monarch import Monarch
from tierscope.policies.node import Action, Copy, Evict, NodePolicy, Place
from tierscope.policies.pinning import Pinning
from tierscope.policies.static import Fixed
from tierscope.policies.view import NodeView, Policy, nothing

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

_COPIES = ("copy_threads", "drain", "hand_over")
_OF_OUR_LOADERS = ("drain", "hand_over")
# Those that know nothing of a program but what it reads.
PROGRAM_POLICIES = ("none", "pinning", "lru", "monarch")


def _static(name: str, held: Any, **of_policy: Any) -> Policy:
    """Return the entry of a policy that decides before the first epoch."""
    return Policy(name, FILES, lambda v: Fixed(held(v.pinning)), held=held, **of_policy)


POLICIES = {
    policy.name: policy
    for policy in (
        _static("none", nothing),
        _static("pinning", Pinning.on_lfs),
        _static("stratified-pinning", Pinning.on_lfs, is_stratified=True),
        Policy(
            "lru",
            PLACED,
            lambda view: LeastRecentlyUsed(view.store()),
            _COPIES,
            evicts=True,
        ),
        Policy(
            "monarch",
            PLACED,
            lambda view: Monarch(view.store(), view.option("stop")),
            (*_COPIES, "stop"),
        ),
        Policy("clairvoyant", PLACED, clairvoyant_of_node, _COPIES),
        Policy(
            "adhoc", PEERS, adhoc_of_node, staged=Pinning.on_lfs, owners=file_owners
        ),
    )
}
__all__ = [
    "DATABASE",
    "FILES",
    "PEERS",
    "PLACED",
    "PLACED_PROGRAM",
    "POLICIES",
    "PROGRAM",
    "PROGRAM_POLICIES",
    "Action",
    "AdHoc",
    "Copy",
    "Evict",
    "NodePolicy",
    "Pinning",
    "Place",
    "RunKind",
    "file_owners",
    "held_files",
    "kind_of",
    "node_policy",
    "of_kind",
    "owners_of",
    "policy_options",
    "served_files",
    "strata",
]


def kind_of(scenario: Scenario) -> RunKind:
    """Return the kind of the runs of a scenario."""
    if scenario.runs_program:
        moves = POLICIES[scenario.policy].kind is PLACED
        return PLACED_PROGRAM if moves else PROGRAM
    return DATABASE if scenario.reads_database else POLICIES[scenario.policy].kind


def of_kind(kind: RunKind) -> tuple[str, ...]:
    """Return the names of the policies whose runs are of a kind."""
    return tuple(name for name, policy in POLICIES.items() if policy.kind is kind)


def policy_options(
    policy: str, settings: Mapping[str, Any], *, of_program: bool = False
) -> dict[str, Any]:
    """Return the settings that runs of a policy depend on."""
    if POLICIES[policy].kind is PEERS:
        return dict(settings[policy])
    unused = _OF_OUR_LOADERS if of_program else ()
    names = (one for one in POLICIES[policy].options if one not in unused)
    return {name: settings[name] for name in names}


def held_files(description: RunDescription, point: Point) -> "np.ndarray":
    """Return which files each LFS holds before the first epoch: bool, (n_files,)."""
    pinning = NodeView(description, point, ()).pinning
    return POLICIES[description.scenario.policy].held(pinning)


def served_files(description: RunDescription, point: Point) -> "np.ndarray":
    """Return which files an LFS serves, each one or that of the owner: (n_files,)."""
    pinning = NodeView(description, point, ()).pinning
    policy = POLICIES[description.scenario.policy]
    return policy.held(pinning) | policy.staged(pinning)


def owners_of(description: RunDescription) -> "np.ndarray | None":
    """Return the node that owns each file: int, (n_files,); None if each has copies."""
    n_files, n_nodes = description.dataset.n_files, description.system.n_nodes
    return POLICIES[description.scenario.policy].owners(n_files, n_nodes)


def strata(policy: str, on_lfs: "np.ndarray") -> "np.ndarray | None":
    """Return the strata of a policy's shuffle (see `data.shuffle`), or None."""
    return on_lfs if POLICIES[policy].is_stratified else None


def node_policy(
    description: RunDescription,
    point: Point,
    ranks: Sequence[int],
    node: int | None = None,
    orders: "Sequence[np.ndarray] | None" = None,
    manifest: "pd.DataFrame | None" = None,
) -> NodePolicy:
    """Return the policy of one node at the start of a run.

    Parameters are those of `tierscope.policies.view.NodeView`; `node` is needed if
    files belong to nodes (`PEERS`).
    """
    view = NodeView(description, point, ranks, node, orders, manifest)
    return POLICIES[description.scenario.policy].of_node(view)
