"""The four I/O classes of the paper: tier x type of operation (Sec. 4.1).

Where files are read from other nodes there is a fifth class, `NET_READ`. It is not a
member of `IOClass`, so code that enumerates `IOClass` gets the paper's classes only.
"""

from enum import StrEnum
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


class IOClass(StrEnum):
    """An I/O class; its value is the column name, in the paper's order."""

    GFS_READ = "gfs_read"
    GFS_META = "gfs_meta"
    LFS_READ = "lfs_read"
    LFS_META = "lfs_meta"

    @property
    def label(self) -> str:
        """Return the paper's spelling, for example ``GFS-READ``."""
        return self.value.upper().replace("_", "-")

    @property
    def tier(self) -> str:
        """Return the name of the tier, ``gfs`` or ``lfs``."""
        return self.value.split("_")[0]

    @property
    def is_read(self) -> bool:
        """Return whether the class is for reads, not for metadata operations."""
        return self.value.endswith("_read")

    @property
    def colour(self) -> str:
        """Return the class's colour on every figure (Okabe and Ito's palette)."""
        return _COLOURS[self.value]


class NetClass(StrEnum):
    """The class of reads from other nodes, in runs of policies that make them."""

    NET_READ = "net_read"

    @property
    def label(self) -> str:
        """Return the class's spelling, like those of the paper."""
        return "NET-READ"

    @property
    def tier(self) -> str:
        """Return the name that replaces a tier in `file_records`."""
        return "net"

    @property
    def is_read(self) -> bool:
        """Return whether the class is for reads: always true."""
        return True

    @property
    def colour(self) -> str:
        """Return the class's colour on every figure (Okabe and Ito's palette)."""
        return _COLOURS[self.value]


NET_READ = NetClass.NET_READ
ALL_CLASSES: tuple[IOClass | NetClass, ...] = (*IOClass, NET_READ)


def io_class_of(name: str) -> IOClass | NetClass:
    """Return the class of this name; a ValueError if there is none."""
    return NET_READ if name == NET_READ else IOClass(name)


def total_s(times_s: "np.ndarray") -> "np.ndarray":
    """Return the sum of the classes (last axis), always added in their order."""
    columns = (times_s[..., column] for column in range(times_s.shape[-1]))
    return reduce(add, columns, 0)


_COLOURS = {
    "gfs_read": "#0072B2",
    "gfs_meta": "#56B4E9",
    "lfs_read": "#D55E00",
    "lfs_meta": "#E69F00",
    "net_read": "#009E73",
}
