"""Rules that run the benchmark.

A launch runs the points of a scenario that have no run. It moves each finished run
itself, so a failure keeps them; runs are no outputs, which Snakemake would remove. Its
output is a marker, which stands for the runs until it is there (`launched`). If the
system lets one launch run several points (`points_per_launch: all`), TensorFlow starts
once for all.
"""


rule describe_scenario:
    output:
        f"{RESULTS}/runs/{{scenario}}/scenario.json",
    log:
        f"{LOGS}/describe_scenario/{{scenario}}.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        description=description,
    message:
        "Writing down what the runs of {wildcards.scenario} depend on."
    script:
        "../scripts/describe_scenario.py"


checkpoint run_benchmark:
    input:
        scenario=f"{RESULTS}/runs/{{scenario}}/scenario.json",
        manifest=manifest,
    output:
        marker=MARKER,
    log:
        f"{BENCHMARK_LOG}.log",
    priority: launch_priority
    # Only for the submitting Snakemake: otherwise each job would also retry.
    retries: 0 if IS_REMOTE_JOB else SYSTEM.job.retries
    conda:
        "../../environment.yml"
    threads: lambda wildcards: benchmark_job(wildcards).threads
    resources:
        **launch_resources(benchmark_job, BENCHMARK_LOG),
        launch=lambda wildcards: " ".join(
            point.path for point in launched_points(wildcards)
        ),
        points=n_missing,
    params:
        staging=staging,
        runs=lambda wildcards: f"{RESULTS}/runs/{wildcards.scenario}",
    message:
        MEASURING
    shell:
        f"{LAUNCH}{STARTS_RANKS}"
        " --staging {params.staging:q} --runs {params.runs:q}"
        f" --marker {{output.marker:q}} -- {RANKS}"
        " --staging {params.staging:q} --runs {params.runs:q}"
        " --native {resources.native:q} {resources.launch}"
