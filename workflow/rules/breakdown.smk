"""Rules that break the slowest process down by class and compare repetitions."""


rule break_down_io_time:
    input:
        io_time="<tables>/io_time.parquet",
        library=OPENING.library("break_down_io_time"),
    output:
        breakdown=table("<tables>/breakdown.parquet", "Breakdown by I/O class"),
    log:
        "<logs>/break_down_io_time.log",
    params:
        may_hide=EXPERIMENT.may_hide_io,
    message:
        "Breaking down the I/O time of the slowest process."
    script:
        "../scripts/break_down_io_time.py"


rule compare_repetitions:
    input:
        io_time="<tables>/io_time.parquet",
        epochs="<tables>/epochs.parquet",
        library=OPENING.library("compare_repetitions"),
    output:
        spread=table("<tables>/spread.parquet", "Spread of repetitions"),
    log:
        "<logs>/compare_repetitions.log",
    params:
        max_spread_percent=SETTINGS["figures"]["max_spread_percent"],
    message:
        "Comparing the repetitions of each point."
    script:
        "../scripts/compare_repetitions.py"
