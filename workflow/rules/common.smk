"""Shared by all rules: the checked experiment, its paths and its points."""

import re
from dataclasses import asdict

from tierscope.core.io_class import IOClass
from tierscope.core.scenario import IDEAL_SWEEP, Point, Scenario
from tierscope.core.words import count_words
from tierscope.experiment import launches
from tierscope.experiment.start import Start
from tierscope.policies import FILES, PROGRAM, kind_of
from tierscope.storage.emulated.library import emulated_gfs

RUN = f"{RESULTS}/runs/{{scenario}}/cache-{{cache_rate}}/rep-{{repetition}}"
ALL_POINTS = EXPERIMENT.all_points
POINTS = {point for points in ALL_POINTS.values() for point in points}
SYSTEM = EXPERIMENT.system
SETTINGS = EXPERIMENT.settings
PROVENANCE = (
    f"{EXPERIMENT.provenance}, system {SYSTEM.name} ({SYSTEM.description}), "
    f"{count_words(SYSTEM.n_processes, 'process', 'processes', separator='')} on "
    f"{count_words(SYSTEM.n_nodes, 'node', separator='')}"
)
DATASET_TITLES = {name: dataset.title for name, dataset in EXPERIMENT.datasets.items()}
IDEAL = IDEAL_SWEEP in EXPERIMENT.sweeps  # whether there are ideal runs
# Of a run: its log, or the folder of its logs.
LOG = PROGRAM.log if EXPERIMENT.runs_program else FILES.log
# The launches of runs that are missing at the start, by the folder of a run. In a job
# all runs are there that it reads.
LAUNCHES = {}
if not (IS_JOB or EXPERIMENT.simulated):
    LAUNCHES = launches.missing_launches(EXPERIMENT, Path(RESULTS))
LAUNCHES_BY_MARKER = {f"{RESULTS}/{one.marker}": one for one in LAUNCHES.values()}
START = Start(EXPERIMENT, Path(RESULTS), SNAKEMAKE, logger.info, logger.warning)


# Jobs on other machines need the variables in the path of the GFS.
envvars:
    *filter(os.environ.get, SYSTEM.gfs.variables),


wildcard_constraints:
    scenario="|".join(re.escape(scenario.name) for scenario in ALL_POINTS),
    sweep="|".join(EXPERIMENT.sweeps),
    nth=r"\d+",
    cache_rate="|".join({f"{point.cache_rate_percent:03d}" for point in POINTS}),
    repetition="|".join({str(point.repetition) for point in POINTS}),
    dataset="|".join(EXPERIMENT.datasets),
    calibration="|".join(SETTINGS["model"]["calibrations"]),
    n_osts=r"\d+",


def run_files(name, sweep=MAIN_SWEEP, which=lambda scenario: True):
    """Return a file of every run of a sweep, or of the runs of some scenarios."""
    return [
        f"{RESULTS}/runs/{scenario.name}/{point.path}/{name}"
        for scenario, points in EXPERIMENT.sweeps[sweep].items()
        for point in points
        if which(scenario)
    ]


def ideal_files(name):
    """Return a file of every ideal run, if there are any."""
    return run_files(name, IDEAL_SWEEP) if IDEAL else []


def of_sweep(name, which=lambda scenario: True):
    """Return the function that names a file of each run of a rule's sweep."""
    return lambda wildcards: launched(run_files(name, wildcards.sweep, which))


def of_our_loaders(target, files):
    """Return the function that names files, or refuses a target for programs."""

    def names(wildcards):
        refuse_programs(target)
        return files

    return names


def refuse_programs(target):
    """Refuse a target that is about our loaders if a program of the user reads."""
    if EXPERIMENT.runs_program:
        raise WorkflowError(
            f"{target}: got loader.command, a program of yours; expected one of our "
            "loaders: the models and the paper's claims are about these."
        )


def if_measured(files):
    """Return files of which simulated runs have none: audits, what is made of them."""
    return [] if EXPERIMENT.simulated else files


def launched(files):
    """Return files of runs, in place of missing ones the marker of their launch.

    So the inputs of a job differ from those that Snakemake has noted, which makes it
    plan the job and the launch. After a launch, a checkpoint, it asks again.
    """
    found = {}
    for file in map(Path, files):
        launch = LAUNCHES.get(str(file.parent))
        if launch and launch.leaves(file.name) and not file.exists():
            marker = Path(RESULTS, launch.marker)
            if not marker.exists():
                found[str(marker)] = None
                continue
            launches.wait_until_seen(file)
        found[str(file)] = None
    return list(found)


def when_launched(files):
    """Return the function that names these files of launches."""
    return lambda wildcards: launched(files)


def of_run(name):
    """Return the function that names a file that a launch leaves of a rule's run."""
    return lambda wildcards: launched([f"{RUN.format(**wildcards)}/{name}"])[0]


def leaves(table):
    """Return the function that tests whether a scenario's runs have this table."""
    return lambda scenario: table in kind_of(scenario).tables + kind_of(scenario).sums


def why_no_audit(scenario):
    """Return why runs of a scenario have no log and so no audit, None if they do."""
    kind = kind_of(scenario)
    if not EXPERIMENT.simulated or kind.why_no_simulated_log is None:
        return None
    what = (
        f"loader {scenario.loader}"
        if scenario.reads_database
        else f"policy {scenario.policy}"
    )
    return f"{what}: {kind.why_no_simulated_log}"


def audited_files():
    """Return the audits of those runs of the sweep that have one."""
    return run_files("audit.json", which=lambda scenario: not why_no_audit(scenario))


def summed_tables(*names, sweep=MAIN_SWEEP):
    """Return the tables of a sweep that at least one kind of its runs has."""
    scenarios = EXPERIMENT.sweeps.get(sweep, ())
    return [
        f"{RESULTS}/{sweep}/{name}.parquet"
        for name in names
        if any(map(leaves(name), scenarios))
    ]


def observations(sweep=MAIN_SWEEP):
    """Return what real tiers did: where reads came from, and the machine's drift."""
    is_real = EXPERIMENT.source == "measured"
    names = ("verdicts", "drift") if is_real else ()
    names += ("statements",) if EXPERIMENT.runs_program else ()
    return [f"{RESULTS}/{sweep}/{name}.parquet" for name in names]


def background_table():
    """Return the table of the sweep's copies, if any policy copies."""
    return summed_tables("background")


def peer_tables():
    """Return the tables of stage-in and of reads from peers, if any."""
    return summed_tables("stage_in", "peers")


def program_tables():
    """Return the tables of what programs of the user did, if any."""
    certificate = [f"{TABLES}/certificate.parquet"] if EXPERIMENT.runs_program else []
    return summed_tables("other_io", "other_time", "statements") + certificate


def of_runs(runs, name):
    """Return the file of this name in each run's folder."""
    return [f"{run}/{name}" for run in runs]


def audited(runs):
    """Return the outputs of the audit of some runs; simulated ones have their times."""
    of_programs = PROGRAM.sums if EXPERIMENT.runs_program else ()
    if of_programs and background_table():
        of_programs += ("background",)
    return {
        "file_records": of_runs(runs, "file_records.parquet"),
        "io_time": if_measured(of_runs(runs, "io_time.parquet")),
        "audit": of_runs(runs, "audit.json"),
    } | {name: of_runs(runs, f"{name}.parquet") for name in of_programs}


def tables_of_kind(scenario, runs):
    """Return the tables of a scenario's runs, in addition to those of every run."""
    return [
        f"{run}/{name}.parquet" for run in runs for name in kind_of(scenario).tables
    ]


def run_tables(wildcards):
    """Return the tables of a run of this kind, in addition to those of every run."""
    scenario = EXPERIMENT.scenario(wildcards.scenario)
    return launched(tables_of_kind(scenario, [RUN.format(**wildcards)]))


def description(wildcards):
    """Return the settings that determine a scenario's measurements, for JSON."""
    return EXPERIMENT.description(EXPERIMENT.scenario(wildcards.scenario)).as_json()


def model_description(scenario):
    """Return the settings of a scenario's runs for models, for JSON."""
    return EXPERIMENT.model_description(scenario).as_json()


def point_of(wildcards):
    """Return the point of a run."""
    return Point(int(wildcards.cache_rate), int(wildcards.repetition))


def manifest_of(scenario):
    """Return the manifest of a scenario's dataset."""
    return f"{RESULTS}/{launches.manifest_of(scenario)}"


def model_manifest(scenario):
    """Return the manifest that may tell models on which server each file lies, if any."""
    reads_files = not (scenario.reads_database or scenario.runs_program)
    if EXPERIMENT.source != "measured" or not reads_files:
        return []
    return manifest_of(scenario)


def model_manifests(scenarios):
    """Return the manifest of each scenario, or none of any."""
    manifests = list(map(model_manifest, scenarios))
    return manifests if all(manifests) else []


def manifest(wildcards):
    """Return the manifest of the dataset that a run reads."""
    return manifest_of(EXPERIMENT.scenario(wildcards.scenario))


def n_object_servers(wildcards):
    """Return the number of object servers of an emulated GFS, None for a real one."""
    if SYSTEM.gfs.kind != "emulated":
        return None
    return emulated_gfs(SYSTEM, int(wildcards.n_osts)).n_object_servers
