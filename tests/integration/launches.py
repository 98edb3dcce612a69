"""Launches that tests start, hold, kill and look at.

Most faults belong to one launch, so their tests start it as rule `run_benchmark` does,
without Snakemake around it, in a copy of a project whose datasets are there.
"""

import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import sessions
import warm_python
from sessions import HANG_S, processes_in

FAULTS = Path(__file__).parents[1] / "faults"
_numbers = itertools.count()


class Launch:
    """The processes that run points of a scenario.

    Parameters
    ----------
    project : Project
        Where its scenario is described and its dataset generated.
    scenario : str
        Name of the scenario.
    points : str
        Points as ``CACHE_RATE/REPETITION``.
    options : list of str
        Options of the launcher.
    """

    def __init__(self, project, scenario: str, points: tuple[str, ...], options=()):
        self.project = project
        self.name = f"{os.getpid()}-{next(_numbers)}"
        self.staging = project.path("staging", scenario)
        folder = project.path("runs", scenario)
        launcher = str(Path(sys.executable).with_name("mpiexec"))
        command = [
            sys.executable,
            "workflow/scripts/run_benchmark.py",
            folder / "scenario.json",
            "--staging",
            self.staging,
            "--runs",
            folder,
            "--native",
            project.folder / "results" / "native",
            "--launch",
            self.name,
            *points,
        ]
        self.process = sessions.start(
            [launcher, *options, "-n", "4", *started(command, project)],
            project.folder,
            env=project.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def wait_for(self, *texts: str) -> None:
        """Wait until the launch has printed these texts, one after the other."""
        for text in texts:
            wait_for_text(self.process.stdout, text)

    def end(self) -> str:
        """Wait for the end and for the clean-up; return what was still printed."""
        output, _ = self.process.communicate(timeout=HANG_S)
        wait_until_idle(self.project.folder)
        for path in Path("/dev/shm").glob(f"tierscope-*-{self.name}.*"):
            path.unlink()  # as the rule does in the end
        return output

    def fail(self) -> str:
        """Wait for the end, which has to be a failure that leaves nothing."""
        output = self.end()
        assert self.process.returncode != 0, output
        assert not (self.project.folder / "scratch" / "lfs").exists()
        assert not [name for name in os.listdir("/dev/shm") if self.name in name]
        return output

    def finish(self) -> str:
        """Wait for the end, which has to be a success that leaves nothing."""
        output = self.end()
        assert self.process.returncode == 0, output
        assert not (self.project.folder / "scratch" / "lfs").exists()
        return output

    def tables(self) -> dict[str, bytes]:
        """Return the bytes of all tables of the runs, by their paths."""
        return {
            str(path.relative_to(self.staging)): path.read_bytes()
            for path in sorted(self.staging.rglob("*.parquet"))
        }


def started(command: list, project) -> list:
    """Return the command that starts a rank, as rule `run_benchmark` prepares it."""
    start = subprocess.run(
        [*command, "--prepare"],
        cwd=project.folder,
        env=project.environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return ["/bin/sh", "-c", start.stdout, "tierscope", *command]


def edit(project, module: str, old: str, new: str) -> None:
    """Change the project's own code, as a fault would."""
    path = project.folder / "workflow" / "scripts" / "tierscope" / module
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def inject(project, module: str, code: str) -> None:
    """Let a module of the project's launches run code once it is loaded, as a fault."""
    folder = project.folder / "faults"
    folder.mkdir(exist_ok=True)
    with (folder / f"tierscope.{module}.py").open("a") as file:
        file.write(code)
    path = os.pathsep.join([str(FAULTS), os.environ.get("PYTHONPATH", "")])
    given = {"PYTHONPATH": path.rstrip(os.pathsep), "FAULTS": str(folder)}
    project.environment = project.environment | given


BEFORE_EPOCH = """
import os, time
_epoch_row = Benchmark._epoch_row

def _faulty_epoch_row(self, point, epoch, on_lfs):
    here = self.processes.rank, epoch, point.cache_rate_percent
    {fault}
    return _epoch_row(self, point, epoch, on_lfs)

Benchmark._epoch_row = _faulty_epoch_row
"""


def hold(project, rank: int, cache_rate_percent: int) -> None:
    """Let a rank stop before the second epoch of a point, and others wait for it.

    As long as there is a file `hold` in the project.
    """
    (project.folder / "hold").touch()
    held = f"here == {(rank, 1, cache_rate_percent)} and os.path.exists('hold')"
    fault = f"while {held}: time.sleep(0.05)"
    inject(project, "benchmark.driver", BEFORE_EPOCH.format(fault=fault))


def let_go(project) -> None:
    """Let the rank go on that was held, and start others without the fault."""
    (project.folder / "hold").unlink()
    project.environment = warm_python.installed_environment()


def wait_for_text(stream, text: str) -> list[str]:
    """Read lines of a running command until one holds the text; return them."""
    lines = []
    for line in stream:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError("".join(lines))


def wait_for_log(project, text: str) -> None:
    """Wait until the log of a launch of a running project holds a text."""
    end = time.monotonic() + HANG_S
    logs = project.path("logs", "run_benchmark")
    while not any(text in text_of(log) for log in logs.rglob("*.log")):
        assert time.monotonic() < end, f"no {text!r} in {logs}"
        time.sleep(0.05)


def text_of(log: Path) -> str:
    """Return the text of a log, empty if Snakemake has removed it meanwhile."""
    try:
        return log.read_text()
    except FileNotFoundError:
        return ""


def wait_until_idle(folder: Path) -> None:
    """Wait until no process works in the folder."""
    end = time.monotonic() + HANG_S
    while processes_in(folder):
        assert time.monotonic() < end, processes_in(folder)
        time.sleep(0.1)


def pid_of(folder: Path, name: str) -> int:
    """Return the process id of the command of this name that works in a folder."""
    (pid,) = (
        pid
        for pid, command in processes_in(folder).items()
        if name in [os.path.basename(word) for word in command.split()[:2]]
    )
    return pid


def ranks_of(folder: Path) -> dict[int, int]:
    """Return {rank: pid} of the benchmark's processes of a project."""
    found = {}
    for pid, command in processes_in(folder).items():
        if "run_benchmark.py" not in command or "python" not in command.split()[0]:
            continue
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        for variable in variables:
            if variable.startswith(b"PMI_RANK="):
                found[int(variable.split(b"=")[1])] = pid
    return found


def messages_of(output: str) -> set[str]:
    """Return our messages, of which Snakemake shows the log again."""
    lines = map(str.strip, output.splitlines())
    return {line for line in lines if line.startswith("tierscope:")}


def segments_of(pid: int) -> set[str]:
    """Return the names of the shared memory that a process has mapped."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    names = os.listdir("/dev/shm")
    return {name for name in names if f"/dev/shm/{name}" in maps}
