"""Rules that draw the paper's four figures; fig1 ... fig4 draw one."""

PROVENANCE = (
    f"{EXPERIMENT.provenance}, system {SYSTEM.name} ({SYSTEM.description}), "
    f"{SYSTEM.n_processes} processes on {SYSTEM.n_nodes} nodes"
)
DATASET_TITLES = {name: dataset.title for name, dataset in EXPERIMENT.datasets.items()}
SCENARIOS = [asdict(scenario) for scenario in EXPERIMENT.sweep]


rule plot_execution_and_io_time:
    input:
        epochs=f"{RESULTS}/tables/epochs.parquet",
        io_time=f"{RESULTS}/tables/io_time.parquet",
        library=library(
            "plot_execution_and_io_time",
            "plot",
            "breakdown",
            "whatif",
            "io_class",
            "tables",
        ),
    output:
        **figure("fig1_execution_and_io_time"),
    log:
        f"{LOGS}/plot_execution_and_io_time.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        scenarios=SCENARIOS,
        provenance=PROVENANCE,
        dataset_titles=DATASET_TITLES,
    message:
        "Drawing figure 1, execution time and I/O time."
    script:
        "../scripts/plot_execution_and_io_time.py"


rule plot_breakdown:
    input:
        breakdown=f"{RESULTS}/tables/breakdown.parquet",
        library=library(
            "plot_breakdown", "plot", "breakdown", "whatif", "io_class", "tables"
        ),
    output:
        **figure("fig2_breakdown"),
    log:
        f"{LOGS}/plot_breakdown.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        epoch=SETTINGS["figures"]["epoch"],
        scenarios=SCENARIOS,
        provenance=PROVENANCE,
        dataset_titles=DATASET_TITLES,
    message:
        "Drawing figure 2, the breakdown of the slowest process."
    script:
        "../scripts/plot_breakdown.py"


rule plot_improvement:
    input:
        io_time=f"{RESULTS}/tables/io_time.parquet",
        library=library(
            "plot_improvement", "plot", "breakdown", "whatif", "io_class", "tables"
        ),
    output:
        **figure("fig3_improvement"),
    log:
        f"{LOGS}/plot_improvement.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        epoch=SETTINGS["figures"]["epoch"],
        scenario=SETTINGS["figures"]["scenario"],
        improvements=SETTINGS["figures"]["improvements"],
        provenance=PROVENANCE,
        dataset_titles=DATASET_TITLES,
    message:
        "Drawing figure 3, the breakdown after an improvement."
    script:
        "../scripts/plot_improvement.py"


rule plot_sufficient_combinations:
    input:
        estimates=f"{RESULTS}/tables/estimates.parquet",
        library=library(
            "plot_sufficient_combinations",
            "plot",
            "breakdown",
            "whatif",
            "io_class",
            "tables",
        ),
    output:
        **figure("fig4_sufficient_combinations"),
    log:
        f"{LOGS}/plot_sufficient_combinations.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        epoch=SETTINGS["figures"]["epoch"],
        scenario=SETTINGS["figures"]["scenario"],
        grid=IMPROVEMENT_GRID,
        goal_s=SETTINGS["figures"]["goal"]["io_time_s"],
        provenance=PROVENANCE,
        dataset_titles=DATASET_TITLES,
    message:
        "Drawing figure 4, the improvements that meet the goal."
    script:
        "../scripts/plot_sufficient_combinations.py"


rule fig1:
    input:
        rules.plot_execution_and_io_time.output,


rule fig2:
    input:
        rules.plot_breakdown.output,


rule fig3:
    input:
        rules.plot_improvement.output,


rule fig4:
    input:
        rules.plot_sufficient_combinations.output,
