"""Write or read many small logs in a fresh process: ``KIND FOLDER [NUMBER]``.

KIND is write, loop or pool. Reading prints the seconds (imports left out in a loop, and
counted in a pool) and what was read of POSIX.
"""

import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

N_WORKERS = 2
N_FILES = 40  # of a small log


def write(folder: Path, n_logs: int) -> dict:
    """Write logs of jobs of four processes, like those of a training or a simulation.

    Each has records of single ranks and shared ones, STDIO and MPI-IO.
    """
    from tierscope.trace.darshan.module_records import MPIIO_RECORD, STDIO_RECORD
    from tierscope.trace.log_writer import LoggedJob, write_log
    from tierscope.trace.posix_records import POSIX_RECORD

    generator, n_bytes = np.random.default_rng(1), 0
    posix = np.zeros(N_FILES, POSIX_RECORD)
    posix["rank"] = np.arange(N_FILES) % 4
    posix["rank"][:4] = -1
    for job in range(n_logs):
        ids = generator.integers(1, 1 << 63, N_FILES + 2, dtype=np.uint64)
        posix["id"] = ids[:N_FILES]
        posix["POSIX_OPENS"], posix["POSIX_READS"] = 1, 4
        posix["POSIX_BYTES_READ"] = generator.integers(1, 1 << 20, N_FILES)
        n_bytes += int(posix["POSIX_BYTES_READ"].sum())
        for timer in ("READ", "META", "MAX_READ"):
            posix[f"POSIX_F_{timer}_TIME"] = generator.random(N_FILES)
        stdio, mpi = np.zeros(2, STDIO_RECORD), np.zeros(1, MPIIO_RECORD)
        stdio["id"], stdio["STDIO_WRITES"] = ids[N_FILES:], 3
        mpi["id"], mpi["rank"], mpi["MPIIO_COLL_OPENS"] = ids[0], -1, 4
        paths = [f"/scratch/project/job-{job}/part-{i:05d}" for i in range(N_FILES)]
        paths += ["<STDOUT>", "<STDERR>"]
        write_log(
            folder / f"user_app_id{job}_1.darshan",
            {"POSIX": posix, "STDIO": stdio, "MPI-IO": mpi},
            dict(zip(ids.tolist(), paths, strict=True)),
            LoggedJob(
                n_processes=4,
                exe="./app input.nml",
                mounts={"/": "ext4", "/scratch": "lustre", "/home": "nfs"},
                started_s=1_700_000_000 + job,
                ended_s=1_700_000_060 + job,
                job_id=job,
            ),
        )
    log_bytes = sum(log.stat().st_size for log in folder.iterdir())
    return {"bytes": log_bytes, "n_bytes": n_bytes}


def bytes_of(path: str) -> int:
    """Read a log and return the bytes that POSIX moved."""
    from tierscope.trace.log import read_any_log

    columns = read_any_log(path).records["POSIX"].columns
    return int(columns["bytes_read"].sum() + columns["bytes_written"].sum())


def read_in_loop(logs: list[str]) -> dict:
    """Read the logs one after the other."""
    bytes_of(logs[0])  # imports what it needs
    start = time.perf_counter()
    return _summed(list(map(bytes_of, logs)), start)


def read_in_pool(logs: list[str]) -> dict:
    """Read the logs with some processes, started for it."""
    start = time.perf_counter()
    bytes_of(logs[0])  # imports what the forked processes need
    with ProcessPoolExecutor(N_WORKERS) as pool:
        n_bytes = list(pool.map(bytes_of, logs, chunksize=32))
    return _summed(n_bytes, start)


def _summed(n_bytes: list[int], start: float) -> dict:
    """Return the seconds since the start, the number of logs and their bytes."""
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "n_logs": len(n_bytes), "n_bytes": sum(n_bytes)}


def main() -> None:
    """Do what the command line says and print it as JSON."""
    kind, folder, *numbers = sys.argv[1:]
    if kind == "write":
        done = write(Path(folder), *map(int, numbers))
    else:
        logs = sorted(map(str, Path(folder).glob("*.darshan")))
        done = {"loop": read_in_loop, "pool": read_in_pool}[kind](logs)
    print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main()
