"""The rule that decides what limits each point, for all figures and pages."""


rule decide_limits:
    input:
        breakdown="<tables>/breakdown.parquet",
        storage_time=STORAGE_TIME,
        stalls=MODELS.stalls_of_training,
        library=OPENING.library("decide_limits"),
    output:
        table("<tables>/limits.parquet", "What limits each point"),
    log:
        "<logs>/decide_limits.log",
    priority: 1  # figures wait for it
    params:
        epoch=SETTINGS["figures"]["epoch"],
        may_hide=EXPERIMENT.may_hide_io,
    message:
        "Deciding what limits each point."
    script:
        "../scripts/decide_limits.py"
