"""tierscope: I/O time of distributed training on two storage tiers."""

from snakemake.utils import min_version

min_version("9.27.1")


configfile: "config/config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/start.smk"
include: "workflow/rules/launch_common.smk"
include: "workflow/rules/policies_common.smk"
include: "workflow/rules/audit.smk"
include: "workflow/rules/breakdown.smk"
include: "workflow/rules/estimate.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/policies.smk"
include: "workflow/rules/explorer.smk"
include: "workflow/rules/scorecard.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/model_common.smk"
include: "workflow/rules/model.smk"
include: "workflow/rules/truth.smk"
include: "workflow/rules/predict.smk"
include: "workflow/rules/nodes.smk"
include: "workflow/rules/accuracy.smk"
include: "workflow/rules/unknown.smk"


if EXPERIMENT.simulated:

    include: "workflow/rules/simulate.smk"

else:

    include: "workflow/rules/dataset.smk"
    include: "workflow/rules/benchmark.smk"


if not (workflow.remote_exec or workflow.subprocess_exec):
    note_deleted_runs()

RUN_FILES = ("run.json", "log.darshan", "audit.json")


rule all:
    default_target: True
    input:
        rules.fig1.input,
        rules.fig2.input,
        rules.fig3.input,
        rules.fig4.input,
        rules.fig5.input,
        rules.scorecard.input,
        rules.explorer.input,
        rules.report.input,
        rules.tables.input,
        background_table(),
        COMPARISON_FIGURES,
        f"{COMPARISON}/claims.md" if COMPARED else [],
        peer_tables(),
        rules.nodes.input if EXPERIMENT.sweeps["nodes"] else [],
        rules.accuracy.input if accuracy_tests() else [],
        [] if EXPERIMENT.simulated else [run_files(name) for name in RUN_FILES],


onstart:
    start()


onsuccess:
    remove_staging_folders()
    logger.info(
        "\n".join([*why_no_estimates_by_the_model(), "  ".join(made_places())])
    )


onerror:
    end_batch_jobs()
    mark_out_of_date()
    logger.info(how_to_go_on())
