"""Rules that sum up the sweep of a program, on the terminal and as a file of DLIO.

They read the runs themselves, so they wait for their audits only, and not for the
tables of the sweep.
"""


rule write_workload:
    input:
        runs=MODELS.read_runs("run.json"),
        io_time=MODELS.read_runs("io_time.parquet"),  # only audited runs count
        ideal_runs=MODELS.read_runs("run.json", IDEAL_SWEEP),
        ideal_io_time=MODELS.read_runs("io_time.parquet", IDEAL_SWEEP),
        manifest=MODELS.read_manifest,
        library=OPENING.library("write_workload"),
    output:
        "<experiment>/dlio/workload/{dataset}.yaml",
    log:
        "<logs>/write_workload/{dataset}.log",
    priority: 2  # before all that can be made of the runs
    message:
        "Writing the workload of {wildcards.dataset} for DLIO."
    script:
        "../scripts/write_workload.py"


rule summarise_sweep:
    input:
        runs=RUNS.of_launches(RUNS.files("run.json")),
        epochs=RUNS.of_launches(RUNS.files("epochs.parquet")),
        statements=RUNS.of_launches(RUNS.files("statements.parquet")),
        other_time=RUNS.of_launches(RUNS.files("other_time.parquet")),
        audits=RUNS.of_launches(RUNS.files("audit.json")),  # only audited runs count
        ideal_runs=RUNS.of_launches(RUNS.files("run.json", IDEAL_SWEEP)),
        ideal_epochs=RUNS.of_launches(RUNS.files("epochs.parquet", IDEAL_SWEEP)),
        ideal_other_time=RUNS.of_launches(RUNS.files("other_time.parquet", IDEAL_SWEEP)),
        workloads=MODELS.workload_files,
        ideal_audits=RUNS.of_launches(RUNS.files("audit.json", IDEAL_SWEEP)),
        library=OPENING.library("summarise_sweep"),
    output:
        "<experiment>/summary.txt",
    log:
        "<logs>/summarise_sweep.log",
    priority: 2  # before all that can be made of the runs
    resources:
        terminal="log",
    params:
        allow_mixed=SETTINGS["allow_mixed"],
        epoch=SETTINGS["figures"]["epoch"],
        dataset_titles=FIGURES.dataset_titles,
    message:
        "Summing up the sweep."
    script:
        "../scripts/summarise_sweep.py"


# Of a program of the user: others have no statements.
SUMMARY = [rules.summarise_sweep.output[0]] * EXPERIMENT.runs_program
