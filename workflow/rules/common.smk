"""What all rules share: the checked experiment, its paths and its points."""

import functools
import inspect
import re
import sys
from dataclasses import asdict
from pathlib import Path

from snakemake.common.configfile import load_configfile
from snakemake.exceptions import WorkflowError
from snakemake.logging import logger
from snakemake.utils import update_config

# This finds the module that asks Snakemake, and so asks Python where this file is.
WORKFLOW = Path(inspect.currentframe().f_code.co_filename).parents[1]
SCRIPTS = WORKFLOW / "scripts"
if not (SCRIPTS / "tierscope").is_dir():
    raise WorkflowError(
        f"{SCRIPTS}: got no folder with the modules of tierscope, expected a clone of "
        "tierscope on this machine; give its workflow/Snakefile."
    )
sys.path.append(str(SCRIPTS))

from tierscope.experiment.config import read_experiment
from tierscope.core.imports import imported_modules
from tierscope.core.scenario import MAIN_SWEEP, Point, Scenario
from tierscope.core.validation import ConfigError

from tierscope.core.io_class import IOClass
from tierscope.experiment.snakemake_internals import (
    InterfaceError,
    SnakemakeInternals,
    refuse_prefix,
    try_to,
)
from tierscope.policies import DATABASE, kind_of
from tierscope.storage.emulated.library import emulated_gfs

# A system or a dataset of the present folder counts before one of the workflow's.
RESOURCES = [Path("resources"), WORKFLOW.parent / "resources"]

# Who imports the workflow gives what differs from its own configuration only.
defaults = load_configfile(str(WORKFLOW.parent / "config" / "config.yaml"))
update_config(defaults, config)
config.update(defaults)

SNAKEMAKE = SnakemakeInternals(workflow)
try:
    EXPERIMENT = read_experiment(config, *RESOURCES)
    RESULTS = f"results/{EXPERIMENT.name}"
    IS_REMOTE_JOB = SNAKEMAKE.is_remote_job()
    IS_JOB = SNAKEMAKE.is_job()
    if not IS_JOB:
        try_to(lambda: refuse_prefix(SNAKEMAKE, RESULTS), logger.warning)
except (ConfigError, InterfaceError) as error:
    raise WorkflowError(str(error))

RUN = f"{RESULTS}/runs/{{scenario}}/cache-{{cache_rate}}/rep-{{repetition}}"
LOGS = f"{RESULTS}/logs"
TABLES = f"{RESULTS}/{MAIN_SWEEP}"
ALL_POINTS = EXPERIMENT.all_points
POINTS = {point for points in ALL_POINTS.values() for point in points}
SYSTEM = EXPERIMENT.system
SETTINGS = EXPERIMENT.settings


wildcard_constraints:
    scenario="|".join(re.escape(scenario.name) for scenario in ALL_POINTS),
    sweep="|".join(EXPERIMENT.sweeps),
    cache_rate="|".join({f"{point.cache_rate_percent:03d}" for point in POINTS}),
    repetition="|".join({str(point.repetition) for point in POINTS}),
    dataset="|".join(EXPERIMENT.datasets),
    calibration="|".join(SETTINGS["model"]["calibrations"]),
    n_osts=r"\d+",


def from_here(path):
    """Return a path from the current folder on; an absolute one of a place outside."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def library(script):
    """Return a rule's script and the modules it imports: editing one reruns the rule."""
    path = SCRIPTS / f"{script}.py"
    files = [path, *imported_modules(path)]
    return [code_path(str(file.relative_to(SCRIPTS))) for file in files]


@functools.cache
def code_path(name):
    """Return the path of a script or module of ours; Snakemake takes long to say it."""
    return workflow.source_path(f"../scripts/{name}")


def run_files(name, sweep=MAIN_SWEEP, which=lambda scenario: True):
    """Return a file of every run of a sweep, or of the runs of some scenarios."""
    return [
        f"{RESULTS}/runs/{scenario.name}/{point.path}/{name}"
        for scenario, points in EXPERIMENT.sweeps[sweep].items()
        for point in points
        if which(scenario)
    ]


def of_sweep(name, which=lambda scenario: True):
    """Return the function that names a file of such runs of a rule's sweep."""
    return lambda wildcards: run_files(name, wildcards.sweep, which)


def deletions(name):
    """Return the note that runs are gone which a table was made from, if there is one.

    As an input it has the table made again, and so the runs: Snakemake itself takes a
    table whose input is gone for finished. `note_deleted_runs` writes it.
    """
    note = Path(LOGS, "deletions", f"{name}.txt")
    return [str(note)] if note.exists() else []


def leaves(table):
    """Return the function that says whether a scenario's runs leave a table of a kind."""
    return lambda scenario: table in kind_of(scenario).tables + kind_of(scenario).sums


def why_no_audit(scenario):
    """Return why runs of a scenario have no log, and so no audit; None if they have."""
    kind = kind_of(scenario)
    if not EXPERIMENT.simulated or kind.why_no_simulated_log is None:
        return None
    what = (
        f"loader {scenario.loader}"
        if scenario.reads_database
        else f"policy {scenario.policy}"
    )
    return f"{what}: {kind.why_no_simulated_log}"


def audited_files():
    """Return the audits of the sweep's runs that have one."""
    return run_files("audit.json", which=lambda scenario: not why_no_audit(scenario))


def summed_tables(*names):
    """Return those of the tables of the sweep that some kind of its runs has."""
    return [
        f"{TABLES}/{name}.parquet"
        for name in names
        if any(map(leaves(name), EXPERIMENT.sweep))
    ]


def background_table():
    """Return the table of the sweep's copies, if any policy copies."""
    return summed_tables("background")


def peer_tables():
    """Return the tables of stage-in and of reads from peers, if there are any."""
    return summed_tables("stage_in", "peers")


def of_runs(runs, name):
    """Return a file of this name in each folder of a run."""
    return [f"{run}/{name}" for run in runs]


def audited(runs):
    """Return what the audit of some runs writes."""
    return {
        name.partition(".")[0]: of_runs(runs, name)
        for name in ("file_records.parquet", "io_time.parquet", "audit.json")
    }


def tables_of_kind(scenario, runs):
    """Return the tables that runs of a scenario leave besides those of every run."""
    return [
        f"{run}/{name}.parquet" for run in runs for name in kind_of(scenario).tables
    ]


def run_tables(wildcards):
    """Return the tables that a run of this kind leaves besides those of every run."""
    scenario = EXPERIMENT.scenario(wildcards.scenario)
    return tables_of_kind(scenario, [RUN.format(**wildcards)])


def description(wildcards):
    """Return all that a scenario's measurements depend on, ready for JSON."""
    return EXPERIMENT.description(EXPERIMENT.scenario(wildcards.scenario)).as_json()


def model_description(scenario):
    """Return what a scenario's runs depend on, for models, ready for JSON."""
    return EXPERIMENT.model_description(scenario).as_json()


def point_of(wildcards):
    """Return the point of a run."""
    return Point(int(wildcards.cache_rate), int(wildcards.repetition))


def manifest_of(scenario):
    """Return the manifest of a scenario's dataset."""
    kind = "-lmdb" if scenario.reads_database else ""
    return f"{RESULTS}/datasets/{scenario.dataset}-{scenario.n_osts}ost{kind}.parquet"


def manifest(wildcards):
    """Return the manifest of the dataset that a run reads."""
    return manifest_of(EXPERIMENT.scenario(wildcards.scenario))


def n_object_servers(wildcards):
    """Return how many object servers an emulated GFS has, None for a real one."""
    if SYSTEM.gfs.kind != "emulated":
        return None
    return emulated_gfs(SYSTEM, int(wildcards.n_osts)).n_object_servers


def figure(name, source=EXPERIMENT.source):
    """Return a figure's files: SVG, marked for Snakemake's report, PNG and PDF."""
    kinds = ("svg", "png", "pdf")
    files = {kind: f"{RESULTS}/figures/{name}.{kind}" for kind in kinds}
    files["svg"] = report(
        files["svg"],
        caption=f"../report/{caption_name(name)}.rst",
        category="Figures",
        labels=lambda wildcards: {
            "figure": FIGURES[name.format(**wildcards)],
            "source of the numbers": source,
        },
    )
    return files


def page(name, title):
    """Return a page for readers, marked for Snakemake's report."""
    return report(
        f"{RESULTS}/{name}.html",
        caption=f"../report/{name}.rst",
        category="Pages",
        labels={"page": title, "source of the numbers": EXPERIMENT.source},
    )


# Files of figures begin with the paper's number, captions have the rule's name.
CAPTIONS = {
    "fig1": "execution_and_io_time",
    "fig2": "breakdown",
    "fig3": "improvement",
    "fig4": "sufficient_combinations",
    "fig5": "cheapest_combination",
}


def caption_name(name):
    """Return the name of a figure's or a page's caption; all of Fig. 4 share one."""
    return CAPTIONS.get(name.partition("_")[0], name)


def caption(name):
    """Return what both reports say of a page or a figure."""
    return workflow.source_path(f"../report/{caption_name(name)}.rst")
