"""Shared by the rules of models: inputs of probes, calibrations and studies."""

from tierscope.core.studies import holds_out, studied_pairs, written_pairs
from tierscope.experiment.checks import require_improvable_devices

PROBES = f"{RESULTS}/probes/{{dataset}}-{{n_osts}}ost"
PROBES_LOG = f"{LOGS}/probe_storage/{{dataset}}-{{n_osts}}ost"
CALIBRATION = f"{RESULTS}/model/{{calibration}}"
PROGRAM_MODEL = f"{RESULTS}/model/programs/{{scenario}}.json"


def probe_description(wildcards):
    """Return the settings that determine the probes of a dataset on one OST count."""
    return EXPERIMENT.probe_description(wildcards.dataset, int(wildcards.n_osts))


def probe_job(wildcards):
    """Return the job of the probes."""
    return EXPERIMENT.probe_job(wildcards.dataset, int(wildcards.n_osts))


def probed_manifest(wildcards):
    """Return the manifest of the dataset whose files are probed."""
    kind = "-files" if EXPERIMENT.runs_program else ""
    name = f"{wildcards.dataset}-{wildcards.n_osts}ost{kind}.parquet"
    return f"{RESULTS}/datasets/{name}"


def calibration(wildcards):
    """Return the plan of a calibration; a wrong one is refused only on request."""
    try:
        return EXPERIMENT.calibration(wildcards.calibration)
    except ConfigError as error:
        raise WorkflowError(str(error))


def usable_calibrations():
    """Return the names of the calibrations that the sweep has the runs for."""
    if not (names := list(EXPERIMENT.calibrations)):
        reasons = EXPERIMENT.left_out_calibrations.values()
        raise WorkflowError(next(iter(reasons), "config: model.calibrations: got none"))
    return names


def calibration_devices(wildcards):
    """Return the fitted devices that the prediction study needs."""
    if EXPERIMENT.simulated:
        return []
    return expand(f"{CALIBRATION}/devices.yaml", calibration=usable_calibrations())


def modelled_programs(scenario):
    """Return the file that tells how a program loads, if a program of the user reads."""
    if not EXPERIMENT.runs_program:
        return []
    if not IDEAL:
        raise WorkflowError(
            "config: sweep.ideal: got false, expected true (option --ideal of tierscope "
            "sweep): ideal runs tell the models what a program computes"
        )
    return [PROGRAM_MODEL.format(scenario=scenario.name)]


def predicted_programs(wildcards):
    """Return those files for all scenarios that are predicted."""
    return [
        path
        for scenario in EXPERIMENT.sweeps["predict"]
        for path in modelled_programs(scenario)
    ]


def calibrated_program(wildcards):
    """Return that file for the scenario that a calibration is fitted to."""
    return modelled_programs(calibration(wildcards).scenario)


def seen_runs(name, is_ideal=False):
    """Return the function that names a file of the runs that tell what a program is."""

    def names(wildcards):
        scenario = EXPERIMENT.scenario(wildcards.scenario)
        sweep = EXPERIMENT.sweeps[IDEAL_SWEEP if is_ideal else "predict"]
        runs = [
            f"{RESULTS}/runs/{one.name}/{point.path}/{name}"
            for one, points in sweep.items()
            for point in points
            if one.dataset == scenario.dataset
        ]
        return launched(runs)

    return names


def calibration_judgements(wildcards):
    """Return what else of the calibrations the prediction study needs."""
    if EXPERIMENT.simulated:
        return []
    return expand(
        f"{CALIBRATION}/{{name}}",
        calibration=usable_calibrations(),
        name=("calibration.parquet", "uncertainty.json"),
    )


def calibration_runs(wildcards):
    """Return the I/O time of the runs of a calibration."""
    plan = calibration(wildcards)
    return [
        f"{RESULTS}/runs/{plan.scenario.name}/{point.path}/io_time.parquet"
        for point in plan.points
    ]


def calibration_probes(wildcards):
    """Return the tables of all probes of a calibration."""
    plan = calibration(wildcards)
    return [
        f"{RESULTS}/probes/{plan.scenario.dataset}-{n_osts}ost/probes.parquet"
        for n_osts in plan.probed_n_osts
    ]


def calibration_facts(wildcards):
    """Return the descriptions of all runs and probes of a calibration."""
    runs = map(Path, calibration_runs(wildcards))
    probes = map(Path, calibration_probes(wildcards))
    return [
        *launched([str(path.with_name("run.json")) for path in runs]),
        *(str(path.with_suffix(".json")) for path in probes),
    ]


def of_improvable_devices(path):
    """Return the function that names a study's file, or refuses real devices.

    This is not checked at the start because other targets must work on real storage.
    """

    def name(wildcards):
        improvements = SETTINGS["studies"]["whatif_truth"]["improvements"]
        try:
            require_improvable_devices(SYSTEM, EXPERIMENT.simulated, improvements)
        except ConfigError as error:
            raise WorkflowError(str(error))
        return path

    return name


def prediction_studies(wildcards):
    """Return the pairs of the study, each with its scenario."""
    scenarios = {
        tuple(scenario.keys.values()): scenario
        for scenario in EXPERIMENT.sweeps["predict"]
    }
    keys = [scenario.keys for scenario in scenarios.values()]
    if EXPERIMENT.simulated:
        pairs = written_pairs(keys)
    else:
        pairs = studied_pairs(
            keys, EXPERIMENT.calibrations, SETTINGS["model"]["calibration"]
        )
        pairs = [one for one in pairs if holds_out(one, EXPERIMENT.sweeps["predict"])]
        if not pairs:
            raise WorkflowError(
                "config: sweep.cache_rates_percent: got only rates that the calibrations "
                "fit, expected others to predict"
            )
    return [(pair, scenarios[tuple(pair.scenario.values())]) for pair in pairs]
