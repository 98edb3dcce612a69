"""Rules that probe the storage and fit the system's devices to measurements."""

from tierscope.probes import lfs_rate_percent

PROBES = f"{RESULTS}/probes/{{dataset}}-{{n_osts}}ost"
PROBES_LOG = f"{LOGS}/probe_storage/{{dataset}}-{{n_osts}}ost"
CALIBRATION = f"{RESULTS}/model/{{calibration}}"


def probe_description(wildcards):
    """Return all that the probes of a dataset on one OST count depend on."""
    return EXPERIMENT.probe_description(wildcards.dataset, int(wildcards.n_osts))


def probe_resources():
    """Return what a launch of the probes asks for: as much as a run of one epoch."""

    def probe_job(wildcards):
        scenario = Scenario(wildcards.dataset, int(wildcards.n_osts), "", "")
        rate = lfs_rate_percent(probe_description(wildcards))
        return EXPERIMENT.job(scenario, [Point(rate, 0)])

    def launcher(wildcards):
        return job.launcher(SYSTEM, log=PROBES_LOG.format(**wildcards))

    def of_site(wildcards, name):
        return probe_job(wildcards).resources()[name]

    names = SYSTEM.job.resources.get("run_benchmark", {})
    limit = SETTINGS["audit"]["max_lateness_percent"]
    return {
        "mpi": launcher,
        "tasks": SYSTEM.n_processes,
        "nodes": SYSTEM.n_nodes,
        "runtime": lambda wildcards: probe_job(wildcards).minutes,
        "mem_mb": lambda wildcards: probe_job(wildcards).memory_mib,
        "gfs": 1,
        # Not a parameter: another limit must not repeat finished probes.
        "launch": f"--max-lateness-percent {limit}",
        "setup": setup_commands,
        "python": sys.executable,
    } | {name: partial(of_site, name=name) for name in names}


def calibration(wildcards):
    """Return what a calibration takes; a wrong one is refused here, when asked for."""
    try:
        return EXPERIMENT.calibration(wildcards.calibration)
    except ConfigError as error:
        raise WorkflowError(str(error))


def calibration_runs(wildcards):
    """Return the I/O time of the runs that a calibration takes."""
    plan = calibration(wildcards)
    return [
        f"{RESULTS}/runs/{plan.scenario.name}/{point.path}/io_time.parquet"
        for point in plan.points
    ]


def calibration_probes(wildcards, name):
    """Return a file of all probes that a calibration takes."""
    plan = calibration(wildcards)
    return [
        f"{RESULTS}/probes/{plan.scenario.dataset}-{n_osts}ost/{name}"
        for n_osts in plan.probed_n_osts
    ]


rule describe_probes:
    output:
        f"{PROBES}/description.json",
    log:
        f"{LOGS}/describe_probes/{{dataset}}-{{n_osts}}ost.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        description=probe_description,
    message:
        "Writing down what the probes of {wildcards.dataset} depend on."
    script:
        "../scripts/describe_scenario.py"


rule probe_storage:
    input:
        description=f"{PROBES}/description.json",
        manifest=f"{RESULTS}/datasets/{{dataset}}-{{n_osts}}ost.parquet",
    output:
        probes=f"{PROBES}/probes.parquet",
        summary=f"{PROBES}/probes.json",
    log:
        f"{PROBES_LOG}.log",
    conda:
        "../../environment.yml"
    resources:
        **probe_resources(),
    params:
        folder=lambda wildcards: PROBES.format(**wildcards),
    message:
        f"Probe the storage, {{wildcards.n_osts}} OSTs{JOB_SIZE}."
    shell:
        LAUNCH_ALONE + " {{ {resources.setup} &&"
        " {resources.mpi} -n {resources.tasks} {resources.python:q}"
        " workflow/scripts/run_probes.py {input.description:q} --output {params.folder:q}"
        ' --native results/native --launch "$$-$(date +%s)" {resources.launch} ||'
        " " + SHOW_RANKS_FAILURE + "; }}"
        ' 2>&1 | tee "$log"'


rule calibrate_devices:
    input:
        io_time=calibration_runs,
        probes=lambda wildcards: calibration_probes(wildcards, "probes.parquet"),
        summaries=lambda wildcards: calibration_probes(wildcards, "probes.json"),
        library=library(
            "calibrate_devices",
            "breakdown",
            "io_class",
            "model/calibration",
            "model/calibration_result",
            "model/events",
            "model/network",
            "model/observations",
            "model/probe_times",
            "model/simulate",
            "model/simulated_run",
            "model/starting_values",
            "policies/pinning",
            "probes",
            "shuffle",
            "tables",
        ),
    output:
        calibration=f"{CALIBRATION}/calibration.parquet",
        devices=f"{CALIBRATION}/devices.yaml",
    log:
        f"{LOGS}/calibrate_devices/{{calibration}}.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        description=lambda wildcards: EXPERIMENT.model_description(
            calibration(wildcards).scenario
        ),
        parameters=lambda wildcards: calibration(wildcards).parameters,
        max_lateness_percent=SETTINGS["audit"]["max_lateness_percent"],
    message:
        "Fitting the devices of {SYSTEM.name} to measurements: {wildcards.calibration}."
    script:
        "../scripts/calibrate_devices.py"


rule calibrate:
    input:
        expand(
            f"{CALIBRATION}/{{name}}",
            calibration=SETTINGS["model"]["calibrations"],
            name=("calibration.parquet", "devices.yaml"),
        ),
