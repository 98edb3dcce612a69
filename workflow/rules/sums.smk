"""Rules that sum up copies and reads from peers of measured runs.

The audit of a program does it itself, as the logs of a run are many.
"""

if not EXPERIMENT.runs_program:

    rule sum_background:
        input:
            log=of_run("log.darshan"),
            epochs=of_run("epochs.parquet"),
            run=of_run("run.json"),
            manifest=manifest,
            decisions=of_run("decisions.parquet"),
            audit=f"{RUN}/audit.json",
            library=library("sum_background"),
        output:
            f"{RUN}/background.parquet",
        log:
            f"{LOGS}/sum_background/{{scenario}}/cache-{{cache_rate}}_rep-{{repetition}}.log",
        localrule: True
        conda:
            "../../environment.yml"
        message:
            "Summing up the copies of run {wildcards.scenario}, cache rate "
            "{wildcards.cache_rate} %."
        script:
            "../scripts/sum_background.py"

    rule sum_peers:
        input:
            log=of_run("log.darshan"),
            epochs=of_run("epochs.parquet"),
            run=of_run("run.json"),
            manifest=manifest,
            peer_reads=of_run("peer_reads.parquet"),
            audit=f"{RUN}/audit.json",
            library=library("sum_peers"),
        output:
            stage_in=f"{RUN}/stage_in.parquet",
            peers=f"{RUN}/peers.parquet",
        log:
            f"{LOGS}/sum_peers/{{scenario}}/cache-{{cache_rate}}_rep-{{repetition}}.log",
        localrule: True
        conda:
            "../../environment.yml"
        message:
            "Summing up stage-in and reads from peers of run {wildcards.scenario}, cache "
            "rate {wildcards.cache_rate} %."
        script:
            "../scripts/sum_peers.py"
