"""The page cache of this kernel: what it holds, how to drop it, what devices count.

A read that the page cache serves says nothing of a device. Three things tell whether
one did: `/proc/self/io` counts the bytes that this process caused block devices to
read; clients of NFS and Lustre count the bytes that their servers sent; ``mincore``
tells which pages of a file are resident. What stands behind this kernel (caches of a
server, a disk or a hypervisor) is not visible here.
"""

import ctypes
import errno
import mmap
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tierscope.core.files import opened
from tierscope.core.machine import BLOCK_DEVICE, MEMORY, RESIDENT_PAGES, SERVER
from tierscope.storage.mounts import Mount, mount_of

_BLOCK_TYPES = {"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "vfat", "overlay"}
MEMORY_TYPES = {"tmpfs", "ramfs", "hugetlbfs"}
_NFS_TYPES = {"nfs", "nfs4"}
_PAGED_TYPES = {"9p", "ceph", "cifs", "smb3", "virtiofs"}  # use this kernel's cache
_DROP_CACHES = Path("/proc/sys/vm/drop_caches")
_READ_ONLY = {errno.EINVAL, errno.EROFS}  # of file systems that write nothing back
_NAMES_AND_INODES = "2"  # of drop_caches, proc_sys_vm(5)
_PROC = Path("/proc")
_LUSTRE = tuple(
    map(Path, ("/proc/fs/lustre", "/sys/fs/lustre", "/sys/kernel/debug/lustre"))
)


def told_by(mount: Mount) -> str | None:
    """Return what tells of a file system whether reads left the page cache.

    Returns
    -------
    {"block device", "memory", "server", "resident pages"} or None
        Counters of block devices or of the file system's servers, or resident pages;
        ``memory`` if its files are never anywhere else. None if nothing tells: file
        systems with caches of their own, such as ZFS and GPFS, and unknown ones.
    """
    if mount.fs_type in MEMORY_TYPES:
        return MEMORY
    if mount.fs_type in _BLOCK_TYPES:
        return BLOCK_DEVICE
    if mount.fs_type in _NFS_TYPES or mount.fs_type == "lustre":
        return SERVER
    if mount.fs_type in _PAGED_TYPES or mount.fs_type.split(".")[0] == "fuse":
        return RESIDENT_PAGES
    return None


# ---- counters ----------------------------------------------------------------------


def device_bytes(text: str | None = None) -> int | None:
    """Return the bytes that this process has caused block devices to read.

    Parameters
    ----------
    text : str, optional
        Content of `/proc/self/io`; None if the kernel does not count.
    """
    if text is None:
        try:
            text = Path(_PROC, "self", "io").read_text(encoding="utf-8")
        except OSError:
            return None
    counts = dict(line.split(": ") for line in text.splitlines())
    return int(counts["read_bytes"])


def server_bytes(mount: Mount) -> int | None:
    """Return the bytes that a mount's servers have sent to this node, None if unknown.

    NFS counts them in `/proc/self/mountstats`, Lustre in the statistics of its OSCs,
    which administrators may hide.
    """
    if mount.fs_type in _NFS_TYPES:
        with suppress(OSError):
            text = os.fsdecode(Path(_PROC, "self", "mountstats").read_bytes())
            return nfs_bytes(text, mount.point)
    if mount.fs_type == "lustre":
        for folder in _LUSTRE:
            if (n_bytes := lustre_bytes(folder, mount.source)) is not None:
                return n_bytes
    return None


def nfs_bytes(mountstats: str, point: str) -> int | None:
    """Return the bytes read from an NFS server, given `/proc/self/mountstats`.

    In the line ``bytes:`` the fifth number counts what READ calls have brought
    (`nfsstat -m`, `fs/nfs/iostat.h`: NFSIOS_SERVERREADBYTES).
    """
    here = False
    for line in mountstats.splitlines():
        words = line.split()
        if words[:1] == ["device"]:
            here = words[3:5] == ["on", point]
        elif here and words[:1] == ["bytes:"]:
            return int(words[5])
    return None


def lustre_bytes(folder: Path, source: str) -> int | None:
    """Return the bytes that a Lustre client's OSCs have read, None if not readable.

    The folder, such as `/proc/fs/lustre`, holds `osc/FSNAME-OST*/stats`. A mount's
    source is such as ``10.0.0.1@tcp:/FSNAME``, or a folder below it.
    """
    name = source.partition(":/")[2].partition("/")[0]
    found, total = False, 0
    with suppress(OSError):
        for path in folder.glob(f"osc/{name}-OST*/stats"):
            for line in path.read_text(encoding="utf-8").splitlines():
                words = line.split()
                if words[:1] == ["read_bytes"] and len(words) >= 7:
                    found, total = True, total + int(words[6])
    return total if found else None


# ---- pages -------------------------------------------------------------------------


@dataclass(frozen=True)
class Residency:
    """How many of some files' pages are resident: `resident` of `pages`."""

    resident: int = 0
    pages: int = 0

    def __add__(self, other: "Residency") -> "Residency":
        return Residency(self.resident + other.resident, self.pages + other.pages)

    @property
    def percent(self) -> float:
        """Return the part in percent, not a number if no page was looked at."""
        return 100 * self.resident / self.pages if self.pages else float("nan")


def residency(paths: Iterable[str]) -> Residency:
    """Return how many pages of some files are resident; files that vanish count 0.

    The kernel tells the truth only of files that this user owns or may write
    (mincore(2)), so others are left out.
    """
    found = Residency()
    for path in paths:
        with suppress(OSError, ValueError):  # gone, empty, or cannot be mapped
            found += _residency(path)
    return found


def _residency(path: str) -> Residency:
    """Return how many pages of a file are resident."""
    import numpy as np

    with opened(path, os.O_RDONLY) as descriptor:
        state = os.fstat(descriptor)
        if state.st_uid != os.geteuid() and not os.access(path, os.W_OK):
            return Residency()
        mapped = mmap.mmap(descriptor, 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
    # The mapping ends with its last reference: to close it while a signal ends this
    # function would raise another error.
    content = np.frombuffer(mapped, np.uint8)
    n_pages = -(-len(content) // mmap.PAGESIZE)
    is_resident = np.empty(n_pages, np.uint8)
    mincore = ctypes.CDLL(None, use_errno=True).mincore
    mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    if mincore(content.ctypes.data, len(content), is_resident.ctypes.data):
        raise OSError(ctypes.get_errno(), "mincore", path)
    return Residency(int((is_resident & 1).sum()), n_pages)


def drop_pages(paths: Iterable[str]) -> None:
    """Write files back and drop their pages from this kernel's cache.

    Files that have vanished are left out. Pages that a process has mapped stay.
    """
    for path in paths:
        with suppress(FileNotFoundError), opened(path, os.O_RDONLY) as descriptor:
            drop_opened(descriptor)


def drop_opened(descriptor: int) -> None:
    """Write an opened file back and drop its pages from this kernel's cache."""
    try:
        os.fdatasync(descriptor)
    except OSError as error:
        if error.errno not in _READ_ONLY:
            raise
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def drop_names() -> bool:
    """Drop the names and inodes that this kernel caches; only root may.

    Returns
    -------
    bool
        Whether the kernel did it.
    """
    try:
        _DROP_CACHES.write_text(_NAMES_AND_INODES, encoding="utf-8")
    except OSError:
        return False
    return True


# ---- tiers -------------------------------------------------------------------------


class CachedTier:
    """The files of a tier in this kernel's page cache.

    Those of a file system in memory are neither looked at nor dropped.

    Parameters
    ----------
    root : path
        An existing folder of the tier.
    drop : callable
        Drops the pages of files.
    """

    def __init__(
        self, root: str | Path, drop: Callable[[Sequence[str]], Any] = drop_pages
    ):
        self.mount, self._drop = mount_or_unknown(root), drop
        self.told_by = told_by(self.mount)

    def drop(self, paths: Sequence[str]) -> None:
        """Drop the pages of some files."""
        if self.told_by != MEMORY:
            self._drop(paths)

    def look(
        self,
        paths: Sequence[str],
        n_files: int,
        is_warm: Callable[[Residency], bool] = lambda found: False,
    ) -> Residency:
        """Return what is resident of a sample of some files.

        If that is too much, all of these files are dropped, and it is looked again.
        """
        if self.told_by == MEMORY:
            return Residency()
        sample = evenly(paths, n_files)
        if is_warm(found := residency(sample)):
            self._drop(paths)
            found = residency(sample)
        return found


def mount_or_unknown(root: str | Path) -> Mount:
    """Return the mount of a tier; of an unknown type if the kernel lists none."""
    try:
        return mount_of(root)
    except ValueError:  # in some chroots
        return Mount("", "an unlisted file system", "", "", (0, 0))


def evenly(paths: Sequence[str], n: int) -> list[str]:
    """Return up to n of the paths, evenly spaced."""
    import numpy as np

    if len(paths) <= n:
        return list(paths)
    return [paths[i] for i in np.linspace(0, len(paths) - 1, n).round().astype(int)]


def tiers_as_json(tiers: Mapping[str, CachedTier]) -> dict[str, Any]:
    """Return what tells where reads of the tiers came from, as `run.json` has it."""
    return {
        "tiers": {
            name: {"fs_type": tier.mount.fs_type, "told_by": tier.told_by}
            for name, tier in tiers.items()
        },
        "one_mount": len({tier.mount.device for tier in tiers.values()}) == 1,
    }
