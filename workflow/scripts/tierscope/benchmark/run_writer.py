"""Rank 0 writes the files of a run once the processes have measured it."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from tierscope.benchmark.devices.real import RealDevices
from tierscope.benchmark.observations.launch_facts import gather_facts
from tierscope.benchmark.processes import Processes
from tierscope.benchmark.run_folder import (
    mark_complete,
    scheduler_job,
    software_versions,
    write_epochs,
)
from tierscope.benchmark.sources.files import FileSource
from tierscope.core.description import RunDescription
from tierscope.core.scenario import Point


@dataclass(frozen=True)
class Measured:
    """Measurements of all processes at one point, gathered on rank 0.

    `fill_time_s` is that of the nodes' LFS, `seen` is what watched the tiers has seen,
    `rows` and `lfs_roots` are by rank, and `gathered` is what the source of the samples
    gathered.
    """

    point: Point
    started: datetime
    fill_time_s: float
    seen: dict[str, Any]
    rows: list[list[dict[str, Any]]]
    lfs_roots: list[str]
    gathered: Any


class RunWriter:
    """Writes the folders of a launch's runs; arguments as for `Benchmark`."""

    def __init__(
        self,
        description: RunDescription,
        processes: Processes,
        tracer: Any,
        devices: RealDevices,
        source: FileSource,
    ):
        self._description, self._processes = description, processes
        self._tracer, self._devices = tracer, devices
        self._source = source
        self._complete = lambda: None
        self._facts: dict[str, Any] = {}

    def gather_facts(self) -> None:
        """Note what the processes run with, for `run.json`; all processes call this."""
        self._facts = gather_facts(
            self._processes, "run_benchmark", self._description.system, self._tracer
        )

    def write(self, folder: Path, measured: Measured) -> None:
        """Write the run's files, `run.json` last: it marks a complete folder."""
        tier_roots = {
            "gfs": [str(self._description.system.gfs.data_root())],
            "lfs": list(dict.fromkeys(measured.lfs_roots)),
        }
        further = self._source.write_tables(folder, measured.gathered, tier_roots)
        filled = {"lfs_fill_time_s": measured.fill_time_s}
        write_epochs(folder, [row | filled for rows in measured.rows for row in rows])
        epochs_s = (row["execution_time_s"] for row in measured.rows[0])
        duration_s = self._devices.duration_s(epochs_s)
        self._tracer.write_log(folder / "log.darshan", duration_s)
        run = {
            "hash": self._description.hash,
            "point": asdict(measured.point),
            **self._description.as_json(),
            "n_processes": self._processes.size,
            "hosts": self._processes.hosts,
            "scheduler_job": scheduler_job(),
            "started": measured.started.isoformat(timespec="seconds"),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "tier_roots": tier_roots,
            **further,
            "tracer": self._tracer.describe(),
            "emulation": self._devices.describe(),
            **measured.seen,
            "versions": software_versions(),
            **self._facts,
        }
        if self._tracer.writes_log_at_end:
            self._complete = partial(
                self._check_and_mark, folder, run, measured.started
            )
        else:
            mark_complete(folder, run)

    def finish(self) -> None:
        """Complete a run whose log was written when MPI ended."""
        self._complete()

    def _check_and_mark(
        self, folder: Path, run: dict[str, Any], started: datetime
    ) -> None:
        """Check a log that the tracer wrote by itself, then mark the run complete."""
        n_processes = self._processes.size
        self._tracer.check_log(folder / "log.darshan", n_processes, started)
        run["tracer"] = self._tracer.describe()  # the log has said its version
        mark_complete(folder, run)
