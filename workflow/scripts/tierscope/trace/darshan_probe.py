"""Load MPI and a Darshan runtime like a rank, but start neither.

    python darshan_probe.py LIBDARSHAN

It is a separate process because a library of another MPI may crash it. If the library
is unusable, it prints the reason in one line and exits with code 1.
"""

import ctypes
import os
import re
import sys
from pathlib import Path

_MPI = re.compile(r"libmpi(?:ch|_\w+)?\.so")  # no language bindings such as libmpifort


def mpi_libraries() -> list[Path]:
    """Return the MPI libraries that this process has loaded."""
    paths = re.findall(r"/.*", os.fsdecode(Path("/proc/self/maps").read_bytes()))
    return [path for path in map(Path, sorted(set(paths))) if _MPI.match(path.name)]


def fault(library: str) -> str | None:
    """Return why a library cannot trace the ranks, or None."""
    if not Path(library).is_file():
        return "got no file, expected the path of a libdarshan.so."
    ours = load_mpi()
    try:
        darshan = ctypes.CDLL(str(Path(library).absolute()), ctypes.RTLD_GLOBAL)
    except OSError as error:
        return f"cannot be loaded: {error}."
    if not hasattr(darshan, "darshan_core_register_module"):
        return "is not a Darshan runtime: it has no darshan_core_register_module."
    if not hasattr(darshan, "MPI_Init"):
        return "is a Darshan runtime without MPI: build it with mpicc."
    folders = {path.parent for path in ours}
    others = [path for path in mpi_libraries() if path.parent not in folders]
    if others:
        return (
            f"is built for MPI {others[0]}, expected that of mpi4py, {ours[0]}: "
            "build it with the mpicc of that MPI."
        )
    return None


def load_mpi() -> list[Path]:
    """Load the ranks' MPI without starting it, and return its libraries."""
    import mpi4py

    mpi4py.rc.initialize = False
    import mpi4py.MPI

    return mpi_libraries()


if __name__ == "__main__":
    if reason := fault(sys.argv[1]):
        sys.exit(f"{sys.argv[1]}: {reason}")
