"""Storage tiers: where a tier's files live and how its directory is prepared.

Kinds: `directory` (as it is), `emulated` (a device in front of a directory, see
`tierscope.storage.emulated.device`) and `lustre` (striped, see
`tierscope.storage.lustre`).
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

STAGE_IN_EPOCH = 0  # in the background aliases of stage-in, which is before all epochs


class TierError(RuntimeError):
    """A tier's directory cannot be used."""


@dataclass(frozen=True)
class Tier:
    """A storage tier of a system.

    Parameters
    ----------
    name : {"gfs", "lfs"}
        Which tier it is.
    kind : {"directory", "emulated", "lustre"}
        What stands in front of the directory.
    root : str
        Directory tierscope may fill, with variables still in it.
    n_osts : int, optional
        Number of OSTs there are (kind `lustre`).
    pools : mapping of OST count to pool name or sequence of OST indices, optional
        Where the files lie for OST counts other than 1 and all (kind `lustre`).
    """

    name: str
    kind: str
    root: str
    n_osts: int | None = None
    pools: Mapping | None = None

    @property
    def variables(self) -> list[str]:
        """Return the environment variables that the root names."""
        return re.findall(r"\$\{?(\w+)", self.root)

    def data_root(self) -> Path:
        """Return the absolute directory that holds the tier's files.

        Raises
        ------
        TierError
            If the root names an environment variable that is not set or empty here.
        """
        root = os.path.expandvars(os.path.expanduser(self.root))
        if missing := [name for name in self.variables if not os.environ.get(name)]:
            raise TierError(
                f"root of the {self.name}: got {self.root!r}, but the environment "
                f"variable {missing[0]} is not set here."
            )
        return Path(os.path.abspath(root)) / "data"


def epoch_alias(data_root: Path, epoch: int) -> Path:
    """Return the name under which an epoch opens a tier's files."""
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
    """Return the name under which copies of an epoch open a tier's files."""
    return epoch_alias(background_root(data_root), epoch)


def peer_root(data_root: Path) -> Path:
    """Return the name of a tier's root in the aliases of reads for other nodes."""
    return data_root.with_name(f"{data_root.name}.peer")


def peer_alias(data_root: Path, epoch: int) -> Path:
    """Return the name under which a server opens files for other nodes."""
    return epoch_alias(peer_root(data_root), epoch)


def make_epoch_aliases(
    data_root: Path, n_epochs: int, background: bool = False, peers: bool = False
) -> None:
    """Make one symlink an epoch, so that a log tells epochs apart by path.

    With `background` there is a second one an epoch (`background_alias`), with `peers`
    one more (`peer_alias`).
    """
    aliases = [epoch_alias(data_root, epoch) for epoch in range(n_epochs)]
    if background:
        aliases += [background_alias(data_root, epoch) for epoch in range(n_epochs)]
    if peers:
        aliases += [peer_alias(data_root, epoch) for epoch in range(n_epochs)]
    for alias in aliases:
        try:
            alias.symlink_to(data_root.name)
        except FileExistsError:
            if not alias.is_symlink() or os.readlink(alias) != data_root.name:
                raise TierError(
                    f"{alias}: exists and is not our link to {data_root.name}; "
                    "remove it."
                ) from None
