"""The rule that sums up the sweep of a program on the terminal, before any figure.

It reads the runs themselves, so it waits for their audits only, and not for the tables
of the sweep.
"""


rule summarise_sweep:
    input:
        runs=when_launched(run_files("run.json")),
        epochs=when_launched(run_files("epochs.parquet")),
        statements=when_launched(run_files("statements.parquet")),
        other_time=when_launched(run_files("other_time.parquet")),
        audits=when_launched(run_files("audit.json")),  # only audited runs count
        ideal_runs=when_launched(ideal_files("run.json")),
        ideal_epochs=when_launched(ideal_files("epochs.parquet")),
        ideal_other_time=when_launched(ideal_files("other_time.parquet")),
        ideal_audits=when_launched(ideal_files("audit.json")),
        library=library("summarise_sweep"),
    output:
        f"{RESULTS}/summary.txt",
    log:
        f"{LOGS}/summarise_sweep.log",
    priority: 2  # before all that can be made of the runs
    localrule: True
    conda:
        "../../environment.yml"
    resources:
        terminal="log",
    params:
        allow_mixed=SETTINGS["allow_mixed"],
        epoch=SETTINGS["figures"]["epoch"],
        dataset_titles=DATASET_TITLES,
    message:
        "Summing up the sweep."
    script:
        "../scripts/summarise_sweep.py"


# Of a program of the user: others have no statements.
SUMMARY = [rules.summarise_sweep.output[0]] * EXPERIMENT.runs_program
