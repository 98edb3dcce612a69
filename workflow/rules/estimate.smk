"""Rules that estimate I/O time under hypothetical storage improvements."""

IMPROVEMENT_GRID = {
    key: value
    for key, value in SETTINGS["figures"]["goal"].items()
    if key != "io_time_s"
}


rule estimate_improvements:
    input:
        io_time=f"{RESULTS}/tables/io_time.parquet",
        library=library(
            "estimate_improvements", "breakdown", "whatif", "io_class", "tables"
        ),
    output:
        estimates=f"{RESULTS}/tables/estimates.parquet",
    log:
        f"{LOGS}/estimate_improvements.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        epoch=SETTINGS["figures"]["epoch"],
        improvements=SETTINGS["figures"]["improvements"],
        grid=IMPROVEMENT_GRID,
    message:
        "Estimating the I/O time of improved storage."
    script:
        "../scripts/estimate_improvements.py"


rule tables:
    input:
        expand(
            f"{RESULTS}/tables/{{table}}.parquet",
            table=["epochs", "io_time", "breakdown", "estimates"],
        ),
