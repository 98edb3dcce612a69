"""The folder of a run: files that rank 0 writes, and whether it is complete."""

import json
import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from tierscope.core.description import RunDescription
from tierscope.core.files import write_text
from tierscope.core.machine import UNKNOWN
from tierscope.core.scenario import Point
from tierscope.core.validation import ConfigError, read_json
from tierscope.policies import kind_of
from tierscope.storage.machine_facts import package_versions
from tierscope.storage.tier import background_roots
from tierscope.trace.darshan_probe import load_mpi

_PACKAGES = (
    "tensorflow-cpu",
    "tensorflow",
    "torch",
    "numpy",
    "mpi4py",
    "darshan",
    "lmdb",
)


def write_epochs(folder: Path, rows: list[dict[str, Any]]) -> None:
    """Write the table of epochs from the rows of all ranks."""
    from tierscope.core.tables import write_rows  # only rank 0 loads it

    rows = sorted(rows, key=itemgetter("epoch", "rank"))
    write_rows(rows, folder / "epochs.parquet", "run_epochs")


def write_decisions(
    folder: Path,
    reports: list[dict[str, Any] | None],
    tier_roots: Mapping[str, Sequence[str]],
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Write the nodes' decisions; return their part of `run.json`."""
    from tierscope.core.tables import write_columns  # only rank 0 loads it

    reports = [report for report in reports if report]
    parts = [report.pop("decisions") for report in reports]
    write_columns(joined(parts), folder / "decisions.parquet", "decisions")
    if n_failed := sum(int(report["failed"]) for report in reports):
        say(f"  {n_failed} copies failed; their files were read from the GFS")
    if n_left := sum(int(report["not_removed"]) for report in reports):
        say(f"  {n_left} evicted files could not be removed; they still take up space")
    return {"background_roots": background_roots(tier_roots), "placement": reports}


def joined(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return the columns of several processes' parts of a table, one after another."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def mark_complete(folder: Path, run: dict[str, Any]) -> None:
    """Write `run.json`, which marks a complete folder that outlasts a power cut."""
    write_text(folder / "run.json", json.dumps(run, indent=1) + "\n", lasting=True)


def scheduler_job() -> str | None:
    """Return the batch job of this process, for example ``Slurm 1234``."""
    for scheduler, variable in (("Slurm", "SLURM_JOB_ID"), ("PJM", "PJM_JOBID")):
        if job := os.environ.get(variable):
            return f"{scheduler} {job}"
    return None


def software_versions() -> dict[str, str]:
    """Return the versions of all software in a measurement.

    No measurement depends on what they say: one that cannot be told is unknown.
    """
    return {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "mpi": _mpi_version(),
        **package_versions(_PACKAGES),
    }


def _mpi_version() -> str:
    """Return the version of the MPI that mpi4py uses; MPI is not started for it."""
    try:
        load_mpi()
        from mpi4py import MPI

        return MPI.Get_library_version().splitlines()[0].strip()
    except Exception:  # mpi4py or libmpi is missing, or does not fit
        return UNKNOWN


def are_missing(
    points: Iterable[Point], folders: Sequence[Path], description: RunDescription
) -> list[Point]:
    """Return the points that have a complete run in none of the folders."""
    return [
        point
        for point in points
        if not any(is_complete(one / point.path, description) for one in folders)
    ]


def is_complete(folder: Path, description: RunDescription) -> bool:
    """Return whether a folder holds a complete run of exactly this description."""
    try:
        run = read_json(folder / "run.json")
    except (OSError, ConfigError):
        return False
    whole = all(
        (folder / name).exists() for name in kind_of(description.scenario).files
    )
    return whole and run.get("hash") == description.hash
