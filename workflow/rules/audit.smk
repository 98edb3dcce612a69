"""Rules that read the logs, check the runs and sum up their I/O time.

The runs of a launch are audited together because Python takes longer to start than to
audit a small run. A run with its own launch and a simulated run have their own audit.
"""

# What an audit makes in the folder of a run; simulated runs have their I/O time.
AUDITED = {
    "file_records": ["file_records.parquet"],
    "io_time": RUNS.if_measured(["io_time.parquet"]),
    "audit": ["audit.json"],
} | {name: [f"{name}.parquet"] for name in RUNS.sums}

if EXPERIMENT.launches_several:
    for number, (scenario, points) in enumerate(EXPERIMENT.launches, start=1):
        runs = [f"{RESULTS}/runs/{scenario.name}/{point.path}" for point in points]

        rule:
            name:
                f"audit_run_{number}"
            input:
                logs=RUNS.of_launches(of_runs(runs, RUNS.log)),
                epochs=RUNS.of_launches(of_runs(runs, "epochs.parquet")),
                runs=RUNS.of_launches(of_runs(runs, "run.json")),
                manifest=RUNS.manifest_of(scenario),
                tables=RUNS.of_launches(RUNS.tables_of_kind(scenario, runs)),
                library=OPENING.library("audit_run"),
            output:
                **{name: of_runs(runs, *files) for name, files in AUDITED.items()},
            log:
                f"<logs>/audit_run/{number}-{scenario.name}.log",
            # The longest begins first, as most jobs wait for the last one.
            priority: 1 - 1 / len(points)
            params:
                limits=SETTINGS["audit"],
            message:
                f"Auditing {count_words(len(points), 'run')} of {scenario.name}."
            script:
                "../scripts/audit_run.py"

else:
    runs = ["<experiment>/runs/{scenario}/cache-{cache_rate}/rep-{repetition}"]

    rule audit_run:
        input:
            logs=lambda wildcards: [RUNS.of_run(RUNS.log)(wildcards)],
            epochs=lambda wildcards: [RUNS.of_run("epochs.parquet")(wildcards)],
            runs=lambda wildcards: [RUNS.of_run("run.json")(wildcards)],
            manifest=RUNS.manifest,
            tables=RUNS.run_tables,
            library=OPENING.library("audit_run"),
        output:
            **{name: of_runs(runs, *files) for name, files in AUDITED.items()},
        log:
            "<logs>/audit_run/{scenario}/cache-{cache_rate}_rep-{repetition}.log",
        params:
            limits=SETTINGS["audit"],
        message:
            "Auditing run {wildcards.scenario}, cache rate {wildcards.cache_rate} %."
        script:
            "../scripts/audit_run.py"


rule compare_run_facts:
    input:
        runs=RUNS.of_sweep("run.json"),
        audits=RUNS.of_sweep("audit.json"),  # only audited runs count
        library=OPENING.library("compare_run_facts"),
    output:
        "<experiment>/{sweep}/run_facts.parquet",
    log:
        "<logs>/compare_run_facts/{sweep}.log",
    params:
        allow_mixed=SETTINGS["allow_mixed"],
    message:
        "Comparing what the runs were measured with ({wildcards.sweep})."
    script:
        "../scripts/compare_run_facts.py"


rule collect_epochs:
    input:
        epochs=RUNS.of_sweep("epochs.parquet"),
        runs=RUNS.of_sweep("run.json"),
        audits=RUNS.if_measured(RUNS.of_sweep("audit.json")),
        run_facts=RUNS.if_measured("<experiment>/{sweep}/run_facts.parquet"),
        library=OPENING.library("collect_epochs"),
    output:
        epochs="<experiment>/{sweep}/epochs.parquet",
        utilisation="<experiment>/{sweep}/utilisation.parquet",
    log:
        "<logs>/collect_epochs/{sweep}.log",
    message:
        "Collecting the execution times of all runs ({wildcards.sweep})."
    script:
        "../scripts/collect_epochs.py"


rule collect_verdicts:
    input:
        epochs=RUNS.of_sweep("epochs.parquet"),
        runs=RUNS.of_sweep("run.json"),
        io_time=RUNS.of_sweep("io_time.parquet"),
        library=OPENING.library("collect_verdicts"),
    output:
        "<experiment>/{sweep}/verdicts.parquet",
    log:
        "<logs>/collect_verdicts/{sweep}.log",
    message:
        "Collecting where the reads of all runs came from ({wildcards.sweep})."
    script:
        "../scripts/collect_verdicts.py"


rule collect_certificate:
    input:
        runs=RUNS.of_sweep("run.json"),
        verdicts="<experiment>/{sweep}/verdicts.parquet",
        library=OPENING.library("collect_certificate"),
    output:
        "<experiment>/{sweep}/certificate.parquet",
    log:
        "<logs>/collect_certificate/{sweep}.log",
    message:
        "Certifying all runs of the program ({wildcards.sweep})."
    script:
        "../scripts/collect_certificate.py"


rule collect_drift:
    input:
        runs=RUNS.of_sweep("run.json"),
        library=OPENING.library("collect_drift"),
    output:
        "<experiment>/{sweep}/drift.parquet",
    log:
        "<logs>/collect_drift/{sweep}.log",
    params:
        limit=SETTINGS["figures"]["max_drift_percent"],
    message:
        "Comparing what the sentinel read at all runs ({wildcards.sweep})."
    script:
        "../scripts/collect_drift.py"


rule collect_io_time:
    input:
        io_time=RUNS.of_sweep("io_time.parquet"),
        run_facts=RUNS.if_measured("<experiment>/{sweep}/run_facts.parquet"),
        library=OPENING.library("collect_tables"),
    output:
        io_time="<experiment>/{sweep}/io_time.parquet",
    log:
        "<logs>/collect_io_time/{sweep}.log",
    message:
        "Collecting the I/O time of all runs ({wildcards.sweep})."
    script:
        "../scripts/collect_tables.py"


use rule collect_io_time as collect_background with:
    input:
        background=RUNS.of_sweep("background.parquet", "background"),
        run_facts=RUNS.if_measured("<experiment>/{sweep}/run_facts.parquet"),
        library=OPENING.library("collect_tables"),
    output:
        background="<experiment>/{sweep}/background.parquet",
    log:
        "<logs>/collect_background/{sweep}.log",
    message:
        "Collecting the copies of all runs ({wildcards.sweep})."


use rule collect_io_time as collect_peers with:
    input:
        stage_in=RUNS.of_sweep("stage_in.parquet", "stage_in"),
        peers=RUNS.of_sweep("peers.parquet", "peers"),
        run_facts=RUNS.if_measured("<experiment>/{sweep}/run_facts.parquet"),
        library=OPENING.library("collect_tables"),
    output:
        stage_in="<experiment>/{sweep}/stage_in.parquet",
        peers="<experiment>/{sweep}/peers.parquet",
    log:
        "<logs>/collect_peers/{sweep}.log",
    message:
        "Collecting stage-in and reads from peers of all runs ({wildcards.sweep})."


use rule collect_io_time as collect_program with:
    input:
        other_io=RUNS.of_sweep("other_io.parquet", "other_io"),
        other_time=RUNS.of_sweep("other_time.parquet", "other_time"),
        statements=RUNS.of_sweep("statements.parquet", "statements"),
        run_facts=RUNS.if_measured("<experiment>/{sweep}/run_facts.parquet"),
        library=OPENING.library("collect_tables"),
    output:
        other_io="<experiment>/{sweep}/other_io.parquet",
        other_time="<experiment>/{sweep}/other_time.parquet",
        statements="<experiment>/{sweep}/statements.parquet",
    log:
        "<logs>/collect_program/{sweep}.log",
    message:
        "Collecting what the program did in all runs ({wildcards.sweep})."


rule audits:
    input:
        RUNS.audits(),
        RUNS.summed("background"),
        RUNS.peer_tables(),
        RUNS.program_tables(),
