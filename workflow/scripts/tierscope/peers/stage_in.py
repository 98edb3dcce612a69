"""Stage-in: the nodes copy the dataset from the GFS into the ad hoc file system."""

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tierscope.dataset import read_timed
from tierscope.peers.mount import MountedFiles
from tierscope.placement.limits import READ_BYTES
from tierscope.tiers import STAGE_IN_EPOCH, TierError, background_alias


@dataclass(frozen=True)
class CopyToMount:
    """Copies a dataset's files from the GFS to a mount; the GFS through its alias.

    Parameters
    ----------
    gfs_root : Path
        The GFS's data directory.
    gfs_folder : str
        Where the files are below it.
    files : MountedFiles
        The mount.
    file_size_bytes : int
        Exact size of each file.
    """

    gfs_root: Path
    gfs_folder: str
    files: MountedFiles
    file_size_bytes: int

    def copy(self, name: str, epoch: int, content: bytes | None) -> None:
        """Write a file that is read from the GFS; an OSError if it is not whole."""
        alias = background_alias(self.gfs_root, epoch)
        path = os.path.join(alias, self.gfs_folder, name)
        content, _, _ = read_timed(path, READ_BYTES)
        if len(content) != self.file_size_bytes:
            reason = f"got {len(content)} bytes, expected {self.file_size_bytes}"
            raise OSError(errno.EIO, reason, name)
        self.files.write(name, content)


def stage_in(
    copy: Callable[[str, int, bytes | None], None],
    names: Sequence[str],
    node: int,
    look_for_failure: Callable[[], None] = lambda: None,
) -> None:
    """Copy files of these names, one after the other.

    Parameters
    ----------
    copy : callable
        Copies a file, given its name, the epoch, and None for its content.
    names : sequence of str
        Names of the files.
    node : int
        Index of this node.
    look_for_failure : callable
        Raises an error if another process has failed; called before each file.

    Raises
    ------
    TierError
        If one cannot be copied: without it the dataset is not whole.
    """
    for name in names:
        look_for_failure()
        try:
            copy(name, STAGE_IN_EPOCH, None)
        except OSError as error:
            raise TierError(
                f"node {node}: cannot stage {name} in from the GFS: {error.strerror}."
            ) from error
