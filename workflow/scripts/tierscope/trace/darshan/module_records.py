"""Layouts of the records of Darshan's POSIX, STDIO and MPI-IO modules, by version.

The names are PyDarshan's `counter_names` and `fcounter_names`; a test compares them.
An older version lacks some counters of the current one. Source: darshan-util's
``darshan-<module>-logutils.c``, which converts older records.
"""

import numpy as np

from tierscope.trace.posix_records import COUNTERS as POSIX_COUNTERS
from tierscope.trace.posix_records import SIZES
from tierscope.trace.posix_records import TIMERS as POSIX_TIMERS

_RANKS = ["FASTEST_RANK", "FASTEST_RANK_BYTES", "SLOWEST_RANK", "SLOWEST_RANK_BYTES"]
_RANK_TIMES = [
    "F_FASTEST_RANK_TIME",
    "F_SLOWEST_RANK_TIME",
    "F_VARIANCE_RANK_TIME",
    "F_VARIANCE_RANK_BYTES",
]


def _stamps(when: str, *calls: str) -> list[str]:
    """Return the names of timestamps."""
    return [f"F_{call}_{when}_TIMESTAMP" for call in calls]


_STDIO_COUNTERS = [
    "OPENS",
    "FDOPENS",
    "READS",
    "WRITES",
    "SEEKS",
    "FLUSHES",
    "BYTES_WRITTEN",
    "BYTES_READ",
    "MAX_BYTE_READ",
    "MAX_BYTE_WRITTEN",
    *_RANKS,
]
_STDIO_TIMERS = [
    "F_META_TIME",
    "F_WRITE_TIME",
    "F_READ_TIME",
    *_stamps("START", "OPEN", "CLOSE", "WRITE", "READ"),
    *_stamps("END", "OPEN", "CLOSE", "WRITE", "READ"),
    *_RANK_TIMES,
]
_MPIIO_COUNTERS = [
    "INDEP_OPENS",
    "COLL_OPENS",
    "INDEP_READS",
    "INDEP_WRITES",
    "COLL_READS",
    "COLL_WRITES",
    "SPLIT_READS",
    "SPLIT_WRITES",
    "NB_READS",
    "NB_WRITES",
    "SYNCS",
    "HINTS",
    "VIEWS",
    "MODE",
    "BYTES_READ",
    "BYTES_WRITTEN",
    "RW_SWITCHES",
    "MAX_READ_TIME_SIZE",
    "MAX_WRITE_TIME_SIZE",
    *(f"SIZE_READ_AGG_{size}" for size in SIZES),
    *(f"SIZE_WRITE_AGG_{size}" for size in SIZES),
    *(f"ACCESS{i}_ACCESS" for i in range(1, 5)),
    *(f"ACCESS{i}_COUNT" for i in range(1, 5)),
    *_RANKS,
]
_MPIIO_TIMERS = [
    *_stamps("START", "OPEN", "READ", "WRITE", "CLOSE"),
    *_stamps("END", "OPEN", "READ", "WRITE", "CLOSE"),
    "F_READ_TIME",
    "F_WRITE_TIME",
    "F_META_TIME",
    "F_MAX_READ_TIME",
    "F_MAX_WRITE_TIME",
    *_RANK_TIMES,
]
_NAMES = {
    "POSIX": (POSIX_COUNTERS, POSIX_TIMERS),
    "STDIO": (
        [f"STDIO_{name}" for name in _STDIO_COUNTERS],
        [f"STDIO_{name}" for name in _STDIO_TIMERS],
    ),
    "MPI-IO": (
        [f"MPIIO_{name}" for name in _MPIIO_COUNTERS],
        [f"MPIIO_{name}" for name in _MPIIO_TIMERS],
    ),
}

# Counters that records of an older version do not have.
_NEW_STAMPS = ["F_CLOSE_START_TIMESTAMP", "F_OPEN_END_TIMESTAMP"]
_POSIX_NEW_IN_4 = [
    "POSIX_FILENOS",
    "POSIX_DUPS",
    "POSIX_RENAME_SOURCES",
    "POSIX_RENAME_TARGETS",
    "POSIX_RENAMED_FROM",
]
_POSIX_NEW_IN_3 = [f"POSIX_{name}" for name in _NEW_STAMPS]
_MPIIO_NEW_IN_3 = [f"MPIIO_{name}" for name in _NEW_STAMPS]
_MISSING = {
    "POSIX": {
        1: _POSIX_NEW_IN_3 + _POSIX_NEW_IN_4,
        2: _POSIX_NEW_IN_3 + _POSIX_NEW_IN_4,
        3: _POSIX_NEW_IN_4,
        4: [],
    },
    "STDIO": {1: ["STDIO_FDOPENS"], 2: []},
    "MPI-IO": {1: _MPIIO_NEW_IN_3, 2: _MPIIO_NEW_IN_3, 3: []},
}
# Records of POSIX version 1 count the calls of STDIO as well, after these of POSIX.
FOPENS = "POSIX_FOPENS"
MMAPS = "POSIX_MMAPS"
_STDIO_IN_POSIX_1 = [FOPENS, "POSIX_FREADS", "POSIX_FWRITES", "POSIX_FSEEKS"]


def _record_type(interface: str, version: int) -> np.dtype:
    """Return the layout of a record."""
    counters, timers = (
        [name for name in names if name not in _MISSING[interface][version]]
        for names in _NAMES[interface]
    )
    if (interface, version) == ("POSIX", 1):
        after = counters.index("POSIX_MMAPS") + 1
        counters[after:after] = _STDIO_IN_POSIX_1
    return np.dtype(
        [("id", "<u8"), ("rank", "<i8")]
        + [(name, "<i8") for name in counters]
        + [(name, "<f8") for name in timers]
    )


# Layouts by interface and version of the module; the last version is the current one.
RECORD_TYPES = {
    interface: {version: _record_type(interface, version) for version in versions}
    for interface, versions in _MISSING.items()
}
STDIO_RECORD = RECORD_TYPES["STDIO"][2]
MPIIO_RECORD = RECORD_TYPES["MPI-IO"][3]
