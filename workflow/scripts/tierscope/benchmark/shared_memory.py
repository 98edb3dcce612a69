"""Shared memory of MPICH, which removes it only in MPI_Finalize.

A note beside it names the files of a launch. Whoever may still remove them holds the
note by a lock; if nobody does, because all were killed, the next launch removes them. A
file that MPICH made within the last tenth of a second before stays, as nothing tells it
from one of another program of this user.
"""

import fcntl
import glob
import os
import platform
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tierscope.core.files import opened

MEMORY = Path("/dev/shm")
_PREFIX = "/dev/shm/mpich_"
_NOTE = "kept"
_FEW_BLOCKS = 4
_FLAGS = os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


def mpi_segments(pid: int) -> set[str]:
    """Return the files of MPICH's shared memory that a process maps, if it runs."""
    with suppress(OSError):
        return segments_in(os.fsdecode(Path(f"/proc/{pid}/maps").read_bytes()))
    return set()


def segments_in(maps: str) -> set[str]:
    """Return the files of MPICH's shared memory in the content of `/proc/PID/maps`."""
    fields = (line.split(maxsplit=5) for line in maps.splitlines())
    names = (one[5] for one in fields if len(one) == 6)
    return {name for name in names if name.startswith(_PREFIX) and " " not in name}


def remove_mpi_segments() -> None:
    """Remove this process's files before an abort; mapped memory stays usable."""
    for name in mpi_segments(os.getpid()):
        with suppress(OSError):  # another process was faster
            os.unlink(name)


def full_memory_words(memory: Path = MEMORY) -> str:
    """Return that no memory can be shared any more, if so: SIGBUS ends who tries."""
    if os.statvfs(memory).f_bavail > _FEW_BLOCKS:
        return ""
    return (
        f"{memory} on {platform.node()} is full, where processes of MPI share memory; "
        f"look at what is there (ls -l {memory}), and remove what nobody uses."
    )


def files_in_memory(launch: str, memory: Path = MEMORY) -> list[Path]:
    """Return the files of a launch, given by user and name, that are named by it."""
    return list(memory.glob(f"tierscope-{glob.escape(launch)}.*"))


def hold_note(launch: str, memory: Path = MEMORY) -> int | None:
    """Hold the note of a launch while this process runs; None if there can be none."""
    with suppress(OSError):
        note = os.open(memory / f"tierscope-{launch}.{_NOTE}", _FLAGS, 0o600)
        fcntl.flock(note, fcntl.LOCK_SH)
        return note
    return None


def note_segments(note: int | None, names: Iterable[str]) -> None:
    """Note files of MPICH with what tells each from a later one of its name."""
    for name in names:
        with suppress(OSError, TypeError):
            os.write(note, f"{os.lstat(name).st_ino} {name}\n".encode())


def remove_what_killed_launches_left(memory: Path = MEMORY) -> None:
    """Remove the files of this user's launches of which no process is left here."""
    for path in memory.glob(f"tierscope-{os.getuid()}-*.{_NOTE}"):
        with suppress(OSError), opened(path, os.O_RDONLY | os.O_NOFOLLOW) as note:
            fcntl.flock(note, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(note).st_uid == os.getuid():
                _remove_noted(os.read(note, 1 << 20).decode())
                launch = path.stem.removeprefix("tierscope-")
                for left in files_in_memory(launch, memory):
                    left.unlink()


def _remove_noted(lines: str) -> None:
    for inode, _, name in (line.partition(" ") for line in lines.splitlines()):
        with suppress(OSError):
            if name.startswith(_PREFIX) and str(os.lstat(name).st_ino) == inode:
                os.unlink(name)
