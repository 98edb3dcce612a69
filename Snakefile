"""tierscope: I/O time of distributed training on two storage tiers."""

from snakemake.utils import min_version

min_version("9.27.1")


configfile: "config/config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/audit.smk"
include: "workflow/rules/breakdown.smk"
include: "workflow/rules/estimate.smk"
include: "workflow/rules/figures.smk"


if EXPERIMENT.simulated:

    include: "workflow/rules/simulate.smk"

else:

    include: "workflow/rules/dataset.smk"
    include: "workflow/rules/benchmark.smk"


RUN_FILES = ("run.json", "log.darshan", "audit.json")


rule all:
    default_target: True
    input:
        rules.fig1.input,
        rules.fig2.input,
        rules.fig3.input,
        rules.fig4.input,
        rules.tables.input,
        [] if EXPERIMENT.simulated else [run_files(name) for name in RUN_FILES],


onstart:
    lock_experiment()


onsuccess:
    print(f"Figures: {RESULTS}/figures  Tables: {RESULTS}/tables", file=sys.stderr)


onerror:
    print(
        f"A job failed; its log is named above. Start again to go on.",
        file=sys.stderr,
    )
