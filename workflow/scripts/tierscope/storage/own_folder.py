"""Folders whose contents only this user can change."""

import errno
import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_LINKS = 40  # most links on the way to a folder, as in the kernel


class FolderError(RuntimeError):
    """Other users can change a folder."""


def close_umask() -> None:
    """Let no other user write to what this process and its children will make."""
    os.umask(os.umask(0o077) | stat.S_IWOTH)


@contextmanager
def own_folder(path: Path, *, make: bool = False) -> Iterator[int]:
    """Open a directory that belongs to this user alone.

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
        Its descriptor, which stays valid even if the path changes.

    Raises
    ------
    FolderError
        If it is a link or no directory, belongs to another user, or others may write
        to it; if another user can replace it, or keeps this user out.
    OSError
        If it cannot be opened or made.
    """
    check_way(path.parent)
    if make:
        for missing in reversed([path, *path.parents]):
            try:
                os.mkdir(missing, 0o700)
            except FileExistsError:
                continue
            except PermissionError:
                raise _closed(missing.parent) from None
    folder = open_own(path)
    try:
        yield folder
    finally:
        os.close(folder)


def open_own(path: Path) -> int:
    """Return the descriptor of a directory of this user, without checks of the path.

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
        kind = "a link" if stat.S_ISLNK(state.st_mode) else "not a directory"
        raise FolderError(f"{path}: is {kind}, expected a directory of yours.")
    _check_own(path, state)  # another user's may be closed to us
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        _check_own(path, os.fstat(folder))
    except FolderError:
        os.close(folder)
        raise
    return folder


def _check_own(path: Path, state: os.stat_result) -> None:
    """Refuse a directory that does not belong to this user alone."""
    if state.st_uid != os.geteuid():
        raise FolderError(
            f"{path}: belongs to {_name_of(state.st_uid)}, expected a directory of "
            f"yours ({_name_of(os.geteuid())}); give another root in the system file, "
            "or let that user remove it."
        )
    if state.st_mode & _WRITABLE_BY_OTHERS:
        raise FolderError(
            f"{path}: others may write to it (mode {stat.S_IMODE(state.st_mode):04o}): "
            f"chmod go-w {shlex.quote(str(path))}"
        )


def _name_of(user: int) -> str:
    """Return a user by number, and by name where this machine knows it."""
    with suppress(KeyError):
        return f"user {user} ({pwd.getpwuid(user).pw_name})"
    return f"user {user}"


def _closed(path: Path) -> FolderError:
    """Return the error of a folder in which this user may not make or find files."""
    state = os.stat(path)
    return FolderError(
        f"{path}: belongs to {_name_of(state.st_uid)} (mode "
        f"{stat.S_IMODE(state.st_mode):04o}), and you ({_name_of(os.geteuid())}) may "
        "not use it; give another path, or ask that user for access."
    )


def check_own_folder(path: Path) -> None:
    """Refuse what `own_folder` would refuse, and make nothing.

    Raises
    ------
    FolderError
        As `own_folder` does.
    OSError
        If it cannot be opened or made.
    """
    check_way(path.parent)
    with suppress(FileNotFoundError):
        os.close(open_own(path))
    check_writable(path)


def check_writable(path: Path) -> None:
    """Refuse a folder in which this user cannot make files, and make none.

    Raises
    ------
    FolderError
        If another user keeps this one out.
    OSError
        With the folder, or the one in which it would be made, and why.
    """
    there = next(folder for folder in (path, *path.parents) if folder.exists())
    if not there.is_dir():
        number = errno.ENOTDIR
    elif os.statvfs(there).f_flag & os.ST_RDONLY:
        number = errno.EROFS
    elif not os.access(there, os.W_OK | os.X_OK):
        raise _closed(there)
    else:
        return
    raise OSError(number, os.strerror(number), str(there))


def check_way(path: Path) -> None:
    """Refuse a path to a folder if any user can replace a directory on it.

    In a directory to which all users may write, such as /tmp, the next part of the path
    must belong to this user or to the system. For other directories the owner and group
    are trusted. Parts that do not exist yet are not checked.

    Raises
    ------
    FolderError
        With the directory, its fault, and the command that mends it.
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
        except PermissionError:
            raise _closed(here.parent) from None
        if is_public and state.st_uid not in trusted:
            raise FolderError(
                f"{here}: belongs to {_name_of(state.st_uid)}, who can replace it; "
                "give another path."
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
                f"{stat.S_IMODE(state.st_mode):04o}, without sticky bit): "
                f"{_remedy(here, state.st_uid)}"
            )


def _remedy(path: Path, owner: int) -> str:
    """Return the command with which nobody else can replace what a folder holds."""
    name = shlex.quote(str(path))
    if owner == os.geteuid():
        return f"chmod o-w {name}"
    return f"chmod +t {name} (as user {owner}, its owner)"
