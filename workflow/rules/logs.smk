"""An analysis of Darshan logs of any job: tables, figures and pages.

The list of logs is made at each start. A chunk of them is read, and its jobs are joined,
if its list has changed. All rules after it ask for the list (`gathered`): so Snakemake
plans them again once it is there, and runs only what depends on a change.
"""

import json
import time

from tierscope.core.columns.logs import TABLES as TABLES_OF_JOBS
from tierscope.logs.settings import CHUNKS, LISTING, READ_LOGS, worker_bytes

LISTS = f"{RESULTS}/{LISTING}"
LISTED = f"{LISTS}/chunks.json"
MIB = 1 << 20
CHUNK_MIB = 1200  # of the process that joins, besides those that read
CHUNK_THREADS = 4  # on another machine
LOGS_PER_THREAD = 250


wildcard_constraints:
    chunk=r"\d{4}(-\d\d){0,2}(_\d+of\d+)?",


def listed():
    """Return what is known of the chunks that are listed."""
    return json.loads(Path(LISTED).read_text())


def chunk_folders(wildcards):
    """Return the folders of the tables of all chunks, once they are listed."""
    checkpoints.list_logs.get()
    return [f"{RESULTS}/{CHUNKS}/{name}" for name in listed()["chunks"]]


def gathered(*names):
    """Return the function that names tables, once the logs are listed."""

    def files(wildcards):
        checkpoints.list_logs.get()
        return [f"{TABLES}/{name}.parquet" for name in names]

    return files


def chunk_threads(wildcards):
    """Return how many processes read a chunk.

    On this machine all chunks that have changed share the cores.
    """
    found = listed()
    useful = -(-found["chunks"][wildcards.chunk]["n_logs"] // LOGS_PER_THREAD)
    if try_to(SNAKEMAKE.executor, logger.warning, "local") != "local":
        return min(CHUNK_THREADS, useful)
    return max(1, min(workflow.cores // max(found["n_changed"], 1), useful))


def chunk_memory(wildcards, threads):
    """Return the memory that a chunk needs, in MiB."""
    largest = listed()["chunks"][wildcards.chunk]["largest_bytes"]
    return CHUNK_MIB + threads * worker_bytes(largest) // MIB


def n_logs(wildcards):
    """Return the number of logs of a chunk."""
    return listed()["chunks"][wildcards.chunk]["n_logs"]


include: "logs_pages.smk"
include: "unknown.smk"


checkpoint list_logs:
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
        lists=LISTS,
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
        **{name: directory(f"{TABLES}/{name}.parquet") for name in TABLES_OF_JOBS},
        summary=f"{RESULTS}/summary.txt",
    log:
        f"{LOGS}/gather_logs.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        settings=ANALYSIS.as_json(),
        kept=f"{RESULTS}/{READ_LOGS}",
        tables=TABLES,
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


# A workflow that imports this one may call them, whatever the configuration is about.
onstart:
    pass


onerror:
    pass
