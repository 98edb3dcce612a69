"""Which file system a path is on, as the kernel lists the mounts of this process."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from tierscope.core.words import as_text

_ESCAPED = re.compile(r"\\([0-7]{3})")  # blanks, tabs, new lines and backslashes


@dataclass(frozen=True)
class Mount:
    """A mounted file system.

    Parameters
    ----------
    point : str
        Folder at which it is mounted.
    fs_type : str
        Its type, such as ``ext4``, ``lustre`` or ``fuse.glusterfs``.
    source : str
        What is mounted: a device, a server, or a word such as ``tmpfs``.
    options : str
        Options of the mount and then those of the file system, each once.
    device : tuple of int
        Major and minor number of the device that `stat` reports for its files.
    """

    point: str
    fs_type: str
    source: str
    options: str
    device: tuple[int, int]


def mount_table() -> dict[str, str]:
    """Return the file system type of every mount point, as the kernel writes it."""
    *lines, _ = as_text(Path("/proc/mounts").read_bytes()).split("\n")
    rows = (line.split(" ") for line in lines)
    return {point: kind for _, point, kind, *_ in rows}


def mount_of(path: str | Path, mountinfo_text: str | None = None) -> Mount:
    """Return the mounted file system that a path is on, or will be on.

    This is the mount with the longest mount point above the path; of several at the
    same point, the last one, which hides the others. Links in the path are followed as
    far as it exists, so pass a path without links to test with a given text.

    Parameters
    ----------
    path : path
        A file or folder, which need not exist yet.
    mountinfo_text : str, optional
        Content of ``/proc/self/mountinfo`` (proc_pid_mountinfo(5)).

    Raises
    ------
    ValueError
        If no mount holds the path.
    """
    if mountinfo_text is None:
        mountinfo_text = os.fsdecode(Path("/proc/self/mountinfo").read_bytes())
    place = os.path.realpath(path)
    holding = (
        (len(point), number, line)
        for number, line in enumerate(mountinfo_text.split("\n"))
        if line and _holds(point := plain(line.split(" ")[4]), place)
    )
    if (found := max(holding, default=None)) is None:
        raise ValueError(f"{path}: no mount of /proc/self/mountinfo holds this path.")
    return _parsed(found[2])


def _holds(point: str, place: str) -> bool:
    """Return whether a path is a mount point or below it."""
    return place == point or place.startswith(point.rstrip("/") + "/")


def _parsed(line: str) -> Mount:
    """Return the mount of a line; a hyphen ends its optional fields."""
    of_mount, _, of_system = line.partition(" - ")
    _, _, numbers, _, point, options, *_ = of_mount.split(" ")
    fs_type, source, system_options = of_system.split(" ", 2)
    names = dict.fromkeys(f"{options},{system_options}".split(","))
    major, minor = map(int, numbers.split(":"))
    return Mount(plain(point), fs_type, plain(source), ",".join(names), (major, minor))


def plain(text: str) -> str:
    """Return a field of the kernel's list with its octal escapes replaced."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)
