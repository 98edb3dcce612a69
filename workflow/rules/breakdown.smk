"""Rules that break the slowest process down by class and compare repetitions."""


rule break_down_io_time:
    input:
        io_time=f"{TABLES}/io_time.parquet",
        library=library("break_down_io_time"),
    output:
        breakdown=table(f"{TABLES}/breakdown.parquet", "Breakdown by I/O class"),
    log:
        f"{LOGS}/break_down_io_time.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        may_hide=EXPERIMENT.may_hide_io,
    message:
        "Breaking down the I/O time of the slowest process."
    script:
        "../scripts/break_down_io_time.py"


rule compare_repetitions:
    input:
        io_time=f"{TABLES}/io_time.parquet",
        epochs=f"{TABLES}/epochs.parquet",
        library=library("compare_repetitions"),
    output:
        spread=table(f"{TABLES}/spread.parquet", "Spread of repetitions"),
    log:
        f"{LOGS}/compare_repetitions.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        max_spread_percent=SETTINGS["figures"]["max_spread_percent"],
    message:
        "Comparing the repetitions of each point."
    script:
        "../scripts/compare_repetitions.py"
