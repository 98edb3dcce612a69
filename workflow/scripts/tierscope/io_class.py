"""The four I/O classes of the paper: tier x kind of operation (Sec. 4.1)."""

from enum import StrEnum


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
    def colour(self) -> str:
        """Return the class's colour on every figure (Okabe and Ito's palette)."""
        return _COLOURS[self.value]


_COLOURS = {
    "gfs_read": "#0072B2",
    "gfs_meta": "#56B4E9",
    "lfs_read": "#D55E00",
    "lfs_meta": "#E69F00",
}
