"""A launch of the micro-probes: all processes make a probe's calls between barriers."""

import argparse
import json
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from tierscope.benchmark.devices import devices_of
from tierscope.benchmark.devices.real import RealDevices
from tierscope.benchmark.node_storage import (
    check_room,
    claim_storage,
    release_storage,
)
from tierscope.benchmark.observations.launch_facts import gather_facts
from tierscope.benchmark.preparation import announce
from tierscope.benchmark.probed_files import GeneratedFiles, UserFiles, probed_files
from tierscope.benchmark.processes import Processes
from tierscope.benchmark.rank import (
    join_launch,
    leave_launch,
    run_or_fail,
    say_once,
)
from tierscope.benchmark.run_folder import scheduler_job, software_versions
from tierscope.core.description import ProbeDescription
from tierscope.core.files import write_text
from tierscope.core.machine import TierError
from tierscope.core.output.streams import ending_on
from tierscope.core.scenario import UserDataset
from tierscope.storage.local_folder import LocalStorage
from tierscope.storage.probes import (
    REPEATS,
    Client,
    Probe,
    plan,
    probe_files,
    probe_row,
)
from tierscope.trace.runtime import OVERRIDES

Files = GeneratedFiles | UserFiles
TABLE, SUMMARY = "probes.parquet", "probes.json"
_ADVICE = (
    " The probes of a program need MPI; where job.launcher starts none, set "
    "model.calibrations.NAME.probed_n_osts: [] to predict without them."
)


@dataclass
class ProbeLaunch:
    """Runs all probes of a dataset on one OST count.

    `files` are those that are probed, None if the dataset has too few.
    """

    description: ProbeDescription
    files: Files | None
    processes: Processes
    devices: RealDevices
    say: Callable[[str], None]

    def __post_init__(self):
        self.storage = LocalStorage(
            self.description.system.lfs.data_root(),
            self.processes.node,
            0,
            self.processes.launch,
        )
        self._facts: dict[str, Any] = {}

    def gather_facts(self) -> None:
        """Note what the processes run with; refuse a launch in which that differs."""
        system = self.description.system
        self._facts = gather_facts(self.processes, "run_probes", system)

    def run(self, folder: Path) -> None:
        """Run the probes and write table and summary into a folder."""
        processes = self.processes
        started = datetime.now(UTC)
        if self.files is None:
            name = self.description.dataset.name
            self.say(
                f"nothing is probed: dataset {name} has fewer files that are not empty "
                f"than the {processes.size} processes that probe"
            )
        rows = self._rows(self.files) if self.files else []
        if processes.rank == 0:
            self._write(folder, rows, started)
        self.release()
        processes.barrier()  # all nodes are empty before the first rank ends

    def stop(self) -> None:
        """Release the threads that still wait in virtual time."""
        self.devices.stop()

    def release(self) -> None:
        """Remove this node's LFS contents."""
        release_storage(self.processes, self.storage, self.devices)

    def _rows(self, files: Files) -> list[dict[str, Any]]:
        """Fill the LFS, run the probes, and return the rows (on rank 0)."""
        processes, dataset = self.processes, files.description.dataset
        self.say(
            f"{processes.size} processes probe the storage under {files.title}: "
            f"{dataset.n_files} files, {dataset.file_size_bytes} bytes of each"
        )
        if processes.rank == 0:
            files.check()
        probes = plan(files.description)
        self._fill(files, probes)
        return self._measure(files, probes)

    def _fill(self, files: Files, probes: list[Probe]) -> None:
        """Let this node's LFS hold the files that this process will read."""
        probe = next(one for one in probes if one.tier == "lfs")
        mine = probe_files(files.description, probe, self.processes.rank, repeat=0)
        size = files.description.dataset.file_size_bytes
        part = (self.processes.node_size * len(mine), size)
        check_room(self.processes, self.storage, [part])
        claim_storage(self.processes, self.storage, files.title)
        files.fill(self.storage.folder / files.title, mine)
        self.processes.barrier()

    def _measure(self, files: Files, probes: list[Probe]) -> list[dict[str, Any]]:
        """Run all repeats of all probes and return the rows (on rank 0)."""
        rows = []
        for repeat in range(REPEATS):
            for _, some in groupby(probes, key=lambda one: (one.tier, one.kind)):
                rows += self._run_together(files, list(some), repeat)
            self.say(f"  repeat {repeat + 1} of {REPEATS}")
        return rows

    def _run_together(
        self, files: Files, probes: list[Probe], repeat: int
    ) -> list[dict[str, Any]]:
        """Run the probes that share files, from open to close."""
        processes, rows = self.processes, []
        paths = self._paths(files, probes[0], repeat)
        client = Client(paths, self.devices.clock.now_s)
        for probe in probes:
            takes_part = processes.rank < probe.n_clients
            timing = self.devices.probe(client, probe, takes_part, processes)
            timings = processes.gather(timing)
            if processes.rank == 0:
                one_clock = len(set(processes.hosts)) == 1
                clients = timings[: probe.n_clients]
                rows.append(probe_row(probe, repeat, clients, one_clock))
        return rows

    def _paths(self, files: Files, probe: Probe, repeat: int) -> list[str]:
        """Return this process's files for an open probe and those that follow it."""
        if self.processes.rank >= probe.n_clients:
            return []
        mine = probe_files(files.description, probe, self.processes.rank, repeat)
        folders = {"gfs": files.root, "lfs": self.storage.folder / files.title}
        folder = folders[probe.tier]
        return [os.path.join(folder, files.name(probe.tier, i)) for i in mine]

    def _write(
        self, folder: Path, rows: list[dict[str, Any]], started: datetime
    ) -> None:
        """Write the table, then the summary."""
        # Only rank 0 loads them.
        from tierscope.core.tables import empty_table, write_rows, write_table

        keys = {
            "source": self.description.source,
            "system": self.description.system.name,
            "dataset": self.description.dataset.name,
            "n_osts": self.description.n_osts,
        }
        if rows:
            write_rows([row | keys for row in rows], folder / TABLE, "probes")
        else:
            write_table(empty_table("probes"), folder / TABLE, "probes")
        summary = {
            "hash": self.description.hash,
            **self.description.as_json(),
            "n_processes": self.processes.size,
            "hosts": self.processes.hosts,
            "scheduler_job": scheduler_job(),
            "started": started.isoformat(timespec="seconds"),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "emulation": self.devices.described(),
            "versions": software_versions(),
            **self._facts,
        }
        write_text(folder / SUMMARY, json.dumps(summary, indent=1) + "\n")


def _devices_of(
    arguments: argparse.Namespace, description: ProbeDescription
) -> RealDevices:
    """Return the devices of the probed system."""
    native = arguments.native / platform.machine()
    with ending_on(TierError, OSError, ValueError):
        where = native, arguments.output, arguments.launch
        return devices_of(description.system, description.n_osts, *where)


def prepare_probes(arguments: argparse.Namespace) -> None:
    """Make the devices' files and print the start of the ranks."""
    description = ProbeDescription.read(arguments.description)
    devices = _devices_of(arguments, description)
    with ending_on(TierError, OSError):
        environment = devices.environment()
    announce(devices.preload(), environment, OVERRIDES)


def run_probes(arguments: argparse.Namespace) -> None:
    """Run all probes, as one of the ranks; arguments are those of `run_probes.py`."""
    description = ProbeDescription.read(arguments.description)
    devices = _devices_of(arguments, description)
    advice = _ADVICE if isinstance(description.dataset, UserDataset) else ""
    processes = join_launch(description.system, arguments.launch, advice)
    files = probed_files(description, arguments.manifest)
    probes = ProbeLaunch(
        description, files, processes, devices, lambda line: say_once(processes, line)
    )
    processes.keep(probes.storage)

    def run() -> None:
        probes.gather_facts()
        devices.join(processes)
        probes.run(arguments.output)

    run_or_fail(processes, run, probes.stop, probes.release)
    leave_launch(processes)
