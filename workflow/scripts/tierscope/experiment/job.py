"""A job's requests to a scheduler: command, nodes, time, memory and local storage.

They are upper bounds, not predictions: a job that exceeds one is killed. They follow
from the dataset, the policy, the cache rate and the slowest rates of the system file.
"""

import math
import re
import shlex
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from tierscope.core.description import LoaderSettings, Training
from tierscope.core.given.keys import above, from_to
from tierscope.core.scenario import Dataset, Point
from tierscope.experiment.node_limits import database_bytes, files_on_node
from tierscope.experiment.system import Estimates, JobSettings, System

_BLOCK_BYTES = 4096  # a file takes whole blocks
_MIB, _GIB = 1 << 20, 1 << 30
_PROCESS_MIB = 1024  # interpreter, TensorFlow and its buffers (0.55 GB), and a margin
_WORKER_MIB = 512  # interpreter, PyTorch and its buffers, and a margin
_RECORD_BYTES = 2048  # of the tracer per file, epoch and process, with the path
_MARGIN = 1.25
_HYDRA_HERE = "env -u HYDRA_HOST_FILE HYDRA_RMK=user HYDRA_LAUNCHER=fork"
MOST_MINUTES = 366 * 24 * 60  # of a job
RESERVED = frozenset(
    {
        "mpi",
        "tasks",
        "nodes",
        "gfs",
        "launch",
        "setup",
        "python",
        "scripts",
        "native",
        "batch_jobs",
        "points",
    }
)


class JobError(ValueError):
    """A job asks for more than there is."""


def fill(text: str, **values: Any) -> str:
    """Return a text with its placeholders filled in.

    Raises
    ------
    JobError
        If it has unknown ones or stray braces; the message names the known ones.
    """
    try:
        used = {name for _, name, _, _ in string.Formatter().parse(text) if name}
        if used - set(values):
            raise KeyError
        return text.format(**values)
    except (KeyError, ValueError, IndexError):
        known = ", ".join(f"{{{name}}}" for name in values)
        raise JobError(f"got {text!r}, expected no braces except {known}") from None


@dataclass(frozen=True)
class BenchmarkJob:
    """A job that runs points of a scenario, and its needs.

    Parameters
    ----------
    dataset : Dataset
        The dataset that is read.
    system : System
        The machine, with its `job` settings.
    training, loader : Training, LoaderSettings
        Settings of the runs; those of the loader that it depends on.
    points : sequence of Point
        The points that the job runs.
    policy : str
        Policy of the scenario; probes have the needs of pinning.
    lmdb : mapping, optional
        Section `lmdb` of the configuration if the scenario reads a database.
    """

    dataset: "Dataset"
    system: System
    training: Training
    loader: LoaderSettings
    points: Sequence[Point]
    policy: str = ""
    lmdb: Mapping[str, Any] | None = None

    @property
    def lfs_bytes(self) -> int:
        """Return the local storage a node needs, with whole blocks and reserve."""
        if self.lmdb is not None:
            rate = max(point.cache_rate_percent for point in self.points)
            n_bytes = database_bytes(self.dataset, self.lmdb, rate)
        else:
            blocks = math.ceil(self.dataset.file_size_bytes / _BLOCK_BYTES)
            n_bytes = self._files_on_node * blocks * _BLOCK_BYTES
        reserve = 1 + self.system.job.lfs_reserve_percent / 100
        return math.ceil(n_bytes * reserve)

    @property
    def lfs_mib(self) -> int:
        """Return the local storage a node needs in whole MiB, at least one."""
        return max(1, math.ceil(self.lfs_bytes / _MIB))

    @property
    def memory_mib(self) -> int:
        """Return the memory that a node's processes need, in MiB."""
        size = self.dataset.file_size_bytes
        loader = self.loader
        batches = loader.prefetch_batches + loader.workers * loader.prefetch_factor
        batches += 2  # one filled, one consumed
        held = batches * self.dataset.batch_size * size
        held += self.threads * size
        n_records = self._files_per_process * self.training.epochs
        process = _PROCESS_MIB + (held + n_records * _RECORD_BYTES) / _MIB
        process += loader.workers * _WORKER_MIB
        memory = _MARGIN * self.system.processes_per_node * process
        return math.ceil(memory) + self.system.job.lfs_in_memory * self.lfs_mib

    @property
    def threads(self) -> int:
        """Return how many threads or workers of a process read at the same time."""
        return max(self.loader.read_threads, self.loader.workers)

    @property
    def minutes(self) -> int:
        """Return the time limit in whole minutes."""
        slowest, n_files = self.system.job.estimates, self.dataset.n_files
        n_bytes = n_files * self.dataset.file_size_bytes
        n_steps = math.ceil(self._files_per_process / self.dataset.batch_size)
        epoch_s = (
            n_bytes / slowest.read_bytes_per_s
            + n_files / slowest.read_files_per_s
            + n_steps * self.training.compute_time.mean_s
        )
        fill_s = (
            n_bytes / slowest.lfs_fill_bytes_per_s
            + n_files / slowest.lfs_fill_files_per_s
        )
        time_s = slowest.start_s + math.fsum(
            fill_s * point.cache_rate_percent / 100 + self.training.epochs * epoch_s
            for point in self.points
        )
        return math.ceil(time_s / 60)

    @property
    def _files_on_node(self) -> int:
        """Return the largest number of files on the LFS of any node."""
        fullest = {}  # highest cache rate by repetition
        for point in self.points:
            rate = fullest.get(point.repetition, 0)
            fullest[point.repetition] = max(rate, point.cache_rate_percent)
        seed, n_nodes = self.training.seed, self.system.n_nodes
        return max(
            files_on_node(self.dataset, self.policy, rate, seed, repetition, n_nodes)
            for repetition, rate in fullest.items()
        )

    @property
    def _files_per_process(self) -> int:
        return math.ceil(self.dataset.n_files / self.system.n_processes)

    def check(self) -> None:
        """Refuse more local storage than a job may use on a node, and endless jobs.

        Raises
        ------
        JobError
            With the requested size and the limit, in GiB, or with the minutes.
        """
        settings = self.system.job
        if settings.scheduler and self.minutes > MOST_MINUTES:
            raise JobError(
                f"needs {self.minutes} minutes, expected at most {MOST_MINUTES}, a "
                "year (see job.estimates)"
            )
        limit = settings.lfs_gib_per_node
        if limit is not None and self.lfs_bytes > limit * _GIB:
            raise JobError(
                f"needs {self.lfs_bytes / _GIB:.1f} GiB of local storage a node "
                f"({settings.lfs_reserve_percent:g} % reserve included), expected at "
                f"most {limit:g} GiB (job.lfs_gib_per_node)"
            )

    def resources(self) -> dict[str, Any]:
        """Return the site's additional resources of the benchmark.

        An ideal run needs memory in place of local storage.
        """
        lfs_mib = 1 if self.system.is_ideal else self.lfs_mib
        return site_resources(self.system, "run_benchmark", lfs_mib=lfs_mib)


@dataclass(frozen=True)
class ProgramNeeds:
    """What a program of the user needs: of section `loader` of the configuration."""

    minutes: Annotated[
        int,
        from_to(1, 100_000),
        "Longest time of a run of the program, in minutes, for the time limits of "
        "batch jobs. A run that takes longer is ended on any system.",
    ]
    memory_gib_per_process: Annotated[
        float,
        above(0, 1_000_000),
        "Memory of a process of the program and its workers, for batch jobs.",
    ]


@dataclass(frozen=True, kw_only=True)
class ProgramJob(BenchmarkJob):
    """A job that runs a program of the user; only the user knows what it needs.

    Parameters
    ----------
    program : ProgramNeeds
        What the user says.
    dataset_bytes : int, optional
        Bytes of the dataset; None if its files are not listed yet.
    """

    program: ProgramNeeds
    dataset_bytes: int | None = None

    @property
    def lfs_bytes(self) -> int:
        """Return the local storage a node needs, with a reserve; 0 if it is unknown."""
        rate = max(point.cache_rate_percent for point in self.points)
        reserve = 1 + self.system.job.lfs_reserve_percent / 100
        return math.ceil((self.dataset_bytes or 0) * rate / 100 * reserve)

    @property
    def memory_mib(self) -> int:
        """Return the memory that a node's processes need, in MiB."""
        process = self.program.memory_gib_per_process * _GIB / _MIB
        memory = math.ceil(self.system.processes_per_node * process)
        return memory + self.system.job.lfs_in_memory * self.lfs_mib

    @property
    def minutes(self) -> int:
        """Return the time limit in whole minutes."""
        slowest = self.system.job.estimates
        n_bytes = len(self.points) * (self.dataset_bytes or 0)
        start_s = slowest.start_s + n_bytes / slowest.lfs_fill_bytes_per_s
        return math.ceil(start_s / 60) + len(self.points) * self.program.minutes


def generation_minutes(dataset: "Dataset", estimates: Estimates) -> int:
    """Return the time limit of a dataset's generation, in whole minutes."""
    n_bytes = dataset.n_files * dataset.file_size_bytes
    time_s = (
        estimates.start_s
        + n_bytes / estimates.generate_bytes_per_s
        + dataset.n_files / estimates.generate_files_per_s
    )
    return math.ceil(time_s / 60)


def launcher(system: System, log: str) -> str:
    """Return the command that starts a job's processes.

    The default one starts those of a single machine there, whatever an allocation's
    variables say in which the user types: Hydra would take nodes from them.

    Raises
    ------
    JobError
        If it has unknown placeholders, or what follows it would not be its arguments.
    """
    text = system.job.launcher.strip()
    if fault := _fault_of_command(text):
        raise JobError(f"launcher: got {text!r} with {fault}, expected one command")
    if text == JobSettings.launcher and system.is_one_machine:
        return f"{_HYDRA_HERE} {text}"
    return fill(
        text,
        nodes=system.n_nodes,
        processes_per_node=system.processes_per_node,
        log=log,
    )


def _fault_of_command(text: str) -> str:
    """Return why a shell would not take what follows a text as its arguments."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        return str(error).lower()
    if not words:
        return "no word"
    if any(ord(letter) < ord(" ") for letter in text):
        return "a line break or another control character"
    if re.search(r"(^|\s)#", text):
        return "a comment"
    return "an operator at its end" if text.endswith((";", "&", "|")) else ""


def site_resources(system: System, rule: str, **values: Any) -> dict[str, Any]:
    """Return the site's additional resources of a rule, without placeholders."""
    values = {
        "nodes": system.n_nodes,
        "processes": system.n_processes,
        "processes_per_node": system.processes_per_node,
        **values,
    }
    resources = {}
    for name, value in system.job.resources.get(rule, {}).items():
        if isinstance(value, str):
            value = fill(value, **values)
            is_integer = value.isdecimal() and value == str(int(value))  # not 007
            value = int(value) if is_integer else value
        resources[name] = value
    return resources
