"""Rules of the prediction study: models calibrated on few points predict all others.

Its figure is drawn on request (`snakemake --profile local predict`). It is not part of
the report, which shows only the main sweep.
"""

PREDICT = f"{RESULTS}/predict"


rule predict_io_time:
    input:
        io_time=f"{PREDICT}/io_time.parquet",
        epochs=f"{PREDICT}/epochs.parquet",
        programs=predicted_programs,
        devices=calibration_devices,
        manifests=lambda wildcards: model_manifests(
            scenario for _, scenario in prediction_studies(wildcards)
        ),
        judgements=calibration_judgements,
        observations=observations("predict"),
        library=library("predict_io_time"),
    output:
        predictions=f"{PREDICT}/predictions.parquet",
        epochs=f"{PREDICT}/predicted_epochs.parquet",
        errors=table(f"{PREDICT}/prediction_errors.parquet", "Errors of the models"),
        summary=f"{PREDICT}/summary.txt",
    log:
        f"{LOGS}/predict_io_time.log",
    localrule: True
    conda:
        "../../environment.yml"
    resources:
        terminal="log",
    params:
        calibrations=[] if EXPERIMENT.simulated else list(EXPERIMENT.calibrations),
        left_out={} if EXPERIMENT.simulated else EXPERIMENT.left_out_calibrations,
        simulated=EXPERIMENT.simulated,
        studies=lambda wildcards: [
            {"pair": asdict(pair), "description": model_description(scenario)}
            for pair, scenario in prediction_studies(wildcards)
        ],
        provenance=PROVENANCE,
    message:
        "Predicting the I/O time of all measured points."
    script:
        "../scripts/predict_io_time.py"


rule predict:
    input:
        rules.predict_io_time.output,
        figure_files("prediction"),
