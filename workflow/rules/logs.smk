"""An analysis of Darshan logs of any job: tables, figures and pages.

The list of logs is made at each start. A chunk of them is read, and its jobs are joined,
if its list has changed. The inputs of all rules after it are functions that ask for the
list: so Snakemake plans them again once it is there, and runs only what depends on a
change.
"""

import time
from functools import partial

from tierscope.core.columns import logs as columns_of_logs
from tierscope.core.output.declared import PlainFigures
from tierscope.experiment.start import start_logs
from tierscope.logs.chunks.plan import ChunkPlan
from tierscope.logs.settings import CHUNKS, READ_LOGS, read_settings

with one_line():
    config.update(OPENING.as_schema_says(config, "logs"))
    ANALYSIS = read_settings(config, OPENING.defaults())
    RESULTS = OPENING.begin(config["experiment"], "measured")
EXECUTOR = partial(try_to, SNAKEMAKE.executor, logger.warning, "local")
CHUNK = ChunkPlan(
    RESULTS,
    lambda: checkpoints.list_logs.get(),
    # The cores that jobs share, none if they run on other machines.
    lambda: workflow.cores if EXECUTOR() == "local" else None,
)
PROVENANCE = ANALYSIS.provenance(config["experiment"])
DECLARED = declared_figures("logs")
FIGURES = PlainFigures(CHUNK.gathered, {"provenance": PROVENANCE})


pathvars:
    **OPENING.pathvars,


include: "draw.smk"
include: "logs_pages.smk"
include: "unknown.smk"


wildcard_constraints:
    chunk=r"\d{4}(-\d\d){0,2}(_\d+of\d+)?",


checkpoint list_logs:
    input:
        library=OPENING.library("list_logs"),
    output:
        listed="<experiment>/listing/chunks.json",
    log:
        "<logs>/list_logs.log",
    resources:
        terminal="log",
    params:
        logs=list(ANALYSIS.logs),
        vanished=ANALYSIS.vanished,
        settings=ANALYSIS.of_chunks(),
        chunks=f"{RESULTS}/{CHUNKS}",
        # So that it runs at each start.
        start=0 if OPENING.is_job else time.time(),
    message:
        "Listing Darshan logs."
    script:
        "../scripts/list_logs.py"


rule read_chunk:
    input:
        logs="<experiment>/listing/{chunk}.list",
        library=OPENING.library("read_chunk"),
    output:
        tables=directory("<experiment>/chunks/{chunk}"),
    log:
        "<logs>/read_chunk/{chunk}.log",
    threads: CHUNK.threads
    resources:
        mem_mb=CHUNK.memory_mib,
        runtime=lambda wildcards, attempt: 60 * attempt,
        nodes=1,
        logs=CHUNK.n_logs,
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
        chunks=CHUNK.folders,
        library=OPENING.library("gather_logs"),
    output:
        **{
            name: directory(f"<tables>/{name}.parquet")
            for name in columns_of_logs.TABLES
        },
        summary="<experiment>/summary.txt",
    log:
        "<logs>/gather_logs.log",
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
        figure_files("fleet", "fleet_over_time"),
        rules.build_fleet_report.output,
        rules.build_job_pages.output,


rule all:
    input:
        rules.analyse.input,


onsuccess:
    for text in (Path(RESULTS, one) for one in ("answer.txt", "summary.txt")):
        if text.is_file():
            logger.info(text.read_text().rstrip())
    logger.info(
        f"Report: {RESULTS}/fleet_report.html  Jobs: {RESULTS}/jobs  "
        f"Tables: {RESULTS}/{MAIN_SWEEP}"
    )


onstart:
    with one_line():
        start_logs(
            SNAKEMAKE, Path(RESULTS), f"analysis {OPENING.name}", logger.info
        )
    WATCH.wait_while_jobs_run()


# A workflow that imports this one may call it, whatever the configuration is about.
onerror:
    pass
