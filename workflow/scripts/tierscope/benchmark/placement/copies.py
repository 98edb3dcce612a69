"""Background I/O of a node: copy a file to the LFS, or remove one."""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tierscope.core.files import named_at_end, opened
from tierscope.data.tfrecord import read_timed, write_all
from tierscope.policies.copy_limits import READ_BYTES
from tierscope.storage.tier import COPYING_PREFIX, background_alias


@dataclass(frozen=True)
class Copier:
    """Copies a dataset's files from the GFS to a node's LFS, through the aliases.

    The folders are below the tiers' data directories; all files have the same size.
    """

    gfs_root: Path
    lfs_root: Path
    gfs_folder: str
    lfs_folder: str
    file_size_bytes: int
    file_name: Callable[[int], str]

    def copy(self, name: str, epoch: int, content: bytes | None) -> None:
        """Write a file under a temporary name and rename it.

        Without `content`, which a reader hands over, it is read from the GFS. After an
        OSError no file remains.
        """
        if content is None:
            content = self.read(name, epoch)
        else:
            self._check_size(name, content)
        folder = self._lfs(epoch)
        temporary = os.path.join(folder, COPYING_PREFIX + name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with (
            named_at_end(temporary, os.path.join(folder, name)),
            opened(temporary, flags, 0o644) as descriptor,
        ):
            write_all(descriptor, content)

    def read(self, name: str, epoch: int) -> bytes:
        """Return a file of the GFS; raise an OSError if it is not whole."""
        content, _, _ = read_timed(os.path.join(self._gfs(epoch), name), READ_BYTES)
        self._check_size(name, content)
        return content

    def evict(self, name: str, epoch: int) -> None:
        """Remove a file from the LFS."""
        os.unlink(os.path.join(self._lfs(epoch), name))

    def _check_size(self, name: str, content: bytes) -> None:
        """Refuse a file that is not whole."""
        if len(content) != self.file_size_bytes:
            reason = f"got {len(content)} bytes, expected {self.file_size_bytes}"
            raise OSError(errno.EIO, reason, name)

    def _gfs(self, epoch: int) -> str:
        return os.path.join(background_alias(self.gfs_root, epoch), self.gfs_folder)

    def _lfs(self, epoch: int) -> str:
        return os.path.join(background_alias(self.lfs_root, epoch), self.lfs_folder)
