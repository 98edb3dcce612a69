"""Rules of the prediction study: models calibrated on few points predict all others.

Its figure is drawn on request (`snakemake --profile local predict`). It is not part of
the report, which shows only the main sweep.
"""


rule predict_io_time:
    input:
        io_time="<experiment>/predict/io_time.parquet",
        epochs="<experiment>/predict/epochs.parquet",
        programs=refusing(MODELS.predicted_programs),
        devices=refusing(MODELS.predicting_devices),
        manifests=refusing(MODELS.predicted_manifests),
        judgements=refusing(MODELS.predicting_judgements),
        observations=RUNS.observations("predict"),
        library=OPENING.library("predict_io_time"),
    output:
        predictions="<experiment>/predict/predictions.parquet",
        epochs="<experiment>/predict/predicted_epochs.parquet",
        errors=table(
            "<experiment>/predict/prediction_errors.parquet", "Errors of the models"
        ),
        summary="<experiment>/predict/summary.txt",
    log:
        "<logs>/predict_io_time.log",
    resources:
        terminal="log",
    params:
        calibrations=list(EXPERIMENT.calibrations),  # none of simulated runs
        left_out={} if EXPERIMENT.simulated else EXPERIMENT.left_out_calibrations,
        simulated=EXPERIMENT.simulated,
        studies=refusing(MODELS.predicted_studies),
        provenance=FIGURES.provenance,
    message:
        "Predicting the I/O time of all measured points."
    script:
        "../scripts/predict_io_time.py"


rule predict:
    input:
        rules.predict_io_time.output,
        figure_files("prediction"),
