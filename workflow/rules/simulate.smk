"""Rules that simulate the runs instead of measuring them (`simulate: true`).

All runs of a scenario are simulated at once, and only their tables are written. The
log of a run is written on request: `snakemake ... results/EXPERIMENT/runs/SCENARIO/
cache-065/rep-0/log.darshan`, or `audits` for the logs and audits of all runs.
"""


ruleorder: collect_simulated > collect_io_time > collect_epochs
ruleorder: collect_simulated_copies > collect_background
ruleorder: collect_simulated_peers > collect_peers


rule simulate_scenario:
    input:
        library=library("simulate_scenario"),
    output:
        io_time=f"{RESULTS}/runs/{{scenario}}/{{sweep}}/io_time.parquet",
        epochs=f"{RESULTS}/runs/{{scenario}}/{{sweep}}/epochs.parquet",
        background=f"{RESULTS}/runs/{{scenario}}/{{sweep}}/background.parquet",
        stage_in=f"{RESULTS}/runs/{{scenario}}/{{sweep}}/stage_in.parquet",
        peers=f"{RESULTS}/runs/{{scenario}}/{{sweep}}/peers.parquet",
        simulation=f"{RESULTS}/runs/{{scenario}}/{{sweep}}/simulation.json",
    log:
        f"{LOGS}/simulate_scenario/{{sweep}}/{{scenario}}.log",
    localrule: True
    conda:
        "../../environment.yml"
    resources:
        terminal="progress",
    params:
        description=description,
        points=simulated_points,
    message:
        "Simulating the runs of {wildcards.scenario} ({wildcards.sweep})."
    script:
        "../scripts/simulate_scenario.py"


rule collect_simulated:
    input:
        io_time=of_simulated("io_time.parquet"),
        epochs=of_simulated("epochs.parquet"),
        deletions=lambda wildcards: deletions(wildcards.sweep),
        library=library("collect_tables"),
    output:
        io_time=f"{RESULTS}/{{sweep}}/io_time.parquet",
        epochs=f"{RESULTS}/{{sweep}}/epochs.parquet",
    log:
        f"{LOGS}/collect_simulated/{{sweep}}.log",
    localrule: True
    conda:
        "../../environment.yml"
    message:
        "Collecting the tables of all simulated runs ({wildcards.sweep})."
    script:
        "../scripts/collect_tables.py"


use rule collect_simulated as collect_simulated_copies with:
    input:
        background=of_simulated("background.parquet", leaves("background")),
        deletions=lambda wildcards: deletions(wildcards.sweep),
        library=library("collect_tables"),
    output:
        background=f"{RESULTS}/{{sweep}}/background.parquet",
    log:
        f"{LOGS}/collect_simulated_copies/{{sweep}}.log",
    message:
        "Collecting the copies of all simulated runs ({wildcards.sweep})."


use rule collect_simulated as collect_simulated_peers with:
    input:
        stage_in=of_simulated("stage_in.parquet", leaves("stage_in")),
        peers=of_simulated("peers.parquet", leaves("peers")),
        deletions=lambda wildcards: deletions(wildcards.sweep),
        library=library("collect_tables"),
    output:
        stage_in=f"{RESULTS}/{{sweep}}/stage_in.parquet",
        peers=f"{RESULTS}/{{sweep}}/peers.parquet",
    log:
        f"{LOGS}/collect_simulated_peers/{{sweep}}.log",
    message:
        "Collecting stage-in and reads from peers of all simulated runs "
        "({wildcards.sweep})."


rule describe_dataset:
    output:
        manifest=f"{RESULTS}/datasets/{{dataset}}-{{n_osts}}ost.parquet",
    log:
        f"{LOGS}/describe_dataset/{{dataset}}-{{n_osts}}ost.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        dataset=lambda wildcards: asdict(EXPERIMENT.datasets[wildcards.dataset]),
        n_osts=lambda wildcards: int(wildcards.n_osts),
        n_object_servers=lambda wildcards: (
            n_object_servers(wildcards) or int(wildcards.n_osts)
        ),
    message:
        "Listing the files of dataset {wildcards.dataset}."
    script:
        "../scripts/describe_dataset.py"


rule simulate_run:
    input:
        manifest=logged_manifest,
        library=library("simulate_run"),
    output:
        log=f"{RUN}/log.darshan",
        epochs=f"{RUN}/epochs.parquet",
        run=f"{RUN}/run.json",
    log:
        f"{LOGS}/simulate_run/{{scenario}}/cache-{{cache_rate}}_rep-{{repetition}}.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        description=description,
        point=lambda wildcards: asdict(point_of(wildcards)),
    message:
        "Writing the log of a simulated run of {wildcards.scenario}, cache rate "
        "{wildcards.cache_rate} %."
    script:
        "../scripts/simulate_run.py"
