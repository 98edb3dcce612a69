"""Write or read a big log in a fresh process: ``KIND LOG ...``.

KIND is write, floor, tierscope, any_log or pydarshan. Reading prints
seconds (imports left out), the process's peak memory and what was read; writing prints
what there is to read.
"""

import json
import re
import sys
import time
import zlib
from pathlib import Path

import numpy as np

ROOTS = {
    "gfs": "/vol0004/group/scratch/gfs/data",
    "lfs": "/local/scratch/lfs/data",
}
EPOCHS = 3
PIECE_BYTES = 1 << 18  # of compressed data, inflated at a time
PROCESSES_PER_NODE = 4
FILE_SIZE_BYTES = 1 << 17
_NAME_BYTES = 9  # an id before a name in a log, and the zero after it


def manifest_of(path: str) -> Path:
    """Return the manifest of the files in a log."""
    return Path(path).with_suffix(".parquet")


def write(path: str, n_processes: int, files_per_process: int) -> dict:
    """Write the log of a run: global shuffle, half the reads from the LFS."""
    import pandas as pd
    from tierscope.trace.log_writer import LoggedJob, write_log
    from tierscope.trace.posix_records import POSIX_RECORD

    n_files = n_processes * files_per_process
    n_records = n_files * EPOCHS
    dataset = f"small-{n_files}x{FILE_SIZE_BYTES}-60ost"
    generator = np.random.default_rng(1)
    records = np.zeros(n_records, POSIX_RECORD)
    # An odd factor makes ids as different as hashes, and no two equal.
    ids = np.arange(1, n_records + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    records["id"] = ids
    on_lfs = generator.random(n_files) < 0.5
    names = {}
    for epoch in range(EPOCHS):
        part = slice(epoch * n_files, (epoch + 1) * n_files)
        files = generator.permutation(n_files)
        ranks = np.repeat(np.arange(n_processes), files_per_process)
        records["rank"][part] = ranks
        gfs = f"{ROOTS['gfs']}.ep{epoch}/{dataset}"
        nodes = [
            f"{ROOTS['lfs']}.ep{epoch}/node-{node:05d}/{dataset}"
            for node in range(-(-n_processes // PROCESSES_PER_NODE))
        ]
        columns = ids[part], files, ranks, on_lfs[files]
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for id_, file_id, rank, local in rows:
            folder = nodes[rank // PROCESSES_PER_NODE] if local else gfs
            names[id_] = f"{folder}/{file_id:07d}.tfrecord"
    records["POSIX_OPENS"] = 1
    records["POSIX_READS"] = 2
    records["POSIX_BYTES_READ"] = FILE_SIZE_BYTES
    starts = np.sort(generator.random(n_records)) * 100
    for call in ("OPEN", "READ", "CLOSE"):
        starts += generator.random(n_records) * 1e-3
        records[f"POSIX_F_{call}_START_TIMESTAMP"] = starts
        records[f"POSIX_F_{call}_END_TIMESTAMP"] = starts + 1e-4
    for counter in ("POSIX_F_READ_TIME", "POSIX_F_META_TIME", "POSIX_F_MAX_READ_TIME"):
        records[counter] = generator.random(n_records) * 1e-3
    write_log(
        path,
        {"POSIX": records},
        names,
        LoggedJob(
            n_processes=n_processes,
            exe="python run_benchmark.py scenario.json",
            mounts={"/": "ext4"},
            started_s=1_600_000_000,
            ended_s=1_600_000_100,
        ),
    )
    paths = [f"{dataset}/{number:07d}.tfrecord" for number in range(n_files)]
    manifest = pd.DataFrame({"file_id": range(n_files), "path": paths})
    manifest.to_parquet(manifest_of(path))
    return {
        "bytes": Path(path).stat().st_size,
        "inflated_bytes": records.nbytes
        + sum(_NAME_BYTES + len(n) for n in names.values()),
        "n_records": n_records,
        "n_names": len(names),
        "bytes_read": n_records * FILE_SIZE_BYTES,
        "read_time_s": float(records["POSIX_F_READ_TIME"].sum()),
    }


def read_with_tierscope(path: str) -> dict:
    """Read the log into our table: attributed to epochs, tiers and files."""
    import pandas as pd
    from tierscope.trace.file_records import read_file_records

    manifest = pd.read_parquet(manifest_of(path))
    start = time.perf_counter()
    table = read_file_records(path, ROOTS, manifest)
    seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "n_records": len(table),
        "n_names": len(table),
        "read_time_s": float(table["read_time_s"].sum()),
        "bytes_read": int(table["bytes_read"].sum()),
    }


def read_as_any_log(path: str) -> dict:
    """Read the log as one of any job: all counters that an analysis needs."""
    import pandas  # noqa: F401  pyarrow imports it for its first array
    from tierscope.trace.log import read_any_log

    start = time.perf_counter()
    log = read_any_log(path)
    seconds = time.perf_counter() - start
    posix = log.records["POSIX"]
    return {
        "seconds": seconds,
        "n_records": len(posix.ids),
        "n_names": len(log.names.ids),
        "read_time_s": float(posix.columns["read_time_s"].sum()),
        "bytes_read": int(posix.columns["bytes_read"].sum()),
    }


def inflate_and_copy(path: str) -> dict:
    """Inflate names and records with zlib and copy them, and do no more."""
    from tierscope.trace.darshan.container import open_container

    start, n_bytes = time.perf_counter(), 0
    log = open_container(path)
    for offset, length in [log.names_region, *log.regions]:
        with open(path, "rb") as file:
            file.seek(offset)
            region = memoryview(file.read(length))
        while region:
            inflater = zlib.decompressobj(wbits=47)
            for at in range(0, len(region), PIECE_BYTES):
                piece = region[at : at + PIECE_BYTES]
                n_bytes += len(bytearray(inflater.decompress(piece)))
                if inflater.eof:
                    break
            region = region[at + len(piece) - len(inflater.unused_data) :]
    return {"seconds": time.perf_counter() - start, "inflated_bytes": n_bytes}


def read_with_pydarshan(path: str) -> dict:
    """Read the log into PyDarshan's data frames with their names; no attribution."""
    import darshan

    start = time.perf_counter()
    report = darshan.DarshanReport(path, read_all=False)
    report.mod_read_all_records("POSIX", dtype="numpy")
    frames = report.records["POSIX"].to_df()
    names = frames["counters"]["id"].map(report.name_records)
    seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "n_records": len(frames["counters"]),
        "n_names": int(names.notna().sum()),
        "read_time_s": float(frames["fcounters"]["POSIX_F_READ_TIME"].sum()),
        "bytes_read": int(frames["counters"]["POSIX_BYTES_READ"].sum()),
    }


def peak_memory_mb() -> float:
    """Return this program's peak memory (`getrusage` would count its parent's)."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024 / 1e6


def main() -> None:
    """Do what the command line says and print it as JSON."""
    kind, path, *numbers = sys.argv[1:]
    if kind == "write":
        done = write(path, *map(int, numbers))
    else:
        readers = {
            "floor": inflate_and_copy,
            "tierscope": read_with_tierscope,
            "any_log": read_as_any_log,
            "pydarshan": read_with_pydarshan,
        }
        done = readers[kind](path)
    print(json.dumps(done | {"peak_memory_mb": peak_memory_mb()}), flush=True)


if __name__ == "__main__":
    main()
