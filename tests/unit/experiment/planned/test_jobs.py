"""What launches and the jobs before them are told, and what they need."""

import subprocess
import sys
from pathlib import Path

import pytest
from small_experiments import of_program, runs_of, small_experiment, wildcards
from tierscope.core.scenario import Point
from tierscope.experiment.launches import missing_launches
from tierscope.experiment.planned.jobs import Jobs

PINNING = "small-60ost-pinning-tensorflow"
FIRST = {"cache_rate": "000", "repetition": 0, "nth": 1}
IDEAL = {"sweep": {"ideal": True, "repetitions": 2}}
MEMORY = {"roots": {"ideal": "/dev/shm/x"}}


def jobs_of(experiment, results="results/x", **given):
    """Return the jobs of an experiment in a folder of results."""
    folders = {"scripts": "scripts", "native": "built", "sources": "a b/native"}
    missing = missing_launches(experiment, Path(results))
    given = {**folders, "batch_jobs": "results/x/.slurm-jobs", **given}
    return Jobs(runs_of(experiment, results), missing, **given)


def of_first(experiment, **others):
    """Return the wildcards of a launch of the first scenario of a sweep."""
    scenario = next(iter(experiment.sweep))
    return wildcards(scenario=scenario.name, **FIRST | others)


def set_up(setup, **environment):
    """Return how the lines of a setup end, and their messages."""
    environment = {"PATH": "/usr/bin:/bin"} | environment
    command = ["bash", "-uc", f"{setup} && echo done"]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("system", "words"),
    [
        ("scale-model-4x2", ""),
        ("laptop", ", repetition {wildcards.repetition}"),
        (
            "cluster",
            ", cache rate {wildcards.cache_rate} %, repetition {wildcards.repetition}: "
            "{resources.nodes} nodes, {resources.runtime} minutes at most",
        ),
    ],
)
def test_a_launch_says_what_it_measures(system, words):
    jobs = jobs_of(small_experiment(system))
    assert jobs.message == f"Measuring {{wildcards.scenario}}{words}."


def test_a_launch_starts_ranks_or_what_starts_a_program():
    ours, program = jobs_of(small_experiment()), jobs_of(of_program("pinning"))
    assert (ours.ranks, ours.starts_ranks) == ("run_benchmark {input.scenario:q}", "")
    assert program.ranks == (
        "run_program {input.scenario:q} --manifest {input.manifest:q} --minutes 60"
    )
    assert program.starts_ranks == " --starts-ranks"


def test_who_runs_in_a_batch_job_says_so():
    experiment = small_experiment()
    alone, submitted = jobs_of(experiment), jobs_of(experiment, is_submitted=True)
    assert submitted.launch == f"{alone.launch} --submitted"
    assert alone.launch.startswith("exec {resources.python:q} {resources.scripts:q}")


def test_launches_come_repetition_by_repetition_and_ideal_ones_last():
    experiment = small_experiment("laptop", IDEAL["sweep"], **MEMORY)
    jobs, ideal = jobs_of(experiment), "small-0ost-pinning-tensorflow+ideal"
    names = (next(iter(experiment.sweep)).name, ideal)
    assert [
        jobs.priority(wildcards(scenario=name, **FIRST | {"repetition": repetition}))
        for repetition in (0, 1)
        for name in names
    ] == [1000, 999.5, 999, 998.5]


@pytest.mark.parametrize(("system", "first"), [("laptop", 1000), ("cluster", 0)])
def test_launches_come_before_audits_if_these_wait_for_several(system, first):
    experiment = small_experiment(system)
    jobs = jobs_of(experiment)
    assert jobs.before_audits == first
    assert jobs.priority(of_first(experiment)) == first


def test_a_launch_has_all_points_and_measures_the_missing_ones(tmp_path):
    experiment = small_experiment()
    (scenario,) = experiment.sweep
    found = tmp_path / "runs" / scenario.name / "cache-050" / "rep-0"
    found.mkdir(parents=True)
    for name in ("log.darshan", "epochs.parquet", "run.json"):
        (found / name).touch()
    jobs = jobs_of(experiment, tmp_path)
    assert jobs.points(of_first(experiment)) == (Point(0, 0), Point(50, 0))
    assert jobs.n_missing(of_first(experiment)) == 1
    assert jobs.n_missing(of_first(experiment, nth=2)) == 2  # not of this start
    staging = jobs.staging(of_first(experiment))
    wanted = experiment.description(scenario).hash
    assert staging == f"{tmp_path}/staging/{PINNING}-{wanted}"


def test_needs_of_a_launch_are_those_of_its_job():
    experiment = small_experiment("cluster")
    jobs, first = jobs_of(experiment), of_first(experiment)
    needs = jobs.launch_resources(jobs.benchmark, "x.log")
    job = jobs.benchmark(first)
    assert needs["runtime"](first, attempt=2) == 2 * job.minutes
    assert needs["mem_mb"](first) == job.memory_mib
    assert needs["nodes"](first) == experiment.system.n_nodes
    assert (needs["tasks"], needs["gfs"]) == (experiment.system.n_processes, 1)
    assert (needs["scripts"], needs["native"]) == ("scripts", "built")
    assert needs["python"] == sys.executable
    assert needs["mpi"](first)
    site = {name: needs[name](first) for name in job.resources()}
    assert site == job.resources() != {}


def test_the_launcher_knows_the_log_of_the_job():
    experiment = small_experiment("laptop")
    launcher = "mpiexec -o {log} -N {nodes}"
    object.__setattr__(experiment.system.job, "launcher", launcher)
    jobs = jobs_of(experiment)
    needs = jobs.launch_resources(jobs.benchmark, "logs/{scenario}/{cache_rate}.log")
    log = "logs/small-0ost-pinning-tensorflow/000"
    assert f"-o {log} -N" in needs["mpi"](of_first(experiment))


def test_a_program_needs_what_its_listed_dataset_needs(monkeypatch):
    monkeypatch.setattr(
        "tierscope.experiment.planned.jobs.launches.listed_bytes", lambda *_: 2**40
    )
    experiment = of_program("pinning")
    jobs, last = jobs_of(experiment), of_first(of_program("pinning"), cache_rate="050")
    assert jobs.benchmark(last).dataset_bytes == 2**40


def test_probes_need_what_a_run_needs():
    jobs = jobs_of(small_experiment())
    job = jobs.probes(wildcards(dataset="small", n_osts=60))
    assert job.policy == "pinning"
    assert job.dataset.name == "small"


def test_setup_compiles_and_says_which_step_failed():
    jobs = jobs_of(small_experiment())
    setup = jobs.setup(None)
    assert "make --silent -C 'a b/native'" in setup
    failed = set_up(setup)
    assert failed.returncode
    words = "tierscope: compiling workflow/native failed: make, cc?"
    assert words in failed.stderr.splitlines()
    assert "Slurm" not in setup
    assert ".slurm-jobs" not in setup


def test_a_site_with_its_own_darshan_compiles_nothing():
    experiment = small_experiment("cluster", darshan={"runtime": "/opt/libdarshan.so"})
    assert "make" not in jobs_of(experiment).setup(None)


def test_a_batch_job_notes_its_id_and_a_failing_line_is_told(tmp_path):
    experiment = small_experiment("cluster", darshan={"runtime": "/opt/libdarshan.so"})
    object.__setattr__(experiment.system.job, "setup", ("echo $UNSET", "module x"))
    folder = tmp_path / "it's mine"
    setup = jobs_of(experiment, batch_jobs=str(folder)).setup(None)
    failed = set_up(setup, SLURM_JOB_ID="17")
    assert "tierscope: a line of job.setup failed" in failed.stderr.splitlines()
    assert [path.name for path in folder.iterdir()] == ["17"]
    (tmp_path / "file").touch()
    setup = jobs_of(experiment, batch_jobs=f"{tmp_path}/file/x").setup(None)
    assert (
        f"tierscope: {tmp_path}/file/x: the job cannot note its id"
        in set_up(setup, SLURM_JOB_ID="17").stderr.splitlines()
    )


def test_generation_has_its_minutes_and_notes_jobs_of_slurm():
    here, cluster = jobs_of(small_experiment()), jobs_of(small_experiment("cluster"))
    needs = here.generation_resources()
    assert needs["runtime"](wildcards(dataset="small")) >= 1
    assert needs["gfs"] == 1
    assert "batch_jobs" not in needs
    noted = cluster.generation_resources()["batch_jobs"]
    assert noted == "results/x/.slurm-jobs"


def test_ideal_runs_have_a_directory_if_it_is_on_this_machine():
    def place(system, **sweep):
        sections = MEMORY if system != "scale-model-4x2" else {}
        return jobs_of(small_experiment(system, sweep, **sections)).ideal_memory()

    assert place("laptop", ideal=True) == {"ideal_root": "/dev/shm/x"}
    assert place("laptop") == {}
    assert place("scale-model-4x2", ideal=True) == {}
    assert place("cluster", ideal=True) == {}


def test_generated_datasets_are_listed_where_they_lie():
    jobs = jobs_of(of_program("pinning", roots={"gfs": "/gfs"}))
    dataset = wildcards(dataset="small", n_osts=0)
    assert jobs.what_to_list(dataset) == "results/x/datasets/small-0ost.parquet"
    assert jobs.listed_folder(dataset).startswith("/gfs/")


def test_datasets_of_users_are_listed_as_they_are(tmp_path):
    sections = {
        "datasets": {"mine": {"path": str(tmp_path)}},
        "figures": {"scenario": {"dataset": "mine"}},
    }
    jobs = jobs_of(of_program("pinning", sweep={"datasets": ["mine"]}, **sections))
    dataset = wildcards(dataset="mine", n_osts=0)
    assert jobs.what_to_list(dataset) == []
    assert jobs.listed_folder(dataset) == str(tmp_path)
