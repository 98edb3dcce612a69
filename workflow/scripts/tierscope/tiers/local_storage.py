"""A job's use of the node-local file system: claimed, filled, read, removed.

Several nodes may share one root (virtual nodes on one machine, or a burst buffer), so
each node has its own folder below the tier's data directory. Nothing is ever removed
outside a root that carries our marker file.
"""

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tierscope.tiers import TierError, background_alias, epoch_alias, peer_alias

MARKER = ".tierscope-local-storage"
_POLL_S = 0.05
_HOST_SUFFIX = ".host"
_MARKER_TEXT = "tierscope fills and empties this directory.\n"
_CLAIMS, _CLAIM_S = 50, 0.1  # tries, while others remove or lock the root


def _lock(folder: int) -> None:
    """Lock a folder, unless another program does so for long."""
    for _ in range(_CLAIMS):
        with suppress(BlockingIOError):
            return fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        time.sleep(_CLAIM_S)
    return None


@dataclass(frozen=True)
class LocalStorage:
    """The part of the LFS that one node uses.

    Parameters
    ----------
    data_root : Path
        The tier's data directory; its parent is the root that is claimed.
    node : int
        Index of the node.
    n_epochs : int
        Number of epoch aliases beside the data directory.
    host : str, optional
        Name of the node, if it is a real one: what a killed job has left on it, as
        whichever node, is then removed.
    """

    data_root: Path
    node: int
    n_epochs: int
    host: str | None = None

    @property
    def node_name(self) -> str:
        """Return the node's folder name below the data directory."""
        return f"node-{self.node:05d}"

    @property
    def folder(self) -> Path:
        """Return the node's folder."""
        return self.data_root / self.node_name

    def claim(self) -> None:
        """Make the root ours and the node's folder empty.

        Raises
        ------
        TierError
            If the root holds something and no marker of ours, or is not writable.
        """
        for _ in range(_CLAIMS):
            try:
                return self._claim()
            except FileNotFoundError:  # an ended job is just removing the root
                time.sleep(_CLAIM_S)
        raise TierError(f"{self.data_root.parent}: cannot use it: others remove it.")

    def _claim(self) -> None:
        """Do so; a FileNotFoundError if the root is being removed meanwhile."""
        root = self.data_root.parent
        try:
            if (root / MARKER).is_file():
                self.empty()
                self._remove_what_was_left_here()
            root.parent.mkdir(parents=True, exist_ok=True)
            with self._alone():
                root.mkdir(exist_ok=True)
                present = os.listdir(root)
                if present and MARKER not in present:
                    raise TierError(
                        f"{root}: holds {sorted(present)[0]!r} and no marker {MARKER}; "
                        "expected an empty directory for the LFS contents."
                    )
                (root / MARKER).write_text(_MARKER_TEXT)
                self.folder.mkdir(parents=True)
            if self.host:
                self._host_file.write_text(self.host)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise TierError(f"{root}: cannot use it: {error.strerror}.") from error

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other nodes of this machine from making or removing the root meanwhile.

        The lock is on the folder that holds the root. Without one, as on a file system
        that knows no locks or where another program holds it for long, a root that is
        removed while it is claimed may be left without its marker.
        """
        with ExitStack() as stack:
            with suppress(OSError):
                folder = os.open(self.data_root.parent.parent, os.O_RDONLY)
                stack.callback(os.close, folder)
                _lock(folder)
            yield

    @property
    def _host_file(self) -> Path:
        return self.folder.with_suffix(_HOST_SUFFIX)

    def _remove_what_was_left_here(self) -> None:
        """Remove the folders of earlier jobs in which this host was another node."""
        for file in self.data_root.glob(f"*{_HOST_SUFFIX}"):
            if file.read_text() == self.host:
                shutil.rmtree(file.with_suffix(""), ignore_errors=True)
                file.unlink(missing_ok=True)

    def empty(self) -> None:
        """Remove the node's folder."""
        if (self.data_root.parent / MARKER).is_file():
            shutil.rmtree(self.folder, ignore_errors=True)
            self._host_file.unlink(missing_ok=True)

    def release(self) -> None:
        """Remove the node's folder; the last node removes the root as well."""
        if (self.data_root.parent / MARKER).is_file():
            self.empty()
            with self._alone():
                self._release_root()

    def _release_root(self) -> None:
        """Remove the root unless another node uses it."""
        root = self.data_root.parent
        try:
            self.data_root.rmdir()
        except FileNotFoundError:
            pass
        except OSError:
            return  # another node is still using it
        for epoch in range(self.n_epochs):
            epoch_alias(self.data_root, epoch).unlink(missing_ok=True)
            background_alias(self.data_root, epoch).unlink(missing_ok=True)
            peer_alias(self.data_root, epoch).unlink(missing_ok=True)
        try:
            (root / MARKER).unlink(missing_ok=True)
            root.rmdir()
        except OSError:
            return  # files that are not ours stay

    def release_together(self, is_mine: Callable[[], bool], timeout_s: float) -> None:
        """Have one process of the node release, and wait until it has.

        Processes that write on make it begin anew: until nothing is left, or time is
        up.

        Parameters
        ----------
        is_mine : callable
            Returns whether this process is to release; another one may end before.
        timeout_s : float
            Time after which to go on in any case.
        """
        end = time.monotonic() + timeout_s
        while True:
            if is_mine():
                self.release()
            if not self.folder.exists() or time.monotonic() > end:
                return
            time.sleep(_POLL_S)
