"""The files of a user's dataset: listed once, and compared with that list later.

A listing can take long, so what is finished is noted in a file, and a listing that was
killed goes on from there. Nothing is written into the dataset.
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tierscope.core.words import printable
from tierscope.data.listing_notes import FolderContent, ListingNotes
from tierscope.data.tfrecord import DatasetError

if TYPE_CHECKING:
    import pandas as pd

N_THREADS = 8  # that ask for sizes: on a network each answer takes its time
SAME, OTHER, ABSENT = range(3)  # how a file compares with its row
_BLOCK_FILES = 256  # that a thread asks for
_MOST_FOLDERS = 128  # that all threads visit in turn
_MOST_NS = (1 << 63) - 1
_MARK = ".tierscope-epoch-"  # opening such a name marks an epoch of a program
_KINDS = {
    stat.S_IFSOCK: "a socket",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_NOWHERE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}

Key = tuple[int, int]  # device and inode of a folder or a link
Report = Callable[[int, int], None]


@dataclass(frozen=True)
class Listing:
    """The files of a dataset in the order of their names.

    Parameters
    ----------
    names : list of str
        Paths below the dataset's folder.
    size_bytes, mtime_ns : ndarray of int64, shape (n_files,)
        Size of each file, and when it was last changed.
    is_link : ndarray of bool, shape (n_files,)
        Whether the name is a link to a file; size and time are of the file behind it.
    same_as : ndarray of int64, shape (n_files,)
        The first name that leads to the same file, -1 for this one itself.
    left_out : list of str
        Paths that are neither files nor folders, each with the reason.
    """

    names: list[str]
    size_bytes: np.ndarray
    mtime_ns: np.ndarray
    is_link: np.ndarray
    same_as: np.ndarray
    left_out: list[str]

    def columns(self) -> dict[str, Any]:
        """Return the columns of table `user_manifest`."""
        return {
            "file_id": np.arange(len(self.names)),
            "path": self.names,
            "size_bytes": self.size_bytes,
            "ost": np.full(len(self.names), -1),
            "mtime_ns": self.mtime_ns,
            "is_link": self.is_link,
            "same_as": self.same_as,
        }


def list_files(
    root: str | Path, notes: Path, report: Report = lambda n_files, n_folders: None
) -> Listing:
    """List all files below a folder.

    A link to a file has a name of its own. A link to a folder is followed once, unless
    that folder holds the link. Several names may lead to one file.

    Parameters
    ----------
    root : path
        The dataset's folder, absolute.
    notes : Path
        File with the notes, outside the dataset. If it exists, the listing goes on from
        there, and lists only folders again that have changed since. The caller removes
        it when the result is safe.
    report : callable
        Called with the numbers of files and folders so far.

    Raises
    ------
    DatasetError
        If a folder cannot be listed, if there is no file or a name that is not UTF-8,
        or if the notes cannot be written.
    """
    root = str(root)
    _check_root(root, notes)
    with ListingNotes(notes, root) as kept, ThreadPoolExecutor(N_THREADS) as pool:
        walk = _Walk(root, kept, pool, report)
        walk.run()
    listing = walk.listing()
    if not listing.names:
        raise DatasetError(f"{printable(root)}: holds no file, expected at least one.")
    return listing


def _check_root(root: str, notes: Path) -> None:
    """Refuse what is no folder of a user's dataset."""
    name = printable(root)
    if os.path.isfile(root):
        raise DatasetError(
            f"{name}: is a file, expected a folder; give the one that holds it: "
            f"{printable(os.path.dirname(root))}"
        )
    if not os.path.isdir(root):
        found = "is no folder" if os.path.lexists(root) else "does not exist"
        raise DatasetError(f"{name}: {found}, expected the folder of a dataset.")
    if notes.resolve().is_relative_to(os.path.realpath(root)):
        raise DatasetError(
            f"{name}: holds {notes.parent}, where tierscope writes; expected a folder "
            "that holds a dataset only."
        )


@dataclass
class _Visit:
    """What a thread has found of a folder, without the names of its `rest`."""

    path: str
    above: tuple[Key, ...]  # keys of the folder and of those that hold it
    content: FolderContent | None = None  # known; None if it holds itself
    folders: Sequence[str] = ()
    first: FolderContent | None = None  # behind the first names, if not all is known
    rest: Sequence[Sequence[str]] = ()
    links: Collection[str] = ()  # names that are links


class _Walk:
    """Goes through the folders of a dataset, then through those behind links."""

    def __init__(
        self, root: str, notes: ListingNotes, pool: ThreadPoolExecutor, report: Report
    ):
        self._root, self._notes, self._pool = root, notes, pool
        self._report = report
        self._folders: dict[str, FolderContent] = {}
        self._left_out: list[str] = []
        self._followed: set[Key] = set()
        self._n_files = 0

    def run(self) -> None:
        """List all folders."""
        # A path, and the folders that hold it, to which no link may lead.
        holders = Path(os.path.realpath(self._root)).parents
        folders = deque([("", tuple(_key(os.stat(one)) for one in holders))])
        links: deque[tuple[str, tuple[Key, ...]]] = deque()
        while folders or links:
            if folders:
                n_folders = min(_MOST_FOLDERS, len(folders))
                some = [folders.popleft() for _ in range(n_folders)]
            else:
                some = [links.popleft()]
                if self._was_followed(some[0][0]):
                    continue
            for visit in self._visits(some):
                path, above, content = visit.path, visit.above, self._content(visit)
                if content is not None:
                    folders.extend((_join(path, one), above) for one in content.folders)
                    links.extend((_join(path, one), above) for one in content.links)

    def listing(self) -> Listing:
        """Return all files in the order of their names."""
        names: list[str] = []
        found = FolderContent(0)  # of all folders
        for path, content in self._folders.items():
            names += [_join(path, name) for name in content.names]
            content.names = []
            found.add(content)
        self._folders.clear()
        order = sorted(range(len(names)), key=names.__getitem__)
        sizes, mtimes_ns, devices, inodes = (
            np.asarray(column)[order]
            for column in (
                found.size_bytes,
                found.mtimes_ns,
                found.devices,
                found.inodes,
            )
        )
        return Listing(
            [names[i] for i in order],
            sizes,
            mtimes_ns,
            np.frombuffer(found.is_link, bool)[order],
            _same_as(sizes, mtimes_ns, devices, inodes),
            self._left_out,
        )

    def _was_followed(self, path: str) -> bool:
        """Return whether a link was followed already, at another path."""
        full = _join(self._root, path)
        try:
            key = _key(os.lstat(full))
        except OSError as error:
            raise _error(full, error) from error
        if key in self._followed:
            self._leave_out(path, "is a link that was followed at another path")
            return True
        self._followed.add(key)
        return False

    def _leave_out(self, path: str, reason: str) -> None:
        self._left_out.append(f"{printable(path)}: {reason}")

    def _visits(self, some: Sequence[tuple[str, tuple[Key, ...]]]) -> Iterator[_Visit]:
        """Visit folders in all threads."""
        size = -(-len(some) // N_THREADS)
        parts = [some[start : start + size] for start in range(0, len(some), size)]
        for visits in self._pool.map(
            lambda part: [self._visit(*a) for a in part], parts
        ):
            yield from visits

    def _visit(self, path: str, above: tuple[Key, ...]) -> _Visit:
        """Return what a folder holds, up to the number of files of a block."""
        full = _join(self._root, path)
        try:
            state = os.stat(full)
        except OSError as error:
            raise _error(full, error) from error
        visit = _Visit(path, (*above, _key(state)))
        if _key(state) in above:
            return visit
        content = self._notes.folders.get(path)
        if content is None or content.mtime_ns != _mtime_ns(state):
            content = FolderContent(_mtime_ns(state))
        visit.content = content
        if not content.is_whole:
            visit.folders, others, visit.links = _names(full)
            left_out = (name for name, _ in content.left_out)
            known = {*content.names, *content.links, *left_out}
            names = [name for name in others if name not in known]
            first, *visit.rest = [
                names[start : start + _BLOCK_FILES]
                for start in range(0, len(names), _BLOCK_FILES)
            ] or [[]]
            visit.first = self._look(visit)(first)
        return visit

    def _look(self, visit: _Visit) -> Callable[[Sequence[str]], FolderContent]:
        """Return the function that tells what is behind names in a folder."""
        full, mtime_ns = _join(self._root, visit.path), visit.content.mtime_ns
        return partial(_look, full, mtime_ns, visit.links, not visit.path)

    def _content(self, visit: _Visit) -> FolderContent | None:
        """Return the whole content of a folder, and note it; None for a circle."""
        path, content = visit.path, visit.content
        if content is None:
            self._leave_out(path, "leads to a folder that holds it")
            return None
        if visit.first is not None:
            others = self._pool.map(self._look(visit), visit.rest)
            for number, part in enumerate(chain([visit.first], others)):
                if number == len(visit.rest):
                    part.folders, part.is_whole = visit.folders, True
                content.add(part)
                self._notes.add(path, part)
                n_files = self._n_files + len(content.names)
                self._report(n_files, len(self._folders))
        for name, reason in content.left_out:
            self._leave_out(_join(path, name), reason)
        self._folders[path] = content
        self._n_files += len(content.names)
        self._report(self._n_files, len(self._folders))
        return content


def _names(folder: str) -> tuple[list[str], list[str], set[str]]:
    """Return names of folders, of all else, and of links, without a call for each."""
    folders, others, links = [], [], set()
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if not name.isascii():
                    _check_text(folder, name)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(name)
                    continue
                others.append(name)
                if entry.is_symlink():
                    links.add(name)
    except OSError as error:
        raise _error(folder, error) from error
    return sorted(folders), others, links


def _look(
    folder: str,
    mtime_ns: int,
    links: Collection[str],
    is_root: bool,
    names: Sequence[str],
) -> FolderContent:
    """Return a part of a folder: what is behind some names."""
    part = FolderContent(mtime_ns)
    for name in names:
        path = f"{folder}/{name}"
        try:
            state = os.stat(path)
        except OSError as error:
            if name not in links or error.errno not in _NOWHERE:
                raise _error(path, error) from error
            part.left_out.append((name, "is a link that leads nowhere"))
            continue
        kind = stat.S_IFMT(state.st_mode)
        if kind == stat.S_IFDIR:
            part.links.append(name)
        elif kind != stat.S_IFREG:
            part.left_out.append((name, f"is {_KINDS.get(kind, 'no file')}"))
        elif is_root and name.startswith(_MARK):
            part.left_out.append((name, "has a name that marks epochs"))
        else:
            part.names.append(name)
            part.size_bytes.append(state.st_size)
            part.mtimes_ns.append(_mtime_ns(state))
            part.is_link.append(name in links)
            part.devices.append(state.st_dev)
            part.inodes.append(state.st_ino)
    return part


def _same_as(
    sizes: np.ndarray, mtimes_ns: np.ndarray, devices: np.ndarray, inodes: np.ndarray
) -> np.ndarray:
    """Return the first name of the same file, -1 for that one itself."""
    keys = (sizes, mtimes_ns, devices, inodes)
    order = np.lexsort(keys)  # equal ones keep the order of names
    is_first, places = np.ones(len(order), bool), np.arange(len(order))
    is_first[1:] = inodes[order][1:] == 0  # the file system does not tell
    for key in keys:
        is_first[1:] |= np.diff(key[order]) != 0
    same_as = np.empty(len(order), np.int64)
    same_as[order] = order[np.maximum.accumulate(np.where(is_first, places, 0))]
    return np.where(same_as == places, -1, same_as)


def _check_text(folder: str, name: str) -> None:
    """Refuse a name that tables cannot hold."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise DatasetError(
            f"{printable(folder)}: holds {printable(name)!r}, a name that is not "
            "UTF-8; expected names that tables can hold, so rename it."
        ) from None


def _error(path: str, error: OSError) -> DatasetError:
    """Return the error of what cannot be listed."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return DatasetError(
            f"{printable(path)}: vanished while the dataset was listed; list it when "
            "nothing changes it."
        )
    return DatasetError(f"{printable(path)}: cannot be listed: {error.strerror}.")


def _join(folder: str, name: str) -> str:
    """Return a path below a folder; either may be empty."""
    return f"{folder}/{name}" if folder and name else folder or name


def _key(state: os.stat_result) -> Key:
    return state.st_dev, state.st_ino


def _mtime_ns(state: os.stat_result) -> int:
    """Return when a file was last changed; tables end with the year 2262."""
    return min(state.st_mtime_ns, _MOST_NS)


# ---- later -------------------------------------------------------------------------


def compare_files(
    manifest: "pd.DataFrame", root: str | Path, tolerance_ns: int = 0
) -> np.ndarray:
    """Return of each file whether it is as in the manifest: `SAME`, `OTHER`, `ABSENT`.

    Parameters
    ----------
    manifest : DataFrame
        Table `user_manifest`.
    root : path
        The dataset's folder, or one with copies of its files.
    tolerance_ns : int
        Difference of times that does not count.

    Returns
    -------
    ndarray of int8, shape (n_files,)
        A file of another size or time, and what cannot be looked at, is `OTHER`.
    """
    columns = (manifest[name].tolist() for name in ("path", "size_bytes", "mtime_ns"))
    rows = list(zip(*columns, strict=True))
    blocks = (
        rows[start : start + _BLOCK_FILES]
        for start in range(0, len(rows), _BLOCK_FILES)
    )
    with ThreadPoolExecutor(N_THREADS) as pool:
        found = pool.map(partial(_compare, str(root), tolerance_ns), blocks)
        return np.frombuffer(bytearray().join(found), np.int8)


def changed_files(manifest: "pd.DataFrame", root: str | Path) -> list[str]:
    """Return the paths of files that are not as in the manifest (`compare_files`)."""
    return manifest["path"][compare_files(manifest, root) != SAME].tolist()


def _compare(
    root: str, tolerance_ns: int, rows: Sequence[tuple[str, int, int]]
) -> bytearray:
    """Return of each row, a path, a size and a time, how the file compares with it."""
    found = bytearray()
    for path, size_bytes, mtime_ns in rows:
        try:
            state = os.stat(f"{root}/{path}")
        except OSError as error:
            found.append(ABSENT if error.errno in _NOWHERE else OTHER)
        else:
            is_same = is_as_listed(state, size_bytes, mtime_ns, tolerance_ns)
            found.append(SAME if is_same else OTHER)
    return found


def is_as_listed(
    state: os.stat_result, size_bytes: int, mtime_ns: int, tolerance_ns: int = 0
) -> bool:
    """Return whether a file has the size and the time that a manifest says."""
    return (
        stat.S_ISREG(state.st_mode)
        and state.st_size == size_bytes
        and abs(_mtime_ns(state) - mtime_ns) <= tolerance_ns
    )
