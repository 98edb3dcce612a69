"""Shared by the rules of launches: their jobs, inputs, commands and outputs."""

from functools import partial
from shlex import quote

from tierscope.core.scenario import UserDataset
from tierscope.experiment import job

NATIVE = WORKFLOW.parent / "results" / "native"  # output of workflow/native
MARKER = f"{RESULTS}/{launches.MARKER}"
BENCHMARK_LOG = (
    f"{LOGS}/run_benchmark/{{scenario}}/cache-{{cache_rate}}_rep-{{repetition}}_{{nth}}"
)
# Added to a benchmark's message if a scheduler runs it.
JOB_SIZE = ""
if SYSTEM.job.scheduler:
    JOB_SIZE = ": {resources.nodes} nodes, {resources.runtime} minutes at most"
# For the reader, a launch of all points of a scenario is one job.
MEASURED = "{wildcards.scenario}"
if SYSTEM.points_per_launch != "all":
    MEASURED += (
        ", cache rate {wildcards.cache_rate} %, repetition {wildcards.repetition}"
    )
elif EXPERIMENT.source == "measured":
    MEASURED += ", repetition {wildcards.repetition}"
# Folder in which a batch job notes its id, for the start after a killed one.
BATCH_JOBS = str(START.batch_jobs) if SYSTEM.job.scheduler == "slurm" else ""
# If runs are audited by launch, all launches come before the audits. These have a
# priority below 1, but one of Snakemake's schedulers adds up what can run side by side.
BEFORE_AUDITS = 1000 if EXPERIMENT.launches_several else 0
# With ideal runs, the launches of each repetition are followed by its ideal one.
FIRST_LAUNCH = 1000 if IDEAL else BEFORE_AUDITS
MEASURING = f"Measuring {MEASURED}{JOB_SIZE}."
# The command of a launch; the script of the ranks and its arguments follow. Who runs in a
# batch job that Snakemake has submitted reads this there, and says so.
LAUNCH = (
    "exec {resources.python:q} {resources.scripts:q}/launch.py --log {log:q}"
    " --setup {resources.setup:q} --mpi {resources.mpi:q} --tasks {resources.tasks}"
    f"{' --submitted' if IS_REMOTE_JOB else ''}"
)
# A program is started once a point, by a script that is not a rank itself.
RANKS, STARTS_RANKS = "run_benchmark {input.scenario:q}", ""
if EXPERIMENT.runs_program:
    RANKS = (
        "run_program {input.scenario:q} --manifest {input.manifest:q}"
        f" --minutes {SETTINGS['loader']['minutes']}"
    )
    STARTS_RANKS = " --starts-ranks"


def staging(wildcards):
    """Return the folder in which a launch leaves its runs until they are moved."""
    wanted = EXPERIMENT.description(EXPERIMENT.scenario(wildcards.scenario))
    return f"{RESULTS}/staging/{wildcards.scenario}-{wanted.hash}"


def launch_priority(wildcards):
    """Return the priority of a launch: repetition by repetition, ideal runs last."""
    is_ideal = EXPERIMENT.scenario(wildcards.scenario).is_ideal
    return FIRST_LAUNCH - IDEAL * (int(wildcards.repetition) + is_ideal / 2)


def launched_points(wildcards):
    """Return the points of a launch, which its first point names."""
    scenario = EXPERIMENT.scenario(wildcards.scenario)
    return EXPERIMENT.launch_of(scenario, point_of(wildcards))


def n_missing(wildcards):
    """Return how many points a launch measures, as far as this start knows."""
    launch = LAUNCHES_BY_MARKER.get(MARKER.format(**wildcards))
    return len(launch.missing if launch else launched_points(wildcards))


def benchmark_job(wildcards):
    """Return the job of a launch, with its time, memory and local storage."""
    scenario = EXPERIMENT.scenario(wildcards.scenario)
    n_bytes = None
    if scenario.runs_program:
        n_bytes = launches.listed_bytes(Path(RESULTS), scenario)
    return EXPERIMENT.job(scenario, launched_points(wildcards), n_bytes)


def launch_resources(job_of, log):
    """Return the resources of a launch; a site's own numbers take precedence.

    `job_of` returns the job for wildcards; `log` is its log without suffix.
    """

    def launcher(wildcards):
        return job.launcher(job_of(wildcards).system, log=log.format(**wildcards))

    def nodes(wildcards):
        return job_of(wildcards).system.n_nodes

    def minutes(wildcards, attempt):
        return job_of(wildcards).minutes * attempt

    def memory(wildcards):
        return job_of(wildcards).memory_mib

    def of_site(wildcards, name):
        return job_of(wildcards).resources()[name]

    names = SYSTEM.job.resources.get("run_benchmark", {})
    return {
        "mpi": launcher,
        "tasks": SYSTEM.n_processes,
        "nodes": nodes,
        "runtime": minutes,
        "mem_mb": memory,
        "gfs": 1,
        # Not a parameter: another setup of the job must not repeat finished runs.
        "setup": setup_commands,
        "python": str(sys.executable),  # the job's, independent of PATH after the setup
        "scripts": from_here(SCRIPTS),
        "native": from_here(NATIVE),
    } | {name: partial(of_site, name=name) for name in names}


def setup_commands(wildcards):
    """Return the shell lines before the launcher; unset variables are allowed."""
    commands = " && ".join(f"{{ {line}\n}}" for line in ["set +u", *SYSTEM.job.setup])
    steps = [(commands, "a line of job.setup failed")]
    if BATCH_JOBS:
        folder = quote(BATCH_JOBS)
        note = f'mkdir -p {folder} && : > {folder}/"$SLURM_JOB_ID"'
        steps.insert(0, (note, f"{BATCH_JOBS}: the job cannot note its id"))
    if EXPERIMENT.runtime in ("auto", "builtin") or SYSTEM.source == "emulated":
        compilation = f"make --silent -C {quote(from_here(WORKFLOW / 'native'))}"
        steps.append((compilation, "compiling workflow/native failed: make, cc?"))
    return " && ".join(
        f'{{ {step} || {{ echo "tierscope: {failure}" >&2; false; }}; }}'
        for step, failure in steps
    )


def generation_resources():
    """Return the resources of generating a dataset."""

    def minutes(wildcards):
        dataset = EXPERIMENT.datasets[wildcards.dataset]
        return job.generation_minutes(dataset, SYSTEM.job.estimates)

    site = job.site_resources(SYSTEM, "generate_dataset")
    # Not a parameter: it must not repeat finished datasets.
    noted = {"batch_jobs": BATCH_JOBS} if BATCH_JOBS else {}
    return {"runtime": minutes, "gfs": 1} | noted | site


def ideal_memory():
    """Return the directory of ideal runs, as a resource, if it is on this machine."""
    is_here = SYSTEM.job.scheduler is None and not SYSTEM.job.setup
    if not (IDEAL and is_here and EXPERIMENT.source == "measured"):
        return {}
    # Not a parameter: it must not repeat finished listings.
    return {"ideal_root": str(SYSTEM.ideal().lfs.data_root().parent)}


def what_to_list(wildcards):
    """Return the manifest of a dataset that tierscope generates before it is listed."""
    dataset = EXPERIMENT.datasets[wildcards.dataset]
    if isinstance(dataset, UserDataset):
        return []
    return f"{RESULTS}/datasets/{wildcards.dataset}-{wildcards.n_osts}ost.parquet"


def listed_folder(wildcards):
    """Return the folder of a dataset that programs of the user read."""
    dataset, n_osts = wildcards.dataset, int(wildcards.n_osts)
    return EXPERIMENT.listed_dataset(dataset, n_osts).path
