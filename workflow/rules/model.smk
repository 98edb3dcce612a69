"""Rules that probe the storage and fit the system's devices to measurements."""


rule describe_probes:
    output:
        f"{PROBES}/description.json",
    log:
        f"{LOGS}/describe_probes/{{dataset}}-{{n_osts}}ost.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        description=lambda wildcards: probe_description(wildcards).as_json(),
    message:
        "Writing down what the probes of {wildcards.dataset}, n_osts {wildcards.n_osts}, depend on."
    script:
        "../scripts/describe_scenario.py"


rule probe_storage:
    input:
        description=f"{PROBES}/description.json",
        manifest=probed_manifest,
    output:
        probes=f"{PROBES}/probes.parquet",
        summary=f"{PROBES}/probes.json",
    log:
        f"{PROBES_LOG}.log",
    priority: BEFORE_AUDITS
    conda:
        "../../environment.yml"
    resources:
        **launch_resources(probe_job, PROBES_LOG),
        terminal="progress",
    params:
        folder=lambda wildcards: PROBES.format(**wildcards),
    message:
        f"Probing the storage, n_osts {{wildcards.n_osts}}{JOB_SIZE}."
    shell:
        f"{LAUNCH} -- run_probes {{input.description:q}} --manifest {{input.manifest:q}}"
        " --output {params.folder:q} --native {resources.native:q}"


use rule compare_run_facts as compare_calibration_facts with:
    input:
        runs=calibration_facts,
        library=library("compare_run_facts"),
    output:
        f"{CALIBRATION}/run_facts.parquet",
    log:
        f"{LOGS}/compare_calibration_facts/{{calibration}}.log",
    message:
        "Comparing what runs and probes were measured with ({wildcards.calibration})."


# Of the runs of this start: those of the first one tell what would end a prediction.
rule recognise_program:
    input:
        runs=seen_runs("run.json"),
        io_time=seen_runs("io_time.parquet"),  # only audited runs count
        manifest=manifest,
        library=library("recognise_program"),
    output:
        f"{RESULTS}/refusals/{{scenario}}.txt",
    log:
        f"{LOGS}/recognise_program/{{scenario}}.log",
    localrule: True
    conda:
        "../../environment.yml"
    resources:
        terminal="log",
    message:
        "Telling whether the models know how the program loads."
    script:
        "../scripts/recognise_program.py"


rule describe_program:
    input:
        runs=seen_runs("run.json"),
        io_time=seen_runs("io_time.parquet"),  # only audited runs count
        ideal_runs=seen_runs("run.json", is_ideal=True),
        ideal_io_time=seen_runs("io_time.parquet", is_ideal=True),
        manifest=manifest,
        library=library("describe_program"),
    output:
        PROGRAM_MODEL,
    log:
        f"{LOGS}/describe_program/{{scenario}}.log",
    localrule: True
    conda:
        "../../environment.yml"
    resources:
        terminal="log",
    params:
        description=lambda wildcards: model_description(
            EXPERIMENT.scenario(wildcards.scenario)
        ),
    message:
        "Telling how the program of {wildcards.scenario} loads."
    script:
        "../scripts/describe_program.py"


rule calibrate_devices:
    input:
        program=calibrated_program,
        io_time=calibration_runs,
        probes=calibration_probes,
        manifest=lambda wildcards: model_manifest(calibration(wildcards).scenario),
        run_facts=f"{CALIBRATION}/run_facts.parquet",
        library=library("calibrate_devices"),
    output:
        calibration=f"{CALIBRATION}/calibration.parquet",
        devices=f"{CALIBRATION}/devices.yaml",
        uncertainty=f"{CALIBRATION}/uncertainty.json",
    log:
        f"{LOGS}/calibrate_devices/{{calibration}}.log",
    priority: 1  # figures wait for it
    localrule: True
    conda:
        "../../environment.yml"
    resources:
        terminal="log",
    params:
        description=lambda wildcards: model_description(calibration(wildcards).scenario),
        parameters=lambda wildcards: calibration(wildcards).parameters,
        tries_structures=lambda wildcards: calibration(wildcards).tries_structures,
    message:
        f"Fitting the devices of {SYSTEM.name} to measurements: {{wildcards.calibration}}."
    script:
        "../scripts/calibrate_devices.py"


rule calibrate:
    input:
        lambda wildcards: expand(
            f"{CALIBRATION}/{{name}}",
            calibration=usable_calibrations(),
            name=("calibration.parquet", "devices.yaml", "uncertainty.json"),
        ),
