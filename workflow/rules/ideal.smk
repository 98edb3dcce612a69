"""Rules that compare the runs with ideal ones, whose storage costs nothing.

The runs are those of sweep `ideal`, which an experiment has with `sweep.ideal: true`.
"""


use rule compare_run_facts as compare_pair_facts with:
    input:
        runs=RUNS.of_launches(
            RUNS.files("run.json") + RUNS.files("run.json", IDEAL_SWEEP)
        ),
        library=OPENING.library("compare_run_facts"),
    output:
        "<experiment>/ideal/pair_facts.parquet",
    log:
        "<logs>/compare_pair_facts.log",
    message:
        "Comparing what runs and ideal runs were measured with."


rule compare_ideal:
    input:
        pair_facts=RUNS.if_measured(rules.compare_pair_facts.output[0]),
        epochs="<tables>/epochs.parquet",
        ideal_epochs="<experiment>/ideal/epochs.parquet",
        other_time=RUNS.summed("other_time"),
        ideal_other_time=RUNS.summed("other_time", sweep=IDEAL_SWEEP),
        observations=RUNS.observations(),
        ideal_observations=RUNS.observations(IDEAL_SWEEP),
        library=OPENING.library("compare_ideal"),
    output:
        table=table("<tables>/storage_time.parquet", "What storage costs"),
        text="<experiment>/ideal/summary.txt",
    log:
        "<logs>/compare_ideal.log",
    params:
        epoch=SETTINGS["figures"]["epoch"],
        may_hide=EXPERIMENT.may_hide_io,
        provenance=FIGURES.provenance,
        dataset_titles=FIGURES.dataset_titles,
    message:
        "Comparing the runs with ideal ones."
    script:
        "../scripts/compare_ideal.py"


# Its table, if there are ideal runs.
STORAGE_TIME = [rules.compare_ideal.output.table] * RUNS.has_ideal


# The end of a start prints the text.
rule ideal:
    input:
        refusing(rules.compare_ideal.output, COMPARISONS.refuse_without_ideal),
