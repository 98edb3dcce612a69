"""The benchmark: MPI processes read a dataset from two tiers, epoch by epoch.

One launch runs several points of a scenario in turn. For each point every node fills
its LFS, all processes read their share of every epoch between two barriers, and rank 0
writes the run's folder: `log.darshan`, `epochs.parquet`, `run.json` (last).
"""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tierscope.benchmark.database import Database
from tierscope.benchmark.epoch import KnownFiles, run_epoch
from tierscope.benchmark.loaders.loader import Loader
from tierscope.benchmark.node_storage import (
    check_is_there,
    check_room,
    claim_storage,
    exchange_files,
    fill_storage,
    held_part,
    release_storage,
)
from tierscope.benchmark.peers.node import NodePeers
from tierscope.benchmark.placement import PlacementError
from tierscope.benchmark.placement.copies import Copier
from tierscope.benchmark.placement.node import NodePlacement
from tierscope.benchmark.processes import Processes, RankGoneError
from tierscope.benchmark.rank import fail_from_thread
from tierscope.benchmark.run_writer import Measured, RunWriter
from tierscope.core.description import RunDescription
from tierscope.core.scenario import Point
from tierscope.data.shuffle import epoch_files
from tierscope.data.tfrecord import generate_files
from tierscope.policies import DYNAMIC, PEERS, Place, held_files, node_policy, strata
from tierscope.storage.clock import Clock, OtherRankFailed, RealClock
from tierscope.storage.emulated.scale import scale_network
from tierscope.storage.local_folder import LocalStorage
from tierscope.storage.tier import epoch_alias, make_epoch_aliases


@dataclass
class Benchmark:
    """A launch: everything that its points share.

    Parameters
    ----------
    description : RunDescription
        What the scenario's measurements depend on (`Experiment.description`).
    processes : Processes
        The MPI processes.
    make_loader : callable
        Makes the loader that reads by a clock; called once, when the first point is
        run.
    tracer : object
        Has `begin(folder)`, `end()`, `write_log(path, duration_s)`, `describe()` and
        `writes_log_at_end`: when MPI ends, so that the run is complete only then.
    emulation : tierscope.storage.emulated.library.Emulation or None
        The emulated devices; None where no tier is emulated.
    say : callable
        Prints a line of progress (rank 0 only).
    """

    description: RunDescription
    processes: Processes
    make_loader: Callable[[Clock], Loader]
    tracer: Any
    emulation: Any
    say: Callable[[str], None]

    def __post_init__(self):
        self.dataset = self.description.dataset
        self.scenario = self.description.scenario
        self.training = self.description.training
        system = self.description.system
        self.gfs_root = system.gfs.data_root()
        self.lfs_root = system.lfs.data_root()
        self.storage = LocalStorage(
            self.lfs_root,
            self.processes.node,
            self.training.epochs,
            self.processes.launch,
        )
        self._real_clock = RealClock(self.processes.barrier)
        self._held_files: np.ndarray | None = None  # by the LFS, in virtual time
        self.loader = None
        self.placement: NodePlacement | NodePeers | None = None
        self.database = Database.of(self.description)
        self._writer = RunWriter(
            self.description,
            self.processes,
            self.tracer,
            self.emulation,
            self.database,
            self.say,
        )

    @property
    def is_dynamic(self) -> bool:
        """Return whether the policy decides while files are read."""
        return self.scenario.policy in DYNAMIC

    @property
    def has_peers(self) -> bool:
        """Return whether files are read from other nodes."""
        return self.scenario.policy in PEERS

    @property
    def is_placed_on_read(self) -> bool:
        """Return whether the loader asks for a path when a file's turn comes."""
        return self.is_dynamic or self.has_peers

    @property
    def is_virtual(self) -> bool:
        """Return whether the launch keeps virtual time."""
        return self.emulation is not None

    @property
    def clock(self) -> Clock:
        """Return the clock of the launch."""
        return self.emulation.clock if self.is_virtual else self._real_clock

    @property
    def folder_name(self) -> str:
        """Return the name of the dataset's folder on either tier."""
        if self.database:
            return self.database.folder_name
        return self.dataset.directory(self.scenario.n_osts)

    def run(self, points: Sequence[Point], staging: Path) -> None:
        """Run points in turn; each ends as a complete folder below `staging`."""
        self.say(
            f"one launch of {self.processes.size} processes measures {len(points)} "
            f"points; starting the loader {self.scenario.loader}"
        )
        self.loader = self.make_loader(self.clock)
        self.warm_up()
        if self.processes.rank == 0:
            check_is_there(self.gfs_root / self.folder_name)
            self.make_aliases(self.gfs_root)
        check_room(self.processes, self.storage, map(self._part, points))
        for number, point in enumerate(points, start=1):
            self.say(
                f"point {number} of {len(points)}: cache rate "
                f"{point.cache_rate_percent} %, repetition {point.repetition}"
            )
            self.run_point(point, staging / point.path)
        if self.database:
            self.loader.close()
        self.release()
        self.processes.barrier()  # what ends the first rank must find all nodes empty

    def finish(self) -> None:
        """Complete a run whose log was written when MPI ended (rank 0).

        Raises
        ------
        LogError
            If the log is not there, not whole or not this run's.
        """
        self._writer.finish()

    def make_aliases(self, root: Path) -> None:
        """Make the links of the epochs beside a tier's data directory."""
        make_epoch_aliases(
            root, self.training.epochs, background=self.is_placed_on_read
        )

    def warm_up(self) -> None:
        """Read a few files of no tier, so that lazy start-up is in no epoch's time."""
        if self.database:  # its loader starts nothing lazily
            return
        n_files = self.dataset.batch_size + 1
        names = [self.dataset.file_name(file_id) for file_id in range(n_files)]
        with tempfile.TemporaryDirectory(prefix="tierscope-") as folder:
            size = self.dataset.file_size_bytes
            generate_files(Path(folder), names, range(n_files), size)
            paths = [os.path.join(folder, name) for name in names]
            run_epoch(self.loader.epoch(paths), self._real_clock)
            if self.is_placed_on_read:
                fed = self.loader.fed_epoch(KnownFiles(paths))
                run_epoch(fed, self._real_clock)

    def stop(self) -> None:
        """End what may still wait in virtual time."""
        if self.emulation:
            self.emulation.stop()

    def release(self) -> None:
        """Remove this node's LFS contents."""
        if self.placement:
            self.placement.stop()
        release_storage(self.processes, self.storage, self.emulation)

    def run_point(self, point: Point, folder: Path) -> None:
        """Fill the LFS, run all epochs and write the run's folder."""
        processes = self.processes
        on_lfs = self._held(point)
        fill_time_s = self.hold(on_lfs)
        started = datetime.now(UTC)
        rows = self.measure(point, folder, on_lfs)
        measured = Measured(
            point,
            started,
            fill_time_s,
            rows=processes.gather(rows),
            lfs_roots=processes.gather(str(self.lfs_root)),
            reports=processes.gather(
                self.placement.report() if self.placement else None
            ),
            reads=processes.gather(self.loader.tables()) if self.database else None,
        )
        if processes.rank == 0:
            self._writer.write(folder, measured)
        processes.barrier()

    def measure(
        self, point: Point, folder: Path, on_lfs: np.ndarray
    ) -> list[dict[str, Any]]:
        """Run all epochs under the tracer and return this rank's rows."""
        processes = self.processes
        if processes.rank == 0:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            if self.emulation:
                self.emulation.reset()
                if self.has_peers:
                    self._describe_network()
        processes.barrier()
        if self.database:
            self.loader.begin_run()
        self.tracer.begin(folder)
        if self.is_placed_on_read:
            self.placement = self.make_placement(point)
            self.placement.begin()
        rows, n_epochs = [], self.training.epochs
        for epoch in range(n_epochs):
            started_s = time.perf_counter()
            rows.append(self._epoch_row(point, epoch, on_lfs))
            times = f"{rows[-1]['execution_time_s']:.3f} s"
            if self.is_virtual:
                real_s = time.perf_counter() - started_s
                times += f" of virtual time, {real_s:.1f} s of real time"
            self.say(f"  epoch {epoch + 1} of {n_epochs}: {times}")
            if self.placement:
                self.placement.end_epoch(epoch)
        if self.placement:
            self.placement.stop()
        self.tracer.end()
        processes.barrier()
        return rows

    def _describe_network(self) -> None:
        """Tell the emulated devices of the network between nodes."""
        way_s, bytes_per_s = scale_network(self.description.system)
        self.emulation.clock.set_network(
            self.description.policy_options["server_threads"],
            way_s,
            self.dataset.file_size_bytes / bytes_per_s,
        )

    def make_placement(self, point: Point) -> NodePlacement | NodePeers:
        """Return the node's placement for a measurement; its LFS is empty."""
        clock = self.clock
        copier = Copier(
            self.gfs_root,
            self.lfs_root,
            self.folder_name,
            f"{self.storage.node_name}/{self.folder_name}",
            self.dataset.file_size_bytes,
        )
        if self.has_peers:
            return NodePeers(
                self.description,
                point,
                self.processes,
                copier,
                self.say,
                end=partial(fail_from_thread, self.processes, self.release),
                clock=clock,
            )
        return NodePlacement(
            self.description,
            point,
            self.processes,
            copier,
            say=lambda line: print(line, file=sys.stderr, flush=True),
            clock=clock,
            teller=self.loader.teller,
        )

    def hold(self, on_lfs: np.ndarray) -> float:
        """Let this node's LFS hold files and return the time it took, in seconds.

        In virtual time no device charges for that: it takes no time. Files that are
        there stay, unless a policy has put them there or they are a database's part.
        """
        if not self.is_virtual or self.is_placed_on_read or self.database:
            fill_time_s = self.fill(np.flatnonzero(on_lfs))
            return 0.0 if self.is_virtual else fill_time_s
        common = self.processes, self.storage, self.folder_name
        if self._held_files is None:
            claim_storage(*common)
            self._held_files = np.zeros_like(on_lfs)
        exchange_files(*common, self._held_files, on_lfs, self.dataset)
        self._held_files = on_lfs
        return 0.0

    def fill(self, pinned: np.ndarray) -> float:
        """Fill this node's LFS and return the time it took."""
        return fill_storage(
            self.processes,
            self.storage,
            self.folder_name,
            pinned,
            self.dataset,
            self.database,
            background=self.is_placed_on_read,
            peers=self.has_peers,
        )

    def _held(self, point: Point) -> np.ndarray:
        """Return which samples the LFS holds before the first epoch."""
        if self.database:
            return self.database.on_lfs(point.cache_rate_percent)
        return held_files(
            self.scenario.policy,
            self.dataset.n_files,
            point.cache_rate_percent,
            self.training.seed,
            point.repetition,
        )

    def _part(self, point: Point) -> tuple[int, int]:
        """Return how many files this node's LFS has to hold, and their size."""
        n_held = int(self._held(point).sum())
        node = self.processes.node
        return held_part(self.description, point, n_held, node, self.database)

    def _files(self, point: Point, epoch: int, on_lfs: np.ndarray) -> np.ndarray:
        """Return the samples that this rank reads in an epoch, in reading order."""
        if self.database:
            return self.database.records_of(self.processes, point.repetition, epoch)
        return epoch_files(
            self.dataset.n_files,
            self.processes.rank,
            self.processes.size,
            shuffle=self.training.shuffle,
            seed=self.training.seed,
            repetition=point.repetition,
            epoch=epoch,
            strata=strata(self.scenario.policy, on_lfs),
        )

    def _epoch_row(
        self, point: Point, epoch: int, on_lfs: np.ndarray
    ) -> dict[str, Any]:
        """Run one epoch and return this rank's row of the table of epochs."""
        files = self._files(point, epoch, on_lfs)
        gfs = epoch_alias(self.gfs_root, epoch) / self.folder_name
        lfs = (
            epoch_alias(self.lfs_root, epoch)
            / self.storage.node_name
            / self.folder_name
        )
        folders = {Place.GFS: str(gfs), Place.LFS: str(lfs)}
        feed = None
        if self.placement:
            feed = self.placement.feed(epoch, files, folders)
            batches = self.loader.fed_epoch(feed)
        elif self.database:
            batches = self.loader.epoch(
                self.database.references(files, on_lfs, gfs, lfs)
            )
        else:
            policy = node_policy(self.description, point, self.processes.on_node)
            paths = [
                f"{folders[policy.begin_read(file_id)]}/{self.dataset.file_name(file_id)}"
                for file_id in files.tolist()
            ]
            batches = self.loader.epoch(paths)
        try:
            execution_time_s, samples, n_bytes = run_epoch(
                batches, self._clock(len(files)), self.training.compute_time_s
            )
            if self.placement:
                self.placement.check()
        except Exception as error:
            where = (
                f"in epoch {epoch + 1} of {self.training.epochs} at cache rate "
                f"{point.cache_rate_percent} %"
            )
            error.add_note(where)
            if self.placement:
                self._explain(error, where)
            raise
        n_lfs = feed.places.count(Place.LFS) if feed else int(on_lfs[files].sum())
        n_gfs = feed.places.count(Place.GFS) if feed else len(files) - n_lfs
        return {
            "rank": self.processes.rank,
            "node": self.processes.node,
            "epoch": epoch,
            "execution_time_s": execution_time_s,
            "samples": samples,
            "bytes": n_bytes,
            "lfs_files": n_lfs,
            "gfs_files": n_gfs,
        }

    def _clock(self, n_files: int) -> Clock:
        """Return the clock of an epoch in which this process reads so many files.

        Records of a database are read by the thread that consumes them, so there is
        nothing to plan. As in the simulator, they take no processor time.
        """
        if not self.is_virtual:
            return self._real_clock
        processor = self.description.system.devices.get("processor", {})
        self.emulation.clock.plan(
            0 if self.database else n_files,
            self.dataset.file_size_bytes,
            self.dataset.batch_size,
            self.description.loader.prefetch_batches,
            processor.get("sample_s", 0.0),
            self.loader.teller if self.is_dynamic else None,
        )
        return self.emulation.clock

    def _explain(self, error: Exception, where: str) -> None:
        """Raise the placement's own error where it is behind a loader's."""
        if isinstance(error, (OtherRankFailed, RankGoneError)):
            return  # what follows from that is no cause
        try:
            self.placement.check()
        except PlacementError as reason:
            if reason is error:
                return
            reason.add_note(where)
            raise reason from error
