"""Logs that Darshan's own library has written (libdarshan-util 3.5.0), and of what.

The library overran a buffer where a name has 4,096 bytes or more; these are shorter.
Nothing here calls it any more, so the logs cannot be made again.
"""

from pathlib import Path

import numpy as np
from tierscope.core.words import as_text
from tierscope.trace.darshan.module_records import RECORD_TYPES

FOLDER = Path(__file__).parent / "data" / "golden-logs"


def records(interface, ids, ranks=0, version=None):
    """Return records of which every counter and timer has another value."""
    versions = RECORD_TYPES[interface]
    layout = versions[version or max(versions)]
    made = np.zeros(len(ids), layout)
    for i, name in enumerate(layout.names):
        scale = 0.125 if layout[name].kind == "f" else 1
        made[name] = (i + np.arange(len(ids)) % 97) * scale
    made["id"], made["rank"] = ids, ranks
    return made


def job(**facts):
    """Return what all logs have, unless it is said otherwise."""
    return {
        "n_processes": 1,
        "exe": "python train.py",
        "mounts": {"/": "ext4", "/gfs": "lustre"},
        "started_s": 1_790_000_000.25,
        "ended_s": 1_790_000_060.5,
        "uid": 1001,
        "job_id": 4242,
    } | facts


def many(n_records):
    """Return the records of eight ranks, and the path of each."""
    ids = np.arange(1, n_records + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    paths = (f"/gfs/data/part-{i % 8}/{i:06d}.bin" for i in range(n_records))
    made = records("POSIX", ids, np.arange(n_records) % 8)
    return {"POSIX": made}, dict(zip(ids.tolist(), paths, strict=True))


# Of each log: its records, its names, and its job.
GOLDEN = {
    "modules": (
        {
            "MPI-IO": records("MPI-IO", [2], -1),
            "STDIO": records("STDIO", [3, 5], [1, 0]),
            "POSIX": records("POSIX", [1 << 63, 2, 4], [0, -1, 3]),
        },
        {
            1 << 63: "/gfs/\u30c7.bin",
            2: b"/gfs/\xe9t\xe9",  # in Latin-1
            3: "<STDIN>",
            4: b"1/main/read/ext4:/",
            5: "relative name",
        },
        job(
            n_processes=4,
            exe=as_text(b"python '\xc3\xa9t\xc3\xa9' \xe9\n-c 1"),
            metadata={"lib_ver": "3.5.0", "tracer": "made \u00e9", "end": "exit"},
            partial=["STDIO"],
        ),
    ),
    "all-partial": (
        {name: records(name, [1, 2], [0, 1]) for name in RECORD_TYPES},
        {1: "/a", 2: "/b"},
        job(n_processes=2, partial=list(RECORD_TYPES)),
    ),
    "cut": (
        {"POSIX": records("POSIX", [1])},
        {1: "/gfs/a"},
        job(
            exe="python -c " + 700 * "\u30c7\n",
            mounts={f"/mnt/with blank\n/{i:050d}": "lustre" for i in range(100)},
            metadata={"long": 1017 * "x"},
        ),
    ),
    "long-names": (
        {"POSIX": records("POSIX", range(1, 8))},  # some have no name
        {
            1: b"/" + 4094 * b"x",
            2: b"/" + 584 * b"folder/" + b"\xff",
            3: b"",
            4: b"/" + 254 * b"y" + b"/line\nbreak\ttab",
        },
        job(),
    ),
    "many": (*many(1000), job(n_processes=8, metadata={"lib_ver": "3.5.0"})),
    "nothing": ({}, {}, job(exe="", mounts={}, partial=["POSIX"])),
    "no-records": ({"POSIX": records("POSIX", [])}, {}, job()),
    "old-records": (
        {
            "POSIX": records("POSIX", [1, 2], version=3),
            "STDIO": records("STDIO", [3], version=1),
            "MPI-IO": records("MPI-IO", [2], version=2),
        },
        {1: "/gfs/a", 2: "/gfs/b", 3: "<STDERR>"},
        job(started_s=0, ended_s=1),
    ),
}
