"""Samples that are files and are on their tiers before the first epoch."""

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tierscope.benchmark.devices.real import RealDevices
from tierscope.benchmark.epoch import run_epoch
from tierscope.benchmark.loaders import make_loader
from tierscope.benchmark.loaders.loader import Loader
from tierscope.benchmark.node_storage import claim_storage, exchange_files
from tierscope.benchmark.observations.page_cache import files_below
from tierscope.benchmark.observations.sentinel import sentinel_files
from tierscope.benchmark.processes import Processes
from tierscope.core.description import RunDescription
from tierscope.core.files import write_back
from tierscope.core.scenario import Dataset, Point
from tierscope.data.shuffle import process_share, run_order
from tierscope.data.tfrecord import generate_files
from tierscope.policies import Place, held_files, node_policy, strata
from tierscope.storage.clock import Clock, RealClock, Role
from tierscope.storage.local_folder import LocalStorage
from tierscope.storage.page_cache import drop_pages
from tierscope.storage.tier import epoch_alias


@dataclass(frozen=True)
class LaunchSite:
    """Objects that the parts of a launch share.

    `say` prints on rank 0 only.
    """

    description: RunDescription
    processes: Processes
    storage: LocalStorage
    devices: RealDevices
    say: Callable[[str], None]

    @property
    def dataset(self) -> Dataset:
        """Return the dataset that is read."""
        return self.description.dataset

    @property
    def gfs_root(self) -> Path:
        """Return the data directory of the GFS."""
        return self.description.system.gfs.data_root()

    @property
    def lfs_root(self) -> Path:
        """Return the data directory of the LFS."""
        return self.storage.data_root

    @property
    def real_clock(self) -> Clock:
        """Return a clock of real time."""
        return RealClock(self.processes.barrier)


@dataclass(frozen=True)
class EpochReads:
    """The reads of this process in an epoch: the samples and bytes of each batch.

    Virtual time must plan the reads of `n_planned` files. After the epoch `places`
    returns how many samples came from the LFS and from the GFS.
    """

    batches: Iterable[tuple[int, int]]
    n_planned: int
    places: Callable[[], tuple[int, int]]


class FileSource:
    """The files of a dataset, placed by a static policy before the first epoch.

    Other sources override what differs. `loader` reads the samples.
    """

    has_copies = False  # whether aliases of background traffic are needed
    has_servers = False  # whether aliases of reads for other nodes are needed

    def __init__(self, site: LaunchSite):
        self.site = site
        self.loader: Loader | None = None
        self._held: np.ndarray | None = None  # files on the LFS, in virtual time

    @property
    def folder_name(self) -> str:
        """Return the name of the dataset's folder on either tier."""
        description = self.site.description
        return description.dataset.directory(description.scenario.n_osts)

    # ---- a launch -----------------------------------------------------------------

    def start(self) -> None:
        """Make the loader, and let it read a few files outside the tiers.

        So no epoch's time includes lazy start-up.
        """
        description = self.site.description
        self.loader = make_loader(
            description.scenario.loader,
            batch_size=description.dataset.batch_size,
            clock=self.site.devices.clock,
            **asdict(description.loader),
        )
        if self.loader.reads_in_epochs_only:
            return
        dataset = description.dataset
        n_files = dataset.batch_size + 1
        names = [dataset.file_name(file_id) for file_id in range(n_files)]
        with tempfile.TemporaryDirectory(prefix="tierscope-") as folder:
            size = dataset.file_size_bytes
            generate_files(Path(folder), names, range(n_files), size)
            self.warm_up([os.path.join(folder, name) for name in names])

    def warm_up(self, paths: Sequence[str]) -> None:
        """Read some files in the same way as an epoch."""
        run_epoch(self.loader.epoch(paths), self.site.real_clock)

    def end(self) -> None:
        """Clean up after the last point: nothing to do."""

    # ---- the contents of the LFS --------------------------------------------------

    def on_lfs(self, point: Point) -> np.ndarray:
        """Return which samples the LFS holds before the first epoch: bool."""
        return held_files(self.site.description, point)

    def room(self, point: Point) -> tuple[int, int]:
        """Return how many files a node's LFS must hold at a point, and their size.

        Policies that copy while files are read need no space: they work without.
        """
        return int(self.on_lfs(point).sum()), self.site.dataset.file_size_bytes

    def exchange(self, on_lfs: np.ndarray) -> None:
        """Change which samples this node's LFS holds, where no device charges for it.

        Files that are there stay.
        """
        common = self.site.processes, self.site.storage, self.folder_name
        if self._held is None:
            claim_storage(*common)
            self._held = np.zeros_like(on_lfs)
        exchange_files(*common, self._held, on_lfs, self.site.dataset)
        self._held = on_lfs

    def fill(self, held: np.ndarray, *, cold: bool = False) -> float:
        """Claim every node's LFS, fill it, and return the time that took in seconds.

        The processes of a node share the work; nodes fill at the same time. `held` are
        the numbers of the samples that the LFS must hold. Files that must be `cold`
        leave the page cache once they are written.
        """
        processes, storage = self.site.processes, self.site.storage
        processes.barrier()
        start = time.perf_counter()
        claim_storage(
            processes,
            storage,
            self.folder_name,
            background=self.has_copies,
            peers=self.has_servers,
        )
        folder = self._lfs_folder
        self.write(folder, held)
        if cold:
            self.leave_page_cache(folder)
        processes.barrier()
        fill_time_s = time.perf_counter() - start
        self.check_filled(folder, held)
        processes.barrier()
        return fill_time_s

    def write(self, folder: Path, held: np.ndarray) -> None:
        """Write this process's part of the samples to a folder of the LFS.

        As in the paper (Sec. 5.1), files are generated, not copied.
        """
        processes, dataset = self.site.processes, self.site.dataset
        share = process_share(len(held), processes.node_rank, processes.node_size)
        names = [dataset.file_name(file_id) for file_id in held[share]]
        generate_files(folder, names, held[share], dataset.file_size_bytes)

    def leave_page_cache(self, folder: Path) -> None:
        """Write this process's part of a folder to its device, and drop the pages."""
        processes = self.site.processes
        processes.barrier()
        if processes.node_rank == 0:
            write_back(folder)
        processes.barrier()
        drop_pages(self._my_part(folder))

    def _my_part(self, folder: str | Path) -> list[str]:
        """Return the files in a folder of the node that this process takes care of."""
        processes, files = self.site.processes, files_below(folder)
        return files[
            process_share(len(files), processes.node_rank, processes.node_size)
        ]

    def check_filled(self, folder: Path, held: np.ndarray) -> None:
        """Refuse a folder of the LFS with wrong contents."""

    # ---- a run --------------------------------------------------------------------

    def reset(self) -> None:
        """Clear the state of the last run on all processes, before tracing begins."""

    def begin(self, point: Point) -> None:
        """Begin a run after the tracer has begun."""

    def samples(self, point: Point, epoch: int, on_lfs: np.ndarray) -> np.ndarray:
        """Return the samples that this process reads in an epoch, in reading order."""
        description = self.site.description
        order = run_order(description, point.repetition)
        dealt_apart = strata(description.scenario.policy, on_lfs)
        return order.of_process(self.site.processes.rank, epoch, dealt_apart)

    def epoch(self, point: Point, epoch: int, on_lfs: np.ndarray) -> EpochReads:
        """Return the reads of this process in an epoch."""
        files, folders = self.samples(point, epoch, on_lfs), self.folders(epoch)
        site = self.site
        policy = node_policy(site.description, point, site.processes.on_node)
        paths = [
            f"{folders[policy.begin_read(file_id)]}/{site.dataset.file_name(file_id)}"
            for file_id in files.tolist()
        ]
        n_lfs = int(on_lfs[files].sum())
        return EpochReads(
            self.loader.epoch(paths),
            len(files),
            lambda: (n_lfs, len(files) - n_lfs),
        )

    def paths_of_epoch(
        self, point: Point, epoch: int, on_lfs: np.ndarray
    ) -> dict[str, list[str]]:
        """Return the files that this process will read in an epoch, by tier.

        The paths are those of the data directories, which no tracer records.
        """
        files, site = self.samples(point, epoch, on_lfs), self.site
        return {
            tier: [f"{folder}/{site.dataset.file_name(i)}" for i in some.tolist()]
            for tier, folder, some in (
                ("gfs", self._gfs_folder, files[~on_lfs[files]]),
                ("lfs", self._lfs_folder, files[on_lfs[files]]),
            )
        }

    def sentinel_paths(self) -> list[str]:
        """Return the files on the GFS that this process reads as a sentinel."""
        dataset, processes = self.site.dataset, self.site.processes
        files = sentinel_files(dataset, processes.rank, processes.size)
        return [f"{self._gfs_folder}/{dataset.file_name(file_id)}" for file_id in files]

    @property
    def _gfs_folder(self) -> Path:
        """Return the dataset's folder on the GFS."""
        return self.site.gfs_root / self.folder_name

    @property
    def _lfs_folder(self) -> Path:
        """Return the dataset's folder on this node's LFS."""
        return self.site.storage.folder / self.folder_name

    def folders(self, epoch: int) -> dict[Place, str]:
        """Return the names of the dataset's folders in an epoch."""
        site = self.site
        gfs = epoch_alias(site.gfs_root, epoch) / self.folder_name
        lfs = epoch_alias(site.lfs_root, epoch) / site.storage.node_name
        return {Place.GFS: str(gfs), Place.LFS: str(lfs / self.folder_name)}

    @property
    def teller(self) -> Role | None:
        """Return the role that reports ended reads, None if no policy needs reports."""
        return None

    def check(self) -> None:
        """Raise the error of threads or servers behind the loader, if any."""

    def explain(self, error: Exception, where: str) -> None:
        """Raise the error that caused a loader's error, if known."""

    def end_epoch(self, epoch: int) -> None:
        """End an epoch after all its samples were read."""

    def stop(self) -> None:
        """End the threads or servers behind the loader."""

    # ---- the results of a run -----------------------------------------------------

    def gather(self) -> Any:
        """Return on rank 0 the notes of all processes; all processes call this."""

    def write_tables(
        self, folder: Path, gathered: Any, tier_roots: Mapping[str, Sequence[str]]
    ) -> dict[str, Any]:
        """Write the tables of this kind of run, and return their part of `run.json`.

        `gathered` is the result of `gather`; `tier_roots` are data directories by tier.
        """
        return {}
