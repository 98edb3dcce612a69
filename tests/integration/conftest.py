"""A copy of the project in which the tests run experiments for real."""

import copy
import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import warm_python
import yaml
from integration.launches import Launch
from native import native_libraries
from shared import made_once

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
TINY_SYSTEM = "resources/systems/tiny.yaml"
COMPILED_LOOPS = [
    f"workflow/scripts/tierscope/model/{room}/__pycache__"
    for room in ("analytic", "simulator")
]
PARTS = ("Snakefile", "workflow", "config", "profiles", "resources", "environment.yml")


class Project:
    """A working copy of the project and the commands a user types in it."""

    _start = staticmethod(warm_python.start)

    def __init__(self, folder: Path, profile: str = "local"):
        self.folder, self.profile = folder, profile
        self.environment = warm_python.installed_environment()
        if not (folder / "Snakefile").exists():
            self._copy_project()

    def _copy_project(self) -> None:
        """Copy what a clone has, and what takes long to make."""
        folder = self.folder
        for part in PARTS:
            if (ROOT / part).is_dir():  # other processes may be compiling there
                unfinished = shutil.ignore_patterns("*.tmp.*", "*.pyc.*")
                shutil.copytree(ROOT / part, folder / part, ignore=unfinished)
            else:
                shutil.copy(ROOT / part, folder / part)
        for part in COMPILED_LOOPS:  # a minute of compiling, once for all projects
            (ROOT / part).mkdir(exist_ok=True)
            shutil.rmtree(folder / part, ignore_errors=True)
            (folder / part).symlink_to(ROOT / part)
        for profile in (folder / "profiles").iterdir():
            (folder / profile.name).symlink_to(f"profiles/{profile.name}")
        shutil.copytree(native_libraries(), folder / "results" / "native")
        shutil.copy(DATA / "tiny.yaml", folder / "config")
        shutil.copy(DATA / "tiny-system.yaml", folder / TINY_SYSTEM)

    def copied_to(self, folder: Path) -> "Project":
        """Return a copy of the project as it is, datasets and results included."""
        shutil.copytree(self.folder, folder, symlinks=True)
        other = copy.copy(self)
        other.folder = folder
        return other

    def launch(self, scenario: str, *points: str, options=()) -> Launch:
        """Start the processes that run points of a scenario, without Snakemake."""
        return Launch(self, scenario, points, options)

    def describe(self, scenario: str, **values: dict) -> None:
        """Replace parts of what the launches of a scenario are told."""
        path = self.path("runs", scenario, "scenario.json")
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    def audits_of(self, scenario: str, *cache_rates_percent: int) -> list[str]:
        """Return the targets that run and audit points of a scenario."""
        runs = self.path("runs", scenario).relative_to(self.folder)
        return [
            f"{runs}/cache-{percent:03d}/rep-0/audit.json"
            for percent in cache_rates_percent
        ]

    def change(self, path: str, values: dict) -> None:
        """Replace top-level keys of a YAML file of the project."""
        content = yaml.safe_load((self.folder / path).read_text())
        (self.folder / path).write_text(yaml.safe_dump(content | values))

    def use_directories(self) -> None:
        """Take plain directories, on which training steps take real time."""
        tiers = {
            tier: {"kind": "directory", "root": f"scratch/{tier}"}
            for tier in ("gfs", "lfs")
        }
        self.change(TINY_SYSTEM, tiers)

    def command(self, *arguments: str, config: str = "config/tiny.yaml") -> list[str]:
        """Return the command line that runs the tiny experiment, or another."""
        return [
            "snakemake",
            *arguments,
            "--profile",
            self.profile,
            "--configfile",
            config,
        ]

    def start(self, *arguments: str, **options: str) -> subprocess.Popen:
        """Start snakemake on the tiny experiment in a session of its own."""
        command = self.command(*arguments, **options)
        return self._start(command, self.folder, self.environment)

    def snakemake(self, *arguments: str, expect: int = 0, **options: str) -> str:
        """Run snakemake on the tiny experiment and return what it printed."""
        command = self.command(*arguments, **options)
        code, output = warm_python.run(command, self.folder, self.environment)
        assert code == expect, output
        return output

    def path(self, *parts: str) -> Path:
        """Return a path below the tiny experiment's results."""
        return self.folder.joinpath("results", "tiny", *parts)


@contextmanager
def busy_machine():
    """Keep all cores busy meanwhile."""
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in os.sched_getaffinity(0)
    ]
    try:
        yield
        assert busy
        assert all(process.poll() is None for process in busy)
    finally:
        for process in busy:
            process.kill()
            process.wait()


def prepare(folder: Path, n_osts: int) -> None:
    """Make a project in which launches can start; 0 OSTs mean plain directories."""
    project = Project(folder)
    if not n_osts:
        project.use_directories()
    files = {"policies": ["pinning", "monarch", "adhoc"], "loaders": ["posix"]}
    databases = {
        "policies": ["pinning"],
        "loaders": ["lmdb", "lmdbio-lmm-dm", "lmdbio"],
    }
    names = [
        f"tiny-{n_osts}ost-{policy}-{loader}"
        for part in (files, databases)
        for policy in part["policies"]
        for loader in part["loaders"]
    ]
    project.change(
        "config/tiny.yaml",
        {
            "sweep": {
                "datasets": ["tiny"],
                "n_osts": [n_osts],
                "policies": files["policies"],
                "loaders": files["loaders"] + databases["loaders"],
                "cache_rates_percent": [0, 50, 100],
                "exclude": {
                    "files are placed": {
                        "policy": ["monarch", "adhoc"],
                        "loader": databases["loaders"],
                    }
                },
            },
            "figures": {
                "scenario": {"dataset": "tiny", "n_osts": n_osts, "loader": "posix"}
            },
        },
    )
    project.snakemake(
        *(f"results/tiny/runs/{name}/scenario.json" for name in names),
        *(
            f"results/tiny/datasets/tiny-{n_osts}ost{of}.parquet"
            for of in ("", "-lmdb")
        ),
    )


@pytest.fixture(scope="session")
def emulated_storage():
    """Return a project with datasets on emulated devices, to be copied."""
    return Project(made_once("emulated storage", partial(prepare, n_osts=60)))


@pytest.fixture(scope="session")
def plain_storage():
    """Return a project with datasets on plain directories, to be copied."""
    return Project(made_once("plain storage", partial(prepare, n_osts=0)))


@pytest.fixture
def emulated(emulated_storage, tmp_path):
    """Return a project of this test's own whose launches keep virtual time."""
    return emulated_storage.copied_to(tmp_path / "project")


@pytest.fixture
def plain(plain_storage, tmp_path):
    """Return a project of this test's own whose launches read plain directories."""
    return plain_storage.copied_to(tmp_path / "project")


def run_experiment(folder: Path) -> None:
    """Run the tiny experiment in a new project, and keep what was printed."""
    output = Project(folder).snakemake()
    (folder / "output.txt").write_text(output)


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Return a copy of a project whose tiny experiment has been run once."""
    original = Project(made_once("finished experiment", run_experiment))
    folder = tmp_path_factory.mktemp("projects") / "project with space"
    project = original.copied_to(folder)
    project.first_output = (folder / "output.txt").read_text()
    return project


@pytest.fixture
def mount_memory():
    """Return a function that mounts a small file system, where that is allowed."""
    mounted = []

    def mount(folder: Path, options: str = "size=40k") -> Path:
        """Mount a file system in memory, of ten pages or by other options."""
        folder.mkdir(parents=True)
        words = ["-t", "tmpfs", "-o", f"{options},mode=700", "tmpfs", str(folder)]
        command = ["mount", *words]
        if not shutil.which("mount") or subprocess.run(command, check=False).returncode:
            pytest.skip("needs the right to mount a file system")
        mounted.append(folder)
        return folder

    yield mount
    for one in mounted:
        subprocess.run(["umount", "--lazy", str(one)], check=True)
