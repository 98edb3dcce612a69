"""Shared memory of MPICH, which removes it only in MPI_Finalize."""

import os
from contextlib import suppress
from pathlib import Path

_PREFIX = "/dev/shm/mpich_"


def mpi_segments(maps: str) -> set[str]:
    """Return the files of MPICH's shared memory in the content of `/proc/PID/maps`."""
    fields = (line.split(maxsplit=5) for line in maps.splitlines())
    names = (one[5] for one in fields if len(one) == 6)
    return {name for name in names if name.startswith(_PREFIX) and " " not in name}


def remove_mpi_segments() -> None:
    """Remove this process's files before an abort; mapped memory stays usable."""
    for name in mpi_segments(os.fsdecode(Path("/proc/self/maps").read_bytes())):
        with suppress(OSError):  # another process was faster
            os.unlink(name)
