"""Read the records of a module with PyDarshan, which may know newer versions of them.

PyDarshan runs in a child process because libdarshan-util may crash or hang. As a
program: ``LOG INTERFACE OUTPUT.npy``.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from tierscope.trace.darshan.container import Container
from tierscope.trace.darshan.module_records import RECORD_TYPES

_CHILD_TIMEOUT_S = 1800


def read_records(log: Container, interface: str) -> np.ndarray:
    """Read records of a version that is not in `RECORD_TYPES`.

    libdarshan-util treats an error as the end of the records, so this function first
    checks the region, and then that the records found can fill it.

    Returns
    -------
    ndarray, shape (n_records,)
        Of the last layout of the interface.

    Raises
    ------
    LogError
        If the module is damaged or PyDarshan does not know the version either.
    """
    position = log.position(interface)
    what = f"{interface} records"
    n_bytes = sum(map(len, log.pieces(log.regions[position], what)))
    version, known = log.versions[position], list(RECORD_TYPES[interface])
    unknown = f"has {what} of version {version}, expected one of {known}"
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "records.npy")
        if reason := _run_child(log.path, interface, output):
            raise log.error(f"{unknown}; PyDarshan {reason}.")
        records = np.load(output)
    if n_bytes and (not len(records) or n_bytes % len(records)):
        raise log.error(
            f"{unknown}; PyDarshan reads {len(records)} of them from {n_bytes} bytes."
        )
    return records


def _run_child(path: Path, interface: str, output: Path) -> str:
    """Copy records in a child process, or return why it cannot."""
    command = [sys.executable, "-m", __name__]
    package_parent = str(Path(__file__).parents[3])
    modules = os.pathsep.join([package_parent, *filter(None, sys.path)])
    try:
        done = subprocess.run(
            [*command, str(path.absolute()), interface, str(output)],
            env=os.environ | {"PYTHONPATH": modules, "PYTHONSAFEPATH": "1"},
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_CHILD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"took more than {_CHILD_TIMEOUT_S} s"
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
        return f"cannot read it: {lines[-1]}"
    return ""


def copy_records(path: str, interface: str) -> np.ndarray:
    """Return the records that PyDarshan reads, of our last layout."""
    from darshan.backend import cffi_backend

    counters = cffi_backend.counter_names(interface)
    timers = cffi_backend.fcounter_names(interface)
    versions = RECORD_TYPES[interface]
    layout = versions[max(versions)]
    rows = []
    log = cffi_backend.log_open(path)
    while record := cffi_backend.log_get_record(log, interface, "numpy"):
        values = {"id": record["id"], "rank": record["rank"]}
        values |= zip(counters, record["counters"], strict=True)
        values |= zip(timers, record["fcounters"], strict=True)
        rows.append(tuple(values[name] for name in layout.names))
    return np.array(rows, layout)


if __name__ == "__main__":
    np.save(sys.argv[3], copy_records(*sys.argv[1:3]))
