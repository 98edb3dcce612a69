"""Rules that show the analysis of Darshan logs: a figure, a page of all jobs, pages of jobs."""


rule build_fleet_report:
    input:
        fleet=CHUNK.gathered("fleet"),
        fleet_classes=CHUNK.gathered("fleet_classes"),
        logs=CHUNK.gathered("logs"),
        refusals=CHUNK.gathered("refusals"),
        tier_prefixes=CHUNK.gathered("tier_prefixes"),
        fleet_figure="<experiment>/figures/fleet.svg",
        fleet_caption=caption("fleet"),
        fleet_over_time_figure="<experiment>/figures/fleet_over_time.svg",
        fleet_over_time_caption=caption("fleet_over_time"),
        templates=OPENING.templates("logs"),
        library=OPENING.library("build_fleet_report"),
    output:
        report=page("fleet_report", "All jobs"),
    log:
        "<logs>/build_fleet_report.log",
    params:
        experiment=OPENING.name,
        provenance=PROVENANCE,
        pages=ANALYSIS.pages,
        processes_per_node=ANALYSIS.processes_per_node,
    message:
        "Building the page of all jobs."
    script:
        "../scripts/build_fleet_report.py"


rule build_job_pages:
    input:
        jobs=CHUNK.gathered("jobs"),
        logs=CHUNK.gathered("logs"),
        job_times=CHUNK.gathered("job_times"),
        job_processes=CHUNK.gathered("job_processes"),
        job_slowest=CHUNK.gathered("job_slowest"),
        job_breakdown=CHUNK.gathered("job_breakdown"),
        job_files=CHUNK.gathered("job_files"),
        job_sizes=CHUNK.gathered("job_sizes"),
        job_estimates=CHUNK.gathered("job_estimates"),
        job_combinations=CHUNK.gathered("job_combinations"),
        fleet=CHUNK.gathered("fleet"),
        tier_prefixes=CHUNK.gathered("tier_prefixes"),
        breakdown_caption=caption("job_breakdown"),
        processes_caption=caption("job_processes"),
        templates=OPENING.templates("logs"),
        explorer=OPENING.templates("explorer"),
        library=OPENING.library("build_job_pages"),
    output:
        pages=directory("<experiment>/jobs"),
    log:
        "<logs>/build_job_pages.log",
    params:
        provenance=PROVENANCE,
        pages=ANALYSIS.pages,
        processes_per_node=ANALYSIS.processes_per_node,
    message:
        "Building the pages of single jobs."
    script:
        "../scripts/build_job_pages.py"
