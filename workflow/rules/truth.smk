"""Rules that make the devices faster and compare the effect with its estimates.

The runs are those of sweep `whatif-truth`: the figures' scenario on the original
devices and on faster ones. The figure is not part of the report, which shows only the
main sweep.
"""


rule compare_whatif_truth:
    input:
        io_time=refusing(
            "<experiment>/whatif-truth/io_time.parquet", MODELS.refuse_real_devices
        ),
        devices=MODELS.of_calibration("devices.yaml"),
        library=OPENING.library("compare_whatif_truth"),
    output:
        table="<experiment>/whatif-truth/whatif_truth.parquet",
        summary=table(
            "<experiment>/whatif-truth/whatif_truth_summary.parquet",
            "Errors of the what-if",
        ),
    log:
        "<logs>/compare_whatif_truth.log",
    params:
        descriptions=MODELS.improved_descriptions,
        points=MODELS.improved_points,
        model=SETTINGS["model"]["whatif"],
        calibration=EXPERIMENT.used_calibration or AS_WRITTEN,
    message:
        "Comparing runs on faster devices with the estimates of rule and model."
    script:
        "../scripts/compare_whatif_truth.py"


rule whatif_truth:
    name:
        "whatif-truth"
    input:
        figure_files("whatif_truth"),
        text="<experiment>/whatif-truth/summary.txt",
    log:
        "<logs>/whatif_truth.log",
    resources:
        terminal="log",
    shell:
        "cat {input.text:q} > {log:q}"
