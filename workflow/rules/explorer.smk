"""Rules that build the explorer, a page on which readers try improvements."""


rule build_explorer:
    input:
        io_time="<tables>/io_time.parquet",
        epochs="<tables>/epochs.parquet",
        estimates=MODELS.estimates_by_model,
        stalls=MODELS.stalls_of_training,
        limits="<tables>/limits.parquet",
        templates=OPENING.templates("explorer"),
        observations=RUNS.observations(),
        library=OPENING.library("build_explorer"),
    output:
        explorer=page("explorer", "Explorer"),
    log:
        "<logs>/build_explorer.log",
    params:
        experiment=EXPERIMENT.name,
        epoch=SETTINGS["figures"]["epoch"],
        scenario=SETTINGS["figures"]["scenario"],
        pairs=SETTINGS["figures"]["pairs"],
        method=EXPERIMENT.methods[0],
        model=MODELS.words,
        goal=MODELS.time_goal,
        percent=MODELS.goal_percent,
        search=SETTINGS["whatif"]["search"],
        provenance=FIGURES.provenance,
        dataset_titles=FIGURES.dataset_titles,
    message:
        "Building the explorer."
    script:
        "../scripts/build_explorer.py"


rule explorer:
    input:
        rules.build_explorer.output,
