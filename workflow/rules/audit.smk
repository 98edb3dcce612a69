"""Rules that read the logs, check the runs and sum up their I/O time.

The runs of a launch are audited together because Python takes longer to start than to
audit a small run. A run with its own launch and a simulated run have their own audit.
"""

if EXPERIMENT.launches_several:
    for number, (scenario, points) in enumerate(EXPERIMENT.launches, start=1):
        runs = [f"{RESULTS}/runs/{scenario.name}/{point.path}" for point in points]

        rule:
            name:
                f"audit_run_{number}"
            input:
                logs=when_launched(of_runs(runs, LOG)),
                epochs=when_launched(of_runs(runs, "epochs.parquet")),
                runs=when_launched(of_runs(runs, "run.json")),
                manifest=manifest_of(scenario),
                tables=when_launched(tables_of_kind(scenario, runs)),
                library=library("audit_run"),
            output:
                **audited(runs),
            log:
                f"{LOGS}/audit_run/{number}-{scenario.name}.log",
            # The longest begins first, as most jobs wait for the last one.
            priority: 1 - 1 / len(points)
            localrule: True
            conda:
                "../../environment.yml"
            params:
                limits=SETTINGS["audit"],
            message:
                f"Auditing {count_words(len(points), 'run')} of {scenario.name}."
            script:
                "../scripts/audit_run.py"

else:

    rule audit_run:
        input:
            logs=lambda wildcards: [of_run(LOG)(wildcards)],
            epochs=lambda wildcards: [of_run("epochs.parquet")(wildcards)],
            runs=lambda wildcards: [of_run("run.json")(wildcards)],
            manifest=manifest,
            tables=run_tables,
            library=library("audit_run"),
        output:
            **audited([RUN]),
        log:
            f"{LOGS}/audit_run/{{scenario}}/cache-{{cache_rate}}_rep-{{repetition}}.log",
        localrule: True
        conda:
            "../../environment.yml"
        params:
            limits=SETTINGS["audit"],
        message:
            "Auditing run {wildcards.scenario}, cache rate {wildcards.cache_rate} %."
        script:
            "../scripts/audit_run.py"


rule compare_run_facts:
    input:
        runs=of_sweep("run.json"),
        audits=of_sweep("audit.json"),  # only audited runs count
        library=library("compare_run_facts"),
    output:
        f"{RESULTS}/{{sweep}}/run_facts.parquet",
    log:
        f"{LOGS}/compare_run_facts/{{sweep}}.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        allow_mixed=SETTINGS["allow_mixed"],
    message:
        "Comparing what the runs were measured with ({wildcards.sweep})."
    script:
        "../scripts/compare_run_facts.py"


rule collect_epochs:
    input:
        epochs=of_sweep("epochs.parquet"),
        runs=of_sweep("run.json"),
        audits=if_measured(of_sweep("audit.json")),
        run_facts=if_measured(f"{RESULTS}/{{sweep}}/run_facts.parquet"),
        library=library("collect_epochs"),
    output:
        epochs=f"{RESULTS}/{{sweep}}/epochs.parquet",
        utilisation=f"{RESULTS}/{{sweep}}/utilisation.parquet",
    log:
        f"{LOGS}/collect_epochs/{{sweep}}.log",
    localrule: True
    conda:
        "../../environment.yml"
    message:
        "Collecting the execution times of all runs ({wildcards.sweep})."
    script:
        "../scripts/collect_epochs.py"


rule collect_verdicts:
    input:
        epochs=of_sweep("epochs.parquet"),
        runs=of_sweep("run.json"),
        io_time=of_sweep("io_time.parquet"),
        library=library("collect_verdicts"),
    output:
        f"{RESULTS}/{{sweep}}/verdicts.parquet",
    log:
        f"{LOGS}/collect_verdicts/{{sweep}}.log",
    localrule: True
    conda:
        "../../environment.yml"
    message:
        "Collecting where the reads of all runs came from ({wildcards.sweep})."
    script:
        "../scripts/collect_verdicts.py"


rule collect_certificate:
    input:
        runs=of_sweep("run.json"),
        verdicts=f"{RESULTS}/{{sweep}}/verdicts.parquet",
        library=library("collect_certificate"),
    output:
        f"{RESULTS}/{{sweep}}/certificate.parquet",
    log:
        f"{LOGS}/collect_certificate/{{sweep}}.log",
    localrule: True
    conda:
        "../../environment.yml"
    message:
        "Certifying all runs of the program ({wildcards.sweep})."
    script:
        "../scripts/collect_certificate.py"


rule collect_drift:
    input:
        runs=of_sweep("run.json"),
        library=library("collect_drift"),
    output:
        f"{RESULTS}/{{sweep}}/drift.parquet",
    log:
        f"{LOGS}/collect_drift/{{sweep}}.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        limit=SETTINGS["figures"]["max_drift_percent"],
    message:
        "Comparing what the sentinel read at all runs ({wildcards.sweep})."
    script:
        "../scripts/collect_drift.py"


rule collect_io_time:
    input:
        io_time=of_sweep("io_time.parquet"),
        run_facts=if_measured(f"{RESULTS}/{{sweep}}/run_facts.parquet"),
        library=library("collect_tables"),
    output:
        io_time=f"{RESULTS}/{{sweep}}/io_time.parquet",
    log:
        f"{LOGS}/collect_io_time/{{sweep}}.log",
    localrule: True
    conda:
        "../../environment.yml"
    message:
        "Collecting the I/O time of all runs ({wildcards.sweep})."
    script:
        "../scripts/collect_tables.py"


use rule collect_io_time as collect_background with:
    input:
        background=of_sweep("background.parquet", leaves("background")),
        run_facts=if_measured(f"{RESULTS}/{{sweep}}/run_facts.parquet"),
        library=library("collect_tables"),
    output:
        background=f"{RESULTS}/{{sweep}}/background.parquet",
    log:
        f"{LOGS}/collect_background/{{sweep}}.log",
    message:
        "Collecting the copies of all runs ({wildcards.sweep})."


use rule collect_io_time as collect_peers with:
    input:
        stage_in=of_sweep("stage_in.parquet", leaves("stage_in")),
        peers=of_sweep("peers.parquet", leaves("peers")),
        run_facts=if_measured(f"{RESULTS}/{{sweep}}/run_facts.parquet"),
        library=library("collect_tables"),
    output:
        stage_in=f"{RESULTS}/{{sweep}}/stage_in.parquet",
        peers=f"{RESULTS}/{{sweep}}/peers.parquet",
    log:
        f"{LOGS}/collect_peers/{{sweep}}.log",
    message:
        "Collecting stage-in and reads from peers of all runs ({wildcards.sweep})."


use rule collect_io_time as collect_program with:
    input:
        other_io=of_sweep("other_io.parquet", leaves("other_io")),
        other_time=of_sweep("other_time.parquet", leaves("other_time")),
        statements=of_sweep("statements.parquet", leaves("statements")),
        run_facts=if_measured(f"{RESULTS}/{{sweep}}/run_facts.parquet"),
        library=library("collect_tables"),
    output:
        other_io=f"{RESULTS}/{{sweep}}/other_io.parquet",
        other_time=f"{RESULTS}/{{sweep}}/other_time.parquet",
        statements=f"{RESULTS}/{{sweep}}/statements.parquet",
    log:
        f"{LOGS}/collect_program/{{sweep}}.log",
    message:
        "Collecting what the program did in all runs ({wildcards.sweep})."


rule audits:
    input:
        audited_files(),
        background_table(),
        peer_tables(),
        program_tables(),
