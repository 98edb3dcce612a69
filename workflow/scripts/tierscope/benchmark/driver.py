"""The benchmark: MPI processes read a dataset from two tiers, epoch by epoch.

One launch runs several points of a scenario in turn. For each point every node fills
its LFS, all processes read their share of every epoch between two barriers, and rank 0
writes the run's folder: `log.darshan`, `epochs.parquet`, `run.json` (last).
"""

import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from tierscope.benchmark.devices.real import RealDevices
from tierscope.benchmark.epoch import MeasuredEpoch, run_epoch
from tierscope.benchmark.node_storage import (
    check_is_there,
    check_room,
    release_storage,
)
from tierscope.benchmark.processes import Processes
from tierscope.benchmark.run_writer import Measured, RunWriter
from tierscope.benchmark.sources import source_of
from tierscope.benchmark.sources.files import LaunchSite
from tierscope.core.description import RunDescription
from tierscope.core.scenario import Point
from tierscope.data.shuffle import process_share
from tierscope.data.steps import compute_times_ns
from tierscope.policies import FILES, kind_of
from tierscope.storage.clock import to_ns
from tierscope.storage.local_folder import LocalStorage
from tierscope.storage.tier import make_epoch_aliases


@dataclass
class Benchmark:
    """A launch: everything that its points share.

    `tracer` has `begin(folder)`, `end()`, `write_log(path, duration_s)`, `describe()`
    and `writes_log_at_end`: the log appears, and the run is complete, when MPI ends.
    `say` prints on rank 0 only.
    """

    description: RunDescription
    processes: Processes
    tracer: Any
    devices: RealDevices
    say: Callable[[str], None]

    def __post_init__(self):
        self.training = self.description.training
        self.storage = LocalStorage(
            self.description.system.lfs.data_root(),
            self.processes.node,
            self.training.epochs,
            self.processes.launch,
        )
        self._site = LaunchSite(
            self.description,
            self.processes,
            self.storage,
            self.devices,
            self.say,
        )
        self._source = source_of(self._site)
        self._writer = RunWriter(
            self.description,
            self.processes,
            self.tracer,
            self.devices,
            self._source,
        )

    def run(self, points: Sequence[Point], staging: Path) -> None:
        """Run points in turn; each ends as a complete folder below `staging`."""
        self.say(
            f"one launch of {self.processes.size} processes measures {len(points)} "
            f"points; starting the loader {self.description.scenario.loader}"
        )
        source = self._source
        source.start()
        if self.processes.rank == 0:
            gfs_root = self._site.gfs_root
            check_is_there(gfs_root / source.folder_name)
            make_epoch_aliases(
                gfs_root, self.training.epochs, background=source.has_copies
            )
        parts, in_memory = map(source.room, points), self.devices.needs_memory
        check_room(self.processes, self.storage, parts, in_memory=in_memory)
        self._watch = self.devices.watch(
            self.description, self.processes, source.sentinel_paths
        )
        for number, point in enumerate(points, start=1):
            self.say(
                f"point {number} of {len(points)}: cache rate "
                f"{point.cache_rate_percent} %, repetition {point.repetition}"
            )
            self.run_point(point, staging / point.path)
        source.end()
        self.release()
        self.processes.barrier()  # all nodes are empty before the first rank ends

    def gather_facts(self) -> None:
        """Note what the processes run with; refuse a launch in which that differs."""
        self._writer.gather_facts()

    def finish(self) -> None:
        """Complete a run whose log was written when MPI ended (rank 0).

        Raises a LogError if the log is missing, incomplete or that of another run.
        """
        self._writer.finish()

    def stop(self) -> None:
        """Release the threads that still wait in virtual time."""
        self.devices.stop()

    def release(self) -> None:
        """Remove this node's LFS contents."""
        self._source.stop()
        release_storage(self.processes, self.storage, self.devices)

    def run_point(self, point: Point, folder: Path) -> None:
        """Fill the LFS, run all epochs and write the run's folder."""
        processes = self.processes
        on_lfs = self._source.on_lfs(point)
        fill_time_s = self.devices.hold(self._source, on_lfs, cold=self.training.cold)
        self._watch.begin_point(self.storage.folder)
        started = datetime.now(UTC)
        rows = self.measure(point, folder, on_lfs)
        measured = Measured(
            point,
            started,
            fill_time_s,
            self._watch.end_point(),
            rows=processes.gather(rows),
            lfs_roots=processes.gather(str(self._site.lfs_root)),
            gathered=self._source.gather(),
        )
        if processes.rank == 0:
            self._writer.write(folder, measured)
        processes.barrier()

    def measure(
        self, point: Point, folder: Path, on_lfs: np.ndarray
    ) -> list[dict[str, Any]]:
        """Run all epochs under the tracer and return this rank's rows."""
        processes, source = self.processes, self._source
        if processes.rank == 0:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            self.devices.reset()
        source.reset()
        processes.barrier()
        self.tracer.begin(folder)
        source.begin(point)
        rows, n_epochs = [], self.training.epochs
        for epoch in range(n_epochs):
            paths = partial(source.paths_of_epoch, point, epoch, on_lfs)
            self._watch.begin_epoch(paths)
            started_s = time.perf_counter()
            rows.append(self._epoch_row(point, epoch, on_lfs))
            real_s = time.perf_counter() - started_s
            times = self.devices.time_text(rows[-1]["execution_time_s"], real_s)
            self.say(f"  epoch {epoch + 1} of {n_epochs}: {times}")
            source.end_epoch(epoch)
            rows[-1] |= self._watch.end_epoch(paths)  # of copies, too
        source.stop()
        self.tracer.end()
        processes.barrier()
        return rows

    def _epoch_row(
        self, point: Point, epoch: int, on_lfs: np.ndarray
    ) -> dict[str, Any]:
        """Run one epoch and return this rank's row of the table of epochs."""
        reads = self._source.epoch(point, epoch, on_lfs)
        n_steps, teller = self._n_steps(self.processes.rank), self._source.teller
        try:
            self.devices.plan(self.description, reads.n_planned, n_steps, teller)
            measured = run_epoch(
                reads.batches,
                self.devices.clock,
                self._compute_ns(point, epoch),
                self._meet,
            )
            self._source.check()
        except Exception as error:
            where = (
                f"in epoch {epoch + 1} of {self.training.epochs} at cache rate "
                f"{point.cache_rate_percent} %"
            )
            error.add_note(where)
            self._source.explain(error, where)
            raise
        n_lfs, n_gfs = reads.places()
        return {
            "rank": self.processes.rank,
            "node": self.processes.node,
            "epoch": epoch,
            "execution_time_s": measured.execution_time_s,
            "samples": measured.samples,
            "bytes": measured.bytes,
            "lfs_files": n_lfs,
            "gfs_files": n_gfs,
            **self._steps(measured),
        }

    def _steps(self, measured: MeasuredEpoch) -> dict[str, float]:
        """Return how the time of an epoch was spent, of the kinds of runs that say."""
        if kind_of(self.description.scenario) is not FILES:
            return {}
        return {name: float(one) for name, one in measured.steps.columns().items()}

    @cached_property
    def _meet(self) -> Callable[[int], None] | None:
        """Return what waits at the end of a step for those that have a batch for it."""
        if not self.training.in_steps:
            return None
        processes = self.processes
        n_steps = [self._n_steps(rank) for rank in range(processes.size)]
        # Parts differ by at most one file, and so by at most one step.
        n_common = min(n_steps)
        with_last = processes.group(n_steps[processes.rank] > n_common)
        clock = self.devices.clock

        def meet(step: int) -> None:
            n_members = sum(n > step for n in n_steps)
            meet = processes.barrier if step < n_common else with_last
            clock.meet(step, n_members, meet)

        return meet

    def _compute_ns(self, point: Point, epoch: int) -> Iterable[int]:
        """Return the compute time of each step of this process in an epoch."""
        compute = self.training.compute_time
        if not compute.is_random:
            return repeat(to_ns(compute.mean_s))
        seeds, rank = (self.training.seed, point.repetition, epoch), self.processes.rank
        return compute_times_ns(compute, self._n_steps(rank), seeds, rank).tolist()

    def _n_steps(self, rank: int) -> int:
        """Return how many steps a process makes in an epoch of files."""
        dataset = self.description.dataset
        share = process_share(dataset.n_files, rank, self.processes.size)
        return -(-(share.stop - share.start) // dataset.batch_size)
