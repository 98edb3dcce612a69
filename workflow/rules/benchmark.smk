"""Rules that run the benchmark.

If the system lets one MPI launch run several points (`points_per_launch: all`), the
first job of a scenario runs all missing points into the staging folder, and the other
jobs only move their run from there. So TensorFlow starts once per scenario, every run
still has its own job, and the finished runs of an interrupted launch are kept.
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


rule run_benchmark:
    input:
        scenario=f"{RESULTS}/runs/{{scenario}}/scenario.json",
        manifest=manifest,
    output:
        log=protected(f"{RUN}/log.darshan"),
        epochs=protected(f"{RUN}/epochs.parquet"),
        run=protected(f"{RUN}/run.json"),
    log:
        f"{BENCHMARK_LOG}.log",
    priority: BEFORE_AUDITS
    # Only for the submitting Snakemake: otherwise each job would also retry.
    retries: 0 if IS_REMOTE_JOB else SYSTEM.job.retries
    conda:
        "../../environment.yml"
    threads: SETTINGS["loader"]["read_threads"]
    resources:
        **launch_resources(benchmark_job, BENCHMARK_LOG),
        # Not a parameter: a longer sweep must not repeat finished runs.
        launch=launch_arguments,
    params:
        staging=staging,
        staged=staged,
        run=lambda wildcards: RUN.format(**wildcards),
        runs=lambda wildcards: f"{RESULTS}/runs/{wildcards.scenario}",
    message:
        MEASURING
    shell:
        f"{LAUNCH} --staged {{params.staged:q}} --run {{params.run:q}} -- run_benchmark"
        " {input.scenario:q} --staging {params.staging:q} --runs {params.runs:q}"
        " --native {resources.native:q} {resources.launch}"


rule keep_table:
    # Not outputs of the benchmark: runs of other policies do not have these tables.
    input:
        run=f"{RUN}/run.json",
    output:
        protected(f"{RUN}/{{table}}.parquet"),
    log:
        f"{LOGS}/keep_{{table}}/{{scenario}}/cache-{{cache_rate}}_rep-{{repetition}}.log",
    wildcard_constraints:
        table="|".join(PLACED.tables + PEERS.tables),
    localrule: True
    conda:
        "../../environment.yml"
    params:
        staged=staged,
    message:
        "Keeping table {wildcards.table} of run {wildcards.scenario}, cache rate "
        "{wildcards.cache_rate} %."
    shell:
        keep('"$(dirname {output:q})"', "{wildcards.table}")


rule keep_reads:
    # Not outputs of the benchmark: runs of loaders of files do not have them.
    input:
        run=f"{RUN}/run.json",
    output:
        [protected(f"{RUN}/{name}.parquet") for name in DATABASE.tables],
    log:
        f"{LOGS}/keep_reads/{{scenario}}/cache-{{cache_rate}}_rep-{{repetition}}.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        staged=staged,
        run=lambda wildcards: RUN.format(**wildcards),
    message:
        "Keeping the tables of reads of run {wildcards.scenario}, cache rate "
        "{wildcards.cache_rate} %."
    shell:
        keep("{params.run:q}", *DATABASE.tables)
