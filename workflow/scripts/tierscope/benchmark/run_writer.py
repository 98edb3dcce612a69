"""What rank 0 writes of a run when its processes have measured it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tierscope.benchmark.database import Database
from tierscope.benchmark.processes import Processes
from tierscope.benchmark.run_folder import (
    mark_complete,
    scheduler_job,
    software_versions,
    write_decisions,
    write_epochs,
    write_reads,
)
from tierscope.core.description import RunDescription
from tierscope.core.scenario import Point
from tierscope.policies import DYNAMIC, PEERS


@dataclass(frozen=True)
class Measured:
    """What the processes of a launch have measured at a point, gathered on rank 0.

    Parameters
    ----------
    point : Point
        The point.
    started : datetime
        When the epochs began.
    fill_time_s : float
        Time in which all nodes filled their LFS.
    rows : list of list of dict
        Rows of the table of epochs, by rank.
    lfs_roots : list of str
        The LFS's data directory, by rank.
    reports : list of dict or None
        What placement reports (`NodePlacement.report`, `NodePeers.report`), by rank.
    reads : list of dict, optional
        What was read of a database (`DatabaseLoader.tables`), by rank.
    """

    point: Point
    started: datetime
    fill_time_s: float
    rows: list[list[dict[str, Any]]]
    lfs_roots: list[str]
    reports: list[dict[str, Any] | None]
    reads: list[dict[str, dict[str, np.ndarray]]] | None


class RunWriter:
    """Writes the folders of a launch's runs; arguments as for `Benchmark`."""

    def __init__(
        self,
        description: RunDescription,
        processes: Processes,
        tracer: Any,
        emulation: Any,
        database: Database | None,
        say: Callable[[str], None],
    ):
        self._description, self._processes = description, processes
        self._tracer, self._emulation = tracer, emulation
        self._database, self._say = database, say
        self._complete = lambda: None

    def write(self, folder: Path, measured: Measured) -> None:
        """Write the run's files, `run.json` last: it marks a complete folder."""
        tier_roots = {
            "gfs": [str(self._description.system.gfs.data_root())],
            "lfs": list(dict.fromkeys(measured.lfs_roots)),
        }
        further = {
            **self._write_decisions(folder, measured.reports, tier_roots),
            **self._write_reads(folder, measured.reads),
        }
        filled = {"lfs_fill_time_s": measured.fill_time_s}
        write_epochs(folder, [row | filled for rows in measured.rows for row in rows])
        duration_s = None
        if self._emulation:
            duration_s = sum(row["execution_time_s"] for row in measured.rows[0])
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
            "emulation": self._emulation.describe() if self._emulation else None,
            "versions": software_versions(),
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

    def _write_decisions(
        self,
        folder: Path,
        reports: list[dict[str, Any] | None],
        tier_roots: Mapping[str, Sequence[str]],
    ) -> dict[str, Any]:
        """Write what the nodes decided; return what `run.json` says about it."""
        policy = self._description.scenario.policy
        if policy in PEERS:
            from tierscope.benchmark.peers.report import write_peer_reads  # rank 0 only

            return write_peer_reads(folder, reports, tier_roots)
        if policy in DYNAMIC:
            return write_decisions(folder, reports, tier_roots, self._say)
        return {}

    def _write_reads(
        self, folder: Path, reads: list[dict[str, dict[str, np.ndarray]]] | None
    ) -> dict[str, Any]:
        """Write what was read of a database; return what `run.json` says about it."""
        if reads is None:
            return {}
        write_reads(folder, reads)
        return {"database": asdict(self._database.provenance)}

    def _check_and_mark(
        self, folder: Path, run: dict[str, Any], started: datetime
    ) -> None:
        """Check a log that the tracer wrote by itself, then mark the run complete."""
        n_processes = self._processes.size
        self._tracer.check_log(folder / "log.darshan", n_processes, started)
        mark_complete(folder, run)
