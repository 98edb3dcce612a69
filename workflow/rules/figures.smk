"""Rules that draw the figures: the paper's four and two more; fig1 ... fig6 draw one."""

PROVENANCE = (
    f"{EXPERIMENT.provenance}, system {SYSTEM.name} ({SYSTEM.description}), "
    f"{count_words(SYSTEM.n_processes, 'process', 'processes', separator='')} on "
    f"{count_words(SYSTEM.n_nodes, 'node', separator='')}"
)
DATASET_TITLES = {name: dataset.title for name, dataset in EXPERIMENT.datasets.items()}
SCENARIOS = [scenario.keys for scenario in EXPERIMENT.sweep]
PAIRS = {"_".join(pair): pair for pair in SETTINGS["figures"]["pairs"]}

# Titles of the figures in the reports; workflow/report explains each figure.
FIGURES = {
    "fig1_execution_and_io_time": "Figure 1: execution time and I/O time",
    "fig2_breakdown": "Figure 2: breakdown of the slowest process",
    "fig3_improvement": "Figure 3: if one class were faster",
    **{
        f"fig4_{name}": "Figure 4: improvements of "
        f"{' and '.join(IOClass(io_class).label for io_class in pair)}"
        for name, pair in PAIRS.items()
    },
    "fig5_cheapest": "Figure 5: the cheapest improvement that meets the goal",
    "fig6_stalls": "Figure 6: computation, processor and stall",
    "policies": "Policies compared",
    "loaders": "Files and one LMDB file compared",
    "nodes": "The same processes on more nodes",
    "scorecard": "Scorecard: which claims of the paper hold",
    "prediction": "Predicted and measured I/O time",
    "whatif_truth": "What faster devices really bring",
    "accuracy": "Does partitioning cost accuracy?",
}


wildcard_constraints:
    pair="|".join(PAIRS),


rule plot_execution_and_io_time:
    input:
        epochs=f"{TABLES}/epochs.parquet",
        io_time=f"{TABLES}/io_time.parquet",
        spread=f"{TABLES}/spread.parquet",
        observations=observations(),
        library=library("plot_execution_and_io_time"),
    output:
        **figure("fig1_execution_and_io_time", FIGURES),
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
        breakdown=f"{TABLES}/breakdown.parquet",
        spread=f"{TABLES}/spread.parquet",
        stalls=STALLS_OF_TRAINING,
        limits=LIMITS,
        observations=observations(),
        library=library("plot_breakdown"),
    output:
        **figure("fig2_breakdown", FIGURES),
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
        estimates=[ESTIMATES[method] for method in METHODS],
        goals=f"{TABLES}/goals.parquet" if BY_UTILISATION else [],
        spread=f"{TABLES}/spread.parquet",
        limits=LIMITS,
        observations=observations(),
        library=library("plot_improvement"),
    output:
        **figure("fig3_improvement", FIGURES),
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
        model=MODEL_WORDS,
        dataset_titles=DATASET_TITLES,
    message:
        "Drawing figure 3, the breakdown after an improvement."
    script:
        "../scripts/plot_improvement.py"


rule plot_sufficient_combinations:
    input:
        estimates=[ESTIMATES[method] for method in METHODS],
        goals=f"{TABLES}/goals.parquet",
        spread=f"{TABLES}/spread.parquet",
        limits=LIMITS,
        observations=observations(),
        library=library("plot_sufficient_combinations"),
    output:
        **figure("fig4_{pair}", FIGURES),
    log:
        f"{LOGS}/plot_sufficient_combinations/{{pair}}.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        epoch=SETTINGS["figures"]["epoch"],
        scenario=SETTINGS["figures"]["scenario"],
        classes=lambda wildcards: PAIRS[wildcards.pair],
        grid=IMPROVEMENT_GRID,
        cost_per_percent=SEARCH["cost_per_percent"],
        provenance=PROVENANCE,
        model=MODEL_WORDS,
        dataset_titles=DATASET_TITLES,
    message:
        "Drawing figure 4, the improvements that meet the goal: {wildcards.pair}."
    script:
        "../scripts/plot_sufficient_combinations.py"


rule plot_cheapest_combination:
    input:
        io_time=f"{TABLES}/io_time.parquet",
        goals=f"{TABLES}/goals.parquet",
        combinations=f"{TABLES}/combinations.parquet",
        estimates=f"{TABLES}/estimates_cheapest.parquet" if BY_UTILISATION else [],
        spread=f"{TABLES}/spread.parquet",
        limits=LIMITS,
        observations=observations(),
        library=library("plot_cheapest_combination"),
    output:
        **figure("fig5_cheapest", FIGURES),
    log:
        f"{LOGS}/plot_cheapest_combination.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        epoch=SETTINGS["figures"]["epoch"],
        scenario=SETTINGS["figures"]["scenario"],
        max_improvement_percent=SEARCH["max_improvement_percent"],
        provenance=PROVENANCE,
        model=MODEL_WORDS if BY_UTILISATION else "",
        dataset_titles=DATASET_TITLES,
    message:
        "Drawing figure 5, the cheapest improvements that meet the goal."
    script:
        "../scripts/plot_cheapest_combination.py"


rule plot_stalls:
    input:
        storage_time=f"{TABLES}/storage_time.parquet",
        epochs=f"{TABLES}/epochs.parquet",
        stalls=STALLS,
        observations=observations(),
        library=library("plot_stalls"),
    output:
        **figure("fig6_stalls", FIGURES),
    log:
        f"{LOGS}/plot_stalls.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        epoch=SETTINGS["figures"]["epoch"],
        may_hide=EXPERIMENT.may_hide_io,
        scenarios=SCENARIOS,
        goal=SETTINGS["whatif"]["goal"],
        provenance=PROVENANCE,
        dataset_titles=DATASET_TITLES,
    message:
        "Drawing figure 6, computation, processor and stall."
    script:
        "../scripts/plot_stalls.py"


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
        expand(rules.plot_sufficient_combinations.output, pair=PAIRS),


rule fig5:
    input:
        rules.plot_cheapest_combination.output,


rule fig6:
    input:
        if_ideal(rules.plot_stalls.output),
