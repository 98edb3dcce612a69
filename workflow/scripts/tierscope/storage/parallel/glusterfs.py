"""The bricks of a GlusterFS volume that hold the files of a folder, as it tells them.

A brick is a server's folder. A distributed volume chooses the brick of a new file by a
hash of its name, and a file that is renamed stays where it is. So only the volume knows
where a file is: it tells it in the extended attribute `glusterfs.pathinfo` of each path
of a mounted volume, which any user may read.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from tierscope.core.machine import TierError

ATTRIBUTE = "glusterfs.pathinfo"
# <POSIX(folder of the brick):host of the server:path there>
_BRICK = re.compile(r"<POSIX\((.*?)\):([^:>]*):")


def find_bricks(folder: Path, names: Sequence[str], n_osts: int) -> list[int]:
    """Return the number of the brick that holds each file of a folder.

    Bricks have the numbers 0, 1 ... in the order of their hosts and folders, numbers in
    these by value. -1: the folder is on no GlusterFS, or several bricks have the file.

    Parameters
    ----------
    folder : Path
        The folder.
    names : sequence of str
        The files in it.
    n_osts : int
        Bricks of the volume that the system file expects; 0 if it does not say.

    Raises
    ------
    TierError
        If files lie on single bricks of another number.
    """
    bricks = _bricks_of(folder)
    number = {brick: i for i, brick in enumerate(sorted(set(bricks), key=_order))}
    found = [_bricks_of(folder / name) for name in names] if bricks else []
    if not found or any(len(one) != 1 for one in found):
        return [-1] * len(names)
    if n_osts and n_osts != len(number):
        raise TierError(
            f"{folder}: lies on a GlusterFS volume of {len(number)} bricks, expected "
            f"{n_osts}, as gfs.n_osts of the system file says."
        )
    return [number[brick] for (brick,) in found]


def _bricks_of(path: Path) -> list[tuple[str, str]]:
    """Return host and folder of all bricks with a path; none if it is not GlusterFS."""
    try:
        text = os.getxattr(path, ATTRIBUTE).decode(errors="replace")
    except OSError:
        return []
    return [(host, brick) for brick, host in _BRICK.findall(text)]


def _order(brick: tuple[str, str]) -> list[list[tuple[int, str]]]:
    """Return the key by which bricks are sorted: `b2` comes before `b10`."""
    return [
        [(int(part or -1), part) if part.isdigit() else (-1, part) for part in parts]
        for parts in (re.split(r"(\d+)", one) for one in brick)
    ]
