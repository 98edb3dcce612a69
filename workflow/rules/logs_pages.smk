"""Rules that show the analysis of Darshan logs: a figure, a page of all jobs, pages of jobs."""


include: "draw.smk"


rule build_fleet_report:
    input:
        fleet=gathered("fleet"),
        fleet_classes=gathered("fleet_classes"),
        logs=gathered("logs"),
        refusals=gathered("refusals"),
        tier_prefixes=gathered("tier_prefixes"),
        fleet_figure=f"{RESULTS}/figures/fleet.svg",
        fleet_caption=caption("fleet"),
        fleet_over_time_figure=f"{RESULTS}/figures/fleet_over_time.svg",
        fleet_over_time_caption=caption("fleet_over_time"),
        templates=templates("logs"),
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
        pages=ANALYSIS.pages,
        processes_per_node=ANALYSIS.processes_per_node,
    message:
        "Building the page of all jobs."
    script:
        "../scripts/build_fleet_report.py"


rule build_job_pages:
    input:
        jobs=gathered("jobs"),
        logs=gathered("logs"),
        job_times=gathered("job_times"),
        job_processes=gathered("job_processes"),
        job_slowest=gathered("job_slowest"),
        job_breakdown=gathered("job_breakdown"),
        job_files=gathered("job_files"),
        job_sizes=gathered("job_sizes"),
        job_estimates=gathered("job_estimates"),
        job_combinations=gathered("job_combinations"),
        fleet=gathered("fleet"),
        tier_prefixes=gathered("tier_prefixes"),
        breakdown_caption=caption("job_breakdown"),
        processes_caption=caption("job_processes"),
        templates=templates("logs"),
        explorer_page=from_here(WORKFLOW / "templates/explorer.html"),
        explorer_computation=from_here(WORKFLOW / "templates/explorer.vega.yaml"),
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
        pages=ANALYSIS.pages,
        processes_per_node=ANALYSIS.processes_per_node,
    message:
        "Building the pages of single jobs."
    script:
        "../scripts/build_job_pages.py"
