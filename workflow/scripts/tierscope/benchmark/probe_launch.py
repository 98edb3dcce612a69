"""A launch of the micro-probes: all processes make a probe's calls between barriers."""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from tierscope.benchmark.node_storage import (
    check_is_there,
    check_room,
    claim_storage,
    release_storage,
)
from tierscope.benchmark.observations.launch_facts import gather_facts
from tierscope.benchmark.observations.page_cache import names_can_be_dropped
from tierscope.benchmark.preparation import announce
from tierscope.benchmark.processes import Processes
from tierscope.benchmark.rank import join_launch, leave_launch, run_or_fail, say
from tierscope.benchmark.run_folder import scheduler_job, software_versions
from tierscope.core.description import ProbeDescription
from tierscope.core.files import write_text
from tierscope.core.machine import TierError
from tierscope.data.tfrecord import generate_files
from tierscope.storage.emulated.library import Emulation
from tierscope.storage.local_folder import LocalStorage
from tierscope.storage.probes import (
    REPEATS,
    Client,
    Probe,
    Timing,
    plan,
    probe_files,
    probe_row,
)
from tierscope.trace.runtime import OVERRIDES

TABLE, SUMMARY = "probes.parquet", "probes.json"
# Processes of a machine leave a barrier within about this time of each other.
_POLL_S = 0.00005


@dataclass
class ProbeLaunch:
    """Runs all probes of a dataset on one OST count; `emulation` may be None."""

    description: ProbeDescription
    processes: Processes
    emulation: Any
    say: Callable[[str], None]

    def __post_init__(self):
        self.dataset = self.description.dataset
        self.folder_name = self.dataset.directory(self.description.n_osts)
        self.storage = LocalStorage(
            self.description.system.lfs.data_root(),
            self.processes.node,
            0,
            self.processes.launch,
        )
        self.folders = {
            "gfs": self.description.system.gfs.data_root() / self.folder_name,
            "lfs": self.storage.folder / self.folder_name,
        }
        self.plan = plan(self.description)
        self._drops_names = False
        self._facts: dict[str, Any] = {}

    def gather_facts(self) -> None:
        """Note what the processes run with; refuse a launch in which that differs."""
        system = self.description.system
        self._facts = gather_facts(self.processes, "run_probes", system)

    def run(self, folder: Path) -> None:
        """Run the probes and write table and summary into a folder."""
        processes = self.processes
        self.say(
            f"{processes.size} processes probe the storage under {self.folder_name}"
        )
        if processes.rank == 0:
            check_is_there(self.folders["gfs"])
        self._fill()
        self._drops_names = not self.emulation and names_can_be_dropped(processes)
        started = datetime.now(UTC)
        rows = self._measure()
        if processes.rank == 0:
            self._write(folder, rows, started)
        self.release()
        processes.barrier()  # all nodes are empty before the first rank ends

    def stop(self) -> None:
        """Release the threads that still wait in virtual time."""
        if self.emulation:
            self.emulation.stop()

    def release(self) -> None:
        """Remove this node's LFS contents."""
        release_storage(self.processes, self.storage, self.emulation)

    def _fill(self) -> None:
        """Generate the files that this process will read on its node's LFS."""
        probe = next(one for one in self.plan if one.tier == "lfs")
        mine = probe_files(self.description, probe, self.processes.rank, repeat=0)
        names = [self.dataset.file_name(file_id) for file_id in mine]
        size = self.dataset.file_size_bytes
        part = (self.processes.node_size * len(mine), size)
        check_room(self.processes, self.storage, [part])
        claim_storage(self.processes, self.storage, self.folder_name)
        generate_files(self.folders["lfs"], names, mine, size)
        self.processes.barrier()

    def _measure(self) -> list[dict[str, Any]]:
        """Run all repeats of all probes and return the rows (on rank 0)."""
        rows = []
        for repeat in range(REPEATS):
            for _, probes in groupby(self.plan, key=lambda one: (one.tier, one.kind)):
                rows += self._run_together(list(probes), repeat)
            self.say(f"  repeat {repeat + 1} of {REPEATS}")
        return rows

    def _run_together(self, probes: list[Probe], repeat: int) -> list[dict[str, Any]]:
        """Run the probes that share files, from open to close."""
        processes, rows = self.processes, []
        paths = self._paths(probes[0], repeat)
        client = (
            Client(paths, self.emulation.clock.now_s)
            if self.emulation
            else Client(paths)
        )
        for probe in probes:
            takes_part = processes.rank < probe.n_clients
            if self.emulation:
                timing = self._run_in_virtual_time(client, probe, takes_part)
            else:
                if probe.operation == "read":
                    client.forget_pages()
                if probe.operation == "open" and self._drops_names:
                    names_can_be_dropped(processes)
                processes.barrier()  # this one polls slowly, the next one fast
                processes.barrier(_POLL_S)
                timing = client.run(probe) if takes_part else None
            timings = processes.gather(timing)
            if processes.rank == 0:
                one_clock = len(set(processes.hosts)) == 1
                clients = timings[: probe.n_clients]
                rows.append(probe_row(probe, repeat, clients, one_clock))
        return rows

    def _run_in_virtual_time(
        self, client: Client, probe: Probe, takes_part: bool
    ) -> Timing | None:
        """Run a probe between two barriers of virtual time."""
        clock = self.emulation.clock
        clock.barrier()
        clock.bind(True)
        try:
            timing = client.run(probe) if takes_part else None
        except OSError:
            clock.check()  # calls fail once the launch is stopped
            raise
        finally:
            clock.bind(False)
        clock.barrier()
        return timing

    def _paths(self, probe: Probe, repeat: int) -> list[str]:
        """Return this process's files for an open probe and those that follow it."""
        if self.processes.rank >= probe.n_clients:
            return []
        files = probe_files(self.description, probe, self.processes.rank, repeat)
        folder = self.folders[probe.tier]
        return [os.path.join(folder, self.dataset.file_name(i)) for i in files]

    def _write(
        self, folder: Path, rows: list[dict[str, Any]], started: datetime
    ) -> None:
        """Write the table, then the summary."""
        from tierscope.core.tables import write_rows  # only rank 0 loads it

        keys = {
            "source": self.description.source,
            "system": self.description.system.name,
            "dataset": self.dataset.name,
            "n_osts": self.description.n_osts,
        }
        write_rows([row | keys for row in rows], folder / TABLE, "probes")
        devices = None
        if self.emulation:
            devices = {"devices": self.emulation.describe()["devices"]}
        summary = {
            "hash": self.description.hash,
            **self.description.as_json(),
            "n_processes": self.processes.size,
            "hosts": self.processes.hosts,
            "scheduler_job": scheduler_job(),
            "started": started.isoformat(timespec="seconds"),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "emulation": devices,
            "versions": software_versions(),
            **self._facts,
        }
        write_text(folder / SUMMARY, json.dumps(summary, indent=1) + "\n")


def _emulation_of(
    arguments: argparse.Namespace, description: ProbeDescription
) -> Emulation | None:
    """Return the emulated devices of the probed system, if any tier is emulated."""
    native = arguments.native / platform.machine()
    try:
        return Emulation.of(
            description.system,
            description.n_osts,
            native,
            arguments.output,
            arguments.launch,
        )
    except (TierError, OSError, ValueError) as error:
        sys.exit(f"tierscope: {error}")


def prepare_probes(arguments: argparse.Namespace) -> None:
    """Make the devices' files and print the start of the ranks."""
    description = ProbeDescription.read(arguments.description)
    emulation = _emulation_of(arguments, description)
    try:
        environment = emulation.environment() if emulation else {}
    except (TierError, OSError) as error:
        sys.exit(f"tierscope: {error}")
    announce([emulation.library] if emulation else [], environment, OVERRIDES)


def run_probes(arguments: argparse.Namespace) -> None:
    """Run all probes, as one of the ranks; arguments are those of `run_probes.py`."""
    description = ProbeDescription.read(arguments.description)
    emulation = _emulation_of(arguments, description)
    processes = join_launch(description.system, arguments.launch)
    probes = ProbeLaunch(
        description, processes, emulation, say=lambda line: say(processes, line)
    )
    processes.keep(probes.storage)

    def run() -> None:
        probes.gather_facts()
        if emulation:
            emulation.join(processes)
        probes.run(arguments.output)

    run_or_fail(processes, run, probes.stop, probes.release)
    leave_launch(processes)
