"""Rules that estimate I/O time under hypothetical storage improvements."""

SEARCH = SETTINGS["whatif"]["search"]
IMPROVEMENT_GRID = {
    key: SEARCH[key] for key in ("max_improvement_percent", "step_percent")
}


rule estimate_improvements:
    input:
        io_time=f"{RESULTS}/tables/io_time.parquet",
        library=library(
            "estimate_improvements", "breakdown", "whatif", "io_class", "tables"
        ),
    output:
        estimates=f"{RESULTS}/tables/estimates.parquet",
    log:
        f"{LOGS}/estimate_improvements.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        epoch=SETTINGS["figures"]["epoch"],
        improvements=SETTINGS["figures"]["improvements"],
        pairs=SETTINGS["figures"]["pairs"],
        grid=IMPROVEMENT_GRID,
    message:
        "Estimating the I/O time of improved storage."
    script:
        "../scripts/estimate_improvements.py"


rule search_combinations:
    input:
        io_time=f"{RESULTS}/tables/io_time.parquet",
        epochs=f"{RESULTS}/tables/epochs.parquet",
        library=library(
            "search_combinations",
            "breakdown",
            "search",
            "whatif",
            "io_class",
            "tables",
        ),
    output:
        goals=f"{RESULTS}/tables/goals.parquet",
        combinations=f"{RESULTS}/tables/combinations.parquet",
    log:
        f"{LOGS}/search_combinations.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        goal=SETTINGS["whatif"]["goal"],
        search=SEARCH,
        dataset_bytes={
            name: dataset.n_files * dataset.file_size_bytes
            for name, dataset in EXPERIMENT.datasets.items()
        },
    message:
        "Searching the combinations of improvements that meet the goal."
    script:
        "../scripts/search_combinations.py"


rule tables:
    input:
        expand(
            f"{RESULTS}/tables/{{table}}.parquet",
            table=[
                "epochs",
                "io_time",
                "breakdown",
                "spread",
                "estimates",
                "goals",
                "combinations",
            ],
        ),
