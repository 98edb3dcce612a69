"""An experiment: all rules that measure, simulate, compute, draw, and what is made of them."""


include: "common.smk"
include: "launch_common.smk"
include: "policies_common.smk"
include: "audit.smk"
include: "breakdown.smk"
include: "estimate.smk"
include: "policies.smk"
include: "ideal.smk"
include: "limits.smk"
include: "summary.smk"
include: "nodes.smk"
include: "accuracy.smk"
include: "figures_common.smk"
include: "figures.smk"
include: "explorer.smk"
include: "scorecard.smk"
include: "report.smk"
include: "model_common.smk"
include: "model.smk"
include: "truth.smk"
include: "predict.smk"
include: "unknown.smk"


if EXPERIMENT.simulated:

    include: "simulate_common.smk"
    include: "simulate.smk"

else:

    include: "dataset.smk"
    include: "benchmark.smk"
    include: "sums.smk"


if IS_JOB:  # its inputs are there
    try_to(SNAKEMAKE.plan_this_job_only, logger.warning)
if not IS_REMOTE_JOB:
    refuse_or(START.check_configuration, IS_JOB)


rule all:
    default_target: True
    input:
        figure_files(*REPORT_FIGURES),
        [] if EXPERIMENT.runs_program else rules.scorecard.input,
        rules.explorer.input,
        rules.report.input,
        rules.tables.input,
        background_table(),
        STORAGE_TIME,
        SUMMARY,
        f"{COMPARISON}/claims.md" if SCORES_CLAIMS else [],
        peer_tables(),
        program_tables(),
        rules.nodes.input if EXPERIMENT.sweeps["nodes"] else [],
        rules.accuracy.input if accuracy_tests() else [],
        if_measured(run_files("audit.json")),
        when_launched(if_measured(run_files("run.json") + run_files(LOG))),


onstart:
    refuse_or(START.before_jobs)


onsuccess:
    START.after_success()


onerror:
    START.after_failure()
