"""The machine of a run: its processes on nodes, and its two storage tiers."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from tierscope.core.given.keys import Folder, from_to

# What tells whether reads of a tier left the page cache.
BLOCK_DEVICE, SERVER, MEMORY = "block device", "server", "memory"
RESIDENT_PAGES, NOTHING = "resident pages", "nothing"
UNKNOWN = "unknown"  # what cannot be told of a machine or its software


class TierError(RuntimeError):
    """A tier's directory cannot be used."""


@dataclass(frozen=True)
class Tier:
    """A storage tier of a machine: section `gfs` or `lfs` of a system file.

    Parameters
    ----------
    name : {"gfs", "lfs"}
        Which tier it is.
    pools : mapping of OST count to pool name or sequence of OST indices, optional
        OSTs of the files for OST counts other than 1 and all (kind `lustre`).
    """

    name: str
    kind: Annotated[
        Literal["directory", "emulated", "lustre"],
        "`directory` takes the directory as it is, `emulated` puts a device in front "
        "of it, `lustre` stripes the dataset over OSTs.",
    ]
    root: Annotated[
        Folder,
        "Directory that tierscope may fill and empty; `$VARIABLE` and `~` are expanded "
        "on the machine where the job runs.",
    ]
    n_osts: Annotated[
        int | None,
        from_to(1, 100_000),
        "Number of OSTs of the file system: needed by kind `lustre`. Of a "
        "`directory`, the number of servers over which its file system spreads the "
        "files, for models; default 0, not known.",
    ] = None
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
            If the root contains an environment variable that is unset or empty here.
        """
        root = os.path.expandvars(os.path.expanduser(self.root))
        if missing := [name for name in self.variables if not os.environ.get(name)]:
            raise TierError(
                f"root of the {self.name}: got {self.root!r}, but the environment "
                f"variable {missing[0]} is not set here."
            )
        return Path(os.path.abspath(root)) / "data"


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The settings of a system that determine measurements.

    Parameters
    ----------
    name : str
        Name of the system.
    n_nodes, processes_per_node : int
        Number of nodes and of MPI processes per node.
    virtual_nodes : bool
        Whether the nodes are groups of processes on one machine.
    gfs, lfs : Tier
        The storage tiers.
    emulation : mapping, optional
        The machine that the tiers emulate: section `emulation` of the system file with
        defaults.
    devices : mapping, optional
        The storage devices: section `devices` of the system file.
    improvements : mapping of str to int
        Improvement of the devices of an I/O class, in percent.
    is_ideal : bool
        Whether storage costs nothing: devices that take no time, or of real tiers an
        LFS in memory.
    """

    name: str
    n_nodes: int
    processes_per_node: int
    virtual_nodes: bool
    gfs: Tier
    lfs: Tier
    emulation: Mapping[str, Any] | None = None
    devices: Mapping[str, Any] | None = None
    improvements: Mapping[str, int] = field(default_factory=dict)
    is_ideal: bool = False

    @property
    def n_processes(self) -> int:
        """Return the number of MPI processes of a run."""
        return self.n_nodes * self.processes_per_node

    @property
    def tiers(self) -> dict[str, Tier]:
        """Return the tiers by name."""
        return {tier.name: tier for tier in (self.gfs, self.lfs)}

    @property
    def emulated_tiers(self) -> tuple[str, ...]:
        """Return the names of the tiers that are emulated."""
        return tuple(
            name for name, tier in self.tiers.items() if tier.kind == "emulated"
        )

    def node_of(self, rank: int) -> int:
        """Return the node of a process, or of each of an array of processes."""
        return rank // self.processes_per_node
