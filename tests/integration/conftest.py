"""A copy of the project in which the tests run experiments for real."""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import sessions
import yaml

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
TINY_SYSTEM = "resources/systems/tiny.yaml"
PARTS = ("Snakefile", "workflow", "config", "profiles", "resources", "environment.yml")


class Project:
    """A working copy of the project and the commands a user types in it."""

    def __init__(self, folder: Path, profile: str = "local"):
        self.folder, self.profile = folder, profile
        for part in PARTS:
            copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
            copy(ROOT / part, folder / part)
        for profile in (folder / "profiles").iterdir():
            (folder / profile.name).symlink_to(f"profiles/{profile.name}")
        shutil.copy(DATA / "tiny.yaml", folder / "config")
        shutil.copy(DATA / "tiny-system.yaml", folder / TINY_SYSTEM)
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }

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

    def command(self, *arguments: str) -> list[str]:
        """Return the command line that runs the tiny experiment."""
        return [
            "snakemake",
            *arguments,
            "--profile",
            self.profile,
            "--configfile",
            "config/tiny.yaml",
        ]

    def start(self, *arguments: str) -> subprocess.Popen:
        """Start snakemake on the tiny experiment in a session of its own."""
        return sessions.start(
            self.command(*arguments),
            self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def snakemake(self, *arguments: str, expect: int = 0) -> str:
        """Run snakemake on the tiny experiment and return what it printed."""
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=sessions.HANG_S)
        assert process.returncode == expect, output
        return output

    def path(self, *parts: str) -> Path:
        """Return a path below the tiny experiment's results."""
        return self.folder.joinpath("results", "tiny", *parts)


@contextmanager
def busy_machine():
    """Keep all cores busy meanwhile."""
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(2 * len(os.sched_getaffinity(0)))
    ]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Return a project whose tiny experiment has been run once."""
    project = Project(tmp_path_factory.mktemp("project with space"))
    project.first_output = project.snakemake()
    return project


@pytest.fixture
def fresh(tmp_path):
    """Return a project in which nothing has been run, with one slow, light scenario."""
    folder = tmp_path / "project"
    folder.mkdir()
    project = Project(folder)
    project.use_directories()
    project.change(
        "config/tiny.yaml",
        {
            "sweep": {
                "datasets": ["tiny"],
                "n_osts": [0],
                "loaders": ["posix"],
                "cache_rates_percent": [0, 50, 100],
            },
            "training": {"epochs": 2, "compute_time_s": 0.2},
            "figures": {
                "scenario": {"dataset": "tiny", "n_osts": 0, "loader": "posix"}
            },
        },
    )
    return project
