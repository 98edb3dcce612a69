"""The names with which a tier's files are opened: links beside its data directory.

These names separate epochs, copies and reads for other nodes in a log.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tierscope.core.machine import TierError

COPYING_PREFIX = ".placing-"  # before a file's name until its copy is whole
STAGE_IN_EPOCH = 0  # in background aliases of stage-in, before all epochs


def epoch_alias(data_root: Path, epoch: int) -> Path:
    """Return the name with which an epoch opens a tier's files."""
    return data_root.with_name(f"{data_root.name}.ep{epoch}")


def background_root(data_root: Path) -> Path:
    """Return the name of a tier's root in the aliases of its background traffic."""
    return data_root.with_name(f"{data_root.name}.bg")


def background_roots(
    data_roots: Mapping[str, Sequence[str]],
) -> dict[str, list[str]]:
    """Return the roots of background traffic by tier, given the data directories."""
    return {
        tier: [str(background_root(Path(root))) for root in roots]
        for tier, roots in data_roots.items()
    }


def background_alias(data_root: Path, epoch: int) -> Path:
    """Return the name with which copies of an epoch open a tier's files."""
    return epoch_alias(background_root(data_root), epoch)


def peer_root(data_root: Path) -> Path:
    """Return the name of a tier's root in the aliases of reads for other nodes."""
    return data_root.with_name(f"{data_root.name}.peer")


def peer_alias(data_root: Path, epoch: int) -> Path:
    """Return the name with which a server opens files for other nodes."""
    return epoch_alias(peer_root(data_root), epoch)


def make_epoch_aliases(
    data_root: Path, n_epochs: int, background: bool = False, peers: bool = False
) -> None:
    """Make one symlink per epoch, so that the paths in a log separate epochs.

    `background` adds a second link per epoch (`background_alias`), `peers` another one
    (`peer_alias`).
    """
    roots = [data_root, *[background_root(data_root)] * background]
    roots += [peer_root(data_root)] * peers
    for alias in (epoch_alias(root, one) for root in roots for one in range(n_epochs)):
        try:
            alias.symlink_to(data_root.name)
        except FileExistsError:
            if not alias.is_symlink() or os.readlink(alias) != data_root.name:
                raise TierError(
                    f"{alias}: exists and is not tierscope's link to {data_root.name}; "
                    "remove it."
                ) from None
        except OSError as error:
            raise TierError(f"{alias}: cannot be made: {error.strerror}.") from error
