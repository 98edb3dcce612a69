"""Rules that compare the runs with ideal ones, whose storage costs nothing.

The runs are those of sweep `ideal`, which an experiment has with `sweep.ideal: true`.
"""

IDEAL_RUNS = f"{RESULTS}/{IDEAL_SWEEP}"


use rule compare_run_facts as compare_pair_facts with:
    input:
        runs=when_launched(run_files("run.json") + ideal_files("run.json")),
        library=library("compare_run_facts"),
    output:
        f"{IDEAL_RUNS}/pair_facts.parquet",
    log:
        f"{LOGS}/compare_pair_facts.log",
    message:
        "Comparing what runs and ideal runs were measured with."


rule compare_ideal:
    input:
        pair_facts=if_measured(rules.compare_pair_facts.output[0]),
        epochs=f"{TABLES}/epochs.parquet",
        ideal_epochs=f"{IDEAL_RUNS}/epochs.parquet",
        other_time=summed_tables("other_time"),
        ideal_other_time=summed_tables("other_time", sweep=IDEAL_SWEEP),
        observations=observations(),
        ideal_observations=observations(IDEAL_SWEEP),
        library=library("compare_ideal"),
    output:
        table=table(f"{TABLES}/storage_time.parquet", "What storage costs"),
        text=f"{IDEAL_RUNS}/summary.txt",
    log:
        f"{LOGS}/compare_ideal.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        epoch=SETTINGS["figures"]["epoch"],
        may_hide=EXPERIMENT.may_hide_io,
        provenance=PROVENANCE,
        dataset_titles=DATASET_TITLES,
    message:
        "Comparing the runs with ideal ones."
    script:
        "../scripts/compare_ideal.py"


# Its table, if there are ideal runs.
STORAGE_TIME = [rules.compare_ideal.output.table] * IDEAL


# The end of a start prints the text.
rule ideal:
    input:
        if_ideal(rules.compare_ideal.output),
