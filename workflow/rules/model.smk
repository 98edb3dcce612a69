"""Rules that probe the storage and fit the system's devices to measurements."""

PROBES_LOG = "<logs>/probe_storage/{dataset}-{n_osts}ost.log"


rule describe_probes:
    output:
        "<experiment>/probes/{dataset}-{n_osts}ost/description.json",
    log:
        "<logs>/describe_probes/{dataset}-{n_osts}ost.log",
    params:
        description=MODELS.probe_description,
    message:
        "Writing down what the probes of {wildcards.dataset}, n_osts {wildcards.n_osts}, depend on."
    script:
        "../scripts/describe_scenario.py"


rule probe_storage:
    input:
        description="<experiment>/probes/{dataset}-{n_osts}ost/description.json",
        manifest=MODELS.probed_manifest,
    output:
        probes="<experiment>/probes/{dataset}-{n_osts}ost/probes.parquet",
        summary="<experiment>/probes/{dataset}-{n_osts}ost/probes.json",
    log:
        PROBES_LOG,
    priority: JOBS.before_audits
    resources:
        **JOBS.launch_resources(JOBS.probes, OPENING.placed(PROBES_LOG)),
        terminal="progress",
    params:
        folder=lambda wildcards, output: str(Path(output.probes).parent),
    message:
        f"Probing the storage, n_osts {{wildcards.n_osts}}{JOBS.size_words}."
    shell:
        f"{JOBS.launch} -- run_probes {{input.description:q}} --manifest {{input.manifest:q}}"
        " --output {params.folder:q} --native {resources.native:q}"


use rule compare_run_facts as compare_calibration_facts with:
    input:
        runs=refusing(MODELS.fitted_facts),
        library=OPENING.library("compare_run_facts"),
    output:
        "<experiment>/model/{calibration}/run_facts.parquet",
    log:
        "<logs>/compare_calibration_facts/{calibration}.log",
    message:
        "Comparing what runs and probes were measured with ({wildcards.calibration})."


# Of the runs of this start: those of the first one tell what would end a prediction.
rule recognise_program:
    input:
        runs=MODELS.seen_runs("run.json"),
        io_time=MODELS.seen_runs("io_time.parquet"),  # only audited runs count
        manifest=RUNS.manifest,
        library=OPENING.library("recognise_program"),
    output:
        "<experiment>/refusals/{scenario}.txt",
    log:
        "<logs>/recognise_program/{scenario}.log",
    resources:
        terminal="log",
    message:
        "Telling whether the models know how the program loads."
    script:
        "../scripts/recognise_program.py"


rule describe_program:
    input:
        runs=MODELS.seen_runs("run.json"),
        io_time=MODELS.seen_runs("io_time.parquet"),  # only audited runs count
        ideal_runs=MODELS.seen_ideal_runs("run.json"),
        ideal_io_time=MODELS.seen_ideal_runs("io_time.parquet"),
        manifest=RUNS.manifest,
        library=OPENING.library("describe_program"),
    output:
        "<experiment>/model/programs/{scenario}.json",
    log:
        "<logs>/describe_program/{scenario}.log",
    resources:
        terminal="log",
    params:
        description=lambda wildcards: MODELS.description(
            EXPERIMENT.scenario(wildcards.scenario)
        ),
    message:
        "Telling how the program of {wildcards.scenario} loads."
    script:
        "../scripts/describe_program.py"


rule calibrate_devices:
    input:
        program=refusing(MODELS.fitted_program),
        io_time=refusing(MODELS.fitted_runs),
        probes=refusing(MODELS.fitted_probes),
        manifest=refusing(MODELS.fitted_manifest),
        run_facts="<experiment>/model/{calibration}/run_facts.parquet",
        library=OPENING.library("calibrate_devices"),
    output:
        calibration="<experiment>/model/{calibration}/calibration.parquet",
        devices="<experiment>/model/{calibration}/devices.yaml",
        uncertainty="<experiment>/model/{calibration}/uncertainty.json",
    log:
        "<logs>/calibrate_devices/{calibration}.log",
    priority: 1  # figures wait for it
    resources:
        terminal="log",
    params:
        description=refusing(MODELS.fitted_description),
        parameters=lambda wildcards: MODELS.calibration(wildcards).parameters,
        tries_structures=lambda wildcards: MODELS.calibration(
            wildcards
        ).tries_structures,
    message:
        f"Fitting the devices of {SYSTEM.name} to measurements: {{wildcards.calibration}}."
    script:
        "../scripts/calibrate_devices.py"


rule calibrate:
    input:
        refusing(MODELS.fitted),
