"""The benchmark: MPI processes read a dataset from two tiers, epoch by epoch.

One launch runs several points of a scenario in turn. For each point every node fills
its LFS, all processes read their share of every epoch between two barriers, and rank 0
writes the run's folder: `log.darshan`, `epochs.parquet`, `run.json` (last).
"""

import json
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from tierscope.config import ConfigError, Dataset, Point, description_hash
from tierscope.database import Database, tables_of
from tierscope.dataset import DatasetError, generate_files
from tierscope.loaders import Loader
from tierscope.peers.node import NodePeers
from tierscope.placement import PlacementError
from tierscope.placement.copies import Copier
from tierscope.placement.node import NodePlacement
from tierscope.policies import DYNAMIC, PEERS, Place, held_files, strata
from tierscope.shared_memory import remove_mpi_segments
from tierscope.shuffle import epoch_files, process_share
from tierscope.tiers import (
    Tier,
    TierError,
    background_root,
    epoch_alias,
    make_epoch_aliases,
)
from tierscope.tiers.local_storage import LocalStorage

RUN_FILES = ("log.darshan", "epochs.parquet", "run.json")
_POLL_S = 0.0005
_GRACE_S = 120.0  # to empty the LFS: removing 72 GiB of small files takes a while
ATTEMPTS = 6
_TAG_FAILED, _TAG_RELEASED = 71, 72


class BenchmarkError(RuntimeError):
    """The benchmark cannot go on."""


class OtherRankFailed(RuntimeError):
    """Another process reported a failure; its rank is the argument."""


class Terminated(BaseException):
    """The job was told to end by a signal."""


_EXPLAINED = (
    *(BenchmarkError, ConfigError, DatasetError, PlacementError, TierError),
    Terminated,
)


class Processes:
    """The MPI processes of a launch, with waiting that neither spins nor hangs.

    Ranks may share cores, so waiting sleeps between polls (0.5 ms, the precision of
    epoch times), and each poll looks for the failure of another rank.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        All processes of the launch.
    system : mapping
        `n_nodes`, `processes_per_node` and `virtual_nodes` of the system.
    """

    def __init__(self, comm, system: Mapping[str, Any]):
        self.comm, self.rank, self.size = comm, comm.rank, comm.size
        wanted = system["n_nodes"] * system["processes_per_node"]
        if comm.size != wanted:
            raise BenchmarkError(
                f"got {comm.size} MPI processes, expected {wanted} "
                f"({system['n_nodes']} nodes x {system['processes_per_node']})."
            )
        machines = comm.allgather(platform.node())
        hosts = comm.allgather(os.environ.get("SLURMD_NODENAME") or platform.node())
        if len(set(machines)) > 1:  # else one machine plays several nodes of Slurm
            hosts = machines
        self.host = hosts[comm.rank]
        if system["virtual_nodes"]:
            nodes = [rank // system["processes_per_node"] for rank in range(wanted)]
        else:
            order = {host: i for i, host in enumerate(dict.fromkeys(hosts))}
            nodes = [order[host] for host in hosts]
            counts = {host: hosts.count(host) for host in order}
            if set(counts.values()) != {system["processes_per_node"]}:
                found = ", ".join(f"{counts[host]} on {host}" for host in counts)
                raise BenchmarkError(
                    f"got processes {found}; expected "
                    f"{system['processes_per_node']} on each of {system['n_nodes']} "
                    "nodes (job.launcher of the system file places them)."
                )
        self.hosts = [hosts[nodes.index(node)] for node in range(system["n_nodes"])]
        self.node = nodes[self.rank]
        on_node = [rank for rank in range(wanted) if nodes[rank] == self.node]
        self.on_node = on_node
        self.node_rank, self.node_size = on_node.index(self.rank), len(on_node)

    def barrier(self, poll_s: float = _POLL_S) -> None:
        """Wait for all processes, or raise OtherRankFailed."""
        self.wait(self.comm.Ibarrier(), poll_s)

    def wait(self, request: Any, poll_s: float = _POLL_S) -> None:
        """Wait for an MPI request, or raise OtherRankFailed."""
        while not request.Test():
            self.look_for_failure()
            time.sleep(poll_s)

    def gather(self, value: Any) -> list[Any] | None:
        """Return all ranks' values on rank 0, None elsewhere."""
        self.barrier()
        return self.comm.gather(value)

    def share(self, value: Any) -> Any:
        """Return rank 0's value on all ranks."""
        self.barrier()
        return self.comm.bcast(value)

    def look_for_failure(self) -> None:
        """Raise OtherRankFailed if another process has reported a failure."""
        from mpi4py import MPI

        status = MPI.Status()
        if self.comm.Iprobe(MPI.ANY_SOURCE, _TAG_FAILED, status):
            raise OtherRankFailed(status.source)

    def announce_failure(self) -> None:
        """Tell all other ranks that this one has failed."""
        for rank in self._others():
            self.comm.isend(None, rank, _TAG_FAILED)

    def await_release(self) -> None:
        """Wait until the other ranks have cleaned up, two minutes at most."""
        end, released = time.monotonic() + _GRACE_S, 0
        while released < self.size - 1 and time.monotonic() < end:
            if self.comm.iprobe(tag=_TAG_RELEASED):
                self.comm.recv(tag=_TAG_RELEASED)
                released += 1
            else:
                time.sleep(_POLL_S)

    def announce_release(self) -> None:
        """Tell all other ranks that this one has cleaned up."""
        for rank in self._others():
            self.comm.isend(None, rank, _TAG_RELEASED)

    def _others(self) -> list[int]:
        return [rank for rank in range(self.size) if rank != self.rank]


def run_epoch(
    batches: Iterator[tuple[int, int]],
    barrier: Callable[[], None],
    compute_time_s: float = 0.0,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, int, int]:
    """Read one epoch's files and return (time from barrier to barrier, samples, bytes).

    Parameters
    ----------
    batches : iterator of (samples, bytes)
        This process's epoch, as a loader returns it.
    barrier : callable
        Waits for all processes.
    compute_time_s : float
        Sleep after each batch, in seconds, in place of a training step.
    clock : callable
        Seconds since some instant.
    """
    barrier()
    start = clock()
    samples = n_bytes = 0
    for batch_samples, batch_bytes in batches:
        samples += batch_samples
        n_bytes += batch_bytes
        if compute_time_s:
            time.sleep(compute_time_s)
    barrier()
    return clock() - start, samples, n_bytes


def check_is_there(folder: Path) -> None:
    """Refuse a dataset that has a manifest and no folder."""
    if not folder.is_dir():
        raise TierError(
            f"{folder}: no such dataset, though it has a manifest; make it again: "
            "snakemake ... --forcerun generate_dataset --until generate_dataset"
        )


def claim_storage(
    processes: Processes,
    storage: LocalStorage,
    folder: str,
    *,
    background: bool = False,
    peers: bool = False,
) -> None:
    """Make every node's LFS ours and empty but for a folder of this name."""
    if processes.node_rank == 0:
        storage.claim()
        (storage.folder / folder).mkdir()
        make_epoch_aliases(
            storage.data_root, storage.n_epochs, background=background, peers=peers
        )
    processes.barrier()


def release_storage(
    processes: Processes, storage: LocalStorage, emulation: Any
) -> None:
    """Remove this node's LFS contents, and the emulated devices if there are any."""
    if processes.node_rank == 0:
        storage.release()
    else:
        storage.wait_until_released(_GRACE_S)
    if emulation and processes.rank == 0:
        emulation.remove()


def shared_lateness_percent(processes: Processes, emulation: Any) -> float:
    """Return the share of the emulated waiting that is the machine's lateness."""
    if emulation is None:
        return 0.0
    late = emulation.lateness_percent() if processes.rank == 0 else None
    return processes.share(late)


def describe_emulation(
    emulation: Any, lateness_percent: Sequence[float]
) -> dict[str, Any] | None:
    """Return the devices and the lateness of each attempt, the last of which counts."""
    if emulation is None:
        return None
    return {
        "lateness_percent": lateness_percent[-1],
        "lateness_percent_of_attempts": list(lateness_percent),
        **emulation.describe(),
    }


@dataclass(frozen=True)
class KnownFiles:
    """A loader's `Feed` of files whose paths are known."""

    paths: Sequence[str]

    def __len__(self) -> int:
        return len(self.paths)

    def path(self, index: int) -> str:
        """Return the path of the file of this index."""
        return self.paths[index]

    def finished(self, index: int, content: Callable[[], bytes]) -> None:
        """Do nothing: nobody wants to know."""


@dataclass
class Benchmark:
    """A launch: everything that its points share.

    Parameters
    ----------
    description : mapping
        What the scenario's measurements depend on (`Experiment.description`).
    processes : Processes
        The MPI processes.
    make_loader : callable
        Makes the loader; called once, when the first point is run.
    tracer : object
        Has `begin(folder)`, `end()`, `write_log(path)`, `describe()`, `repeatable`
        and `writes_log_at_end`: when MPI ends, so that the run is complete only then.
    emulation : object or None
        Has `reset()`, `lateness_percent()`, `describe()`, `remove()`; None where no
        tier is emulated.
    say : callable
        Prints a line of progress (rank 0 only).
    max_lateness_percent : float
        Emulated tiers: lateness above which the epochs are measured again.
    """

    description: Mapping[str, Any]
    processes: Processes
    make_loader: Callable[[], Loader]
    tracer: Any
    emulation: Any
    say: Callable[[str], None]
    max_lateness_percent: float

    def __post_init__(self):
        self.dataset = Dataset(**self.description["dataset"])
        self.scenario = self.description["scenario"]
        self.training = self.description["training"]
        system = self.description["system"]
        self.gfs_root = Tier(**system["gfs"]).data_root()
        self.lfs_root = Tier(**system["lfs"]).data_root()
        self.storage = LocalStorage(
            self.lfs_root,
            self.processes.node,
            self.training["epochs"],
            None if system["virtual_nodes"] else self.processes.host,
        )
        self.loader = None
        self.placement: NodePlacement | NodePeers | None = None
        self.database = Database.of(self.description)
        self._complete = lambda: None

    @property
    def is_dynamic(self) -> bool:
        """Return whether the policy decides while files are read."""
        return self.scenario["policy"] in DYNAMIC

    @property
    def has_peers(self) -> bool:
        """Return whether files are read from other nodes."""
        return self.scenario["policy"] in PEERS

    @property
    def is_fed(self) -> bool:
        """Return whether the loader asks for a path when a file's turn comes."""
        return self.is_dynamic or self.has_peers

    @property
    def folder_name(self) -> str:
        """Return the name of the dataset's folder on either tier."""
        if self.database:
            return self.database.folder_name
        return self.dataset.directory(self.scenario["n_osts"])

    def run(self, points: Sequence[Point], staging: Path) -> None:
        """Run points in turn; each ends as a complete folder below `staging`."""
        self.say(
            f"one launch of {self.processes.size} processes measures {len(points)} "
            f"points; starting the loader {self.scenario['loader']}"
        )
        self.loader = self.make_loader()
        self.warm_up()
        if self.processes.rank == 0:
            check_is_there(self.gfs_root / self.folder_name)
            self.make_aliases(self.gfs_root)
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
        self._complete()

    def make_aliases(self, root: Path) -> None:
        """Make the links of the epochs beside a tier's data directory."""
        make_epoch_aliases(root, self.training["epochs"], background=self.is_fed)

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
            run_epoch(self.loader.epoch(paths), self.processes.barrier)
            if self.is_fed:
                fed = self.loader.fed_epoch(KnownFiles(paths))
                run_epoch(fed, self.processes.barrier)

    def release(self) -> None:
        """Remove this node's LFS contents."""
        if self.placement:
            self.placement.stop()
        release_storage(self.processes, self.storage, self.emulation)

    def run_point(self, point: Point, folder: Path) -> None:
        """Fill the LFS, run all epochs and write the run's folder.

        Emulated devices need a machine that wakes the waiting in time. Where it was
        too late, the epochs are measured again, six times in all; the last attempt
        stands, and the audit judges it by the same limit.
        """
        processes = self.processes
        on_lfs = self._held(point)
        fill_time_s = self.fill(np.flatnonzero(on_lfs))
        lateness_percent = []
        while True:
            started = datetime.now(UTC)
            rows = self.measure(point, folder, on_lfs)
            late = shared_lateness_percent(self.processes, self.emulation)
            lateness_percent.append(late)
            if not self.is_too_late(late, n_attempts=len(lateness_percent)):
                break
            self.say(f"  machine too busy (lateness {late:.0f} %), measuring again")
            if self.is_fed:
                self.fill(np.flatnonzero(on_lfs))  # that is, empty it
        reports = processes.gather(self.placement.report() if self.placement else None)
        gathered = processes.gather(rows)
        lfs_roots = processes.gather(str(self.lfs_root))
        reads = processes.gather(self.loader.tables()) if self.database else None
        if processes.rank == 0:
            rows = [
                row | {"lfs_fill_time_s": fill_time_s}
                for rank_rows in gathered
                for row in rank_rows
            ]
            tier_roots = {
                "gfs": [str(self.gfs_root)],
                "lfs": list(dict.fromkeys(lfs_roots)),
            }
            further = {
                **self._write_decisions(folder, reports, tier_roots),
                **self._write_reads(folder, reads),
            }
            self._write_run(
                point, folder, rows, started, lateness_percent, tier_roots, further
            )
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
        processes.barrier()
        if self.database:
            self.loader.begin_run()
        self.tracer.begin(folder)
        if self.is_fed:
            self.placement = self.make_placement(point)
            self.placement.begin()
        rows = []
        for epoch in range(self.training["epochs"]):
            rows.append(self._epoch_row(point, epoch, on_lfs))
            self.say(f"  epoch {epoch}: {rows[-1]['execution_time_s']:.3f} s")
            if self.placement:
                self.placement.end_epoch(epoch)
        if self.placement:
            self.placement.stop()
        self.tracer.end()
        processes.barrier()
        return rows

    def make_placement(self, point: Point) -> NodePlacement | NodePeers:
        """Return the node's placement for a measurement; its LFS is empty."""
        copier = Copier(
            self.gfs_root,
            self.lfs_root,
            self.folder_name,
            f"{self.storage.node_name}/{self.folder_name}",
            self.dataset.file_size_bytes,
        )
        if self.has_peers:
            return NodePeers(
                self.description, asdict(point), self.processes, copier, self.say
            )
        return NodePlacement(
            self.description,
            asdict(point),
            self.processes,
            copier,
            say=lambda line: print(line, file=sys.stderr, flush=True),
        )

    def is_too_late(self, lateness_percent: float, n_attempts: int) -> bool:
        """Return whether the epochs are to be measured once more."""
        if self.emulation is None or not self.tracer.repeatable:
            return False
        return lateness_percent > self.max_lateness_percent and n_attempts < ATTEMPTS

    def fill(self, pinned: np.ndarray) -> float:
        """Generate the pinned files on this node's LFS and return the time it took.

        As in the paper (Sec. 5.1) the files are generated, not copied. The processes
        of a node share the work; nodes fill at the same time.
        """
        processes = self.processes
        processes.barrier()
        start = time.perf_counter()
        claim_storage(
            processes,
            self.storage,
            self.folder_name,
            background=self.is_fed,
            peers=self.has_peers,
        )
        if self.database:
            if processes.node_rank == 0:
                self.database.begin_fill(
                    self.storage.folder / self.folder_name, len(pinned)
                )
            processes.barrier()
        mine = pinned[
            process_share(len(pinned), processes.node_rank, processes.node_size)
        ]
        if self.database:
            self.database.fill(
                self.storage.folder / self.folder_name,
                len(pinned),
                processes.node_rank,
                processes.node_size,
            )
        else:
            generate_files(
                self.storage.folder / self.folder_name,
                [self.dataset.file_name(file_id) for file_id in mine],
                mine,
                self.dataset.file_size_bytes,
            )
        processes.barrier()
        fill_time_s = time.perf_counter() - start
        if self.database and processes.node_rank == 0:
            self.database.check_copy(
                self.storage.folder / self.folder_name, len(pinned)
            )
        processes.barrier()
        return fill_time_s

    def _held(self, point: Point) -> np.ndarray:
        """Return which samples the LFS holds before the first epoch."""
        if self.database:
            return self.database.on_lfs(point.cache_rate_percent)
        return held_files(
            self.scenario["policy"],
            self.dataset.n_files,
            point.cache_rate_percent,
            self.training["seed"],
        )

    def _files(self, point: Point, epoch: int, on_lfs: np.ndarray) -> np.ndarray:
        """Return the samples that this rank reads in an epoch, in reading order."""
        if self.database:
            return self.database.records_of(self.processes, point.repetition, epoch)
        return epoch_files(
            self.dataset.n_files,
            self.processes.rank,
            self.processes.size,
            shuffle=self.training["shuffle"],
            seed=self.training["seed"],
            repetition=point.repetition,
            epoch=epoch,
            strata=strata(self.scenario["policy"], on_lfs),
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
        feed = None
        if self.placement:
            folders = {Place.GFS: str(gfs), Place.LFS: str(lfs)}
            feed = self.placement.feed(epoch, files, folders)
            batches = self.loader.fed_epoch(feed)
        elif self.database:
            batches = self.loader.epoch(
                self.database.references(files, on_lfs, gfs, lfs)
            )
        else:
            paths = [
                f"{lfs if on_lfs[file_id] else gfs}/{self.dataset.file_name(file_id)}"
                for file_id in files
            ]
            batches = self.loader.epoch(paths)
        try:
            execution_time_s, samples, n_bytes = run_epoch(
                batches, self.processes.barrier, self.training["compute_time_s"]
            )
            if self.placement:
                self.placement.check()
        except Exception as error:
            where = f"in epoch {epoch} of cache rate {point.cache_rate_percent} %"
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

    def _explain(self, error: Exception, where: str) -> None:
        """Raise the placement's own error where it is behind a loader's."""
        try:
            self.placement.check()
        except PlacementError as reason:
            if reason is error:
                return
            reason.add_note(where)
            raise reason from error

    def _write_decisions(
        self,
        folder: Path,
        reports: list[dict[str, Any] | None],
        tier_roots: Mapping[str, Sequence[str]],
    ) -> dict[str, Any]:
        """Write what the nodes decided; return what `run.json` says about it."""
        if self.has_peers:
            from tierscope.peers.report import write_peer_reads  # rank 0 only

            return write_peer_reads(folder, reports, tier_roots)
        if not self.is_dynamic:
            return {}
        import pandas as pd  # here, as the other ranks need not load it

        from tierscope.tables import write_table

        reports = [report for report in reports if report]
        parts = [pd.DataFrame(report.pop("decisions")) for report in reports]
        decisions = pd.concat(parts, ignore_index=True)
        for name in ("event", "place", "detail"):
            decisions[name] = np.char.decode(decisions[name].to_numpy("S"))
        write_table(decisions, folder / "decisions.parquet", "decisions")
        if n_failed := sum(report["failed"] for report in reports):
            self.say(f"  {n_failed} copies failed; their files were read from the GFS")
        roots = {
            tier: [str(background_root(Path(root))) for root in tier_roots[tier]]
            for tier in tier_roots
        }
        return {"background_roots": roots, "placement": reports}

    def _write_reads(
        self, folder: Path, reads: list[dict[str, list[tuple]]] | None
    ) -> dict[str, Any]:
        """Write what was read of a database; return what `run.json` says about it."""
        if not self.database:
            return {}
        from tierscope.tables import write_table

        for name, table in tables_of(reads).items():
            write_table(table, folder / f"{name}.parquet", name)
        return {"database": asdict(self.database.provenance())}

    def _write_run(
        self,
        point: Point,
        folder: Path,
        rows: list[dict[str, Any]],
        started: datetime,
        lateness_percent: list[float],
        tier_roots: dict[str, list[str]],
        further: Mapping[str, Any],
    ) -> None:
        """Write the run's files, `run.json` last: it marks a complete folder."""
        import pandas as pd  # here, as the other ranks need not load it

        from tierscope.tables import write_table

        epochs = pd.DataFrame(rows).sort_values(["epoch", "rank"])
        write_table(epochs, folder / "epochs.parquet", "run_epochs")
        self.tracer.write_log(folder / "log.darshan")
        run = {
            "hash": description_hash(self.description),
            "point": {
                "cache_rate_percent": point.cache_rate_percent,
                "repetition": point.repetition,
            },
            **self.description,
            "n_processes": self.processes.size,
            "hosts": self.processes.hosts,
            "scheduler_job": scheduler_job(),
            "started": started.isoformat(timespec="seconds"),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "tier_roots": tier_roots,
            **further,
            "tracer": self.tracer.describe(),
            "emulation": describe_emulation(self.emulation, lateness_percent),
            "versions": software_versions(),
        }
        if self.tracer.writes_log_at_end:
            self._complete = partial(self._check_and_mark, folder, run)
        else:
            _mark_complete(folder, run)

    def _check_and_mark(self, folder: Path, run: dict[str, Any]) -> None:
        """Check a log that the tracer wrote by itself, then mark the run complete."""
        self.tracer.check_log(folder / "log.darshan", run)
        _mark_complete(folder, run)


def _mark_complete(folder: Path, run: dict[str, Any]) -> None:
    """Write `run.json`, which marks a complete folder."""
    temporary = folder / ".run.json"
    temporary.write_text(json.dumps(run, indent=1) + "\n")
    temporary.rename(folder / "run.json")


def scheduler_job() -> str | None:
    """Return the batch job this process runs in, such as ``Slurm 1234``."""
    for scheduler, variable in (("Slurm", "SLURM_JOB_ID"), ("PJM", "PJM_JOBID")):
        if job := os.environ.get(variable):
            return f"{scheduler} {job}"
    return None


def software_versions() -> dict[str, str]:
    """Return the versions of everything that takes part in a measurement."""
    from mpi4py import MPI

    versions = {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "mpi": MPI.Get_library_version().splitlines()[0].strip(),
    }
    packages = ("tensorflow-cpu", "tensorflow", "numpy", "mpi4py", "darshan", "lmdb")
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def is_complete(folder: Path, description: Mapping[str, Any]) -> bool:
    """Return whether a folder holds a whole run of just this description."""
    try:
        run = json.loads((folder / "run.json").read_text())
    except (OSError, ValueError):
        return False
    whole = all((folder / name).is_file() for name in RUN_FILES)
    return whole and run.get("hash") == description_hash(description)


def fail(
    processes: Processes, release: Callable[[], None], error: BaseException
) -> None:
    """Report an error, let all ranks clean up, end the whole job with exit code 1."""
    for signum in (signal.SIGTERM, signal.SIGINT):  # one may come after another rank's
        signal.signal(signum, signal.SIG_IGN)
    if not isinstance(error, OtherRankFailed):
        processes.announce_failure()
        if not isinstance(error, Terminated) or processes.rank == 0:
            if not isinstance(error, _EXPLAINED):
                traceback.print_exception(error)
            notes = "".join(f" {note}" for note in getattr(error, "__notes__", []))
            print(
                f"tierscope: rank {processes.rank} of {processes.size} on "
                f"{processes.host} failed{notes}: {type(error).__name__}: {error}",
                file=sys.stderr,
                flush=True,
            )
    release()
    processes.announce_release()
    processes.await_release()
    remove_mpi_segments()
    processes.comm.Abort(1)
    os._exit(1)  # MPICH returns if the launcher takes a while to end this process
