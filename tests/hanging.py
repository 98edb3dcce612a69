"""A mounted file system that answers no call: a FUSE without a server."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_DETACH = 2
_LIBC = ctypes.CDLL(None, use_errno=True)


@contextmanager
def hanging_mount(folder: Path) -> Iterator[Path]:
    """Mount it on a new folder, where that is allowed; in the end its calls fail."""
    folder.mkdir(parents=True)
    point = os.fsencode(folder)
    try:
        server = os.open("/dev/fuse", os.O_RDWR)
    except OSError:
        pytest.skip("needs the right to mount a file system")
    try:
        options = f"fd={server},rootmode=40000,user_id={os.getuid()},group_id=0"
        if _LIBC.mount(b"hanging", point, b"fuse", 0, options.encode()):
            pytest.skip("needs the right to mount a file system")
        try:
            yield folder
        finally:
            os.close(server)  # what waits gets ENOTCONN
            server = -1
            _LIBC.umount2(point, _DETACH)
    finally:
        if server >= 0:
            os.close(server)
