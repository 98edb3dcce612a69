"""A program of the user that tests launch as rule `run_benchmark` does.

Snakemake is not around it, so that a run takes a second, and tests audit it themselves.
"""

import itertools
import json
import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import sessions
from audit_run import read_program_evidence
from descriptions import describe_scenario
from integration.conftest import ROOT
from integration.launches import wait_until_idle
from list_dataset import list_dataset
from native import native_libraries
from sessions import HANG_S
from tierscope.audit.program import ProgramEvidence, audit_program, statements
from tierscope.core.description import Run
from tierscope.policies import kind_of
from tierscope.policies.pinned_bytes import pinned_by_bytes

SCRIPTS = ROOT / "workflow" / "scripts"
N_FILES, SEED = 24, 1
ONE_PROCESS = """sh -c 'shift 2; exec "$@"' one-process"""
HALF = "cache-050/rep-0"
POLICY_OPTIONS = {
    "lru": {"copy_threads": 2},
    "monarch": {"copy_threads": 2, "stop": "first-misfit"},
}
_numbers = itertools.count()

# What programs of tests begin with: they mark an epoch, and read a file as a whole.
HEAD = """
import os, subprocess, sys, time
dataset = sys.argv[1]
def mark(epoch):
    try:
        os.open(f"{dataset}/.tierscope-epoch-{epoch}", os.O_RDONLY)
    except FileNotFoundError:
        return
    raise SystemExit("a mark must not exist")
def read(name):
    with open(f"{dataset}/{name}", "rb", buffering=0) as file:
        return file.read()
names = sorted(
    os.path.relpath(os.path.join(folder, name), dataset)
    for folder, _, names in os.walk(dataset)
    for name in names
)
"""
# How programs see that a file has got a copy: a stat is of what an open would take.
PLACED = """
def inode(name):
    return os.stat(f"{dataset}/{name}").st_ino
on_gfs = {name: inode(name) for name in names}
def is_placed(name):
    return inode(name) != on_gfs[name]
"""


def make_dataset(folder: Path) -> None:
    """Make files of 100, 200 ... bytes in two folders, one with a blank."""
    for number in range(N_FILES):
        path = folder / ("train", "my val")[number % 2] / f"{number:02d}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(random.Random(number).randbytes(100 * (number + 1)))


def in_memory(folder: Path) -> list[Path]:
    """Return what launches of programs below a folder have in the memory of nodes."""
    found = []
    for path in Path("/dev/shm").glob("tierscope-program-*/go.json"):
        with suppress(FileNotFoundError):  # of another test, whose launch has ended
            if str(folder) in path.read_text():
                found.append(path.parent)
    return found


@dataclass
class Programs:
    """A folder with a dataset and an LFS, in which programs are launched.

    Parameters
    ----------
    folder : Path
        Folder of all.
    n_nodes, per_node : int
        Virtual nodes, and processes of each.
    in_place : bool
        Whether programs get the real path of the dataset.
    launcher : str
        What starts the ranks, on nodes of its own; without it they are virtual.
    policy : str
        Policy of the runs.
    cold : bool
        Whether epochs are cold.
    """

    folder: Path
    n_nodes: int = 1
    per_node: int = 1
    in_place: bool = False
    launcher: str = ""
    policy: str = "pinning"
    cold: bool = False

    def __post_init__(self):
        self.dataset, self.lfs = self.folder / "my data", self.folder / "lfs"
        if not self.dataset.exists():
            make_dataset(self.dataset)
        self.manifest = self.folder / "manifest.parquet"
        list_dataset(str(self.dataset), self.manifest)
        self.staging, self.runs = self.folder / "staging", self.folder / "runs"
        self.log = self.folder / "launch.log"
        for path in (self.runs, self.folder / "results"):
            path.mkdir(exist_ok=True)

    @property
    def files(self) -> pd.DataFrame:
        """Return the manifest of the dataset."""
        return pd.read_parquet(self.manifest)

    def describe(self, command: list[str]) -> Path:
        """Write the description of the runs of a command; return its path."""
        tiers = {
            name: {"name": name, "kind": "directory", "root": str(self.folder / name)}
            for name in ("gfs", "lfs")
        }
        system = {
            "name": "made-up",
            "n_nodes": self.n_nodes,
            "processes_per_node": self.per_node,
            "virtual_nodes": not self.launcher,
        }
        described = describe_scenario(
            scenario={"policy": self.policy},
            policy=POLICY_OPTIONS.get(self.policy, {}),
            system=system | tiers,
            dataset={"path": str(self.dataset)},
            program={"command": command, "in_place": self.in_place},
            training={"cold": self.cold},
        )
        path = self.folder / "scenario.json"
        path.write_text(json.dumps(described.as_json()))
        return path

    def command(self, command: list[str], *points: str, minutes: int = 2) -> list[str]:
        """Return what launches a command at points, as rule `run_benchmark` does."""
        mpi = self.launcher or str(Path(sys.executable).with_name("mpiexec"))
        if not self.launcher and self.n_nodes * self.per_node == 1:
            mpi = ONE_PROCESS
        launch = {
            "--log": self.log,
            "--setup": "true",
            "--mpi": mpi,
            "--tasks": self.n_nodes * self.per_node,
            "--staging": self.staging,
            "--runs": self.runs,
        }
        ranks = {
            "--manifest": self.manifest,
            "--minutes": minutes,
            "--staging": self.staging,
            "--runs": self.runs,
            "--native": native_libraries(),
        }
        words = [sys.executable, SCRIPTS / "launch.py"]
        words += itertools.chain(*launch.items())
        words += ["--starts-ranks", "--", "run_program", self.describe(command)]
        words += itertools.chain(*ranks.items())
        return [*map(str, words), *points]

    def python(self, code: str) -> list[str]:
        """Return a command that runs a program of Python after `HEAD`."""
        path = self.folder / f"my program {next(_numbers)}.py"
        path.write_text(HEAD + code)
        return [sys.executable, "-S", str(path), "{dataset}"]

    def start(self, command: list[str], *points: str, **options) -> subprocess.Popen:
        """Start a launch of a command."""
        self.last = command
        words = self.command(command, *points, **options)
        return sessions.start(words, self.folder)

    def run(self, command: list[str] | str, point: str = HALF, **options) -> "Ran":
        """Launch a command, or a program of Python, at a point; return its run."""
        return self.run_all(command, point, **options)[0]

    def run_all(self, command: list[str] | str, *points: str, **options) -> list["Ran"]:
        """Launch a command, or a program of Python; return its runs."""
        if isinstance(command, str):
            command = self.python(command)
        process = self.start(command, *points, **options)
        assert process.wait(HANG_S) == 0, self.log.read_text()
        self.left_nothing(process)
        return [self.ran(point) for point in points]

    def ran(self, point: str) -> "Ran":
        """Return the run at a point."""
        return Ran(self, self.runs / point)

    def fail(self, command: list[str] | str, **options) -> list[str]:
        """Launch what has to fail and to leave nothing; return our lines."""
        if isinstance(command, str):
            command = self.python(command)
        process = self.start(command, HALF, **options)
        assert process.wait(HANG_S) == 1, self.log.read_text()
        wait_until_idle(self.folder)
        self.left_nothing(process)
        return self.lines()

    def lines(self) -> list[str]:
        """Return our lines of the launch's log."""
        lines = self.log.read_text().splitlines()
        return [line for line in lines if line.startswith("tierscope: ")]

    def left_nothing(self, process: subprocess.Popen) -> None:
        """Check that a launch has left the LFS empty, and nothing in memory."""
        if os.path.ismount(self.lfs):
            assert os.listdir(self.lfs) == []
        else:
            assert not self.lfs.exists()
        assert in_memory(self.folder) == []

    def wait_for(self, name: str, process: subprocess.Popen) -> None:
        """Wait until a program has made a file."""
        end_s = time.monotonic() + HANG_S
        while not (self.folder / name).exists():
            assert process.poll() is None, self.log.read_text()
            assert time.monotonic() < end_s
            time.sleep(0.01)

    def on_lfs(self, rate: int, repetition: int = 0) -> np.ndarray:
        """Return which files each LFS holds at a cache rate, by file id."""
        sizes = self.files["size_bytes"].to_numpy()
        return pinned_by_bytes(sizes, rate, SEED, repetition)


@dataclass
class Ran:
    """A run of a program that a launch has finished."""

    programs: Programs
    folder: Path

    @property
    def evidence(self) -> ProgramEvidence:
        """Return what the audit looks at."""
        run = Run.read(self.folder / "run.json")
        names = kind_of(run.scenario).tables
        tables = [str(self.folder / f"{name}.parquet") for name in names]
        return read_program_evidence(
            run,
            str(self.folder / "logs"),
            str(self.folder / "epochs.parquet"),
            str(self.programs.manifest),
            tables,
        )

    @property
    def failed(self) -> list[str]:
        """Return the names of the audit's checks that failed."""
        return [one.name for one in audit_program(self.evidence) if not one.passed]

    def said(self, epoch: int = -1) -> dict[str, tuple[str, str]]:
        """Return answers and words of an epoch's statements by their names."""
        table = statements(self.evidence)
        table = table[table["epoch"] == epoch]
        return {row.statement: (row.answer, row.words) for row in table.itertuples()}

    @property
    def on_lfs(self) -> np.ndarray:
        """Return which files the LFS held, by file id."""
        point = self.evidence.run.point
        return self.programs.on_lfs(point.cache_rate_percent, point.repetition)
