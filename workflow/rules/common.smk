"""What all rules share: the checked experiment, its paths and its points."""

import fcntl
import json
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path

from snakemake.exceptions import WorkflowError

sys.path.append(str(Path(workflow.basedir) / "workflow" / "scripts"))

from tierscope.config import (
    ConfigError,
    Point,
    description_hash,
    differences,
    read_experiment,
)

from tierscope import job
from tierscope.tiers.emulated import emulated_gfs

try:
    EXPERIMENT = read_experiment(config, Path(workflow.basedir) / "resources")
except ConfigError as error:
    raise WorkflowError(str(error))

RESULTS = f"results/{EXPERIMENT.name}"
RUN = f"{RESULTS}/runs/{{scenario}}/cache-{{cache_rate}}/rep-{{repetition}}"
LOGS = f"{RESULTS}/logs"
BENCHMARK_LOG = (
    f"{LOGS}/run_benchmark/{{scenario}}/cache-{{cache_rate}}_rep-{{repetition}}"
)
SYSTEM = EXPERIMENT.system
SETTINGS = EXPERIMENT.settings


wildcard_constraints:
    scenario="|".join(scenario.name for scenario in EXPERIMENT.sweep),
    cache_rate=r"\d{3}",
    repetition=r"\d+",
    dataset="|".join(EXPERIMENT.datasets),
    n_osts=r"\d+",


def library(script, *modules):
    """Return a rule's script and the modules it uses: editing one reruns the rule."""
    names = [script, *(f"tierscope/{module}" for module in modules)]
    return [workflow.source_path(f"../scripts/{name}.py") for name in names]


def run_files(name):
    """Return a file of every run of the sweep."""
    return [
        f"{RESULTS}/runs/{scenario.name}/{point.path}/{name}"
        for scenario, points in EXPERIMENT.sweep.items()
        for point in points
    ]


def scenario_files(name):
    """Return a file of every scenario of the sweep."""
    return [f"{RESULTS}/runs/{scenario.name}/{name}" for scenario in EXPERIMENT.sweep]


def points_of(wildcards):
    """Return the points of a scenario, as mappings."""
    return list(map(asdict, EXPERIMENT.sweep[EXPERIMENT.scenario(wildcards.scenario)]))


def description(wildcards):
    """Return all that a scenario's measurements depend on."""
    return EXPERIMENT.description(EXPERIMENT.scenario(wildcards.scenario))


def staging(wildcards):
    """Return the folder where a launch leaves its runs until they are taken over."""
    content = json.loads(json.dumps(description(wildcards)))
    return f"{RESULTS}/staging/{wildcards.scenario}-{description_hash(content)}"


def staged(wildcards):
    """Return the folder where a launch leaves one run."""
    point = Point(int(wildcards.cache_rate), int(wildcards.repetition))
    return f"{staging(wildcards)}/{point.path}"


def launch_arguments(wildcards):
    """Return the end of the benchmark's command line: the limit and the points."""
    if SYSTEM.points_per_launch == "all":
        points = EXPERIMENT.sweep[EXPERIMENT.scenario(wildcards.scenario)]
    else:
        points = [Point(int(wildcards.cache_rate), int(wildcards.repetition))]
    limit = SETTINGS["audit"]["max_lateness_percent"]
    names = [f"{point.cache_rate_percent}/{point.repetition}" for point in points]
    return " ".join([f"--max-lateness-percent {limit}", *names])


def benchmark_job(wildcards):
    """Return the job of a run: what it needs of time, memory and local storage."""
    scenario = EXPERIMENT.scenario(wildcards.scenario)
    if SYSTEM.points_per_launch == "all":
        return EXPERIMENT.job(scenario, EXPERIMENT.sweep[scenario])
    return EXPERIMENT.job(scenario, [Point(int(wildcards.cache_rate), 0)])


def benchmark_minutes(wildcards, attempt):
    """Return a benchmark job's time limit; each retry gets the first's once more."""
    return benchmark_job(wildcards).minutes * attempt


def benchmark_memory(wildcards):
    """Return the memory that a benchmark job needs on a node, in MiB."""
    return benchmark_job(wildcards).memory_mib


def launcher(wildcards):
    """Return the command that starts a benchmark's processes."""
    return job.launcher(SYSTEM, log=BENCHMARK_LOG.format(**wildcards))


def setup_commands(wildcards):
    """Return the site's shell lines before the launcher; they may use unset names."""
    lines = " && ".join(f"{{ {line}\n}}" for line in SYSTEM.job.setup)
    return f"{{ set +u; {lines}; }}" if lines else "true"


def site_resources(rule):
    """Return the site's further resources of a rule."""

    def value(wildcards, name):
        return benchmark_job(wildcards).resources()[name]

    if rule != "run_benchmark":
        return job.site_resources(SYSTEM, rule)
    return {
        name: partial(value, name=name) for name in SYSTEM.job.resources.get(rule, {})
    }


def generation_minutes(wildcards):
    """Return the time limit of a dataset's generation."""
    dataset = EXPERIMENT.datasets[wildcards.dataset]
    return job.generation_minutes(dataset, SYSTEM.job.estimates)


def manifest(wildcards):
    """Return the manifest of a scenario's dataset."""
    scenario = EXPERIMENT.scenario(wildcards.scenario)
    return f"{RESULTS}/datasets/{scenario.dataset}-{scenario.n_osts}ost.parquet"


def n_object_servers(wildcards):
    """Return how many object servers an emulated GFS has, None for a real one."""
    if SYSTEM.gfs.kind != "emulated":
        return None
    return emulated_gfs(asdict(SYSTEM), int(wildcards.n_osts)).n_object_servers


def figure(name):
    """Return a figure's files: SVG, PNG and PDF."""
    return {kind: f"{RESULTS}/figures/{name}.{kind}" for kind in ("svg", "png", "pdf")}


def refuse_other_settings():
    """Stop if a finished run was measured with other settings than asked for now."""
    for scenario, points in EXPERIMENT.sweep.items():
        wanted = json.loads(json.dumps(EXPERIMENT.description(scenario)))
        for point in points:
            path = Path(RESULTS, "runs", scenario.name, point.path, "run.json")
            if not path.is_file():
                continue
            run = json.loads(path.read_text())
            if run["hash"] != description_hash(wanted):
                raise WorkflowError(
                    f"{path}: was measured with {'; '.join(differences(run, wanted))}; "
                    "give the experiment a new name, or delete its runs to measure "
                    "again."
                )


def lock_experiment():
    """Hold a lock that ends with this process, even if it is killed."""
    global LOCK
    Path(RESULTS).mkdir(parents=True, exist_ok=True)
    LOCK = open(f"{RESULTS}/.lock", "w")
    try:
        fcntl.flock(LOCK, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise WorkflowError(
            f"{RESULTS}/.lock: another snakemake is working on this experiment; wait "
            "until it has ended."
        )


if not EXPERIMENT.simulated:  # or it is simulated again
    refuse_other_settings()
