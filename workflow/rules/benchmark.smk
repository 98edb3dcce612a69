"""Rules that run the benchmark.

A launch runs the points of a scenario that have no run. It moves each finished run
itself, so a failure keeps them; runs are no outputs, which Snakemake would remove. Its
output is a marker, which stands for the runs until it is there (`launched`). If the
system lets one launch run several points (`points_per_launch: all`), TensorFlow starts
once for all.
"""

LAUNCH_LOG = (
    "<logs>/run_benchmark/{scenario}/cache-{cache_rate}_rep-{repetition}_{nth}.log"
)


rule describe_scenario:
    output:
        "<experiment>/runs/{scenario}/scenario.json",
    log:
        "<logs>/describe_scenario/{scenario}.log",
    params:
        description=RUNS.description,
    message:
        "Writing down what the runs of {wildcards.scenario} depend on."
    script:
        "../scripts/describe_scenario.py"


checkpoint run_benchmark:
    input:
        scenario="<experiment>/runs/{scenario}/scenario.json",
        manifest=RUNS.manifest,
    output:
        marker="<experiment>/launches/{scenario}/cache-{cache_rate}_rep-{repetition}/{nth}.txt",
    log:
        LAUNCH_LOG,
    priority: JOBS.priority
    # Only for the submitting Snakemake: otherwise each job would also retry.
    retries: 0 if OPENING.is_remote_job else SYSTEM.job.retries
    threads: lambda wildcards: JOBS.benchmark(wildcards).threads
    resources:
        **JOBS.launch_resources(JOBS.benchmark, OPENING.placed(LAUNCH_LOG)),
        launch=lambda wildcards: " ".join(
            point.path for point in JOBS.points(wildcards)
        ),
        points=JOBS.n_missing,
    params:
        staging=JOBS.staging,
        runs=lambda wildcards: f"{RESULTS}/runs/{wildcards.scenario}",
    message:
        JOBS.message
    shell:
        f"{JOBS.launch}{JOBS.starts_ranks}"
        " --staging {params.staging:q} --runs {params.runs:q}"
        f" --marker {{output.marker:q}} -- {JOBS.ranks}"
        " --staging {params.staging:q} --runs {params.runs:q}"
        " --native {resources.native:q} {resources.launch}"
