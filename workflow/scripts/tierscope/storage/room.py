"""The memory of this machine, and the file systems behind directories."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from tierscope.core.machine import TierError
from tierscope.core.words import size_words
from tierscope.storage.mounts import Mount, mount_of
from tierscope.storage.page_cache import MEMORY_TYPES

_LEAST_FILES = 100


@dataclass(frozen=True)
class FileSystem:
    """The file system that holds a directory.

    Parameters
    ----------
    kind : str
        Its type, such as ``ext4``, ``nfs4`` or ``tmpfs``.
    device : str
        Where its bytes are: the disk of a local file system, such as ``/dev/sda``, else
        the source of the mount, such as ``server:/export``.
    free_bytes, free_files : int
        Room for this user. File systems without a limit of files report a large number.
    """

    kind: str
    device: str
    free_bytes: int
    free_files: int

    @property
    def is_memory(self) -> bool:
        """Return whether files on it are in memory."""
        return self.kind in MEMORY_TYPES


def file_system(path: Path) -> FileSystem:
    """Return the file system of a directory, or of the one in which it will be made.

    Parameters
    ----------
    path : Path
        The directory; it need not exist.

    Raises
    ------
    OSError
        If nothing can be found out about it.
    """
    path = path.resolve()
    while not path.exists():
        path = path.parent
    state = os.statvfs(path)
    try:
        mount = mount_of(path)
        kind, device = mount.fs_type, _disk(mount)
    except ValueError:  # the kernel lists no mount above it, as in some chroots
        kind, device = "unknown", f"device {os.stat(path).st_dev}"
    return FileSystem(
        kind,
        "memory" if kind in MEMORY_TYPES else device,
        state.f_bavail * state.f_frsize,
        state.f_favail if state.f_files else 1 << 62,
    )


def check_room(folder: Path, n_bytes: int, what: str) -> None:
    """Refuse a folder whose file system has not the room for what is written there.

    Raises
    ------
    TierError
        With what was found and what is expected.
    """
    found = file_system(folder)
    if found.free_bytes < n_bytes or found.free_files < _LEAST_FILES:
        raise TierError(
            f"{folder}: got room for {size_words(found.free_bytes)} and "
            f"{found.free_files} files, expected at least {size_words(n_bytes)} and "
            f"{_LEAST_FILES} files for {what}"
        )


def check_memory(root: Path, n_bytes: int = 0) -> None:
    """Refuse a directory of ideal runs that is not in memory, or lacks the room.

    Parameters
    ----------
    root : Path
        The directory; it need not exist.
    n_bytes : int, optional
        Bytes that it must be able to take.

    Raises
    ------
    TierError
        With what was found and what is expected.
    """
    found = file_system(root)
    if not found.is_memory:
        raise TierError(
            f"ideal root {root}: got a directory on {found.kind}, expected one in "
            "memory (tmpfs), such as /dev/shm/$USER-tierscope"
        )
    free = min(found.free_bytes, memory_bytes())
    if n_bytes > free:
        raise TierError(
            f"ideal root {root}: got room for {size_words(free)}, expected "
            f"{size_words(n_bytes)}: ideal runs have the whole dataset in memory"
        )


def _disk(mount: Mount, sys_block: Path = Path("/sys/dev/block")) -> str:
    """Return the disk of a partition, such as ``/dev/sda``, or else the source."""
    major, minor = mount.device
    device = sys_block / f"{major}:{minor}"
    if (device / "partition").exists():
        return f"/dev/{device.resolve().parent.name}"
    return mount.source


def memory_bytes(
    cgroup: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> int:
    """Return the memory that processes and page cache may use here.

    It is that of the machine, or the smallest limit of this process's control groups
    (version 2), to which the page cache counts, too.
    """
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    try:
        groups = os.fsdecode(cgroup.read_bytes())
        (name,) = re.findall(r"^0::/(.*)$", groups, re.MULTILINE)
    except (OSError, ValueError):
        return limits[0]
    group = root / name
    for folder in (group, *group.parents):
        try:
            limits.append(int((folder / "memory.max").read_text(encoding="utf-8")))
        except (OSError, ValueError):  # no limit: "max"
            continue
    return min(limits)
