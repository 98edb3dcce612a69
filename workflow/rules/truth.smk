"""Rules that make the devices faster and compare the effect with its estimates.

The runs are those of sweep `whatif-truth`: the figures' scenario on the original
devices and on faster ones. The figure is not part of the report, which shows only the
main sweep.
"""

from tierscope.core.studies import AS_WRITTEN

TRUTH = f"{RESULTS}/whatif-truth"
TRUTH_SWEEP = EXPERIMENT.sweeps["whatif-truth"]
TRUTH_POINTS = next(iter(TRUTH_SWEEP.values()), ())  # the same on all devices
# Simulated runs and their model use the devices of the system file.
TRUTH_CALIBRATION = None if EXPERIMENT.simulated else SETTINGS["model"]["calibration"]


rule compare_whatif_truth:
    input:
        io_time=of_improvable_devices(f"{TRUTH}/io_time.parquet"),
        devices=(
            f"{RESULTS}/model/{TRUTH_CALIBRATION}/devices.yaml"
            if TRUTH_CALIBRATION
            else []
        ),
        library=library("compare_whatif_truth"),
    output:
        table=f"{TRUTH}/whatif_truth.parquet",
        summary=table(f"{TRUTH}/whatif_truth_summary.parquet", "Errors of the what-if"),
    log:
        f"{LOGS}/compare_whatif_truth.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        descriptions=[EXPERIMENT.description(one).as_json() for one in TRUTH_SWEEP],
        points=list(map(asdict, TRUTH_POINTS)),
        model=SETTINGS["model"]["whatif"],
        calibration=TRUTH_CALIBRATION or AS_WRITTEN,
    message:
        "Comparing runs on faster devices with the estimates of rule and model."
    script:
        "../scripts/compare_whatif_truth.py"


rule whatif_truth:
    name:
        "whatif-truth"
    input:
        figure_files("whatif_truth"),
        text=f"{TRUTH}/summary.txt",
    log:
        f"{LOGS}/whatif_truth.log",
    localrule: True
    conda:
        "../../environment.yml"
    resources:
        terminal="log",
    shell:
        "cat {input.text:q} > {log:q}"
