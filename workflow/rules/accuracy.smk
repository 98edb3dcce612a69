"""Rules that train a small network on files divided in several ways among processes.

Training and test do not depend on the runs, and nothing is timed. The figure is not
part of the report, which shows only the main sweep.
"""

ACCURACY_STUDY = SETTINGS["studies"]["accuracy"]


wildcard_constraints:
    network="|".join(ACCURACY_STUDY["networks"]),


rule generate_samples:
    input:
        library=OPENING.library("generate_samples"),
    output:
        samples=temp(directory("<experiment>/accuracy/samples")),
    log:
        "<logs>/generate_samples.log",
    params:
        n_classes=ACCURACY_STUDY["n_classes"],
        n_files={part: ACCURACY_STUDY[f"n_{part}_files"] for part in ("train", "test")},
        seed=SETTINGS["training"]["seed"],
    message:
        "Generating labelled samples."
    script:
        "../scripts/generate_samples.py"


rule train_network:
    input:
        samples="<experiment>/accuracy/samples",
        library=OPENING.library("train_network"),
    output:
        accuracy="<experiment>/accuracy/trainings/{network}.parquet",
    log:
        "<logs>/train_network/{network}.log",
    params:
        study=FIGURES.trained,
        shuffles=["global", "local", "biased"],
        seed=SETTINGS["training"]["seed"],
    message:
        "Training network {wildcards.network}; progress in {log}."
    script:
        "../scripts/train_network.py"


rule compare_accuracy:
    input:
        accuracy=expand(
            "<experiment>/accuracy/trainings/{network}.parquet",
            network=ACCURACY_STUDY["networks"],
        ),
        library=OPENING.library("compare_accuracy"),
    output:
        accuracy="<experiment>/accuracy/accuracy.parquet",
        tests="<experiment>/accuracy/accuracy_tests.parquet",
    log:
        "<logs>/compare_accuracy.log",
    params:
        study=ACCURACY_STUDY,
        seed=SETTINGS["training"]["seed"],
    message:
        "Testing the differences in accuracy."
    script:
        "../scripts/compare_accuracy.py"


rule accuracy:
    input:
        figure_files("accuracy"),
        text="<experiment>/accuracy/summary.txt",
    log:
        "<logs>/accuracy.log",
    resources:
        terminal="log",
    shell:
        "cat {input.text:q} > {log:q}"
