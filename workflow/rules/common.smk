"""What all rules share: the checked experiment, its paths and its points."""

import fcntl
import json
import sys
from dataclasses import asdict
from pathlib import Path

from snakemake.exceptions import WorkflowError

sys.path.append(str(Path(workflow.basedir) / "workflow" / "scripts"))

from tierscope.config import ConfigError, Point, description_hash, read_experiment

from tierscope.tiers.emulated import emulated_gfs

try:
    EXPERIMENT = read_experiment(config, Path(workflow.basedir) / "resources")
except ConfigError as error:
    raise WorkflowError(str(error))

RESULTS = f"results/{EXPERIMENT.name}"
RUN = f"{RESULTS}/runs/{{scenario}}/cache-{{cache_rate}}/rep-{{repetition}}"
LOGS = f"{RESULTS}/logs"
SYSTEM = EXPERIMENT.system
SETTINGS = EXPERIMENT.settings


wildcard_constraints:
    scenario="|".join(scenario.name for scenario in EXPERIMENT.sweep),
    cache_rate=r"\d{3}",
    repetition=r"\d+",
    dataset="|".join(EXPERIMENT.datasets),
    n_osts=r"\d+",


def library(*modules):
    """Return library modules as rule inputs, so that editing one reruns the rule."""
    return [
        workflow.source_path(f"../scripts/tierscope/{module}.py") for module in modules
    ]


def run_files(name):
    """Return a file of every run of the sweep."""
    return [
        f"{RESULTS}/runs/{scenario.name}/{point.path}/{name}"
        for scenario, points in EXPERIMENT.sweep.items()
        for point in points
    ]


def description(wildcards):
    """Return all that a scenario's measurements depend on."""
    return EXPERIMENT.description(EXPERIMENT.scenario(wildcards.scenario))


def staging(wildcards):
    """Return the folder where a launch leaves its runs until they are taken over."""
    content = json.loads(json.dumps(description(wildcards)))
    return f"{RESULTS}/staging/{wildcards.scenario}-{description_hash(content)}"


def launch_points(wildcards):
    """Return the points of a launch as the benchmark's command line takes them."""
    if SYSTEM.points_per_launch == "all":
        points = EXPERIMENT.sweep[EXPERIMENT.scenario(wildcards.scenario)]
    else:
        points = [Point(int(wildcards.cache_rate), int(wildcards.repetition))]
    return " ".join(f"{p.cache_rate_percent}/{p.repetition}" for p in points)


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
