"""Rules that build the explorer, a page on which readers try improvements."""

EXPLORER_COMPUTATION = (
    "explorer_utilisation.vega.yaml" if BY_UTILISATION else "explorer.vega.yaml"
)


rule build_explorer:
    input:
        io_time=f"{TABLES}/io_time.parquet",
        epochs=f"{TABLES}/epochs.parquet",
        estimates=ESTIMATES[MODEL] if MODEL in METHODS else [],
        stalls=STALLS_OF_TRAINING,
        limits=LIMITS,
        page=from_here(WORKFLOW / "templates/explorer.html"),
        computation=from_here(WORKFLOW / "templates" / EXPLORER_COMPUTATION),
        observations=observations(),
        library=library("build_explorer"),
    output:
        explorer=page("explorer", "Explorer"),
    log:
        f"{LOGS}/build_explorer.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        experiment=EXPERIMENT.name,
        epoch=SETTINGS["figures"]["epoch"],
        scenario=SETTINGS["figures"]["scenario"],
        pairs=SETTINGS["figures"]["pairs"],
        method=METHODS[0],
        model=MODEL_WORDS,
        goal=TIME_GOAL,
        percent=GOAL_PERCENT,
        search=SETTINGS["whatif"]["search"],
        provenance=PROVENANCE,
        dataset_titles=DATASET_TITLES,
    message:
        "Building the explorer."
    script:
        "../scripts/build_explorer.py"


rule explorer:
    input:
        rules.build_explorer.output,
