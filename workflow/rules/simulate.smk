"""Rules that simulate the runs instead of measuring them (`simulate: true`).

One job simulates the runs of a scenario that no earlier sweep has, and writes their
tables where those of measured runs lie. The log of a run is written on request:
`snakemake ... results/EXPERIMENT/runs/SCENARIO/cache-065/rep-0/log.darshan`, or
`audits` for the logs and audits of all runs.
"""

for number, (scenario, points) in enumerate(EXPERIMENT.launches, start=1):
    runs = [f"{RESULTS}/runs/{scenario.name}/{point.path}" for point in points]

    rule:
        name:
            f"simulate_scenario_{number}"
        input:
            library=OPENING.library("simulate_scenario"),
        output:
            **{
                name: of_runs(runs, f"{name}.parquet")
                for name in ("io_time", "epochs", *kind_of(scenario).sums)
            },
            runs=of_runs(runs, "run.json"),
        log:
            f"<logs>/simulate_scenario/{number}-{scenario.name}.log",
        resources:
            terminal="progress",
        params:
            name=scenario.name,
            description=EXPERIMENT.description(scenario).as_json(),
            points=list(map(asdict, points)),
        message:
            f"Simulating the runs of {scenario.name}."
        script:
            "../scripts/simulate_scenario.py"


rule describe_dataset:
    output:
        manifest="<experiment>/datasets/{dataset}-{n_osts}ost.parquet",
    log:
        "<logs>/describe_dataset/{dataset}-{n_osts}ost.log",
    params:
        dataset=lambda wildcards: asdict(EXPERIMENT.datasets[wildcards.dataset]),
        n_osts=lambda wildcards: int(wildcards.n_osts),
        n_object_servers=lambda wildcards: (
            RUNS.n_object_servers(wildcards) or int(wildcards.n_osts)
        ),
    message:
        "Listing the files of dataset {wildcards.dataset}."
    script:
        "../scripts/describe_dataset.py"


rule simulate_log:
    input:
        manifest=refusing(RUNS.logged_manifest),
        library=OPENING.library("simulate_log"),
    output:
        log="<experiment>/runs/{scenario}/cache-{cache_rate}/rep-{repetition}/log.darshan",
    log:
        "<logs>/simulate_log/{scenario}/cache-{cache_rate}_rep-{repetition}.log",
    params:
        description=RUNS.description,
        point=lambda wildcards: asdict(point_of(wildcards)),
    message:
        "Writing the log of a simulated run of {wildcards.scenario}, cache rate "
        "{wildcards.cache_rate} %."
    script:
        "../scripts/simulate_log.py"
