"""An experiment: all rules that measure, simulate, compute, draw, and what is made of them."""

import re
from dataclasses import asdict

from snakemake.utils import update_config

from tierscope.core.scenario import IDEAL_SWEEP
from tierscope.core.studies import AS_WRITTEN
from tierscope.core.words import count_words
from tierscope.experiment.config import (
    changes,
    defaults_of_programs,
    goal_origin,
    read_experiment,
    with_own_datasets,
)
from tierscope.experiment.launches import missing_launches
from tierscope.experiment.planned.comparisons import NODE_TABLES, Comparisons
from tierscope.experiment.planned.drawn import ExperimentFigures
from tierscope.experiment.planned.jobs import Jobs
from tierscope.experiment.planned.models import Models
from tierscope.experiment.planned.runs import Runs, of_runs, point_of
from tierscope.experiment.start import Start
from tierscope.policies import kind_of

with one_line():
    # A workflow that imports this one gives only changes to the default configuration.
    DEFAULTS = OPENING.defaults()
    OWN = [*changes(OPENING.contents, DEFAULTS, config), OPENING.given[1]]
    GOAL_ORIGIN = goal_origin(OWN)  # before the defaults join what was configured
    update_config(DEFAULTS, config)
    for further in (defaults_of_programs(OWN), *OWN):
        update_config(DEFAULTS, further)
    config.update(OPENING.as_schema_says(with_own_datasets(DEFAULTS, OWN), "config"))
    EXPERIMENT = read_experiment(config, *OPENING.resources)
    RESULTS = OPENING.begin(EXPERIMENT.name, EXPERIMENT.source)
SYSTEM, SETTINGS = EXPERIMENT.system, EXPERIMENT.settings
# The launches of runs that are missing at the start, by the folder of a run. In a job
# all runs are there that it reads.
IS_COMPLETE = OPENING.is_job or EXPERIMENT.simulated
LAUNCHES = {} if IS_COMPLETE else missing_launches(EXPERIMENT, Path(RESULTS))
START = Start(EXPERIMENT, Path(RESULTS), SNAKEMAKE, logger.info, logger.warning)
RUNS = Runs(EXPERIMENT, RESULTS, LAUNCHES)
JOBS = Jobs(
    RUNS,
    LAUNCHES,
    scripts=OPENING.from_here(SCRIPTS),
    native=OPENING.of_clone("results/native"),
    sources=OPENING.of_workflow("native"),
    batch_jobs=str(START.batch_jobs),
    is_submitted=OPENING.is_remote_job,
)
MODELS, COMPARISONS = Models(RUNS), Comparisons(RUNS)
PAPER = OPENING.of_clone("resources/paper/claims.yaml")
POLICY_CLAIMS = OPENING.of_clone("resources/paper/policy_claims.yaml")
FIGURES = ExperimentFigures(RUNS, MODELS, COMPARISONS, POLICY_CLAIMS)
DECLARED = declared_figures("experiment")
REPORTED = FIGURES.reported(DECLARED)
# Titles of the figures of the report, by the names of their files.
TITLES = dict(item for one in REPORTED for item in FIGURES.titles(one).items())


# Of an experiment: `<tables>/breakdown.parquet`, `<logs>/plot_breakdown.log`.
pathvars:
    **OPENING.pathvars,


# Jobs on other machines need the variables in the path of the GFS.
envvars:
    *filter(os.environ.get, SYSTEM.gfs.variables),


wildcard_constraints:
    scenario="|".join(re.escape(one.name) for one in EXPERIMENT.all_points),
    sweep="|".join(EXPERIMENT.sweeps),
    nth=r"\d+",
    cache_rate="|".join({f"{point.cache_rate_percent:03d}" for point in RUNS.points}),
    repetition="|".join({str(point.repetition) for point in RUNS.points}),
    dataset="|".join(EXPERIMENT.datasets),
    calibration="|".join(SETTINGS["model"]["calibrations"]),
    n_osts=r"\d+",


include: "audit.smk"
include: "breakdown.smk"
include: "estimate.smk"
include: "figures.smk"
include: "policies.smk"
include: "ideal.smk"
include: "limits.smk"
include: "summary.smk"
include: "explorer.smk"
include: "scorecard.smk"
include: "report.smk"
include: "model.smk"
include: "truth.smk"
include: "predict.smk"
include: "nodes.smk"
include: "accuracy.smk"
include: "unknown.smk"


if EXPERIMENT.simulated:

    include: "simulate.smk"

else:

    include: "dataset.smk"
    include: "benchmark.smk"
    include: "sums.smk"


if OPENING.is_job:  # its inputs are there
    try_to(SNAKEMAKE.plan_this_job_only, logger.warning)
if not OPENING.is_remote_job:
    with one_line():
        START.check_configuration(OPENING.is_job)


rule all:
    default_target: True
    input:
        figure_files(*TITLES),
        [] if EXPERIMENT.runs_program else rules.scorecard.input,
        rules.explorer.input,
        rules.report.input,
        rules.tables.input,
        RUNS.summed("background"),
        STORAGE_TIME,
        SUMMARY,
        ["<experiment>/policies/claims.md"] * COMPARISONS.scores_claims,
        RUNS.peer_tables(),
        RUNS.program_tables(),
        rules.nodes.input if COMPARISONS.has_nodes else [],
        rules.accuracy.input if COMPARISONS.accuracy_tests() else [],
        RUNS.if_measured(RUNS.files("audit.json")),
        RUNS.of_launches(
            RUNS.if_measured(RUNS.files("run.json") + RUNS.files(RUNS.log))
        ),


onstart:
    with one_line():
        START.before_jobs()
    WATCH.wait_while_jobs_run()


onsuccess:
    START.after_success()


onerror:
    START.after_failure()
