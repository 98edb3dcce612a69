"""What the rules of models share: what probes need and what a calibration takes."""

from tierscope.probes import lfs_rate_percent

PROBES = f"{RESULTS}/probes/{{dataset}}-{{n_osts}}ost"
PROBES_LOG = f"{LOGS}/probe_storage/{{dataset}}-{{n_osts}}ost"
CALIBRATION = f"{RESULTS}/model/{{calibration}}"


def probe_description(wildcards):
    """Return all that the probes of a dataset on one OST count depend on."""
    return EXPERIMENT.probe_description(wildcards.dataset, int(wildcards.n_osts))


def probe_resources():
    """Return what a launch of the probes asks for: no less than a run of a point."""

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
