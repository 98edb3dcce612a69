"""Rules that train a small network on files divided in several ways among processes.

Training and test do not depend on the runs, and nothing is timed. The figure is not
part of the report, which shows only the main sweep.
"""

ACCURACY = f"{RESULTS}/accuracy"
ACCURACY_STUDY = SETTINGS["studies"]["accuracy"]
ACCURACY_SHUFFLES = ["global", "local", "biased"]
# All settings that determine a training; the margin does not.
TRAINING_STUDY = {
    key: value
    for key, value in ACCURACY_STUDY.items()
    if key not in ("networks", "margin_points", "with_policies")
}


wildcard_constraints:
    network="|".join(ACCURACY_STUDY["networks"]),


rule generate_samples:
    input:
        library=library("generate_samples"),
    output:
        samples=temp(directory(f"{ACCURACY}/samples")),
    log:
        f"{LOGS}/generate_samples.log",
    localrule: True
    conda:
        "../../environment.yml"
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
        samples=f"{ACCURACY}/samples",
        library=library("train_network"),
    output:
        accuracy=f"{ACCURACY}/trainings/{{network}}.parquet",
    log:
        f"{LOGS}/train_network/{{network}}.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        study=TRAINING_STUDY,
        shuffles=ACCURACY_SHUFFLES,
        seed=SETTINGS["training"]["seed"],
    message:
        "Training network {wildcards.network}; progress in {log}."
    script:
        "../scripts/train_network.py"


rule compare_accuracy:
    input:
        accuracy=expand(
            f"{ACCURACY}/trainings/{{network}}.parquet",
            network=ACCURACY_STUDY["networks"],
        ),
        library=library("compare_accuracy"),
    output:
        accuracy=f"{ACCURACY}/accuracy.parquet",
        tests=f"{ACCURACY}/accuracy_tests.parquet",
    log:
        f"{LOGS}/compare_accuracy.log",
    localrule: True
    conda:
        "../../environment.yml"
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
        text=f"{ACCURACY}/summary.txt",
    log:
        f"{LOGS}/accuracy.log",
    localrule: True
    conda:
        "../../environment.yml"
    resources:
        terminal="log",
    shell:
        "cat {input.text:q} > {log:q}"
