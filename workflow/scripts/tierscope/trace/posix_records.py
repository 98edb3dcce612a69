"""The records of Darshan's POSIX module, version 4, in logs and spools.

The names are PyDarshan's ``counter_names("POSIX")`` and ``fcounter_names("POSIX")``; a
test compares them.
"""

import numpy as np

SIZES = [
    "0_100",
    "100_1K",
    "1K_10K",
    "10K_100K",
    "100K_1M",
    "1M_4M",
    "4M_10M",
    "10M_100M",
    "100M_1G",
    "1G_PLUS",
]

SIZE_COUNTERS = [
    f"POSIX_SIZE_{what}_{size}" for what in ("READ", "WRITE") for size in SIZES
]
ACCESS_SIZES = [f"POSIX_ACCESS{i}_ACCESS" for i in range(1, 5)]
ACCESS_COUNTS = [f"POSIX_ACCESS{i}_COUNT" for i in range(1, 5)]

COUNTERS = [
    "POSIX_OPENS",
    "POSIX_FILENOS",
    "POSIX_DUPS",
    "POSIX_READS",
    "POSIX_WRITES",
    "POSIX_SEEKS",
    "POSIX_STATS",
    "POSIX_MMAPS",
    "POSIX_FSYNCS",
    "POSIX_FDSYNCS",
    "POSIX_RENAME_SOURCES",
    "POSIX_RENAME_TARGETS",
    "POSIX_RENAMED_FROM",
    "POSIX_MODE",
    "POSIX_BYTES_READ",
    "POSIX_BYTES_WRITTEN",
    "POSIX_MAX_BYTE_READ",
    "POSIX_MAX_BYTE_WRITTEN",
    "POSIX_CONSEC_READS",
    "POSIX_CONSEC_WRITES",
    "POSIX_SEQ_READS",
    "POSIX_SEQ_WRITES",
    "POSIX_RW_SWITCHES",
    "POSIX_MEM_NOT_ALIGNED",
    "POSIX_MEM_ALIGNMENT",
    "POSIX_FILE_NOT_ALIGNED",
    "POSIX_FILE_ALIGNMENT",
    "POSIX_MAX_READ_TIME_SIZE",
    "POSIX_MAX_WRITE_TIME_SIZE",
    *SIZE_COUNTERS,
    *(f"POSIX_STRIDE{i}_STRIDE" for i in range(1, 5)),
    *(f"POSIX_STRIDE{i}_COUNT" for i in range(1, 5)),
    *ACCESS_SIZES,
    *ACCESS_COUNTS,
    "POSIX_FASTEST_RANK",
    "POSIX_FASTEST_RANK_BYTES",
    "POSIX_SLOWEST_RANK",
    "POSIX_SLOWEST_RANK_BYTES",
]

START_TIMES = [
    f"POSIX_F_{call}_START_TIMESTAMP" for call in ("OPEN", "READ", "WRITE", "CLOSE")
]
END_TIMES = [
    f"POSIX_F_{call}_END_TIMESTAMP" for call in ("OPEN", "READ", "WRITE", "CLOSE")
]

TIMERS = [
    *START_TIMES,
    *END_TIMES,
    "POSIX_F_READ_TIME",
    "POSIX_F_WRITE_TIME",
    "POSIX_F_META_TIME",
    "POSIX_F_MAX_READ_TIME",
    "POSIX_F_MAX_WRITE_TIME",
    "POSIX_F_FASTEST_RANK_TIME",
    "POSIX_F_SLOWEST_RANK_TIME",
    "POSIX_F_VARIANCE_RANK_TIME",
    "POSIX_F_VARIANCE_RANK_BYTES",
]

POSIX_RECORD = np.dtype(
    [("id", "<u8"), ("rank", "<i8")]
    + [(name, "<i8") for name in COUNTERS]
    + [(name, "<f8") for name in TIMERS]
)
