"""Folders of which nobody but this user can change what they hold."""

import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_LINKS = 40  # that lead to a folder at most, as in the kernel


class FolderError(RuntimeError):
    """A folder can be changed by others."""


@contextmanager
def own_folder(path: Path, *, make: bool = False) -> Iterator[int]:
    """Open a directory that belongs to this user, and to no one else.

    Parameters
    ----------
    path : Path
        The directory, absolute.
    make : bool
        Whether to make it, and those above it, if it is missing; only this user may
        then read it.

    Yields
    ------
    int
        Its descriptor: whatever becomes of the path, it stays that of the directory.

    Raises
    ------
    FolderError
        If it is a link or no directory, belongs to another user, or others may write
        to it; or if another user can put something else in its place.
    OSError
        If it cannot be opened or made.
    """
    check_way(path.parent)
    if make:
        for missing in reversed([path, *path.parents]):
            with suppress(FileExistsError):
                os.mkdir(missing, 0o700)
    folder = open_own(path)
    try:
        yield folder
    finally:
        os.close(folder)


def open_own(path: Path) -> int:
    """Return the descriptor of a directory of this user, however one gets there.

    Raises
    ------
    FolderError
        If it is a link or no directory, belongs to another user, or others may write
        to it.
    OSError
        If it cannot be opened.
    """
    state = os.lstat(path)
    if not stat.S_ISDIR(state.st_mode):
        kind = "a link" if stat.S_ISLNK(state.st_mode) else "no directory"
        raise FolderError(f"{path}: is {kind}, expected a directory of yours.")
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        _check_own(path, os.fstat(folder))
    except FolderError:
        os.close(folder)
        raise
    return folder


def _check_own(path: Path, state: os.stat_result) -> None:
    """Refuse a directory that is not this user's alone."""
    if state.st_uid != os.geteuid():
        raise FolderError(
            f"{path}: belongs to user {state.st_uid}, expected a directory of yours "
            f"(user {os.geteuid()})."
        )
    if state.st_mode & _WRITABLE_BY_OTHERS:
        raise FolderError(
            f"{path}: others may write to it (mode {stat.S_IMODE(state.st_mode):04o}): "
            f"chmod go-w {shlex.quote(str(path))}"
        )


def check_way(path: Path) -> None:
    """Refuse a way to a folder on which any user can put something else.

    In a directory to which all users may write, as /tmp, what follows has to belong to
    this user or to the system. Other directories are trusted as their owners and groups
    are. What does not exist yet is not looked at.

    Raises
    ------
    FolderError
        With the directory, and what is wrong with it.
    """
    trusted = {0, os.geteuid(), os.stat("/").st_uid}
    here, names, n_links = Path("/"), list(path.parts[1:]), 0
    is_public = False
    while names:
        name = names.pop(0)
        here = here.parent if name == ".." else here / name
        try:
            state = os.lstat(here)
        except FileNotFoundError:
            return
        if is_public and state.st_uid not in trusted:
            raise FolderError(
                f"{here}: belongs to user {state.st_uid}, who can replace it."
            )
        if stat.S_ISLNK(state.st_mode):
            n_links += 1
            if n_links > _LINKS:
                raise FolderError(f"{path}: too many links lead there.")
            target = here.parent / os.readlink(here)
            here, names, is_public = Path("/"), [*target.parts[1:], *names], False
            continue
        is_public = bool(state.st_mode & stat.S_IWOTH)
        if is_public and not state.st_mode & stat.S_ISVTX:
            raise FolderError(
                f"{here}: all users may replace what it holds (mode "
                f"{stat.S_IMODE(state.st_mode):04o}, without sticky bit)."
            )
