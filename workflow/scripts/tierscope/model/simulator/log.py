"""Write a simulated run like one of the benchmark: Darshan log, `run.json`, epochs.

So all code that reads runs can be tested for a machine of any size.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tierscope.core.description import RunDescription
from tierscope.core.scenario import Point
from tierscope.model.simulator.database_run import describe_database
from tierscope.model.simulator.loop import (
    CLOSED,
    CLOSING,
    LAST_BYTE,
    OPENED,
    OPENING,
)
from tierscope.model.simulator.run import (
    SimulatedReads,
    describe,
    n_read_calls,
    workload_of,
)
from tierscope.model.simulator.stations import NS_PER_S
from tierscope.storage.tier import epoch_alias
from tierscope.trace.log_writer import LoggedJob, write_log
from tierscope.trace.posix_records import POSIX_RECORD

TIER_ROOTS = {"gfs": "/simulated/gfs/data", "lfs": "/simulated/lfs/data"}


def write_simulated_log(
    path: str | Path,
    description: RunDescription,
    reads: Iterable[SimulatedReads],
) -> None:
    """Write the log of a simulated run; time stamps count from the first epoch.

    Parameters
    ----------
    path : path
        The log.
    description : RunDescription
        Settings of the scenario (`Experiment.description`).
    reads : iterable of SimulatedReads
        The run's epochs (`simulate_reads`).
    """
    n_files = description.dataset.n_files
    records = np.zeros(n_files * description.training.epochs, POSIX_RECORD)
    records["id"] = np.arange(1, len(records) + 1)
    names, start_s = {}, 0.0
    for epoch, one in enumerate(reads):
        part = records[epoch * n_files : (epoch + 1) * n_files]
        _fill_records(part, description, one, start_s)
        names |= zip(part["id"].tolist(), _paths(description, one, epoch), strict=True)
        start_s += one.epoch.execution_time_s
    job = LoggedJob(
        n_processes=description.system.n_processes,
        exe="tierscope simulate_run",
        mounts={},
        started_s=0,
        ended_s=math.ceil(start_s),
        metadata={"source": "simulated by tierscope"},
    )
    write_log(path, {"POSIX": records}, names, job)


def _fill_records(
    records: np.ndarray,
    description: RunDescription,
    reads: SimulatedReads,
    start_s: float,
) -> None:
    """Fill the POSIX records of an epoch that starts at a time, except the ids."""
    workload = workload_of(description)
    records["rank"] = reads.rank_of
    records["POSIX_OPENS"] = 1
    records["POSIX_READS"] = n_read_calls(workload)
    records["POSIX_BYTES_READ"] = workload.file_size_bytes
    records["POSIX_MAX_BYTE_READ"] = workload.file_size_bytes - 1
    instants_s = reads.epoch.instants_s
    for call, begin, end in (
        ("OPEN", OPENING, OPENED),
        ("READ", OPENED, LAST_BYTE),
        ("CLOSE", CLOSING, CLOSED),
    ):
        begun_s, ended_s = instants_s[:, begin], instants_s[:, end]
        records[f"POSIX_F_{call}_START_TIMESTAMP"] = start_s + begun_s
        records[f"POSIX_F_{call}_END_TIMESTAMP"] = start_s + ended_s
    records["POSIX_F_READ_TIME"] = reads.epoch.read_time_ns / NS_PER_S
    records["POSIX_F_META_TIME"] = reads.epoch.meta_time_ns / NS_PER_S


def _paths(description: RunDescription, reads: SimulatedReads, epoch: int) -> list[str]:
    """Return the paths with which an epoch's reads open their files."""
    dataset = description.dataset
    folder = dataset.directory(description.scenario.n_osts)
    gfs, lfs = (epoch_alias(Path(root), epoch) for root in TIER_ROOTS.values())
    nodes = description.system.node_of(reads.rank_of)
    local = [f"{lfs}/node-{node:05d}/{folder}" for node in range(nodes.max() + 1)]
    rows = zip(reads.files.tolist(), nodes.tolist(), reads.on_lfs.tolist(), strict=True)
    return [
        f"{local[node] if on_lfs else f'{gfs}/{folder}'}/{dataset.file_name(file_id)}"
        for file_id, node, on_lfs in rows
    ]


def simulated_run_json(description: RunDescription, point: Point) -> dict[str, Any]:
    """Return the content of a simulated run's `run.json`: what it was made of, too."""
    content = describe_database if description.lmdb else describe
    return {
        "hash": description.hash,
        "point": asdict(point),
        **content(description),
        "n_processes": description.system.n_processes,
        "tier_roots": {tier: [root] for tier, root in TIER_ROOTS.items()},
        "emulation": None,
    }
