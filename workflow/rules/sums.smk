"""Rules that sum up copies and reads from peers of measured runs.

The audit of a program does it itself, as the logs of a run are many.
"""

if not EXPERIMENT.runs_program:

    rule sum_background:
        input:
            log=RUNS.of_run("log.darshan"),
            epochs=RUNS.of_run("epochs.parquet"),
            run=RUNS.of_run("run.json"),
            manifest=RUNS.manifest,
            decisions=RUNS.of_run("decisions.parquet"),
            audit="<experiment>/runs/{scenario}/cache-{cache_rate}/rep-{repetition}/audit.json",
            library=OPENING.library("sum_background"),
        output:
            "<experiment>/runs/{scenario}/cache-{cache_rate}/rep-{repetition}/background.parquet",
        log:
            "<logs>/sum_background/{scenario}/cache-{cache_rate}_rep-{repetition}.log",
        message:
            "Summing up the copies of run {wildcards.scenario}, cache rate "
            "{wildcards.cache_rate} %."
        script:
            "../scripts/sum_background.py"

    rule sum_peers:
        input:
            log=RUNS.of_run("log.darshan"),
            epochs=RUNS.of_run("epochs.parquet"),
            run=RUNS.of_run("run.json"),
            manifest=RUNS.manifest,
            peer_reads=RUNS.of_run("peer_reads.parquet"),
            audit="<experiment>/runs/{scenario}/cache-{cache_rate}/rep-{repetition}/audit.json",
            library=OPENING.library("sum_peers"),
        output:
            stage_in="<experiment>/runs/{scenario}/cache-{cache_rate}/rep-{repetition}/stage_in.parquet",
            peers="<experiment>/runs/{scenario}/cache-{cache_rate}/rep-{repetition}/peers.parquet",
        log:
            "<logs>/sum_peers/{scenario}/cache-{cache_rate}_rep-{repetition}.log",
        message:
            "Summing up stage-in and reads from peers of run {wildcards.scenario}, cache "
            "rate {wildcards.cache_rate} %."
        script:
            "../scripts/sum_peers.py"
