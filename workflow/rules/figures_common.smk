"""What the figures of an experiment are drawn from."""

# By the names that figures declare.
IN_REPORT = ["always", *["ideal"] * IDEAL, *COMPARED]
FIGURE_INPUTS = {
    "estimates": [ESTIMATES[method] for method in METHODS],
    "utilisation_goals": f"{TABLES}/goals.parquet" if BY_UTILISATION else [],
    "estimates_cheapest": (
        f"{TABLES}/estimates_cheapest.parquet" if BY_UTILISATION else []
    ),
    "stalls": STALLS,
    "stalls_of_training": STALLS_OF_TRAINING,
    "policy_claims": POLICY_CLAIMS,
}
FIGURE_SETTINGS = {
    "epoch": SETTINGS["figures"]["epoch"],
    "scenario": SETTINGS["figures"]["scenario"],
    "scenarios": [scenario.keys for scenario in EXPERIMENT.sweep],
    "improvements": SETTINGS["figures"]["improvements"],
    "max_spread_percent": SETTINGS["figures"]["max_spread_percent"],
    "classes": lambda wildcards: PAIRS[wildcards.pair],
    "grid": IMPROVEMENT_GRID,
    "cost_per_percent": SEARCH["cost_per_percent"],
    "max_improvement_percent": SEARCH["max_improvement_percent"],
    "goal": SETTINGS["whatif"]["goal"],
    "model": MODEL_WORDS,
    "may_hide": EXPERIMENT.may_hide_io,
    "scene": SCENE,
    "files_and_databases": FILES_AND_DATABASES,
    "policy": SETTINGS["figures"]["scenario"]["policy"],
    "study": TRAINING_STUDY,
}
# The paper's figures and the comparisons that the sweep allows, with their titles. The
# report has the scorecard as a table. Studies are separate targets.
REPORTED = [one for when in IN_REPORT for one in DECLARED if one.in_report == when]
REPORT_FIGURES = {
    name: title for one in REPORTED for name, title in one.titles(PAIRS).items()
}


def figure_inputs(one):
    """Return the inputs of a declared figure."""
    sweep = one.folder if one.folder in EXPERIMENT.sweeps else MAIN_SWEEP
    return {
        **{
            name: f"{RESULTS}/{one.folder or MAIN_SWEEP}/{name}.parquet"
            for name in one.tables
        },
        **{name: FIGURE_INPUTS[name] for name in one.inputs},
        "observations": [] if one.source else observations(sweep),
    }


def figure_settings(one):
    """Return the parameters of a declared figure."""
    return {
        "provenance": NODES_PROVENANCE if one.folder == "nodes" else PROVENANCE,
        "dataset_titles": DATASET_TITLES,
        **{name: FIGURE_SETTINGS[name] for name in one.settings},
    }


def figure_target(one):
    """Return the files of a declared figure, or refuse it."""
    files = figure_files(*one.titles(PAIRS))
    return if_ideal(files) if one.in_report == "ideal" else files
