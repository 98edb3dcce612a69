"""Write files whole, logs of scripts line by line; read what others may have made."""

import ctypes
import errno
import io
import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tierscope.core.output.streams import say_beside
from tierscope.core.processes.calls import watch_calls

if TYPE_CHECKING:
    import numpy as np


_LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
_ENDS = {".svg": b"</svg>", ".html": b"</html>", ".pdf": b"%%EOF"}
_ENDS |= {".png": b"IEND\xaeB`\x82", ".parquet": b"PAR1", ".json": (b"}", b"]")}
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}")  # as `written_whole` calls files
LONGEST_S = 86_400  # in which nobody writes a file or folder


@contextmanager
def written_whole(path: str | Path, *, lasting: bool = False) -> Iterator[Path]:
    """Give a temporary name beside a path, and rename that file if no error occurs.

    Nobody can know the name before, so several can write the same path, and no other
    user can have put a link there.

    Parameters
    ----------
    path : path
        The final name; its folder is made if it does not exist.
    lasting : bool
        Whether the file outlasts a power cut once it has this name, and with it all
        that was written to its file system before.

    Raises
    ------
    OSError
        If the file cannot be written or renamed; then an older one is still there. It
        names a file.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with named_at_end(str(temporary), str(path)):
        yield temporary
        if lasting:
            write_back(path.parent)


def remove_left(folder: str | Path) -> int:
    """Remove below a folder what killed processes have left; return how many files.

    These have a name that `written_whole` gives, are of this user, and nobody has
    changed them for a day. No link is followed.
    """
    n_removed, before_s = 0, time.time() - LONGEST_S
    for *_, names, here in os.fwalk(folder):
        for name in filter(_TEMPORARY.fullmatch, names):
            with suppress(OSError):
                state = os.stat(name, dir_fd=here, follow_symlinks=False)
                is_ours = stat.S_ISREG(state.st_mode) and state.st_uid == os.geteuid()
                if is_ours and state.st_nlink == 1 and state.st_ctime < before_s:
                    os.unlink(name, dir_fd=here)
                    n_removed += 1
    return n_removed


def is_torn(path: str | Path) -> bool:
    """Return whether a figure, page or table, or one of a folder, lacks its end."""
    path = Path(path)
    if path.is_dir():
        ends = tuple(_ENDS)
        files = ((top, one) for top, _, names in os.walk(path) for one in names)
        return any(is_torn(Path(*one)) for one in files if one[1].endswith(ends))
    if path.suffix not in _ENDS or not path.is_file():
        return False
    with suppress(OSError), path.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - 64))
        return not file.read().rstrip().endswith(_ENDS[path.suffix])
    return False


@contextmanager
def named_at_end(temporary: str, path: str) -> Iterator[None]:
    """Give a file that is written here its name; after an error it is gone.

    An OSError names a file.
    """
    try:
        with errors_named(path):
            yield
            os.rename(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


@contextmanager
def errors_named(path: str | Path) -> Iterator[None]:
    """Let an OSError that names no file, as one of a write does, name this one."""
    try:
        yield
    except OSError as error:
        if error.errno and error.filename is None:
            error.strerror, error.filename = os.strerror(error.errno), str(path)
        raise


def write_back(folder: str | Path) -> None:
    """Write all that is dirty in a folder's file system to its device.

    So it outlasts a power cut. One call is much faster than one for each small file.

    Raises
    ------
    OSError
        If the device cannot take it; it names the folder.
    """
    with opened(folder, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))


def read_regular(path: str | Path, most_bytes: int) -> bytes:
    """Return a file that another user may have made; it is not waited for.

    Raises
    ------
    OSError
        If it is a link or no regular file, has more bytes, or cannot be read.
    """
    with opened(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK) as file:
        state = os.fstat(file)
        if not stat.S_ISREG(state.st_mode):
            raise OSError(errno.EINVAL, "is no regular file", str(path))
        if state.st_size > most_bytes:
            words = f"has {state.st_size} bytes, expected at most {most_bytes}"
            raise OSError(errno.EFBIG, words, str(path))
        with open(file, "rb", closefd=False) as content:
            return content.read(most_bytes)


@contextmanager
def opened(
    path: str | Path, flags: int, mode: int = 0o600, *, folder: int | None = None
) -> Iterator[int]:
    """Open a file, and give its descriptor; the path may be below an open folder."""
    descriptor = os.open(path, flags, mode, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def os_errors_as(kind: Callable[[str], Exception], words: str) -> Iterator[None]:
    """Let an OSError end as an error of this kind: what cannot be done, and why."""
    try:
        yield
    except OSError as error:
        raise kind(f"{words}: {error.strerror}.") from error


def overlap(folder: str | Path, other: str | Path) -> bool:
    """Return whether one of two folders holds the other, or both are the same."""
    places = os.path.realpath(folder), os.path.realpath(other)
    return os.path.commonpath(places) in places


def write_text(path: str | Path, text: str, *, lasting: bool = False) -> None:
    """Write a text in UTF-8 whole, or raise an OSError and leave the file as it was."""
    with written_whole(path, lasting=lasting) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_array(path: str | Path, array: "np.ndarray") -> None:
    """Write an array whole, as `numpy.load` reads it; errors as `write_text`."""
    from numpy.lib import format as npy  # who writes no array needs none of it

    array = array.copy() if not array.flags.c_contiguous else array
    with written_whole(path) as temporary, temporary.open("wb") as file:
        npy.write_array_header_2_0(file, npy.header_data_from_array_1_0(array))
        file.write(array.data)  # `numpy.save` does not tell why it could not


def read_array(path: str | Path) -> "np.ndarray":
    """Return the array that a file holds.

    Raises
    ------
    ValueError
        If it holds none, or only a part of one; the message names it.
    """
    import numpy as np

    try:
        return np.load(path)
    except (EOFError, ValueError) as error:
        raise ValueError(f"{path}: holds no whole array: {error}") from error


class _Log(io.TextIOBase):
    """A log; the user is told in another way what it cannot take, as on a full disk."""

    encoding = "utf-8"

    def __init__(self, path: str):
        self._path, self._file = path, os.open(path, _LOG_FLAGS, 0o666)

    def write(self, text: str) -> int:
        """Write a text at once, so that the log can be read meanwhile."""
        content = text.encode("utf-8", "backslashreplace")
        try:
            while content:
                content = content[os.write(self._file, content) :]
        except OSError:
            say_beside(self._path, content.decode("utf-8", "replace"))
        return len(text)


def log_to(path: str) -> None:
    """Send all that a script prints, errors included, to the log of its rule.

    If there can be none, this ends the script with a line. A file system that does not
    answer the script is named there (`watch_calls`).
    """
    watch_calls()
    try:
        sys.stdout = sys.stderr = _Log(path)
    except OSError as error:
        say_beside(path, f"tierscope: {path}: cannot be written: {error.strerror}.\n")
        sys.exit(1)
