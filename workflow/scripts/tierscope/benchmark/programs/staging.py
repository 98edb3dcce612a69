"""Copies of a user's files on a node's LFS: only what changes is copied or removed.

A copy is written under another name and renamed once it is whole. It has the mode and
the time of the original, as programs may look at them. Nothing is written to the GFS.
"""

import os
import platform
import shutil
import stat
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tierscope.benchmark.node_storage import check_apart, why_no_room
from tierscope.benchmark.programs.page_cache import drop_files
from tierscope.core.files import named_at_end, opened, os_errors_as, write_back
from tierscope.core.machine import TierError
from tierscope.core.words import printable
from tierscope.data.listing import ABSENT, SAME, compare_files, is_as_listed
from tierscope.data.tfrecord import parts_for_workers, write_all
from tierscope.policies.copy_limits import READ_BYTES
from tierscope.storage.local_folder import LocalStorage
from tierscope.storage.room import file_system
from tierscope.storage.tier import COPYING_PREFIX

if TYPE_CHECKING:
    import pandas as pd

N_THREADS = 8  # copying small files is bound by latency
_MOST_BLOCK_FILES = 64  # that a thread copies in turn
_SECOND_NS = 10**9  # some LFS, such as BeeGFS, keep times in whole seconds
# Opening a pipe that has taken a file's place would wait otherwise.
_SOURCE_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_COPY_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MODE, _OWN_READ = 0o777, 0o400

Claim = tuple[tuple[str, int], int, int]  # of `node_storage.why_no_room`


class _StoppedError(Exception):
    """Another thread has failed."""


@dataclass(frozen=True)
class Difference:
    """What must change on a node's LFS.

    Parameters
    ----------
    copied, removed : ndarray of int
        Ids of the files that must come, and of those that must go.
    claim : tuple
        Machine and device of the file system, the bytes needed, and the bytes free; see
        `node_storage.why_no_room`, which takes the claims of all nodes.
    """

    copied: np.ndarray
    removed: np.ndarray
    claim: Claim


@dataclass(frozen=True)
class Filled:
    """What filling a node's LFS took: seconds, and how much was copied and removed."""

    time_s: float
    copied_files: int
    copied_bytes: int
    removed_files: int


class StagedFiles:
    """The copies of a dataset's files on one node.

    ``folder`` has the whole ones, ``copying`` those that are being written.

    Parameters
    ----------
    storage : LocalStorage
        The node's part of the LFS.
    name : str
        Name of the dataset, and of the folder of its copies.
    root : path
        The dataset's folder on the GFS.
    manifest : DataFrame
        Table `user_manifest` of the dataset.
    """

    def __init__(
        self,
        storage: LocalStorage,
        name: str,
        root: str | Path,
        manifest: "pd.DataFrame",
    ):
        self._storage, self._root, self._manifest = storage, str(root), manifest
        self.folder = storage.folder / name
        self.copying = storage.folder / (COPYING_PREFIX + name)
        self._names = manifest["path"].tolist()
        self._sizes = manifest["size_bytes"].to_numpy()
        self._mtimes_ns = manifest["mtime_ns"].tolist()

    def claim(self) -> None:
        """Claim the node's folder, or keep it with its copies within a launch.

        Raises
        ------
        TierError
            As `LocalStorage.claim` does, or if the LFS and the dataset overlap.
        """
        check_apart(self._root, self._storage.data_root.parent)
        if not self._storage.keep():
            self._storage.claim()
        shutil.rmtree(self.copying, ignore_errors=True)  # of a killed process
        for folder in (self.folder, self.copying):
            folder.mkdir(mode=0o700, exist_ok=True)

    def difference(self, on_lfs: np.ndarray) -> Difference:
        """Return what must change so that the LFS holds these files and no other.

        `on_lfs` says of each file whether the LFS must hold it: bool, (n_files,). The
        folder must be claimed.
        """
        found = np.full(len(self._names), ABSENT, np.int8)
        with os.scandir(self.folder) as entries:
            if any(entries):
                found = compare_files(self._manifest, self.folder, _SECOND_NS)
        copied = np.flatnonzero(on_lfs & (found != SAME))
        removed = np.flatnonzero(~on_lfs & (found != ABSENT))
        return Difference(copied, removed, self._claim_of(copied, removed))

    def check_room(self, on_lfs: np.ndarray) -> None:
        """Refuse to go on if the LFS could not hold these files; nothing is copied."""
        self._check_change(self.difference(on_lfs))

    def fill(
        self,
        on_lfs: np.ndarray,
        *,
        cold: bool,
        report: Callable[[int, int], None] = lambda n_done, n_files: None,
    ) -> Filled:
        """Let the LFS hold these files and no other.

        Parameters
        ----------
        on_lfs : ndarray of bool, shape (n_files,)
            Whether the LFS must hold each file.
        cold : bool
            Whether what was copied must leave the page cache, on both tiers.
        report : callable
            Called with the numbers of files that are copied, and that must be.

        Raises
        ------
        TierError
            If there is no room, or a file cannot be copied or removed, or has changed
            since it was listed. Other copies stay; each is whole.
        """
        start_s = time.perf_counter()
        change = self.difference(on_lfs)
        self._check_change(change)
        self._remove(change.removed)
        self._make_folders(change.copied)
        self._copy_all(change.copied, cold, report)
        if cold:
            self._leave_page_cache(change.copied)
        return Filled(
            time.perf_counter() - start_s,
            len(change.copied),
            int(self._sizes[change.copied].sum()),
            len(change.removed),
        )

    # ---- room -----------------------------------------------------------------------

    def _claim_of(self, copied: np.ndarray, removed: np.ndarray) -> Claim:
        """Return the room that a change needs, in whole blocks, and that is free."""
        state = os.statvfs(self.folder)
        blocks = -(-self._sizes // state.f_frsize)
        n_blocks = int(blocks[copied].sum()) - int(blocks[removed].sum())
        place = (platform.node(), os.stat(self.folder).st_dev)
        return place, n_blocks * state.f_frsize, state.f_bavail * state.f_frsize

    def _check_change(self, change: Difference) -> None:
        """Refuse a change for which there is no room."""
        root = self._storage.data_root.parent
        if reason := why_no_room([change.claim]):
            raise TierError(f"{root}: {reason}")
        n_files = len(change.copied) - len(change.removed)
        if n_files > (free := file_system(self.folder).free_files):
            raise TierError(
                f"{root}: needs {n_files} files for a node, but only {free} are free."
            )

    # ---- files ----------------------------------------------------------------------

    def _remove(self, file_ids: np.ndarray) -> None:
        """Remove copies."""
        for file_id in file_ids.tolist():
            path = f"{self.folder}/{self._names[file_id]}"
            with os_errors_as(TierError, f"{printable(path)}: cannot be removed"):
                os.unlink(path)

    def _make_folders(self, file_ids: np.ndarray) -> None:
        """Make the folders of copies."""
        names = {os.path.dirname(self._names[file_id]) for file_id in file_ids.tolist()}
        for name in sorted(names):
            path = f"{self.folder}/{name}"
            with os_errors_as(TierError, f"{printable(path)}: cannot be made"):
                os.makedirs(path, exist_ok=True)

    def _copy_all(
        self, file_ids: np.ndarray, cold: bool, report: Callable[[int, int], None]
    ) -> None:
        """Copy files in several threads; the first error ends all."""
        is_stopped, n_done = threading.Event(), 0
        errors: list[BaseException] = []

        def copy_some(some: Sequence[int]) -> int:
            try:
                for file_id in some:
                    self._copy(file_id, cold, is_stopped)
            except BaseException as error:
                errors.append(error)
                is_stopped.set()
                raise
            return len(some)

        ids = file_ids.tolist()
        parts = parts_for_workers(ids, N_THREADS, _MOST_BLOCK_FILES)
        with ThreadPoolExecutor(N_THREADS) as pool:
            try:
                for n_files in pool.map(copy_some, parts):
                    n_done += n_files
                    report(n_done, len(ids))
            except _StoppedError:
                raise errors[0] from None
            finally:
                is_stopped.set()  # also if a signal ends this

    def _copy(self, file_id: int, cold: bool, is_stopped: threading.Event) -> None:
        """Copy a file under another name, and rename it."""
        source = f"{self._root}/{self._names[file_id]}"
        target = f"{self.folder}/{self._names[file_id]}"
        copying = f"{self.copying}/{file_id}"
        try:
            listed = int(self._sizes[file_id]), self._mtimes_ns[file_id]
            with named_at_end(copying, target):
                copy_whole(source, copying, *listed, cold=cold, is_stopped=is_stopped)
        except OSError as error:
            if not os.path.lexists(source):
                raise _changed(source, "is no longer there") from error
            raise TierError(
                f"{printable(source)}: cannot be copied to {printable(target)}: "
                f"{error.strerror}."
            ) from error

    def _leave_page_cache(self, file_ids: np.ndarray) -> None:
        """Write copies to their device, and drop their pages."""
        write_back(self.folder)
        drop_files([f"{self.folder}/{self._names[i]}" for i in file_ids.tolist()])


def copy_whole(
    source: str,
    copying: str,
    size_bytes: int,
    mtime_ns: int,
    *,
    cold: bool,
    is_stopped: threading.Event | None = None,
    leaves_memory: bool = False,
) -> None:
    """Copy content, mode and time of a file that is as it was listed.

    Parameters
    ----------
    source, copying : str
        The file, and the copy, which must not exist.
    size_bytes, mtime_ns : int
        Size and time in the manifest.
    cold : bool
        Whether the pages of the file leave the page cache.
    is_stopped : Event, optional
        Ends the copy if another one has failed.
    leaves_memory : bool
        Whether the copy is written to its device, and its pages leave the page cache.

    Raises
    ------
    OSError
        If a call fails.
    TierError
        If the file is not as it was listed.
    """
    with (
        opened(source, _SOURCE_FLAGS) as original,
        opened(copying, _COPY_FLAGS) as copy,
    ):
        state, n_bytes = os.fstat(original), 0
        if not is_as_listed(state, size_bytes, mtime_ns):
            raise _changed(source)
        while chunk := os.read(original, READ_BYTES):
            if is_stopped and is_stopped.is_set():
                raise _StoppedError
            write_all(copy, chunk)
            n_bytes += len(chunk)
        if n_bytes != state.st_size:
            raise _changed(source)
        os.fchmod(copy, stat.S_IMODE(state.st_mode) & _MODE | _OWN_READ)
        os.utime(copy, ns=(state.st_atime_ns, state.st_mtime_ns))
        if cold:
            os.posix_fadvise(original, 0, 0, os.POSIX_FADV_DONTNEED)
        if leaves_memory:
            os.fdatasync(copy)
            os.posix_fadvise(copy, 0, 0, os.POSIX_FADV_DONTNEED)


def _changed(path: str, what: str = "has changed") -> TierError:
    """Return the error of a file that is not as it was listed."""
    return TierError(
        f"{printable(path)}: {what} since the dataset was listed. Put the old file "
        "back with its time (cp -p), and start again. For the dataset as it is now "
        "take another name (--name, experiment), as finished runs are of the old one."
    )
