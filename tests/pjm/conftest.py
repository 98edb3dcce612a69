"""A cluster that runs PJM, stood in for by tests/pjm/bin, and a workflow on it."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import sessions
from sessions import HANG_S

BIN = Path(__file__).parent / "bin"
PLUGIN = Path(__file__).parents[2] / "workflow/plugins/snakemake-executor-plugin-pjm"


class Cluster:
    """A working folder, the stand-in's state and what a user types."""

    def __init__(self, folder: Path, state: Path):
        self.folder = folder
        self.state = state
        self.faults: set[str] = set()
        folder.mkdir()
        state.mkdir()
        paths = [str(BIN), str(Path(sys.executable).parent), os.environ["PATH"]]
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join(paths),
            "PYTHONPATH": str(PLUGIN / "src"),
            "PJM_STANDIN_DIR": str(state),
        }

    def write_rules(self, **rules: str) -> None:
        """Write a Snakefile of rules by name; each one makes out/NAME."""
        text = [f"rule all:\n    input: {[f'out/{name}' for name in rules]}\n"]
        text += [
            f"rule {name}:\n    output: 'out/{name}'\n    {body.strip()}\n"
            for name, body in rules.items()
        ]
        (self.folder / "Snakefile").write_text("\n".join(text))

    def switch(self, **faults: object) -> None:
        """Switch settings and faults of the stand-in on; None switches off."""
        self.faults |= faults.keys() - {"SLOTS", "QUEUE_S"}
        for name, value in faults.items():
            file = self.state / name.lower()
            file.unlink(missing_ok=True)
            if value is not None:
                file.write_text(str(value))

    def start(self, *arguments: str) -> subprocess.Popen:
        """Start snakemake in a session of its own; its output goes to a file."""
        command = ["snakemake", "--default-resources", "pjm_group=hp123456"]
        command += ["--executor", "pjm", "--jobs", "8"]
        command += ["--nolock", "--rerun-incomplete"]
        command += ["--max-status-checks-per-second", "10"]
        command += ["--seconds-between-status-checks", "1"]
        with (self.folder / "output").open("w") as output:
            return sessions.start(
                [*command, *arguments],
                self.folder,
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def output(self) -> str:
        """What the snakemake started last has printed."""
        return (self.folder / "output").read_text()

    def snakemake(self, *arguments: str, expect: int = 0) -> str:
        """Run snakemake to its end, check its exit code and return what it printed."""
        return self.end(self.start(*arguments), expect)

    def end(self, process: subprocess.Popen, expect: int = 0) -> str:
        """Wait for the end of a snakemake, check its exit code, return its output."""
        try:
            code = process.wait(timeout=HANG_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(self.output) from None
        assert code == expect, self.output
        return self.output

    def jobs(self) -> dict[str, list[dict]]:
        """Return the jobs that were submitted by name, as the stand-in keeps them."""
        found = {}
        for path in sorted(self.state.glob("jobs/*.json")):
            job = json.loads(path.read_text())
            found.setdefault(job["name"], []).append(job)
        return found

    def states(self) -> set[str]:
        """Return the states that jobs are in."""
        return {job["state"] for jobs in self.jobs().values() for job in jobs}

    def notes(self) -> list[Path]:
        """Return the notes of jobs that a snakemake has submitted and not seen end."""
        return [*self.folder.glob(".snakemake/pjm_logs/submitted/*.json")]

    def processes(self) -> list[int]:
        """Return the processes of jobs, in whatever session they are."""
        mark = f"PJM_STANDIN_JOB={self.state.resolve()}:".encode()
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                environment = Path("/proc", pid, "environ").read_bytes()
            except OSError:
                continue
            if any(word.startswith(mark) for word in environment.split(b"\0")):
                found.append(int(pid))
        return found

    def assert_nothing_left(self) -> None:
        """Assert that no job, process, area or note is left, and faults happened."""
        self.wait_until_idle()
        assert not [*self.state.glob("localtmp/*")]
        assert not self.notes()
        self.assert_faults_happened()

    def assert_faults_happened(self) -> None:
        """Assert that what a test has switched on has happened."""
        files = self.state.glob("happened-*")
        assert {file.name.removeprefix("happened-").upper() for file in files} == (
            self.faults
        )

    def wait_until(self, true) -> None:
        """Wait until something is true."""
        end = time.monotonic() + HANG_S
        while not true():
            assert time.monotonic() < end, self.output
            time.sleep(0.05)

    def wait_until_idle(self) -> None:
        """Wait until no job and no process of one is left."""
        self.wait_until(lambda: not self.states() & {"QUE", "RUN"})
        self.wait_until(lambda: not self.processes())

    def run(self, *command: str) -> str:
        """Run one of PJM's commands and return what it prints."""
        done = subprocess.run(
            command,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=HANG_S,
        )
        return done.stdout

    def error(self, rule: str) -> str:
        """Return the one error of a rule that was printed last."""
        parts = re.split(r"^(?=\[\w{3} \w{3} +\d)", self.output, flags=re.M)
        (error,) = (part for part in parts if f"Error in rule {rule}:" in part)
        return error


@pytest.fixture
def make_cluster(tmp_path):
    """Return a function that makes a cluster with a working folder of a name."""
    made = []

    def make(name):
        made.append(Cluster(tmp_path / name, tmp_path / "state"))
        return made[-1]

    yield make
    sessions.end_all()
    for cluster in made:
        jobs = [str(job["id"]) for jobs in cluster.jobs().values() for job in jobs]
        if jobs:
            cluster.run("pjdel", *jobs)
            cluster.wait_until_idle()


@pytest.fixture
def cluster(make_cluster):
    """Return a cluster."""
    return make_cluster("work")
