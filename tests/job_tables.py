"""Consistent tables of logged jobs, for tests of figures and pages."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from tierscope.core.columns import BOUNDS, EXACT, LOWER_BOUNDS, TABLES
from tierscope.core.tables import check_table, empty_table
from tierscope.core.words import class_label
from tierscope.logs.jobs import JOB_TABLES

WHOLE = -1  # epoch of the whole job, and of files of no epoch
READ, META = ("gfs", "POSIX", "read"), ("gfs", "POSIX", "meta")
LFS_READ, LFS_META = ("lfs", "POSIX", "read"), ("lfs", "POSIX", "meta")
LFS_WRITE = ("lfs", "POSIX", "write")
STDIO = ("gfs", "STDIO", "write")
MPI_IO = ("gfs", "MPI-IO", "read")


@dataclass
class Job:
    """A job: by epoch and class the least and the most seconds of each process.

    A pair of arrays are bounds, one array is exact; a most of NaN is unknown.
    """

    name: str
    times: dict
    exe: str = "python train.py"
    user: str = "alice"
    host: str = "n1"
    run_time_s: float = 100.0
    n_nodes: float = 2.0
    started_s: float = 1_760_000_000.0
    outlier: str = ""
    remarks: str = ""
    goal_s: float = 4.0
    files: list = field(default_factory=list)
    log: str = ""

    @property
    def bounds(self):
        """Return (epoch, class) to the pair of arrays."""
        return {
            key: tuple(np.asarray(end, float) for end in value)
            if isinstance(value, tuple)
            else (np.asarray(value, float),) * 2
            for key, value in self.times.items()
        }

    @property
    def n_processes(self):
        """Return the number of processes."""
        return len(next(iter(self.bounds.values()))[0])

    def totals(self, epoch):
        """Return the least and the most seconds of each process in an epoch."""
        ends = [
            both
            for (of, one), both in self.bounds.items()
            if epoch in (WHOLE, of) and one[1] != "MPI-IO"
        ]
        return (sum(end[place] for end in ends) for place in (0, 1))

    def times_are(self, epoch):
        """Return how well the times of an epoch are known."""
        least, most = self.totals(epoch)
        if np.isnan(most).any():
            return LOWER_BOUNDS
        return EXACT if (least == most).all() else BOUNDS

    @property
    def epochs(self):
        """Return the whole job, -1, and the epochs."""
        return sorted({WHOLE, *(epoch for epoch, _ in self.bounds)})


def candidates(job, epoch):
    """Return the ranks that can be the slowest of an epoch, as far as is recorded."""
    least, most = job.totals(epoch)
    if np.isnan(most).any():
        return np.array([least.argmax()])
    return np.flatnonzero(np.nan_to_num(most, nan=np.inf) >= least.max())


def largest(most):
    """Return the largest value, NaN if one is missing."""
    return np.nan if np.isnan(most).any() else most.max()


def class_columns(one):
    """Return the columns of a class."""
    return dict(zip(("tier", "interface", "operation"), one, strict=True))


def times_of(job):
    """Return table job_times of a job."""
    parts = []
    for (epoch, one), (least, most) in job.bounds.items():
        part = pd.DataFrame({"rank": np.arange(len(least)), "least_s": least})
        part = part.assign(most_s=most, largest_s=np.nan_to_num(most, nan=0))
        part = part.assign(job=job.name, epoch=epoch, **class_columns(one))
        part["counted"] = one[1] != "MPI-IO"
        parts.append(part.assign(operations=10.0, bytes=2.0**20))
    return pd.concat(parts)


def processes_of(job):
    """Return table job_processes of a job: any can be the slowest if times are lost."""
    parts = []
    for epoch in job.epochs:
        least, most = job.totals(epoch)
        ranks = np.arange(job.n_processes)
        can_be = np.isin(ranks, candidates(job, epoch)) | np.isnan(most).any()
        part = pd.DataFrame({"rank": ranks, "least_s": least, "most_s": most})
        part = part.assign(job=job.name, epoch=epoch, can_be_slowest=can_be)
        parts.append(part)
    return pd.concat(parts)


def rank_words(ranks, n_processes):
    """Return ranks in words, cut if there are many, as the tables have them."""
    if len(ranks) == n_processes > 1:
        return f"any of {n_processes}"
    words = ", ".join(map(str, ranks[:10]))
    return f"{words} and {len(ranks) - 10} more" if len(ranks) > 10 else words


def slowest_of(job):
    """Return table job_slowest of a job."""
    rows = []
    for epoch in job.epochs:
        least, most = job.totals(epoch)
        found, end = candidates(job, epoch), largest(most)
        rows.append(
            {
                "job": job.name,
                "epoch": epoch,
                "times_are": job.times_are(epoch),
                "n_slowest": len(found),
                "slowest_ranks": rank_words(found, job.n_processes),
                "least_s": least.max(),
                "most_s": end,
                "run_least_percent": 100 * least.max() / job.run_time_s,
                "run_most_percent": 100 * end / job.run_time_s,
                "bottleneck": class_label(*bottleneck(job, epoch)),
                "sentence": f"The slowest process of {job.name} waits most for "
                f"{class_label(*bottleneck(job, epoch))}.",
            }
        )
    return pd.DataFrame(rows)


def class_bounds(job, epoch):
    """Return by class the bounds of the slowest process."""
    found, bounds = candidates(job, epoch), {}
    for (of, one), (least, most) in job.bounds.items():
        if epoch in (WHOLE, of):
            before = bounds.get(one, (0, 0))
            bounds[one] = (before[0] + least, before[1] + most)
    return {
        one: (least[found].min(), largest(most[found]))
        for one, (least, most) in bounds.items()
    }


def bottleneck(job, epoch):
    """Return the class with the largest lower bound."""
    bounds = class_bounds(job, epoch)
    counted = {one: ends for one, ends in bounds.items() if one[1] != "MPI-IO"}
    return max(counted, key=lambda one: counted[one][0])


def breakdown_of(job):
    """Return table job_breakdown of a job."""
    rows = []
    for epoch in job.epochs:
        for one, (least, most) in class_bounds(job, epoch).items():
            counts = one[1] != "MPI-IO"
            known = {"least_s": least * counts, "most_s": most * counts}
            sum_s = sum(  # in the middle of the bounds
                np.nanmean([end.sum() for end in ends])
                for (of, other), ends in job.bounds.items()
                if other == one and epoch in (WHOLE, of)
            )
            sums = {"sum_s": float(sum_s)}
            counts = {"operations": 10 * job.n_processes, "bytes": 1 << 30, "files": 7}
            row = {"job": job.name, "epoch": epoch, "counted": one[1] != "MPI-IO"}
            rows.append(row | class_columns(one) | known | sums | counts)
    return pd.DataFrame(rows)


def estimates_of(job):
    """Return table job_estimates of a job: single classes, by the rule."""
    rows = []
    for epoch in job.epochs:
        least, most = (end.max() for end in job.totals(epoch))
        for one, (low, high) in class_bounds(job, epoch).items():
            if one[1] == "MPI-IO":
                continue
            for percent in (25, 50, 100, 200):
                part = percent / (100 + percent)
                rows.append(
                    {
                        "job": job.name,
                        "epoch": epoch,
                        "method": "rule",
                        "improvement": f"{class_label(*one)} +{percent} %",
                        "n_classes": 1,
                        "improvement_percent": percent,
                        "least_s": max(0, least - part * low),
                        "most_s": most - part * low,
                        "saved_least_s": part * low,
                        "saved_most_s": part * high,
                    }
                )
    return pd.DataFrame(rows)


def combinations_of(job):
    """Return table job_combinations of a job: one that meets the goal."""
    epoch = WHOLE
    label = class_label(*bottleneck(job, epoch))
    row = {"job": job.name, "epoch": epoch, "method": "rule", "goal_s": job.goal_s}
    row |= {"position": 0, "improvement": f"{label} +100 %", "cost": 100.0}
    row |= {"certain": True, "least_s": job.goal_s / 2, "most_s": job.goal_s}
    return pd.DataFrame([row])


def files_of(job):
    """Return table job_files of a job."""
    files = job.files or [
        (kind, f"/gfs/{job.user}/data{'' if kind == 'folder' else f'/{n}.h5'}")
        for kind in ("file", "folder")
        for n in range(3 if kind == "file" else 1)
    ]
    rows = []
    for position, (kind, path) in enumerate(files):
        counts = {"opens": 4, "reads": 40, "writes": 0}
        row = {"job": job.name, "kind": kind, "position": position, "path": path}
        row |= {"tier": "gfs", "time_s": 9.0 / (1 + position), **counts}
        rows.append(row | {"bytes_read": 40 << 20, "bytes_written": 0})
    return pd.DataFrame(rows)


def sizes_of(job):
    """Return table job_sizes of a job."""
    words = ["0 to 100 B", "100 B to 1 KiB", "1 KiB to 10 KiB", "10 KiB to 100 KiB"]
    rows = [
        {"operation": "read", "position": place, "size": size, "calls": 10**place}
        for place, size in enumerate(words)
    ]
    return pd.DataFrame(rows).assign(job=job.name, tier="gfs")


def log_of(job, number):
    """Return table logs of a job: one log."""
    path = job.log or f"/logs/{job.user}/{job.name}.darshan"
    row = {name: "" for name, kind in TABLES["logs"].items() if kind == "str"}
    row |= {"log": path, "digest": f"{number:064x}", "job": job.name, "process": -1}
    row |= {"log_format": "3.41", "darshan": "3.5.0"}
    row |= {
        "exe": job.exe,
        "user": job.user,
        "host": job.host,
        "job_id": 70000 + number,
    }
    row |= {"n_processes": job.n_processes, "started_s": job.started_s}
    row |= {"run_time_s": job.run_time_s, "modules": "POSIX, STDIO", "n_records": 9}
    partial = "POSIX" if LOWER_BOUNDS in map(job.times_are, job.epochs) else ""
    row |= {"partial": partial, "n_shared_records": 1, "n_nameless_records": 0}
    row |= {"n_mappings": 0, "mapped_bytes": 0.0}
    return pd.DataFrame([row])


def job_of(job):
    """Return table jobs of a job."""
    kinds = set(map(job.times_are, job.epochs))
    worst = next(kind for kind in (LOWER_BOUNDS, BOUNDS, EXACT) if kind in kinds)
    row = {"job": job.name, "exe": job.exe, "user": job.user, "host": job.host}
    row |= {"started_s": job.started_s, "run_time_s": job.run_time_s, "n_logs": 1}
    row |= {"n_processes": job.n_processes, "n_nodes": job.n_nodes}
    row |= {"grouped_by": "one log of all processes", "times_are": worst}
    return pd.DataFrame([row | {"remarks": job.remarks}])


def fleet_of(job):
    """Return the rows of a job in tables fleet and fleet_classes."""
    least, most = (end.max() for end in job.totals(WHOLE))
    factor = job.n_nodes / 3600
    classes = {}
    for one, (low, high) in class_bounds(job, WHOLE).items():
        if one[1] != "MPI-IO":
            classes[one] = (low * factor, high * factor)
    meta = [
        ends for one, ends in classes.items() if one[0] == "gfs" and "meta" in one[2]
    ]
    month = pd.Timestamp(job.started_s, unit="s").strftime("%Y-%m")
    row = {"job": job.name, "exe": job.exe, "user": job.user, "month": month}
    row |= {"started_s": job.started_s, "run_time_s": job.run_time_s}
    row |= {"n_processes": job.n_processes, "io_least_s": least, "io_most_s": most}
    row |= {"times_are": job_of(job)["times_are"].iloc[0], "hours_of": "nodes"}
    row |= {
        "io_least_percent": min(100.0, 100 * least / job.run_time_s),
        "io_most_percent": 100 * most / job.run_time_s,
    }
    row |= {"bottleneck": class_label(*max(classes, key=lambda one: classes[one][0]))}
    row |= {"io_hours": least * factor, "outlier": job.outlier}
    row |= {"meta_tier": "gfs" if meta else ""}
    row |= {"meta_saved_least_hours": sum(low for low, _ in meta) / 2}
    row |= {"meta_saved_most_hours": sum(high for _, high in meta) / 2}
    rows = [
        {"job": job.name, "hours_of": "nodes", **class_columns(one)}
        | {"least_hours": low, "most_hours": high}
        for one, (low, high) in classes.items()
    ]
    return pd.DataFrame([row]), pd.DataFrame(rows)


def tables_of(*jobs, refusals=()):
    """Return all tables of some jobs, checked."""
    makers = {
        "jobs": job_of,
        "job_times": times_of,
        "job_processes": processes_of,
        "job_slowest": slowest_of,
        "job_breakdown": breakdown_of,
        "job_files": files_of,
        "job_sizes": sizes_of,
        "job_estimates": estimates_of,
        "job_combinations": combinations_of,
    }
    parts = {name: list(map(make, jobs)) for name, make in makers.items()}
    parts["logs"] = [log_of(job, number) for number, job in enumerate(jobs)]
    parts["fleet"], parts["fleet_classes"] = zip(*map(fleet_of, jobs), strict=True)
    tables = {
        name: pd.concat(frames, ignore_index=True) for name, frames in parts.items()
    }
    tables["fleet"] = tables["fleet"].sort_values(
        "io_hours", ascending=False, kind="stable"
    )
    used = dict.fromkeys(tables["job_breakdown"]["tier"])
    tables["tier_prefixes"] = pd.DataFrame(
        {"tier": tier, "prefix": f"/{tier}", "fs_type": "lustre", "n_logs": len(jobs)}
        for tier in used
        if tier not in ("other", "unnamed")
    )
    tables["refusals"] = empty_table("refusals")
    if refusals:
        tables["refusals"] = pd.DataFrame(refusals, columns=["log", "reason"])
    return {name: check_table(tables[name], name) for name in JOB_TABLES}


def exact_job(name="train-1", **changes):
    """Return a job of two processes and one phase; rank 1 is the slowest with 8 s."""
    times = {READ: [1, 2], META: [2, 4], LFS_READ: [1, 1.5], LFS_META: [0.5, 0.5]}
    job = {
        "name": name,
        "times": {(-1, one): seconds for one, seconds in times.items()},
    }
    return Job(**job | changes)


def bounded_job(name="shared-1", **changes):
    """Return a job of three processes that share records: each takes 2 to 4 s."""
    times = {
        (-1, READ): ([1.0, 1, 1], [2.0, 2, 2]),
        (-1, META): ([1.0, 1, 1], [2.0, 2, 2]),
    }
    return Job(**{"name": name, "times": times} | changes)


def partial_job(name="lost-1", **changes):
    """Return a job of two processes that lost records: at least 3 and 2 s."""
    unknown = [np.nan, np.nan]
    times = {(-1, READ): ([1.0, 1], unknown), (-1, META): ([2.0, 1], unknown)}
    return Job(**{"name": name, "times": times} | changes)


def epochs_job(name="epochs-1", **changes):
    """Return a job of two processes and three epochs; epoch 0 is the slowest, 10 s."""
    times = {
        (epoch, one): [seconds / (1 + epoch), seconds / (2 + epoch)]
        for epoch in range(3)
        for one, seconds in {READ: 6.0, META: 3.0, LFS_WRITE: 1.0}.items()
    }
    return Job(**{"name": name, "times": times} | changes)


def large_job(name="large-1", n_processes=3072, seed=1, **changes):
    """Return a job of many processes with times of all kinds."""
    draw = np.random.default_rng(seed)
    classes = {READ: 3, META: 2, LFS_READ: 1, LFS_META: 0.4, LFS_WRITE: 0.8, STDIO: 0.1}
    times = {}
    for epoch in range(3):
        for one, mean in (classes | {MPI_IO: 0.5}).items():
            drawn = draw.gamma(4, mean / 4, n_processes) / (1 + 0.2 * epoch)
            unsure = drawn * draw.uniform(0, 0.3, n_processes) * (one in (READ, META))
            times[epoch, one] = (drawn, drawn + unsure)
    job = {"name": name, "times": times, "n_nodes": n_processes / 4, "goal_s": 9.0}
    return Job(**job | changes)


def random_fleet(n_jobs=200, seed=2):
    """Return jobs of all kinds, as on a cluster."""
    draw = np.random.default_rng(seed)
    classes = [READ, META, ("lfs", "POSIX", "read"), LFS_WRITE, STDIO]
    classes += [("scratch", "POSIX", "write"), ("other", "POSIX", "read")]
    classes += [("gfs", "POSIX", "write meta"), ("gfs", "POSIX", "read-write meta")]
    programs = ["python train.py --lr 0.1", "lmp -in melt.in", "ior -a posix", "vasp"]
    jobs = []
    for number in range(n_jobs):
        n_processes = int(2 ** draw.integers(0, 8))
        scale = float(draw.lognormal(2, 1.5))
        kind = draw.choice(["exact", "bounds", "lost"], p=[0.6, 0.3, 0.1])
        times = {}
        for place in draw.choice(len(classes), draw.integers(2, 6), replace=False):
            least = draw.gamma(2, scale / 2, n_processes)
            most = {"exact": least, "bounds": 1.4 * least, "lost": least * np.nan}
            times[-1, classes[place]] = (least, most[kind])
        jobs.append(
            Job(
                name=f"job-{4000 + number}",
                times=times,
                exe=str(draw.choice(programs)),
                user=f"user{draw.integers(9)}",
                host=f"n{draw.integers(99)}",
                run_time_s=float(scale * 10 + draw.lognormal(6, 1)),
                n_nodes=float(max(1, n_processes // 4)),
                started_s=1.76e9 + 86400 * number,
                outlier="I/O takes 91 % of the run time" if number % 50 == 7 else "",
            )
        )
    return jobs
