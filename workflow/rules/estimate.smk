"""Rules that estimate I/O time under hypothetical storage improvements."""


rule estimate_improvements:
    input:
        io_time="<tables>/io_time.parquet",
        library=OPENING.library("estimate_improvements"),
    output:
        estimates="<tables>/estimates.parquet",
    log:
        "<logs>/estimate_improvements.log",
    params:
        epoch=SETTINGS["figures"]["epoch"],
        improvements=SETTINGS["figures"]["improvements"],
        pairs=SETTINGS["figures"]["pairs"],
        grid=FIGURES.grid,
    message:
        "Estimating the I/O time of improved storage."
    script:
        "../scripts/estimate_improvements.py"


if MODELS.estimates_by_model:

    rule estimate_by_model:
        input:
            io_time="<tables>/io_time.parquet",
            epochs="<tables>/epochs.parquet",
            devices=MODELS.of_estimates("devices.yaml"),
            manifest=MODELS.manifest(MODELS.scenario),
            uncertainty=MODELS.of_estimates("uncertainty.json"),
            library=OPENING.library("estimate_by_model"),
        output:
            estimates="<tables>/estimates_model.parquet",
        log:
            "<logs>/estimate_by_model.log",
        priority: 1  # figures wait for it
        params:
            description=MODELS.description(MODELS.scenario),
            model=SETTINGS["model"]["whatif"],
            epoch=SETTINGS["figures"]["epoch"],
            scenario=SETTINGS["figures"]["scenario"],
            improvements=SETTINGS["figures"]["improvements"],
            pairs=SETTINGS["figures"]["pairs"],
            grid=FIGURES.grid,
        message:
            "Estimating the I/O time of improved storage by the model."
        script:
            "../scripts/estimate_by_model.py"


if MODELS.stalls:

    rule estimate_stalls:
        input:
            devices=MODELS.of_calibration("devices.yaml"),
            manifests=MODELS.manifests(EXPERIMENT.stalling),
            library=OPENING.library("estimate_stalls"),
        output:
            stalls="<tables>/class_stalls.parquet",
        log:
            "<logs>/estimate_stalls.log",
        priority: 1  # figures wait for it
        resources:
            terminal="progress",
        params:
            scenarios=MODELS.stalling,
            epoch=SETTINGS["figures"]["epoch"],
        message:
            "Estimating by the model how long processes wait for each class."
        script:
            "../scripts/estimate_stalls.py"


if EXPERIMENT.has_utilisation_goal:

    rule search_by_model:
        input:
            io_time="<tables>/io_time.parquet",
            epochs="<tables>/epochs.parquet",
            devices=MODELS.of_estimates("devices.yaml"),
            manifest=MODELS.manifest(MODELS.scenario),
            estimates=MODELS.estimates_by_model,  # what figure 4 shows
            library=OPENING.library("search_by_model"),
        output:
            goals=table("<tables>/goals.parquet", "Goals"),
            combinations=table(
                "<tables>/combinations.parquet", "Improvements that meet the goal"
            ),
            estimates="<tables>/estimates_cheapest.parquet",
        log:
            "<logs>/search_by_model.log",
        priority: 1  # figures wait for it
        params:
            description=MODELS.description(MODELS.scenario),
            percent=MODELS.goal_percent,
            search=SETTINGS["whatif"]["search"],
            epoch=SETTINGS["figures"]["epoch"],
            scenario=SETTINGS["figures"]["scenario"],
        message:
            "Searching the improvements that meet the goal by the model."
        script:
            "../scripts/search_by_model.py"

else:

    rule search_combinations:
        input:
            io_time="<tables>/io_time.parquet",
            epochs="<tables>/epochs.parquet",
            manifests=[
                RUNS.manifest_of(one) for one in EXPERIMENT.sweep if one.runs_program
            ],
            library=OPENING.library("search_combinations"),
        output:
            goals=table("<tables>/goals.parquet", "Goals"),
            combinations=table(
                "<tables>/combinations.parquet", "Improvements that meet the goal"
            ),
        log:
            "<logs>/search_combinations.log",
        params:
            goal=MODELS.time_goal,
            search=SETTINGS["whatif"]["search"],
            dataset_bytes={
                name: dataset.n_files * dataset.file_size_bytes
                for name, dataset in EXPERIMENT.datasets.items()
                if not EXPERIMENT.runs_program
            },
            listed=[one.dataset for one in EXPERIMENT.sweep if one.runs_program],
        message:
            "Searching the combinations of improvements that meet the goal."
        script:
            "../scripts/search_combinations.py"


rule tables:
    input:
        MODELS.estimates,
        MODELS.stalls_of_training,
        RUNS.observations(),
        expand(
            "<tables>/{table}.parquet",
            table=[
                "epochs",
                "utilisation",
                "io_time",
                "breakdown",
                "spread",
                "estimates",
                "goals",
                "combinations",
                "limits",
            ],
        ),
