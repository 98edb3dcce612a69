"""Copy the counters of a log with PyDarshan: ``LOG OUTPUT.npy``, a child of log.py."""

import sys

import numpy as np
from darshan.backend import cffi_backend

from tierscope.trace.log import COLUMNS
from tierscope.trace.posix_records import COUNTERS, TIMERS


def read_columns(path: str) -> np.ndarray:
    """Return the counters that `log.COLUMNS` names as a structured array."""
    log = cffi_backend.log_open(path)
    rows = []
    while record := cffi_backend.log_get_record(log, "POSIX", "numpy"):
        values = {"id": record["id"], "rank": record["rank"]}
        values |= zip(COUNTERS, record["counters"], strict=True)
        values |= zip(TIMERS, record["fcounters"], strict=True)
        rows.append(tuple(values[counter] for counter in COLUMNS.values()))
    kinds = {"id": "<u8"} | {column: "<f8" for column in COLUMNS if "time" in column}
    return np.array(rows, [(column, kinds.get(column, "<i8")) for column in COLUMNS])


if __name__ == "__main__":
    np.save(sys.argv[2], read_columns(sys.argv[1]))
