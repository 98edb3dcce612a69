"""Rules that show the analysis of Darshan logs: a figure, a page of all jobs, pages of jobs."""

PROVENANCE_OF_LOGS = f"Darshan logs, measured; analysis {NAME}"


rule plot_fleet:
    input:
        tier_prefixes=f"{TABLES}/tier_prefixes.parquet",
        fleet=f"{TABLES}/fleet.parquet",
        fleet_classes=f"{TABLES}/fleet_classes.parquet",
        library=library("plot_fleet"),
    output:
        **figure("fleet", {"fleet": "All jobs side by side"}),
    log:
        f"{LOGS}/plot_fleet.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        provenance=PROVENANCE_OF_LOGS,
    message:
        "Drawing the figure of all jobs."
    script:
        "../scripts/plot_fleet.py"


rule plot_fleet_over_time:
    input:
        tier_prefixes=f"{TABLES}/tier_prefixes.parquet",
        fleet=f"{TABLES}/fleet.parquet",
        fleet_classes=f"{TABLES}/fleet_classes.parquet",
        library=library("plot_fleet_over_time"),
    output:
        **figure("fleet_over_time", {"fleet_over_time": "All jobs over the time"}),
    log:
        f"{LOGS}/plot_fleet_over_time.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        provenance=PROVENANCE_OF_LOGS,
    message:
        "Drawing the figure of all jobs over the time."
    script:
        "../scripts/plot_fleet_over_time.py"


rule build_fleet_report:
    input:
        fleet=f"{TABLES}/fleet.parquet",
        fleet_classes=f"{TABLES}/fleet_classes.parquet",
        logs=f"{TABLES}/logs.parquet",
        refusals=f"{TABLES}/refusals.parquet",
        tier_prefixes=f"{TABLES}/tier_prefixes.parquet",
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
        jobs=f"{TABLES}/jobs.parquet",
        logs=f"{TABLES}/logs.parquet",
        job_times=f"{TABLES}/job_times.parquet",
        job_processes=f"{TABLES}/job_processes.parquet",
        job_slowest=f"{TABLES}/job_slowest.parquet",
        job_breakdown=f"{TABLES}/job_breakdown.parquet",
        job_files=f"{TABLES}/job_files.parquet",
        job_sizes=f"{TABLES}/job_sizes.parquet",
        job_estimates=f"{TABLES}/job_estimates.parquet",
        job_combinations=f"{TABLES}/job_combinations.parquet",
        fleet=f"{TABLES}/fleet.parquet",
        tier_prefixes=f"{TABLES}/tier_prefixes.parquet",
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
