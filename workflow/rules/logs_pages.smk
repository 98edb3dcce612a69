"""Rules that show the analysis of Darshan logs: a figure, a page of all jobs, pages of jobs."""

JOB_TABLES = {name: f"{TABLES}/{name}.parquet" for name in LOG_TABLES}
# Those without a row for each process or file. The short names of `anonymous` come from
# the first four, so they are the same on all pages.
FLEET_TABLES = {
    name: JOB_TABLES[name]
    for name in (
        "logs",
        "refusals",
        "tier_prefixes",
        "jobs",
        "fleet",
        "fleet_classes",
    )
}
PROVENANCE_OF_LOGS = f"Darshan logs, measured; analysis {NAME}"


rule plot_fleet:
    input:
        **FLEET_TABLES,
        library=library("plot_fleet"),
    output:
        **figure("fleet", title="All jobs side by side"),
    log:
        f"{LOGS}/plot_fleet.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        provenance=PROVENANCE_OF_LOGS,
        anonymous=ANALYSIS.anonymous,
    message:
        "Drawing the figure of all jobs."
    script:
        "../scripts/plot_fleet.py"


rule build_fleet_report:
    input:
        **FLEET_TABLES,
        figure=f"{RESULTS}/figures/fleet.svg",
        caption=caption("fleet"),
        template=workflow.source_path("../templates/jobs.html.j2"),
        style=workflow.source_path("../templates/page.css"),
        library=library("build_fleet_report"),
    output:
        report=page("fleet_report", "All jobs"),
    log:
        f"{LOGS}/build_fleet_report.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        experiment=NAME,
        provenance=PROVENANCE_OF_LOGS,
        anonymous=ANALYSIS.anonymous,
        pages=ANALYSIS.pages,
        processes_per_node=ANALYSIS.processes_per_node,
    message:
        "Building the page of all jobs."
    script:
        "../scripts/build_fleet_report.py"


rule build_job_pages:
    input:
        **JOB_TABLES,
        breakdown_caption=caption("job_breakdown"),
        processes_caption=caption("job_processes"),
        template=workflow.source_path("../templates/jobs.html.j2"),
        style=workflow.source_path("../templates/page.css"),
        explorer_page=workflow.source_path("../templates/explorer.html"),
        explorer_computation=workflow.source_path("../templates/explorer.vega.yaml"),
        library=library("build_job_pages"),
    output:
        pages=directory(f"{RESULTS}/jobs"),
    log:
        f"{LOGS}/build_job_pages.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        provenance=PROVENANCE_OF_LOGS,
        anonymous=ANALYSIS.anonymous,
        pages=ANALYSIS.pages,
        processes_per_node=ANALYSIS.processes_per_node,
    message:
        "Building the pages of single jobs."
    script:
        "../scripts/build_job_pages.py"
