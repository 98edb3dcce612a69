"""The tiny experiment on directories, as the jobs of a scheduler run it."""

import itertools
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import sessions
import warm_python
from hold.sitecustomize import COMPUTE_S
from integration.conftest import TINY_SYSTEM, Project

HOLD = Path(__file__).parent / "hold"


class ScheduledProject(Project):
    """A project on directories whose benchmarks are jobs, one for each point.

    Parameters
    ----------
    folder : Path
        Where it is; made if it is missing.
    profile : str
        Profile of the scheduler.
    job : dict
        Section `job` of the system.
    lfs : str
        Root of the LFS.
    """

    _start = staticmethod(warm_python.fork)  # signals come once its jobs run

    def __init__(self, folder: Path, profile: str, job: dict, lfs: str):
        folder.mkdir(exist_ok=True)
        super().__init__(folder, profile)
        self.job = job
        tiers = {"gfs": "scratch/gfs", "lfs": lfs}
        system = {
            tier: {"kind": "directory", "root": root} for tier, root in tiers.items()
        }
        self.change(TINY_SYSTEM, system | {"points_per_launch": 1})
        self.change_job()

    def change_job(self, **settings) -> None:
        """Set how the site runs jobs, beside what it needs."""
        self.change(TINY_SYSTEM, {"job": self.job | settings})

    def take_dataset(self, other: Project) -> None:
        """Take another project's dataset over."""
        made = ("results/tiny/datasets", "scratch", ".snakemake")
        for part in made:
            shutil.copytree(other.folder / part, self.folder / part, symlinks=True)

    def sweep(self, *rates: int, **training) -> None:
        """Ask for runs of one scenario at these cache rates."""
        scenario = {"dataset": "tiny", "n_osts": 0, "loader": "posix"}
        sections = {
            "sweep": {
                "datasets": ["tiny"],
                "n_osts": [0],
                "loaders": ["posix"],
                "cache_rates_percent": [*rates],
            },
            "training": training,
            "figures": {"scenario": scenario, "epoch": training["epochs"] - 1},
        }
        self.change("config/tiny.yaml", sections)

    def hold(self, *rates: int, **settings) -> None:
        """Ask for runs of one epoch and few processes, which stay in it until `go`."""
        self.change(TINY_SYSTEM, {"processes_per_node": 1})
        hold = f"export PYTHONPATH='{HOLD}' HOLD_OWNER={os.getpid()}"
        setup = [*self.job["setup"], hold]
        self.change_job(setup=setup, **settings)
        self.sweep(*rates, epochs=1, compute_time_s=COMPUTE_S)

    def go(self, *rates: int) -> None:
        """Let the launches at these cache rates compute on."""
        for rate in rates:
            (self.folder / f"go-{rate}").touch()

    def wait_until(self, condition, running: subprocess.Popen | None = None) -> None:
        """Wait until something is true; a snakemake must be running meanwhile."""
        end = time.monotonic() + sessions.HANG_S
        while not condition():
            if running and running.poll() is not None:
                raise AssertionError(running.communicate()[0])
            assert time.monotonic() < end
            time.sleep(0.1)

    def held_rate(self) -> int | None:
        """Return the cache rate of a launch that is held in its first epoch."""
        rates = {
            int(path.name.removeprefix("held-")) for path in self.folder.glob("held-*")
        }
        return next(iter(rates - set(self.rates())), None)

    def ranks(self) -> list[int]:
        """Return the processes of launches, whatever the scheduler knows of them."""
        processes = sessions.processes_in(self.folder)
        scripts = "run_benchmark.py", "run_program.py"
        return [
            pid
            for pid, words in processes.items()
            if any(script in words for script in scripts)
        ]

    def runs(self) -> list[dict]:
        """Return what is said of each finished run."""
        paths = sorted(self.path("runs").rglob("run.json"))
        return [json.loads(path.read_text()) for path in paths]

    def rates(self) -> list[int]:
        """Return the cache rates of the finished runs."""
        return [run["point"]["cache_rate_percent"] for run in self.runs()]


def assert_one_after_the_other(runs: list[dict]) -> None:
    """Assert that runs, which share the GFS, did not do so at the same time."""
    times = sorted((run["started"], run["finished"]) for run in runs)
    assert len(times) > 1
    for (_, finished), (started, _) in itertools.pairwise(times):
        assert finished <= started
