"""What MPICH keeps in shared memory: it removes it in MPI_Finalize only."""

import os
from contextlib import suppress
from pathlib import Path

_PREFIX = "/dev/shm/mpich_"


def mpi_segments(maps: str) -> set[str]:
    """Return the files of MPICH's shared memory that a process has mapped.

    Parameters
    ----------
    maps : str
        Content of `/proc/PID/maps`.
    """
    fields = (line.split(maxsplit=5) for line in maps.splitlines())
    names = (one[5] for one in fields if len(one) == 6)
    return {name for name in names if name.startswith(_PREFIX) and " " not in name}


def remove_mpi_segments() -> None:
    """Remove this process's, before a job is aborted; what is mapped stays usable."""
    for name in mpi_segments(Path("/proc/self/maps").read_text()):
        with suppress(OSError):  # another process was faster
            os.unlink(name)
