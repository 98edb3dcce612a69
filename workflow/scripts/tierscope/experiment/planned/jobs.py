"""What the jobs of launches, and of what precedes them, need and are told."""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

from tierscope.core.scenario import Point, UserDataset
from tierscope.experiment import job, launches
from tierscope.experiment.job import BenchmarkJob, ProgramJob
from tierscope.experiment.planned.runs import Runs, point_of

_LAUNCH = (
    "exec {resources.python:q} {resources.scripts:q}/launch.py --log {log:q}"
    " --setup {resources.setup:q} --mpi {resources.mpi:q} --tasks {resources.tasks}"
)
_OF_POINT = ", cache rate {wildcards.cache_rate} %, repetition {wildcards.repetition}"


class Jobs:
    """The jobs of an experiment.

    Parameters
    ----------
    runs : Runs
        The runs that they measure.
    missing : mapping of str to Launch
        As for `Runs`.
    scripts, native : str
        The folders of our scripts and of what is compiled, and of its sources.
    batch_jobs : str
        Folder in which a batch job notes its id for the start after a killed one.
    is_submitted : bool
        Whether this is such a job itself.
    """

    def __init__(
        self,
        runs: Runs,
        missing: Mapping[str, launches.Launch],
        *,
        scripts: str,
        native: str,
        sources: str,
        batch_jobs: str,
        is_submitted: bool = False,
    ) -> None:
        self._runs, self._experiment = runs, runs.experiment
        self._system, self._results = runs.experiment.system, runs.results
        self._scripts, self._native, self._sources = scripts, native, sources
        is_noted = self._system.job.scheduler == "slurm"
        self._batch_jobs = batch_jobs if is_noted else ""
        # The script of the ranks and its arguments follow. Who runs in a batch job
        # reads there that it does, and says so.
        self.launch = f"{_LAUNCH}{' --submitted' * is_submitted}"
        self._marker = f"{self._results}/{launches.MARKER}"
        self._by_marker = {
            f"{self._results}/{one.marker}": one for one in missing.values()
        }
        # If runs are audited by launch, all launches come before the audits. These have
        # a priority below 1, but one of Snakemake's schedulers adds up what can run
        # side by side.
        self.before_audits = 1000 * self._experiment.launches_several
        # The script that a launch starts. That of a program is no rank itself, but
        # starts them, once a point.
        self.ranks, self.starts_ranks = "run_benchmark {input.scenario:q}", ""
        if self._experiment.runs_program:
            minutes = self._experiment.settings["loader"]["minutes"]
            self.ranks = (
                "run_program {input.scenario:q} --manifest {input.manifest:q} "
                f"--minutes {minutes}"
            )
            self.starts_ranks = " --starts-ranks"

    @property
    def size_words(self) -> str:
        """What is added to the message of a launch if a scheduler runs it."""
        if not self._system.job.scheduler:
            return ""
        return ": {resources.nodes} nodes, {resources.runtime} minutes at most"

    @property
    def message(self) -> str:
        """What a launch measures: for the reader, all points of a scenario are one."""
        words = _OF_POINT
        if self._system.points_per_launch == "all":
            words = self._experiment.origin.of_launch
        return f"Measuring {{wildcards.scenario}}{words}{self.size_words}."

    def staging(self, wildcards: Any) -> str:
        """Return the folder in which a launch leaves its runs until they are moved."""
        scenario = self._experiment.scenario(wildcards.scenario)
        wanted = self._experiment.description(scenario)
        return f"{self._results}/staging/{wildcards.scenario}-{wanted.hash}"

    def priority(self, wildcards: Any) -> float:
        """Return the priority of a launch: by repetition, ideal runs last."""
        if not self._runs.has_ideal:
            return self.before_audits
        is_ideal = self._experiment.scenario(wildcards.scenario).is_ideal
        return 1000 - int(wildcards.repetition) - is_ideal / 2

    def points(self, wildcards: Any) -> tuple[Point, ...]:
        """Return the points of a launch, which its first point names."""
        scenario = self._experiment.scenario(wildcards.scenario)
        return self._experiment.launch_of(scenario, point_of(wildcards))

    def n_missing(self, wildcards: Any) -> int:
        """Return how many points a launch measures, as far as this start knows."""
        launch = self._by_marker.get(self._marker.format(**wildcards))
        return len(launch.missing if launch else self.points(wildcards))

    def benchmark(self, wildcards: Any) -> BenchmarkJob | ProgramJob:
        """Return the job of a launch, with its time, memory and local storage."""
        scenario = self._experiment.scenario(wildcards.scenario)
        n_bytes = launches.listed_bytes(Path(self._results), scenario)
        return self._experiment.job(scenario, self.points(wildcards), n_bytes)

    def probes(self, wildcards: Any) -> BenchmarkJob:
        """Return the job of the probes of a dataset."""
        return self._experiment.probe_job(wildcards.dataset, int(wildcards.n_osts))

    def launch_resources(
        self, job_of: Callable[[Any], BenchmarkJob | ProgramJob], log: str
    ) -> dict[str, Any]:
        """Return the resources of a launch; a site's own numbers take precedence.

        `job_of` returns the job for wildcards; `log` is its log, with them in braces.
        """
        path = log.removesuffix(".log")

        def launcher(wildcards: Any) -> str:
            return job.launcher(job_of(wildcards).system, log=path.format(**wildcards))

        def nodes(wildcards: Any) -> int:
            return job_of(wildcards).system.n_nodes

        def minutes(wildcards: Any, attempt: int) -> int:
            return job_of(wildcards).minutes * attempt

        def memory(wildcards: Any) -> int:
            return job_of(wildcards).memory_mib

        def of_site(wildcards: Any, name: str) -> Any:
            return job_of(wildcards).resources()[name]

        names = self._system.job.resources.get("run_benchmark", {})
        return {
            "mpi": launcher,
            "tasks": self._system.n_processes,
            "nodes": nodes,
            "runtime": minutes,
            "mem_mb": memory,
            "gfs": 1,
            # Not a parameter: another setup of the job must not repeat finished runs.
            "setup": self.setup,
            "python": str(sys.executable),  # independent of PATH after the setup
            "scripts": self._scripts,
            "native": self._native,
        } | {name: partial(of_site, name=name) for name in names}

    def setup(self, wildcards: Any) -> str:
        """Return the shell lines before the launcher; unset variables are allowed."""
        lines = ["set +u", *self._system.job.setup]
        commands = " && ".join(f"{{ {line}\n}}" for line in lines)
        steps = [(commands, "a line of job.setup failed")]
        if self._batch_jobs:
            folder = quote(self._batch_jobs)
            note = f'mkdir -p {folder} && : > {folder}/"$SLURM_JOB_ID"'
            steps.insert(0, (note, f"{self._batch_jobs}: the job cannot note its id"))
        if self._experiment.needs_native:
            compilation = f"make --silent -C {quote(self._sources)}"
            steps.append((compilation, "compiling workflow/native failed: make, cc?"))
        return " && ".join(
            f'{{ {step} || {{ echo "tierscope: {failure}" >&2; false; }}; }}'
            for step, failure in steps
        )

    def generation_resources(self) -> dict[str, Any]:
        """Return the resources of generating a dataset."""

        def minutes(wildcards: Any) -> int:
            dataset = self._experiment.datasets[wildcards.dataset]
            return job.generation_minutes(dataset, self._system.job.estimates)

        site = job.site_resources(self._system, "generate_dataset")
        # Not a parameter: it must not repeat finished datasets.
        noted = {"batch_jobs": self._batch_jobs} if self._batch_jobs else {}
        return {"runtime": minutes, "gfs": 1} | noted | site

    def ideal_memory(self) -> dict[str, str]:
        """Return the directory of ideal runs, as a resource, if it is here."""
        is_here = self._system.job.scheduler is None and not self._system.job.setup
        has_disks = self._experiment.origin.has_own_devices
        if not (self._runs.has_ideal and is_here and has_disks):
            return {}
        # Not a parameter: it must not repeat finished listings.
        return {"ideal_root": str(self._system.ideal().lfs.data_root().parent)}

    def what_to_list(self, wildcards: Any) -> list[str] | str:
        """Return the manifest of a dataset that we generate before it is listed."""
        if isinstance(self._experiment.datasets[wildcards.dataset], UserDataset):
            return []
        name = f"{wildcards.dataset}-{wildcards.n_osts}ost.parquet"
        return f"{self._results}/datasets/{name}"

    def listed_folder(self, wildcards: Any) -> str:
        """Return the folder of a dataset that programs of the user read."""
        dataset, n_osts = wildcards.dataset, int(wildcards.n_osts)
        return self._experiment.listed_dataset(dataset, n_osts).path
