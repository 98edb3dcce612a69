"""A real ad hoc file system, mounted by the site, in place of our servers.

Such a file system (GekkoFS, BurstFS and their like) keeps its own namespace, may know
no links, and may be reached by preloading a library, so a log tells nothing of it for
sure: its reads are timed in the process, as those from peers.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

from tierscope.dataset import read_timed, write_all
from tierscope.peers import PeerError
from tierscope.peers.client import UNKNOWN_OWNER
from tierscope.tiers import TierError

Watch = Callable[[Path], AbstractContextManager[None]]
_LIVE_S = 5.0
_POLL_S = 0.05


class MountedFiles:
    """The files of a dataset in a mounted ad hoc file system (a `Transport`).

    Parameters
    ----------
    mount : Path
        Where it is mounted.
    name : str
        Name of the measurement's folder in it, the same after a killed launch.
    file_name : callable
        Returns the name of a file.
    buffer_bytes : int
        Size of a read.
    watch : callable
        Makes a context for calls with a path, in which it gives up what hangs.
    """

    def __init__(
        self,
        mount: Path,
        name: str,
        file_name: Callable[[int], str],
        buffer_bytes: int,
        watch: Watch = nullcontext,
    ):
        self.folder = mount / name
        self._file_name, self._buffer_bytes = file_name, buffer_bytes
        self._watch = watch
        self.error: PeerError | None = None

    def owner(self, file_id: int) -> int:
        """Return that it is not known: the file system alone knows."""
        return UNKNOWN_OWNER

    def fetch(self, epoch: int, file_id: int) -> tuple[bytes, float, float, float]:
        """Return a file and the seconds it took; its owner's LFS is unknown (0)."""
        path = self.folder / self._file_name(file_id)
        try:
            with self._watch(path):
                start_s = time.perf_counter()
                content, _, _ = read_timed(str(path), self._buffer_bytes)
                time_s = time.perf_counter() - start_s
        except OSError as error:
            self.error = PeerError(f"{path}: cannot read it: {error.strerror}.")
            raise self.error from error
        return content, time_s, 0.0, 0.0

    def write(self, name: str, content: bytes) -> None:
        """Write a file, which nobody reads before all are there."""
        path = self.folder / name
        with self._watch(path):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                write_all(descriptor, content)
            finally:
                os.close(descriptor)

    def make(self) -> None:
        """Make the folder, without what a killed launch has left in it.

        Raises
        ------
        TierError
            If it cannot be made or emptied.
        """
        try:
            self._remove()
            with self._watch(self.folder):
                self.folder.mkdir()
        except OSError as error:
            raise TierError(
                f"{self.folder}: cannot make it anew: {error.filename}: "
                f"{error.strerror}."
            ) from error

    def remove(self) -> None:
        """Remove the folder; what cannot be removed stays."""
        with suppress(OSError):
            self._remove()

    def _remove(self) -> None:
        """Remove the folder, file by file, as many may take long.

        Raises
        ------
        OSError
            The first one; what can be removed is removed nevertheless.
        """
        with self._watch(self.folder):
            if not self.folder.exists():
                return
            entries = os.scandir(self.folder)
        errors = []
        for path in list(self._watched(entries)):
            try:
                with self._watch(path):
                    path.unlink()
            except OSError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        with self._watch(self.folder):
            self.folder.rmdir()

    def _watched(self, entries: Iterator[os.DirEntry]) -> Iterator[Path]:
        """Yield the paths of a folder's entries, of which there may be many."""
        while True:
            with self._watch(self.folder):
                entry = next(entries, None)
            if entry is None:
                return
            yield Path(entry.path)


def check_room(mount: Path, n_bytes: int) -> str | None:
    """Return why so many bytes cannot be put below a mount, None if they can."""
    try:
        state = os.statvfs(mount)
    except OSError as error:
        return f"cannot be asked for its room: {error.strerror}"
    free_bytes = state.f_bavail * state.f_frsize
    if free_bytes < n_bytes:
        return f"has {free_bytes} bytes of room, expected {n_bytes}"
    return None


def check_apart(mount: Path, tiers: Mapping[str, Path]) -> str | None:
    """Return why a mount is no file system beside the tiers', None if it is one.

    Parameters
    ----------
    mount : Path
        Where it is mounted; exists.
    tiers : mapping of str to Path
        A directory of each tier.
    """
    device = os.stat(mount).st_dev
    for tier, folder in tiers.items():
        if os.stat(folder).st_dev == device:
            return f"is on the {tier}'s file system, that of {folder}"
    return None


def check_live(
    mount: Path,
    processes,
    name: str,
    launch: str,
    n_bytes: int,
    tiers: Mapping[str, Path],
    watch: Watch = nullcontext,
) -> None:
    """Check that all nodes see one file system: each reads what another one wrote.

    The first process of each node writes a sentinel file, which that of the next node
    reads; a system of one node can only read its own.

    Parameters
    ----------
    mount : Path
        Where it is mounted.
    processes : Processes
        The MPI processes; all call this.
    name : str
        What the sentinel files are called after, the same after a killed launch.
    launch : str
        What the sentinel files say: no other launch's.
    n_bytes : int
        Room that is needed.
    tiers : mapping of str to Path
        A directory of each tier, whose file system the mount must not be.
    watch : callable
        As for `MountedFiles`.

    Raises
    ------
    TierError
        On all processes, if the mount is not there, too small, not shared, or a
        directory of a tier's file system.
    """
    n_nodes = len(processes.hosts)
    first = processes.node_rank == 0

    def sentinel(node: int) -> Path:
        return mount / f".{name}-{node}"

    def written(node: int) -> bytes:
        return f"{launch} {node}\n".encode()

    def wrong() -> str | None:
        if reason := check_room(mount, n_bytes) or check_apart(mount, tiers):
            return reason
        try:
            sentinel(processes.node).write_bytes(written(processes.node))
        except OSError as error:
            return f"cannot be written to: {error.strerror}"
        return None

    def unread() -> str | None:
        other = (processes.node + 1) % n_nodes
        end, reason = time.monotonic() + _LIVE_S, ""
        while time.monotonic() < end:
            try:
                if sentinel(other).read_bytes() == written(other):
                    return None
                reason = "other content"
            except OSError as error:
                reason = error.strerror
            time.sleep(_POLL_S)
        return f"does not show what node {other} wrote there: {reason}"

    found: dict[int, str] = {}
    for step in (wrong, unread):
        with watch(sentinel(processes.node)):
            reason = step() if first else None
        reasons = processes.share(processes.gather(reason))
        found = {rank: reason for rank, reason in enumerate(reasons) if reason}
        if found:
            break
    processes.barrier()  # if that fails the mount may hang: it is left alone
    if first:
        with watch(sentinel(processes.node)), suppress(OSError):
            sentinel(processes.node).unlink()
    if found:
        rank, reason = min(found.items())
        raise TierError(
            f"policies.adhoc.mount: {mount} is no live mount on the node of rank "
            f"{rank}: it {reason}."
        )
