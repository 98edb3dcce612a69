"""Darshan logs of made-up jobs, for tests."""

import hashlib
import os
from pathlib import Path

import numpy as np
from tierscope.trace.darshan.module_records import MPIIO_RECORD, STDIO_RECORD
from tierscope.trace.log_writer import LoggedJob, write_log
from tierscope.trace.posix_records import POSIX_RECORD

RECORDS = {"POSIX": POSIX_RECORD, "STDIO": STDIO_RECORD, "MPI-IO": MPIIO_RECORD}
PREFIX = {"POSIX": "POSIX", "STDIO": "STDIO", "MPI-IO": "MPIIO"}
SHORT = {
    "opens": "OPENS",
    "reads": "READS",
    "writes": "WRITES",
    "bytes_read": "BYTES_READ",
    "bytes_written": "BYTES_WRITTEN",
    "read_s": "F_READ_TIME",
    "write_s": "F_WRITE_TIME",
    "meta_s": "F_META_TIME",
    "slowest_rank": "SLOWEST_RANK",
    "slowest_s": "F_SLOWEST_RANK_TIME",
    "fastest_rank": "FASTEST_RANK",
    "fastest_s": "F_FASTEST_RANK_TIME",
    "variance_s2": "F_VARIANCE_RANK_TIME",
}


def id_of(path):
    """Return the record id of a path."""
    return int.from_bytes(hashlib.sha256(os.fsencode(path)).digest()[:8], "little")


def write_job_log(path, rows, n_processes=1, *, nameless=(), **facts):
    """Write a log with records: (interface, rank, path, counters by short name)."""
    records = {}
    for interface in PREFIX:
        own = [row for row in rows if row[0] == interface]
        if not own:
            continue
        table = np.zeros(len(own), RECORDS[interface])
        for record, (_, rank, name, counters) in zip(table, own, strict=True):
            record["id"], record["rank"] = id_of(name), rank
            for short, value in counters.items():
                counter = f"{PREFIX[interface]}_{SHORT.get(short, short)}"
                if interface == "MPI-IO" and short in ("opens", "reads", "writes"):
                    counter = f"MPIIO_INDEP_{SHORT[short]}"
                record[counter] = value
        records[interface] = table
    names = {id_of(row[2]): row[2] for row in rows if row[2] not in nameless}
    settings = {
        "exe": "/usr/bin/train --fast",
        "mounts": {"/": "ext4", "/gfs": "lustre", "/home": "nfs4"},
        "started_s": 1_790_000_000.0,
        "ended_s": 1_790_000_010.0,
        "uid": 1000,
        "job_id": 77,
    }
    write_log(
        path, records, names, LoggedJob(n_processes=n_processes, **settings | facts)
    )
    return path


# A reader of logs waits at its start as long as there is a file `hold`, other than the
# first one if there is a file `free`. One that waits says so by a file `waits`.
HOLDING = """
import os, sys, time
if "tierscope.logs.worker" in sys.orig_argv:
    try:
        os.unlink("free")
    except FileNotFoundError:
        while os.path.exists("hold"):
            open("waits", "w").close()
            time.sleep(0.1)
"""


def holding_readers(folder: Path) -> dict[str, str]:
    """Return the variables with which readers of logs in a folder can be held."""
    modules = folder / "holding"
    modules.mkdir()
    (modules / "sitecustomize.py").write_text(HOLDING)
    paths = filter(None, [str(modules), os.environ.get("PYTHONPATH")])
    return {"PYTHONPATH": os.pathsep.join(paths)}
