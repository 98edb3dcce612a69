"""A job's use of the node-local file system: claimed, filled, read, removed.

Several nodes may share one root (virtual nodes on one machine, or a burst buffer), so
each node has its own folder below the tier's data directory, and a lease on it. Nothing
is ever removed outside a root that holds our marker file and belongs to this user
alone. Everything that is removed is reached from the root's descriptor; no link is
followed.
"""

import errno
import glob
import os
import shlex
import shutil
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tierscope.core.machine import TierError
from tierscope.core.output.streams import say
from tierscope.storage.lease import SUFFIX, Lease, LeaseError
from tierscope.storage.own_folder import FolderError, own_folder

MARKER = ".tierscope-local-storage"
_POLL_S = 0.05
_MARKER_TEXT = b"tierscope fills and empties this directory.\n"
# Of a folder that another process changes or removes meanwhile.
_QUIETLY = suppress(FolderError, LeaseError, OSError)
_REMOVING = ".removing" + SUFFIX  # held by the process that removes the root
_USED_MEANWHILE = errno.ENOTEMPTY, errno.ENOENT, errno.EBUSY
_REFUSED_S = 2.0  # for a file system that refuses to remove files
_CLAIM_S = 20.0  # time for launches that are ending to clean up


class _IsRemovedError(RuntimeError):
    """A job that has ended is removing the root."""


def node_name(node: int) -> str:
    """Return the name of a node's folder below the LFS's data directory."""
    return f"node-{node:05d}"


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
    launch : str
        Name of the launch, the same for all its processes and for no other launch.
    """

    data_root: Path
    node: int
    n_epochs: int
    launch: str

    @property
    def node_name(self) -> str:
        """Return the node's folder name below the data directory."""
        return node_name(self.node)

    @property
    def folder(self) -> Path:
        """Return the node's folder."""
        return self.data_root / self.node_name

    @property
    def _root(self) -> Path:
        return self.data_root.parent

    def claim(self) -> None:
        """Make the root ours and the node's folder empty.

        Raises
        ------
        TierError
            If the root holds something but not our marker, others may write to it,
            or another launch works in the node's folder.
        """
        end_s, is_said = time.monotonic() + _CLAIM_S, False
        while True:
            try:
                return self._claim()
            except (FileNotFoundError, _IsRemovedError):  # by a job that has ended
                if time.monotonic() > end_s:
                    raise TierError(
                        f"{self._root}: cannot use it: another job is removing it. If "
                        f"none is: rm {shlex.quote(str(self._root / _REMOVING))}"
                    ) from None
            except LeaseError as error:  # maybe of the earlier start of a requeued job
                if time.monotonic() > end_s:
                    raise TierError(str(error)) from error
                if not is_said:
                    is_said = True
                    line = f"waiting for the LFS, {_CLAIM_S:.0f} s at most: {error}"
                    say(line)
            except FolderError as error:
                raise TierError(str(error)) from error
            except OSError as error:
                raise TierError(
                    f"{self._root}: cannot use it: {error.strerror}."
                ) from error
            time.sleep(_POLL_S)

    def _claim(self) -> None:
        """Claim once; a FileNotFoundError if another job removes the root meanwhile."""
        with own_folder(self._root, make=True) as root:
            present = {name for name in os.listdir(root) if SUFFIX not in name}
            if present and MARKER not in present:
                raise TierError(
                    f"{self._root}: holds {min(present)!r} but no marker {MARKER}; "
                    "expected an empty directory for the LFS contents."
                )
            self._lease(root).take()
            if self._is_being_removed(root):
                self._lease(root).give_back()
                raise _IsRemovedError
            try:
                _mark(root)
            except OSError:
                self._lease(root).give_back()
                raise
            self._remove_what_was_left(root)
            self._remove_roots_of_killed_jobs()
            self._empty(root)
            with suppress(FileExistsError):
                os.mkdir(self.data_root.name, 0o700, dir_fd=root)
            os.mkdir(self._relative, 0o700, dir_fd=root)

    def keep(self) -> bool:
        """Take the node's folder over, with its contents, within a launch.

        Returns
        -------
        bool
            Whether a process of this launch had claimed it. If not, `claim` it.
        """
        with _QUIETLY, own_folder(self._root) as root:
            is_ours = self._lease(root).adopt()
            return is_ours and os.access(self._relative, os.F_OK, dir_fd=root)
        return False

    def release(self) -> None:
        """Remove the node's folder; the last node removes the root as well.

        If another launch holds the folder meanwhile, this does nothing.
        """
        with _QUIETLY:
            self._release()

    def release_together(
        self,
        is_mine: Callable[[], bool],
        timeout_s: float,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """Let one process of the node release, and wait until it has.

        If other processes still write, it tries again until nothing is left or time is
        up. If the file system refuses, as one that has become read-only, it gives up
        soon.

        Parameters
        ----------
        is_mine : callable
            Returns whether this process must release: the one that must may end before.
        timeout_s : float
            Time after which to continue in any case.
        is_over : callable, optional
            Returns whether the process that must release has given up.
        """
        end = time.monotonic() + timeout_s
        while True:
            if is_mine():
                try:
                    self._release()
                except OSError as error:
                    if error.errno not in _USED_MEANWHILE:
                        end = min(end, time.monotonic() + _REFUSED_S)
                except (FolderError, LeaseError):
                    pass
            if not self.folder.exists() or is_over() or time.monotonic() > end:
                return
            time.sleep(_POLL_S)

    def _release(self) -> None:
        """Release once; an OSError says why something is left."""
        with own_folder(self._root) as root:
            lease = self._lease(root)
            if not lease.adopt():
                return
            self._empty(root)
            if os.access(self._relative, os.F_OK, dir_fd=root):
                shutil.rmtree(self._relative, dir_fd=root)  # its error says why
            lease.give_back()
            self._remove_root(root)

    # ---- below the root's descriptor ----------------------------------------------

    @property
    def _relative(self) -> str:
        """Return the path of the node's folder below the root."""
        return f"{self.data_root.name}/{self.node_name}"

    def _lease(self, root: int, name: str | None = None) -> Lease:
        """Return the lease on the node's folder, or another one in the root."""
        path = self._root / (name or self.node_name + SUFFIX)
        return Lease(path, f"launch {self.launch} of tierscope", self.launch, root)

    def _empty(self, root: int) -> None:
        """Remove the node's folder."""
        shutil.rmtree(self._relative, ignore_errors=True, dir_fd=root)

    def _remove_what_was_left(self, root: int) -> None:
        """Remove the folders of launches that were killed on this machine."""
        for name in _leases(root):
            what = f"launch {self.launch} of tierscope"
            # In the launch's name, its process here would `keep` what is removed.
            left = Lease(self._root / name, what, folder=root)
            with suppress(LeaseError):  # holder unknown, or another launch was faster
                holder = left.holder()
                if holder and holder.is_dead:
                    left.take()
                    folder = f"{self.data_root.name}/{name.removesuffix(SUFFIX)}"
                    shutil.rmtree(folder, ignore_errors=True, dir_fd=root)
                    left.give_back()

    def _remove_roots_of_killed_jobs(self) -> None:
        """Remove the roots of killed jobs, if roots are named by the job's number."""
        job = os.environ.get("SLURM_JOB_ID") or os.environ.get("PJM_JOBID")
        if not job or not self._root.name.endswith(job):
            return
        prefix = self._root.name.removesuffix(job)
        for path in self._root.parent.glob(f"{glob.escape(prefix)}[0-9]*"):
            if path.name.removeprefix(prefix).isdecimal() and path != self._root:
                with _QUIETLY, own_folder(path) as root:
                    left = LocalStorage(
                        path / self.data_root.name, self.node, 0, self.launch
                    )
                    if _leases(root) and MARKER in os.listdir(root):
                        left._remove_what_was_left(root)
                        left._remove_root(root)

    def _is_being_removed(self, root: int) -> bool:
        """Return whether a job that has ended is removing the root now."""
        lease = self._lease(root, _REMOVING)
        holder = lease.holder()
        if holder and holder.is_dead:
            lease.take()
            lease.give_back()
            return False
        return holder is not None

    def _remove_root(self, root: int) -> None:
        """Remove the root unless another node uses it."""
        if _leases(root):
            return
        # A claim takes its own lease before it looks for this one: one sees the other.
        removing = self._lease(root, _REMOVING)
        removing.take()
        try:
            if _leases(root):
                return
            with suppress(FileNotFoundError):
                os.rmdir(self.data_root.name, dir_fd=root)
            for name in os.listdir(root):
                if _is_link_to(name, self.data_root.name, root) or name == MARKER:
                    os.unlink(name, dir_fd=root)
        finally:
            removing.give_back()
        os.rmdir(self._root)  # files that are not ours stay


def _leases(root: int) -> list[str]:
    """Return the names of the leases of nodes in a root."""
    return sorted(
        name for name in os.listdir(root) if name.endswith(SUFFIX) and name != _REMOVING
    )


def _mark(root: int) -> None:
    """Write the marker into a root, if it is missing; an OSError if it is no file."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        descriptor = os.open(MARKER, flags, 0o600, dir_fd=root)
    except FileExistsError:
        state = os.stat(MARKER, dir_fd=root, follow_symlinks=False)
        if not stat.S_ISREG(state.st_mode):
            raise
        return
    with open(descriptor, "wb") as file:
        file.write(_MARKER_TEXT)


def _is_link_to(name: str, target: str, root: int) -> bool:
    """Return whether a name in a root is a link to another one there."""
    with suppress(OSError):  # no link
        return os.readlink(name, dir_fd=root) == target
    return False
