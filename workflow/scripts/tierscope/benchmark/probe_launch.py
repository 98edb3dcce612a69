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

from tierscope.benchmark.node_storage import (
    check_room,
    claim_storage,
    release_storage,
)
from tierscope.benchmark.observations.launch_facts import gather_facts
from tierscope.benchmark.observations.page_cache import names_can_be_dropped
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
from tierscope.core.output.streams import end
from tierscope.core.scenario import UserDataset
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

Files = GeneratedFiles | UserFiles
TABLE, SUMMARY = "probes.parquet", "probes.json"
# Processes of a machine leave a barrier within about this time of each other.
_POLL_S = 0.00005
_ADVICE = (
    " The probes of a program need MPI; where job.launcher starts none, set "
    "model.calibrations.NAME.probed_n_osts: [] to predict without them."
)


@dataclass
class ProbeLaunch:
    """Runs all probes of a dataset on one OST count; `emulation` may be None.

    `files` are those that are probed, None if the dataset has too few.
    """

    description: ProbeDescription
    files: Files | None
    processes: Processes
    emulation: Any
    say: Callable[[str], None]

    def __post_init__(self):
        self.storage = LocalStorage(
            self.description.system.lfs.data_root(),
            self.processes.node,
            0,
            self.processes.launch,
        )
        self._drops_names = False
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
        if self.emulation:
            self.emulation.stop()

    def release(self) -> None:
        """Remove this node's LFS contents."""
        release_storage(self.processes, self.storage, self.emulation)

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
        self._drops_names = not self.emulation and names_can_be_dropped(processes)
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
                timing = _run_on_real_tiers(client, probe) if takes_part else None
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


def _run_on_real_tiers(client: Client, probe: Probe) -> Timing:
    """Run a probe, or say which one failed."""
    try:
        return client.run(probe)
    except OSError as error:
        raise TierError(
            f"probe {probe.name}: {error}. If the dataset has changed since it was "
            "listed, put the old files back with their times (cp -p), and start again."
        ) from error


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
        end(f"tierscope: {error}")


def prepare_probes(arguments: argparse.Namespace) -> None:
    """Make the devices' files and print the start of the ranks."""
    description = ProbeDescription.read(arguments.description)
    emulation = _emulation_of(arguments, description)
    try:
        environment = emulation.environment() if emulation else {}
    except (TierError, OSError) as error:
        end(f"tierscope: {error}")
    announce([emulation.library] if emulation else [], environment, OVERRIDES)


def run_probes(arguments: argparse.Namespace) -> None:
    """Run all probes, as one of the ranks; arguments are those of `run_probes.py`."""
    description = ProbeDescription.read(arguments.description)
    emulation = _emulation_of(arguments, description)
    advice = _ADVICE if isinstance(description.dataset, UserDataset) else ""
    processes = join_launch(description.system, arguments.launch, advice)
    files = probed_files(description, arguments.manifest)
    probes = ProbeLaunch(
        description, files, processes, emulation, lambda line: say_once(processes, line)
    )
    processes.keep(probes.storage)

    def run() -> None:
        probes.gather_facts()
        if emulation:
            emulation.join(processes)
        probes.run(arguments.output)

    run_or_fail(processes, run, probes.stop, probes.release)
    leave_launch(processes)
