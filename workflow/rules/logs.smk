"""An analysis of Darshan logs of any job: tables, figures and pages."""

from tierscope.logs.settings import find_logs, listing_digest

# Every table of `tierscope.logs.jobs.JOB_TABLES`.
LOG_TABLES = {
    "logs": "Logs that were read, and their jobs",
    "refusals": "Logs that cannot be used, and why",
    "tier_prefixes": "Tiers and their prefixes",
    "jobs": "Jobs",
    "job_times": "Times of each process by class",
    "job_processes": "Time of each process",
    "job_slowest": "The slowest process of each job",
    "job_breakdown": "Breakdown of the slowest process",
    "job_files": "Files and folders that cost most",
    "job_sizes": "Sizes of reads and writes",
    "job_estimates": "If classes were faster, by the rule",
    "job_combinations": "Combinations that meet the goal",
    "fleet": "All jobs side by side",
    "fleet_classes": "Hours of each class",
}

try:
    LOG_PATHS = find_logs(ANALYSIS.logs)
except ConfigError as error:
    raise WorkflowError(str(error))


include: "logs_pages.smk"
include: "unknown.smk"


rule analyse_logs:
    input:
        library=library("analyse_logs"),
    output:
        **{
            name: table(f"{TABLES}/{name}.parquet", title)
            for name, title in LOG_TABLES.items()
        },
        summary=f"{RESULTS}/summary.txt",
    log:
        f"{LOGS}/analyse_logs.log",
    conda:
        "../../environment.yml"
    threads: workflow.cores
    resources:
        terminal="progress",
    params:
        settings=ANALYSIS.as_json(),
        listing=listing_digest(LOG_PATHS),
        kept=f"{RESULTS}/read-logs",
    message:
        "Reading and analysing Darshan logs."
    script:
        "../scripts/analyse_logs.py"


rule analyse:
    input:
        rules.analyse_logs.output,
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
