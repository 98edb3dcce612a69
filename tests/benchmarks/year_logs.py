"""Write different logs of a busy machine: ``FOLDER N_LOGS [N_WORKERS]``; prints JSON.

The logs are in folders of days of a year, with names as Darshan writes them. Eight of
nine jobs are one log of all processes, which share half of the records; the others are
programs without MPI, of which each process leaves a log with the scheduler's id. Every
log has 40 records. More logs leave the first ones as they are.
"""

import json
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from tierscope.trace.darshan.module_records import MPIIO_RECORD, STDIO_RECORD
from tierscope.trace.log_writer import LoggedJob, write_log
from tierscope.trace.posix_records import POSIX_RECORD

N_RECORDS = 40
YEAR_BEGAN_S, YEAR_S = 1_767_225_600, 365 * 86_400  # 2026
PROGRAMS = ("lmp", "vasp", "ior", "gmx_mpi", "cp2k", "nek5000", "wrf", "xgc")
SERIAL = ("python train.py", "blastp -query a.fa", "Rscript fit.R", "octave run.m")
MOUNTS = {"/": "ext4", "/scratch": "lustre", "/home": "nfs", "/tmp": "xfs"}
PLACES = ("/scratch/project", "/scratch/project", "/home", "/tmp")
SHARED_EVERY = 2  # of one log of all processes, each second record is shared
MOST_PROCESSES = 12  # as a power of two
N_PARALLEL, N_OWN = 8, 4  # of nine jobs: logs of all processes, and those of a program
LOGS_AT_ONCE = N_PARALLEL + N_OWN
LONGEST_S = 7200


@dataclass(frozen=True)
class Job:
    """What the logs of a job have in common."""

    number: int
    exe: str
    user: int
    started_s: float
    run_time_s: float
    n_processes: int

    @property
    def job_id(self) -> int:
        """Return the scheduler's number of the job."""
        return 1_000_000 + self.number

    def path(self, folder: Path, pid: int) -> Path:
        """Return the path of the log of a process."""
        day = datetime.fromtimestamp(self.started_s, UTC)
        seconds = day.hour * 3600 + day.minute * 60 + day.second
        name = self.exe.partition(" ")[0]
        place = f"{day.year}/{day.month}/{day.day}"
        when = f"{day.month}-{day.day}-{seconds}-{self.number:010d}"
        log = f"user{self.user:03d}_{name}_id{self.job_id}-{pid}_{when}_1.darshan"
        return folder / place / log


def make_job(number: int, draw: np.random.Generator, is_serial: bool) -> Job:
    """Return a job; some programs and users have many more of them than others."""
    programs = SERIAL if is_serial else PROGRAMS
    return Job(
        number,
        programs[min(int(draw.geometric(0.4)), len(programs)) - 1],
        min(int(draw.geometric(0.02)), 300),
        YEAR_BEGAN_S + float(draw.integers(YEAR_S)),
        float(draw.uniform(60, LONGEST_S)),
        1 if is_serial else 1 << min(int(draw.geometric(0.5)), MOST_PROCESSES),
    )


def records_of(job: Job, draw: np.random.Generator) -> dict[str, np.ndarray]:
    """Return the records of a log by interface."""
    n_others = {"STDIO": 2} | ({"MPI-IO": 1} if job.n_processes > 1 else {})
    posix = np.zeros(N_RECORDS - sum(n_others.values()), POSIX_RECORD)
    posix["id"] = draw.integers(1, 1 << 63, len(posix), dtype=np.uint64)
    posix["rank"] = draw.integers(job.n_processes, size=len(posix))
    n_calls = draw.integers(1, 9, len(posix))
    is_read = draw.random(len(posix)) < 0.7
    posix["POSIX_OPENS"] = 1
    for kind, chosen in {"READ": is_read, "WRITE": ~is_read}.items():
        moved = n_calls * chosen
        posix[f"POSIX_{kind}S"] = moved
        posix[f"POSIX_BYTES_{'READ' if kind == 'READ' else 'WRITTEN'}"] = moved << 16
        posix[f"POSIX_SIZE_{kind}_10K_100K"] = moved
        posix[f"POSIX_F_{kind}_TIME"] = chosen * draw.exponential(1, len(posix))
    posix["POSIX_F_META_TIME"] = draw.exponential(0.3, len(posix))
    if job.n_processes > 1:
        share(posix[::SHARED_EVERY], job.n_processes, draw)
    stdio = np.zeros(n_others["STDIO"], STDIO_RECORD)
    stdio["id"] = [1, 2]
    stdio["STDIO_WRITES"], stdio["STDIO_F_WRITE_TIME"] = 3, draw.exponential(0.01, 2)
    records = {"POSIX": posix, "STDIO": stdio}
    if "MPI-IO" in n_others:
        records["MPI-IO"] = mpi_io = np.zeros(n_others["MPI-IO"], MPIIO_RECORD)
        mpi_io["id"], mpi_io["rank"] = posix["id"][0], -1
        mpi_io["MPIIO_COLL_OPENS"] = job.n_processes
    return records


def share(records: np.ndarray, n_processes: int, draw: np.random.Generator) -> None:
    """Make records those of all processes, as Darshan reduces them."""
    n_drawn = min(n_processes, 16)  # times of the others are those of these again
    for record in records:
        names = [f"POSIX_F_{kind}_TIME" for kind in ("READ", "WRITE", "META")]
        total_s = sum(float(record[name]) for name in names)
        times_s = np.resize(draw.uniform(0.5, 1.5, n_drawn) * total_s, n_processes)
        for name in names:
            record[name] *= times_s.sum() / total_s
        for name in ("OPENS", "READS", "WRITES", "BYTES_READ", "BYTES_WRITTEN"):
            record[f"POSIX_{name}"] *= n_processes
        slowest, fastest = int(times_s.argmax()), int(times_s.argmin())
        record["rank"] = -1
        record["POSIX_SLOWEST_RANK"], record["POSIX_FASTEST_RANK"] = slowest, fastest
        record["POSIX_F_SLOWEST_RANK_TIME"] = times_s[slowest]
        record["POSIX_F_FASTEST_RANK_TIME"] = times_s[fastest]
        record["POSIX_F_VARIANCE_RANK_TIME"] = times_s.var()


def write_job_log(folder: Path, job: Job, pid: int, draw: np.random.Generator) -> None:
    """Write a log of a job, or of one of its processes."""
    records = records_of(job, draw)
    place = PLACES[int(draw.integers(len(PLACES)))]
    parent = f"{place}/user{job.user:03d}/job-{job.number}"
    ids = records["POSIX"]["id"].tolist()
    names = {one: f"{parent}/part-{i:05d}" for i, one in enumerate(ids)}
    path = job.path(folder, pid)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_log(
        path,
        records,
        names | {1: "<STDOUT>", 2: "<STDERR>"},
        LoggedJob(
            n_processes=job.n_processes,
            exe=job.exe,
            mounts=MOUNTS,
            started_s=job.started_s,
            ended_s=job.started_s + job.run_time_s,
            uid=10_000 + job.user,
            job_id=job.job_id,
            metadata={"lib_ver": "3.5.0"},
        ),
    )


def write_some(folder: Path, first: int, n_logs: int) -> None:
    """Write up to `LOGS_AT_ONCE` logs of nine jobs, from number `first` on."""
    draw = np.random.default_rng(first)
    numbers = range(first, first + N_PARALLEL)
    logs = [(make_job(number, draw, is_serial=False), 1) for number in numbers]
    serial = make_job(first + N_PARALLEL, draw, is_serial=True)
    logs += [(serial, 4000 + one) for one in range(N_OWN)]
    for job, pid in logs[:n_logs]:
        write_job_log(folder, job, pid, draw)


def write_logs(folder: Path, n_logs: int, n_workers: int) -> int:
    """Write the logs unless the folder has them, and return how many there are."""
    firsts = range(0, n_logs, LOGS_AT_ONCE)
    numbers = [min(LOGS_AT_ONCE, n_logs - first) for first in firsts]
    done = folder / "complete.json"
    if not done.exists() or json.loads(done.read_text()) != n_logs:
        with ProcessPoolExecutor(n_workers) as pool:
            arguments = ([folder] * len(numbers), firsts, numbers)
            list(pool.map(write_some, *arguments, chunksize=16))
        done.write_text(json.dumps(n_logs))
    return n_logs


def main() -> None:
    """Write the logs and print how many bytes they have."""
    folder, n_logs = Path(sys.argv[1]), int(sys.argv[2])
    write_logs(folder, n_logs, int(sys.argv[3]) if len(sys.argv) > 3 else 2)
    sizes = [one.stat().st_size for one in folder.rglob("*.darshan")]
    if len(sizes) != n_logs:
        raise SystemExit(f"{folder}: got {len(sizes)} logs, expected {n_logs}.")
    print(json.dumps({"n_logs": n_logs, "bytes": sum(sizes)}))


if __name__ == "__main__":
    main()
