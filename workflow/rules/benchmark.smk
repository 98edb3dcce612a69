"""Rules that run the benchmark.

Where the system lets one MPI launch run several points (`points_per_launch: all`), the
first job of a scenario runs all points that are missing, into the staging folder, and
the others only take their run over. So TensorFlow starts once a scenario, every run is
still a job of its own, and what an interrupted launch has finished is kept.
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
    # Only where jobs are submitted: else each job would itself try again as often.
    retries: 0 if workflow.remote_exec else SYSTEM.job.retries
    conda:
        "../../environment.yml"
    threads: SETTINGS["loader"]["read_threads"]
    resources:
        **launch_resources(benchmark_job, BENCHMARK_LOG),
        # No parameter: a longer sweep must not repeat finished runs.
        launch=launch_arguments,
    params:
        staging=staging,
        staged=staged,
        run=lambda wildcards: RUN.format(**wildcards),
        runs=lambda wildcards: f"{RESULTS}/runs/{wildcards.scenario}",
    message:
        MEASURING
    shell:
        # One launch at a time: one whose snakemake was killed ends first, and its runs
        # are taken over. In a batch job nodes would wait idle; the start sees to that.
        # A job that has lost its parent, snakemake, leaves its run to the next one.
        # Where the launcher keeps the ranks' output apart (job.launcher), what they say
        # of a failure goes into the log as well. Killed ranks leave their emulated
        # devices behind.
        'log={log:q}; ranks=${{log%.log}}.rank; rm -f "$ranks".*;'
        ' launch="$$-$(date +%s)";'
        " trap 'rm -f /dev/shm/tierscope-*-\"$launch\".*' EXIT;"
        " exec 9> results/.launch;"
        ' test -n "${{SLURM_JOB_ID:-}}${{PJM_JOBID:-}}" || flock 9 2> /dev/null || true;'
        " tierscope_ranks=({resources.python:q}"
        " {resources.scripts:q}/run_benchmark.py"
        " {input.scenario:q} --staging {params.staging:q} --runs {params.runs:q}"
        ' --native {resources.native:q} --launch "$launch" {resources.launch});'
        " {{ test -f {params.staged:q}/log.darshan && test -f {params.staged:q}/run.json"
        ' || {{ {resources.setup} && TIERSCOPE_START="$("${{tierscope_ranks[@]}}" --prepare)" &&'
        " export TIERSCOPE_START &&"
        ' {resources.mpi} -n {resources.tasks} "${{tierscope_ranks[@]}}" ||'
        ' {{ grep -hs "^tierscope: " "$ranks".* | head -n 20; false; }}; }} }}'
        ' > "$log" 2>&1;'
        ' test "$(cut -d" " -f4 /proc/$$/stat)" = $PPID;'
        " for name in log.darshan epochs.parquet run.json;"
        " do mv {params.staged:q}/$name {params.run:q}; done"


rule keep_table:
    # No outputs of the benchmark: runs of policies without such tables are finished
    # without.
    input:
        run=f"{RUN}/run.json",
    output:
        protected(f"{RUN}/{{table}}.parquet"),
    log:
        f"{LOGS}/keep_{{table}}/{{scenario}}/cache-{{cache_rate}}_rep-{{repetition}}.log",
    wildcard_constraints:
        table="decisions|peer_reads",
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
    # Not outputs of the benchmark: runs of loaders of files are finished without.
    input:
        run=f"{RUN}/run.json",
    output:
        [protected(f"{RUN}/{name}.parquet") for name in READ_TABLES],
    log:
        f"{LOGS}/keep_reads/{{scenario}}/cache-{{cache_rate}}_rep-{{repetition}}.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        staged=staged,
        run=lambda wildcards: RUN.format(**wildcards),
    message:
        "Keeping what was read in run {wildcards.scenario}, cache rate "
        "{wildcards.cache_rate} %."
    shell:
        keep("{params.run:q}", *READ_TABLES)
