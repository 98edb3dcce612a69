"""Shared by all rules: the checked experiment, its paths and its points."""

import functools
import inspect
import mimetypes
import re
import sys
from dataclasses import asdict
from pathlib import Path

from snakemake.common.configfile import load_configfile
from snakemake.exceptions import WorkflowError
from snakemake.logging import logger
from snakemake.utils import update_config

# The module that queries Snakemake is found from here, so Python gives the path.
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
from tierscope.policies import DATABASE, PEERS, PLACED, kind_of
from tierscope.storage.emulated.library import emulated_gfs

# Snakemake asks for this type when it puts a table into its report.
mimetypes.add_type("application/vnd.apache.parquet", ".parquet")

# Systems and datasets of the current folder take precedence over the workflow's.
RESOURCES = [Path("resources"), WORKFLOW.parent / "resources"]

# A workflow that imports this one gives only the changes to the default configuration.
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
    """Return a path relative to the current folder, absolute if it is outside."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def library(script):
    """Return a rule's script and its modules: editing one reruns the rule."""
    path = SCRIPTS / f"{script}.py"
    files = [path, *imported_modules(path)]
    return [code_path(str(file.relative_to(SCRIPTS))) for file in files]


@functools.cache
def code_path(name):
    """Return the path of a script or module; cached, as Snakemake takes long."""
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
    """Return the function that names a file of each run of a rule's sweep."""
    return lambda wildcards: run_files(name, wildcards.sweep, which)


def deletions(name):
    """Return the note about deleted runs of a table, if it exists.

    As an input, the note makes Snakemake repeat the table and so the runs: Snakemake
    itself treats a table with missing inputs as finished. (See `note_deleted_runs`.)
    """
    note = Path(LOGS, "deletions", f"{name}.txt")
    return [str(note)] if note.exists() else []


def leaves(table):
    """Return the function that tests whether a scenario's runs have this table."""
    return lambda scenario: table in kind_of(scenario).tables + kind_of(scenario).sums


def why_no_audit(scenario):
    """Return why runs of a scenario have no log and so no audit, None if they do."""
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
    """Return the audits of those runs of the sweep that have one."""
    return run_files("audit.json", which=lambda scenario: not why_no_audit(scenario))


def summed_tables(*names):
    """Return the tables of the sweep that at least one kind of its runs has."""
    return [
        f"{TABLES}/{name}.parquet"
        for name in names
        if any(map(leaves(name), EXPERIMENT.sweep))
    ]


def observations(sweep=MAIN_SWEEP):
    """Return what real tiers did: where reads came from, and the machine's drift."""
    is_real = EXPERIMENT.source == "measured"
    names = ("verdicts", "drift") if is_real else ()
    return [f"{RESULTS}/{sweep}/{name}.parquet" for name in names]


def background_table():
    """Return the table of the sweep's copies, if any policy copies."""
    return summed_tables("background")


def peer_tables():
    """Return the tables of stage-in and of reads from peers, if any."""
    return summed_tables("stage_in", "peers")


def of_runs(runs, name):
    """Return the file of this name in each run's folder."""
    return [f"{run}/{name}" for run in runs]


def audited(runs):
    """Return the outputs of the audit of some runs."""
    return {
        name.partition(".")[0]: of_runs(runs, name)
        for name in ("file_records.parquet", "io_time.parquet", "audit.json")
    }


def tables_of_kind(scenario, runs):
    """Return the tables of a scenario's runs, in addition to those of every run."""
    return [
        f"{run}/{name}.parquet" for run in runs for name in kind_of(scenario).tables
    ]


def run_tables(wildcards):
    """Return the tables of a run of this kind, in addition to those of every run."""
    scenario = EXPERIMENT.scenario(wildcards.scenario)
    return tables_of_kind(scenario, [RUN.format(**wildcards)])


def description(wildcards):
    """Return the settings that determine a scenario's measurements, for JSON."""
    return EXPERIMENT.description(EXPERIMENT.scenario(wildcards.scenario)).as_json()


def model_description(scenario):
    """Return the settings of a scenario's runs for models, for JSON."""
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
    """Return the number of object servers of an emulated GFS, None for a real one."""
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


def table(path, title):
    """Return a table that sums up results, marked for Snakemake's report."""
    return report(
        path,
        caption="../report/table.rst",
        category="Tables",
        labels={"table": title, "source of the numbers": EXPERIMENT.source},
    )


# Figure files start with the number in the paper, captions with the rule's name.
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
    """Return the caption of a page or a figure in both reports."""
    return workflow.source_path(f"../report/{caption_name(name)}.rst")
