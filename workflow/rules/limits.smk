"""The rule that decides what limits each point, for all figures and pages."""


rule decide_limits:
    input:
        breakdown=f"{TABLES}/breakdown.parquet",
        storage_time=STORAGE_TIME,
        stalls=STALLS_OF_TRAINING,
        library=library("decide_limits"),
    output:
        table(LIMITS, "What limits each point"),
    log:
        f"{LOGS}/decide_limits.log",
    priority: 1  # figures wait for it
    localrule: True
    conda:
        "../../environment.yml"
    params:
        epoch=SETTINGS["figures"]["epoch"],
        may_hide=EXPERIMENT.may_hide_io,
    message:
        "Deciding what limits each point."
    script:
        "../scripts/decide_limits.py"
