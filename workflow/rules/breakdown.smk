"""Rules that break the I/O time of the slowest process down by class."""


rule break_down_io_time:
    input:
        io_time=f"{RESULTS}/tables/io_time.parquet",
        library=library("break_down_io_time", "breakdown", "io_class", "tables"),
    output:
        breakdown=f"{RESULTS}/tables/breakdown.parquet",
    log:
        f"{LOGS}/break_down_io_time.log",
    localrule: True
    conda:
        "../../environment.yml"
    message:
        "Breaking down the I/O time of the slowest process."
    script:
        "../scripts/break_down_io_time.py"
