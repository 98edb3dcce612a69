"""Rules that show the analysis of Darshan logs: a figure, a page of all jobs, pages of jobs."""

# All tables that name jobs, so that the short names of `anonymous` are the same everywhere.
JOB_TABLES = {
    name: f"{TABLES}/{name}.parquet"
    for name in (
        "logs",
        "refusals",
        "tier_prefixes",
        "jobs",
        "job_times",
        "job_slowest",
        "job_breakdown",
        "job_files",
        "job_sizes",
        "job_estimates",
        "job_combinations",
        "fleet",
        "fleet_classes",
    )
}


rule plot_fleet:
    input:
        **JOB_TABLES,
        library=library("plot_fleet"),
    output:
        **figure("fleet"),
    log:
        f"{LOGS}/plot_fleet.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        provenance=PROVENANCE,
        anonymous=SETTINGS["anonymous"],
    message:
        "Drawing the figure of all jobs."
    script:
        "../scripts/plot_fleet.py"


rule build_fleet_report:
    input:
        **JOB_TABLES,
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
        experiment=SETTINGS["experiment"],
        provenance=PROVENANCE,
        anonymous=SETTINGS["anonymous"],
        pages=SETTINGS["pages"],
        processes_per_node=SETTINGS["processes_per_node"],
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
        provenance=PROVENANCE,
        anonymous=SETTINGS["anonymous"],
        pages=SETTINGS["pages"],
        processes_per_node=SETTINGS["processes_per_node"],
    message:
        "Building the pages of single jobs."
    script:
        "../scripts/build_job_pages.py"
