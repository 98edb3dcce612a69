"""Rules that estimate I/O time under hypothetical storage improvements."""

from tierscope.core.provenance import model_words
from tierscope.core.columns import MODEL, RULE

SEARCH = SETTINGS["whatif"]["search"]
# A goal of time; one of utilisation is the percent only.
TIME_GOAL = dict(SETTINGS["whatif"]["goal"])
GOAL_PERCENT = TIME_GOAL.pop("percent")
IMPROVEMENT_GRID = {
    key: SEARCH[key] for key in ("max_improvement_percent", "step_percent")
}
METHODS = EXPERIMENT.methods
BY_UTILISATION = EXPERIMENT.has_utilisation_goal
CALIBRATED = EXPERIMENT.used_calibration if MODEL in METHODS else None
MODEL_WORDS = ""
if MODEL in METHODS:
    MODEL_WORDS = model_words(SETTINGS["model"]["whatif"], CALIBRATED)
# The stall of each class by the model, where it can be told.
STALLS = [] if EXPERIMENT.why_no_stalls else f"{TABLES}/class_stalls.parquet"
# What limits is named by it only where computation may hide I/O time.
STALLS_OF_TRAINING = STALLS if EXPERIMENT.computes else []
LIMITS = f"{TABLES}/limits.parquet"  # what limits each point
ESTIMATES = {
    RULE: f"{TABLES}/estimates.parquet",
    MODEL: f"{TABLES}/estimates_model.parquet",
}


rule estimate_improvements:
    input:
        io_time=f"{TABLES}/io_time.parquet",
        library=library("estimate_improvements"),
    output:
        estimates=ESTIMATES[RULE],
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


if MODEL in METHODS:
    FIGURES_SCENARIO = Scenario(**SETTINGS["figures"]["scenario"])

    rule estimate_by_model:
        input:
            io_time=f"{TABLES}/io_time.parquet",
            epochs=f"{TABLES}/epochs.parquet",
            devices=f"{RESULTS}/model/{CALIBRATED}/devices.yaml" if CALIBRATED else [],
            manifest=model_manifest(FIGURES_SCENARIO),
            uncertainty=(
                f"{RESULTS}/model/{CALIBRATED}/uncertainty.json" if CALIBRATED else []
            ),
            library=library("estimate_by_model"),
        output:
            estimates=ESTIMATES[MODEL],
        log:
            f"{LOGS}/estimate_by_model.log",
        priority: 1  # figures wait for it
        localrule: True
        conda:
            "../../environment.yml"
        params:
            description=model_description(FIGURES_SCENARIO),
            model=SETTINGS["model"]["whatif"],
            epoch=SETTINGS["figures"]["epoch"],
            scenario=SETTINGS["figures"]["scenario"],
            improvements=SETTINGS["figures"]["improvements"],
            pairs=SETTINGS["figures"]["pairs"],
            grid=IMPROVEMENT_GRID,
        message:
            "Estimating the I/O time of improved storage by the model."
        script:
            "../scripts/estimate_by_model.py"


if STALLS:

    rule estimate_stalls:
        input:
            devices=(
                f"{RESULTS}/model/{EXPERIMENT.used_calibration}/devices.yaml"
                if EXPERIMENT.used_calibration
                else []
            ),
            manifests=model_manifests(EXPERIMENT.stalling),
            library=library("estimate_stalls"),
        output:
            stalls=STALLS,
        log:
            f"{LOGS}/estimate_stalls.log",
        priority: 1  # figures wait for it
        localrule: True
        conda:
            "../../environment.yml"
        resources:
            terminal="progress",
        params:
            scenarios=[
                {
                    "name": scenario.name,
                    "description": model_description(scenario),
                    "points": list(map(asdict, EXPERIMENT.sweep[scenario])),
                }
                for scenario in EXPERIMENT.stalling
            ],
            epoch=SETTINGS["figures"]["epoch"],
        message:
            "Estimating by the model how long processes wait for each class."
        script:
            "../scripts/estimate_stalls.py"


if BY_UTILISATION:

    rule search_by_model:
        input:
            io_time=f"{TABLES}/io_time.parquet",
            epochs=f"{TABLES}/epochs.parquet",
            devices=f"{RESULTS}/model/{CALIBRATED}/devices.yaml" if CALIBRATED else [],
            manifest=model_manifest(FIGURES_SCENARIO),
            estimates=ESTIMATES[MODEL],  # what figure 4 shows
            library=library("search_by_model"),
        output:
            goals=table(f"{TABLES}/goals.parquet", "Goals"),
            combinations=table(
                f"{TABLES}/combinations.parquet", "Improvements that meet the goal"
            ),
            estimates=f"{TABLES}/estimates_cheapest.parquet",
        log:
            f"{LOGS}/search_by_model.log",
        priority: 1  # figures wait for it
        localrule: True
        conda:
            "../../environment.yml"
        params:
            description=model_description(FIGURES_SCENARIO),
            percent=GOAL_PERCENT,
            search=SEARCH,
            epoch=SETTINGS["figures"]["epoch"],
            scenario=SETTINGS["figures"]["scenario"],
        message:
            "Searching the improvements that meet the goal by the model."
        script:
            "../scripts/search_by_model.py"

else:

    rule search_combinations:
        input:
            io_time=f"{TABLES}/io_time.parquet",
            epochs=f"{TABLES}/epochs.parquet",
            manifests=[manifest_of(one) for one in EXPERIMENT.sweep if one.runs_program],
            library=library("search_combinations"),
        output:
            goals=table(f"{TABLES}/goals.parquet", "Goals"),
            combinations=table(
                f"{TABLES}/combinations.parquet", "Improvements that meet the goal"
            ),
        log:
            f"{LOGS}/search_combinations.log",
        localrule: True
        conda:
            "../../environment.yml"
        params:
            goal=TIME_GOAL,
            search=SEARCH,
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
        [ESTIMATES[method] for method in METHODS],
        STALLS_OF_TRAINING,
        observations(),
        expand(
            f"{TABLES}/{{table}}.parquet",
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
