"""A real ad hoc file system, mounted by the site, replaces our servers.

A file system such as GekkoFS or BurstFS has its own namespace, may not support links,
and may work by a preloaded library. So a log may not contain its reads, and the process
times them like reads from peers.
"""

import errno
import os
import secrets
import shlex
import time
from collections.abc import Callable, Mapping
from contextlib import (
    AbstractContextManager,
    ExitStack,
    suppress,
)
from pathlib import Path

from tierscope.benchmark.peers import PeerError
from tierscope.benchmark.peers.client import UNKNOWN_OWNER
from tierscope.core.files import opened, os_errors_as
from tierscope.core.machine import TierError
from tierscope.data.tfrecord import read_timed, write_all
from tierscope.storage.lease import NAME, Lease, LeaseError
from tierscope.storage.own_folder import FolderError, open_own

_LIVE_S = 5.0
_POLL_S = 0.05
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def folder_name() -> str:
    """Return an unpredictable name for a measurement's folder."""
    return f"{_prefix()}{secrets.token_hex(16)}"


def _prefix() -> str:
    """Return the prefix of this user's folders in a mount."""
    return f"tierscope-{os.getuid()}-"


class MountedFiles:
    """The files of a dataset in a mounted ad hoc file system (a `Transport`).

    Other users may write to the mount, too. So the folder's name is unpredictable and
    the same in all processes (`folder_name`), only this user may use it, no link is
    followed, and files are removed only through a descriptor.
    """

    def __init__(
        self,
        mount: Path,
        name: str,
        file_name: Callable[[int], str],
        buffer_bytes: int,
    ):
        self.folder = mount / name
        self._file_name, self._buffer_bytes = file_name, buffer_bytes
        self._descriptor: int | None = None
        self.error: PeerError | None = None

    def owner(self, file_id: int) -> int:
        """Return that the owner is unknown: only the file system knows it."""
        return UNKNOWN_OWNER

    def fetch(self, epoch: int, file_id: int) -> tuple[bytes, float, float, float]:
        """Return a file and the seconds it took; its owner's LFS is unknown (0)."""
        path = self.folder / self._file_name(file_id)
        try:
            start_s = time.perf_counter()
            content, _, _ = read_timed(str(path), self._buffer_bytes)
            time_s = time.perf_counter() - start_s
        except OSError as error:
            self.error = PeerError(f"{path}: cannot read it: {error.strerror}.")
            raise self.error from error
        return content, time_s, 0.0, 0.0

    def write(self, name: str, content: bytes) -> None:
        """Write a new file; it is read only after all files were written."""
        with self._opened(name, _NEW_FILE) as descriptor:
            write_all(descriptor, content)

    def read(self, name: str, n_bytes: int) -> bytes:
        """Return the beginning of a file that another node wrote."""
        with self._opened(name, os.O_RDONLY | os.O_NOFOLLOW) as descriptor:
            return os.read(descriptor, n_bytes)

    def _opened(self, name: str, flags: int) -> AbstractContextManager[int]:
        """Open a file of the folder, and give its descriptor."""
        return opened(name, flags, folder=self._descriptor)

    def unlink(self, name: str) -> None:
        """Remove a file."""
        os.unlink(name, dir_fd=self._descriptor)

    def make(self) -> None:
        """Make the folder, which must not exist, and mark that this process uses it."""
        os.mkdir(self.folder, 0o700)
        self.open()
        Lease(self.folder / NAME, "a launch", folder=self._descriptor).take()

    def open(self) -> None:
        """Open the folder, once; a FolderError if others may use it, too."""
        if self._descriptor is None:
            self._descriptor = open_own(self.folder)

    def check(self) -> None:
        """Stop by a TierError if another folder has replaced ours, or it is missing."""
        with os_errors_as(TierError, f"{self.folder}"):
            found = os.lstat(self.folder)
        if not os.path.samestat(found, os.fstat(self._descriptor)):
            raise TierError(
                f"{self.folder}: was replaced while it was read; check who else can "
                "write to the mount."
            )

    def remove(self) -> None:
        """Remove the folder; files that cannot be removed stay.

        Raises a TierError if another folder has replaced it.
        """
        if self._descriptor is None:
            return
        self.check()
        with suppress(OSError):
            _remove(self.folder, self._descriptor)

    def close(self) -> None:
        """Close the folder."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def remove_left(mount: Path) -> None:
    """Remove the folders of this user's killed launches on this machine."""
    with suppress(OSError):
        names = sorted(name for name in os.listdir(mount) if name.startswith(_prefix()))
        for name in names:
            with suppress(FolderError, LeaseError, OSError), ExitStack() as stack:
                descriptor = open_own(mount / name)
                stack.callback(os.close, descriptor)
                lease = Lease(mount / name / NAME, "a launch", folder=descriptor)
                holder = lease.holder()
                if holder and holder.is_dead:
                    lease.take()
                    _remove(mount / name, descriptor)


def _remove(folder: Path, descriptor: int) -> None:
    """Remove a folder file by file, because many take long; its lease comes last."""
    names = set(os.listdir(descriptor)) - {NAME}
    errors = []
    for name in sorted(names):
        try:
            os.unlink(name, dir_fd=descriptor)
        except OSError as error:
            errors.append(error)
    if errors:
        raise errors[0]
    os.unlink(NAME, dir_fd=descriptor)
    os.rmdir(folder)


def check_room(mount: Path, n_bytes: int) -> str | None:
    """Return why a mount has no space for `n_bytes`, None if it has."""
    try:
        state = os.statvfs(mount)
    except OSError as error:
        return f"cannot report its free space: {error.strerror}"
    free_bytes = state.f_bavail * state.f_frsize
    if free_bytes < n_bytes:
        return f"has {free_bytes} bytes free, expected {n_bytes}"
    return None


def check_apart(mount: Path, tiers: Mapping[str, Path]) -> str | None:
    """Return why a mount is not separate from the tiers' directories, None if it is."""
    device = os.stat(mount).st_dev
    for tier, folder in tiers.items():
        if os.stat(folder).st_dev == device:
            return f"is on the file system of the {tier}, {folder}"
    return None


def check_live(
    files: MountedFiles,
    processes,
    launch: str,
    n_bytes: int,
    tiers: Mapping[str, Path],
) -> None:
    """Make the folder, and check that each node can read a file of another node.

    The first process of each node writes a sentinel file, which that of the preceding
    node reads; one node reads its own. All processes call this, and all raise a
    TierError if the mount is missing, too small, not shared, or on the file system of a
    tier.
    """
    mount = files.folder.parent
    n_nodes = len(processes.hosts)

    def sentinel(node: int) -> str:
        return f".node-{node}"

    def written(node: int) -> bytes:
        return f"{launch} {node}\n".encode()

    def wrong() -> str | None:
        if reason := check_room(mount, n_bytes):
            return reason + _left_folders(mount)
        if reason := check_apart(mount, tiers):
            return reason
        if processes.rank == 0:
            try:
                files.make()
            except (FolderError, LeaseError, OSError) as error:
                return f"cannot be written to: {_text(error)}"
        return None

    def unseen() -> str | None:
        def write() -> None:
            files.open()
            files.write(sentinel(processes.node), written(processes.node))

        return _tried(write, "does not show rank 0's folder, or refuses to write to it")

    def unread() -> str | None:
        other = (processes.node + 1) % n_nodes

        def read() -> None:
            expected = written(other)
            if files.read(sentinel(other), len(expected) + 1) != expected:
                raise OSError(0, "other content")

        return _tried(read, f"does not show what node {other} wrote there")

    found: dict[int, str] = {}
    for step in (wrong, unseen, unread):
        reason = step() if processes.node_rank == 0 else None
        reasons = processes.share(processes.gather(reason))
        found = {rank: reason for rank, reason in enumerate(reasons) if reason}
        if found:
            break
    processes.barrier()  # if this fails, the mount may hang and is not used again
    if processes.node_rank == 0:
        with suppress(OSError):
            files.unlink(sentinel(processes.node))
    if not found:
        return
    processes.barrier()
    if processes.rank == 0:
        files.remove()
    rank, reason = min(found.items())
    raise TierError(
        f"policies.adhoc.mount: {mount} is not a live mount on the node of rank "
        f"{rank}: it {reason}."
    )


def _left_folders(mount: Path) -> str:
    """Return how to remove the folders of launches killed on other machines."""
    with suppress(OSError):
        names = sorted(name for name in os.listdir(mount) if name.startswith(_prefix()))
        if names:
            paths = " ".join(shlex.quote(str(mount / name)) for name in names)
            return f" (left by killed launches, if no launch runs: rm -r {paths})"
    return ""


def _tried(action: Callable[[], None], failure: str) -> str | None:
    """Return why an action still fails after some seconds, None once it succeeds."""
    end_s = time.monotonic() + _LIVE_S
    while True:
        try:
            return action()
        except FolderError as error:
            return f"{failure}: {error}"
        except OSError as error:
            if time.monotonic() > end_s or error.errno == errno.EEXIST:
                return f"{failure}: {_text(error)}"
        time.sleep(_POLL_S)


def _text(error: Exception) -> str:
    """Return the text of an error without the path."""
    return getattr(error, "strerror", None) or str(error)
