"""An analysis of Darshan logs of any job: tables, figures and pages.

The list of logs is made at each start. A chunk of them is read, and its jobs are joined,
if its list has changed. The inputs of all rules after it are functions that ask for the
list: so Snakemake plans them again once it is there, and runs only what depends on a
change.
"""


include: "logs_common.smk"
include: "logs_pages.smk"
include: "unknown.smk"


wildcard_constraints:
    chunk=r"\d{4}(-\d\d){0,2}(_\d+of\d+)?",


checkpoint list_logs:
    input:
        library=library("list_logs"),
    output:
        listed=LISTED,
    log:
        f"{LOGS}/list_logs.log",
    localrule: True
    conda:
        "../../environment.yml"
    resources:
        terminal="log",
    params:
        logs=list(ANALYSIS.logs),
        vanished=ANALYSIS.vanished,
        settings=ANALYSIS.of_chunks(),
        chunks=f"{RESULTS}/{CHUNKS}",
        # So that it runs at each start.
        start=0 if IS_JOB else time.time(),
    message:
        "Listing Darshan logs."
    script:
        "../scripts/list_logs.py"


rule read_chunk:
    input:
        logs=f"{LISTS}/{{chunk}}.list",
        library=library("read_chunk"),
    output:
        tables=directory(f"{RESULTS}/{CHUNKS}/{{chunk}}"),
    log:
        f"{LOGS}/read_chunk/{{chunk}}.log",
    conda:
        "../../environment.yml"
    threads: chunk_threads
    resources:
        mem_mb=chunk_memory,
        runtime=lambda wildcards, attempt: 60 * attempt,
        nodes=1,
        logs=n_logs,
        terminal="progress",
        # No parameter, as tables do not depend on it. Snakemake has no fractions here.
        log_timeout_s=str(ANALYSIS.log_timeout_s),
    params:
        settings=ANALYSIS.of_chunks(),
        kept=f"{RESULTS}/{READ_LOGS}",
    message:
        "Reading Darshan logs of {wildcards.chunk}."
    script:
        "../scripts/read_chunk.py"


rule gather_logs:
    input:
        chunks=chunk_folders,
        library=library("gather_logs"),
    output:
        **{
            name: directory(f"{TABLES}/{name}.parquet")
            for name in columns_of_logs.TABLES
        },
        summary=f"{RESULTS}/summary.txt",
    log:
        f"{LOGS}/gather_logs.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        settings=ANALYSIS.as_json(),
        kept=f"{RESULTS}/{READ_LOGS}",
    message:
        "Gathering the tables of all jobs."
    script:
        "../scripts/gather_logs.py"


rule analyse:
    input:
        rules.gather_logs.output,
        rules.plot_fleet.output,
        rules.build_fleet_report.output,
        rules.build_job_pages.output,


rule all:
    input:
        rules.analyse.input,


onsuccess:
    if (summary := Path(RESULTS, "summary.txt")).is_file():
        logger.info(summary.read_text().rstrip())
    logger.info(
        f"Report: {RESULTS}/fleet_report.html  Jobs: {RESULTS}/jobs  Tables: {TABLES}"
    )


onstart:
    refuse_or(start_logs, SNAKEMAKE, Path(RESULTS), f"analysis {NAME}", logger.info)


# A workflow that imports this one may call it, whatever the configuration is about.
onerror:
    pass
