"""What all rules share: the checked experiment, its paths and its points."""

import json
import os
import re
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path

from snakemake.exceptions import WorkflowError

sys.path.append(str(Path(workflow.basedir) / "workflow" / "scripts"))

from tierscope.config import read_experiment
from tierscope.description import description_hash, differences
from tierscope.scenario import Point, Scenario
from tierscope.validation import ConfigError

from tierscope import job, slurm
from tierscope.io_class import IOClass
from tierscope.lock import LockedError, lock_experiment
from tierscope.model.network import ModelError
from tierscope.policies import DYNAMIC, PEERS
from tierscope.policy_comparison import has_policies, without_reference
from tierscope.prediction import studied_pairs, written_pairs
from tierscope.tiers import TierError
from tierscope.tiers.emulated import emulated_gfs
from tierscope.whatif_truth import check_can_improve

try:
    EXPERIMENT = read_experiment(config, Path(workflow.basedir) / "resources")
except ConfigError as error:
    raise WorkflowError(str(error))

RESULTS = f"results/{EXPERIMENT.name}"
RUN = f"{RESULTS}/runs/{{scenario}}/cache-{{cache_rate}}/rep-{{repetition}}"
LOGS = f"{RESULTS}/logs"
BENCHMARK_LOG = (
    f"{LOGS}/run_benchmark/{{scenario}}/cache-{{cache_rate}}_rep-{{repetition}}"
)
ALL_POINTS = EXPERIMENT.all_points
POINTS = {point for points in ALL_POINTS.values() for point in points}
BATCH_JOBS = Path(RESULTS, ".slurm-jobs")
SYSTEM = EXPERIMENT.system
SETTINGS = EXPERIMENT.settings
LATENESS_LIMIT = f"--max-lateness-percent {SETTINGS['audit']['max_lateness_percent']}"
# What a benchmark's line says where it is a job of a scheduler.
JOB_SIZE = ""
if SYSTEM.job.scheduler:
    JOB_SIZE = ": {resources.nodes} nodes, {resources.runtime} minutes at most"


wildcard_constraints:
    scenario="|".join(re.escape(scenario.name) for scenario in ALL_POINTS),
    sweep="|".join(EXPERIMENT.sweeps),
    cache_rate="|".join({f"{point.cache_rate_percent:03d}" for point in POINTS}),
    repetition="|".join({str(point.repetition) for point in POINTS}),
    dataset="|".join(EXPERIMENT.datasets),
    calibration="|".join(SETTINGS["model"]["calibrations"]),
    n_osts=r"\d+",


# What decisions of policies depend on, for `library`.
POLICY_MODULES = (
    "lmdb_settings",
    "policies/__init__",
    "policies/adhoc",
    "policies/clairvoyant",
    "policies/lru",
    "policies/monarch",
    "policies/node",
    "policies/pinning",
    "policies/static",
    "scenario",
)

# What a model's answer depends on, for `library`.
MODEL_MODULES = (
    "breakdown",
    "io_class",
    "model/bounds",
    "model/calibration",
    "model/calibration_result",
    "model/demands",
    "model/events",
    "model/fixed_point",
    "model/mva",
    "model/network",
    "model/observations",
    "model/order_statistics",
    "model/predict",
    "model/probe_times",
    "model/product_form",
    "model/simulate",
    "model/simulated_run",
    "model/starting_values",
    "model/tiered",
    "probes",
    "shuffle",
    "tables",
    "tiers/device",
    "tiers/scale",
    *POLICY_MODULES,
)


def library(script, *modules):
    """Return a rule's script and the modules it uses: editing one reruns the rule."""
    names = [script, *(f"tierscope/{module}" for module in modules)]
    return [workflow.source_path(f"../scripts/{name}.py") for name in names]


def run_files(name, sweep="tables"):
    """Return a file of every run of the experiment's sweep, or of that of a study."""
    return [
        f"{RESULTS}/runs/{scenario.name}/{point.path}/{name}"
        for scenario, points in EXPERIMENT.sweeps[sweep].items()
        for point in points
    ]


def audited_files():
    """Return the audits of the sweep: of simulated runs only of those with a log."""
    return [
        f"{RESULTS}/runs/{scenario.name}/{point.path}/audit.json"
        for scenario, points in EXPERIMENT.sweep.items()
        for point in points
        if not EXPERIMENT.simulated or keeps_files(scenario)
    ]


def keeps_files(scenario):
    """Return whether a scenario's files stay on their node, each a file of its own."""
    moves = scenario.policy in (*DYNAMIC, *PEERS)
    return not moves and not scenario.reads_database


def of_sweep(name):
    """Return the function that names a file of every run of a rule's sweep."""
    return lambda wildcards: run_files(name, wildcards.sweep)


def if_devices_can_be_faster(path):
    """Return the function that names a study's file, or refuses what is real.

    Only here: other targets of an experiment on real storage must work.
    """

    def name(wildcards):
        improvements = SETTINGS["studies"]["whatif_truth"]["improvements"]
        try:
            check_can_improve(asdict(SYSTEM), EXPERIMENT.simulated, improvements)
        except ModelError as error:
            raise WorkflowError(str(error))
        return path

    return name


def dynamic_run_files(name, sweep="tables"):
    """Return a file of every run of a sweep whose policy decides while it runs."""
    return [
        f"{RESULTS}/runs/{scenario.name}/{point.path}/{name}"
        for scenario, points in EXPERIMENT.sweeps[sweep].items()
        for point in points
        if scenario.policy in DYNAMIC
    ]


def of_dynamic(name):
    """Return the function that names a file of every such run of a rule's sweep."""
    return lambda wildcards: dynamic_run_files(name, wildcards.sweep)


def background_table():
    """Return the table of the sweep's copies, if any policy copies."""
    has_copies = dynamic_run_files("background.parquet")
    return [f"{RESULTS}/tables/background.parquet"] if has_copies else []


def peer_run_files(name, sweep="tables"):
    """Return a file of every run of a sweep that reads from other nodes."""
    return [
        f"{RESULTS}/runs/{scenario.name}/{point.path}/{name}"
        for scenario, points in EXPERIMENT.sweeps[sweep].items()
        for point in points
        if scenario.policy in PEERS
    ]


def of_peers(name):
    """Return the function that names a file of every such run of a rule's sweep."""
    return lambda wildcards: peer_run_files(name, wildcards.sweep)


def peer_tables():
    """Return the tables of stage-in and of reads from peers, if there are any."""
    names = ("stage_in", "peers") if peer_run_files("peers.parquet") else ()
    return [f"{RESULTS}/tables/{name}.parquet" for name in names]


def peer_reads(wildcards):
    """Return a run's reads from peers, if its policy makes any."""
    has_peers = EXPERIMENT.scenario(wildcards.scenario).policy in PEERS
    return [f"{RUN}/peer_reads.parquet".format(**wildcards)] if has_peers else []


def decisions(wildcards):
    """Return what the nodes of a run decided, if its policy decides while it runs."""
    is_dynamic = EXPERIMENT.scenario(wildcards.scenario).policy in DYNAMIC
    return [f"{RUN}/decisions.parquet".format(**wildcards)] if is_dynamic else []


def has_databases(scene):
    """Return whether LMDB loaders are among the scenarios that fit a scene."""
    return any(
        scenario.reads_database and scene.items() <= scenario.keys.items()
        for scenario in EXPERIMENT.sweep
    )


def database_run_files(name, sweep):
    """Return a file of every run of a sweep whose samples are records of a database."""
    return [
        f"{RESULTS}/runs/{scenario.name}/{point.path}/{name}"
        for scenario, points in EXPERIMENT.sweeps[sweep].items()
        for point in points
        if scenario.reads_database
    ]


# What the study of nodes comes to.
NODE_TABLES = (
    "policy_epochs",
    "policy_totals",
    "node_epochs",
    "node_savings",
    "node_switches",
)


def node_table(name):
    """Return a table of the study of nodes, if it is made."""
    return [f"{RESULTS}/nodes/{name}.parquet"] if EXPERIMENT.sweeps["nodes"] else []


def accuracy_tests():
    """Return the tests of the study of accuracy, if they are to judge a claim."""
    wanted = SETTINGS["studies"]["accuracy"]["with_policies"]
    return [f"{RESULTS}/accuracy/accuracy_tests.parquet"] if wanted else []


def if_nodes_vary(files):
    """Return the function that names files of the study of nodes, or refuses."""

    def names(wildcards):
        if not EXPERIMENT.sweeps["nodes"]:
            raise WorkflowError(
                "config: studies.nodes.n_nodes: got [], expected numbers of nodes, as in "
                "config/policies.yaml"
            )
        return files

    return names


def if_compared(files, compared, lacking):
    """Return the function that names files, or says why there is no comparison."""

    def names(wildcards):
        if lacking:
            raise WorkflowError(
                f"sweep: {lacking.name} has no run at cache rate 0, expected one of its "
                "loader to compare with, such as that of policy none"
            )
        if not compared:
            policies = ", ".join(sorted({one.policy for one in EXPERIMENT.sweep}))
            raise WorkflowError(
                f"sweep.policies: got {policies}, expected several to compare, one "
                "with a cache rate above 0, or loaders of LMDB, as in config/policies.yaml"
            )
        return files

    return names


def description(wildcards):
    """Return all that a scenario's measurements depend on."""
    return EXPERIMENT.description(EXPERIMENT.scenario(wildcards.scenario))


def staging(wildcards):
    """Return the folder where a launch leaves its runs until they are taken over."""
    content = json.loads(json.dumps(description(wildcards)))
    return f"{RESULTS}/staging/{wildcards.scenario}-{description_hash(content)}"


def staged(wildcards):
    """Return the folder where a launch leaves one run."""
    return f"{staging(wildcards)}/{point_of(wildcards).path}"


def point_of(wildcards):
    """Return the point of a run."""
    return Point(int(wildcards.cache_rate), int(wildcards.repetition))


def launched_points(wildcards):
    """Return the points that one launch runs where a launch may run several."""
    scenario = EXPERIMENT.scenario(wildcards.scenario)
    return EXPERIMENT.launched_with(scenario, point_of(wildcards))


def launch_arguments(wildcards):
    """Return the end of the benchmark's command line: the limit and the points."""
    if SYSTEM.points_per_launch == "all":
        points = launched_points(wildcards)
    else:
        points = [point_of(wildcards)]
    names = [f"{point.cache_rate_percent}/{point.repetition}" for point in points]
    return " ".join([LATENESS_LIMIT, *names])


def benchmark_job(wildcards):
    """Return the job of a run: what it needs of time, memory and local storage."""
    scenario = EXPERIMENT.scenario(wildcards.scenario)
    if SYSTEM.points_per_launch == "all":
        return EXPERIMENT.job(scenario, launched_points(wildcards))
    return EXPERIMENT.job(scenario, [point_of(wildcards)])


def launch_resources(job_of, log, arguments):
    """Return what a launch asks for; a site's own numbers come before ours.

    `job_of` returns the job by wildcards, `log` is its log without suffix, `arguments`
    is the end of its command line.
    """

    def launcher(wildcards):
        return job.launcher(job_of(wildcards).system, log=log.format(**wildcards))

    def nodes(wildcards):
        return job_of(wildcards).system.n_nodes

    def minutes(wildcards, attempt):
        return job_of(wildcards).minutes * attempt

    def memory(wildcards):
        return job_of(wildcards).memory_mib

    def of_site(wildcards, name):
        return job_of(wildcards).resources()[name]

    names = SYSTEM.job.resources.get("run_benchmark", {})
    return {
        "mpi": launcher,
        "tasks": SYSTEM.n_processes,
        "nodes": nodes,
        "runtime": minutes,
        "mem_mb": memory,
        "gfs": 1,
        # Not parameters: a longer sweep or another limit must not repeat finished runs,
        # nor must another set-up of the job.
        "launch": arguments,
        "setup": setup_commands,
        "python": sys.executable,  # of the job, whatever the set-up puts on PATH
    } | {name: partial(of_site, name=name) for name in names}


def setup_commands(wildcards):
    """Return the shell lines before the launcher; the site's may use unset names."""
    commands = " && ".join(f"{{ {line}\n}}" for line in ["set +u", *SYSTEM.job.setup])
    steps = [(commands, "a line of job.setup failed")]
    if EXPERIMENT.runtime in ("auto", "builtin") or SYSTEM.source == "emulated":
        compilation = "make --silent -C workflow/native"
        steps.append((compilation, "compiling workflow/native failed: make, cc?"))
    return " && ".join(
        f'{{ {step} || {{ echo "tierscope: {failure}" >&2; false; }}; }}'
        for step, failure in steps
    )


def generation_resources():
    """Return what the generation of a dataset asks for."""

    def minutes(wildcards):
        dataset = EXPERIMENT.datasets[wildcards.dataset]
        return job.generation_minutes(dataset, SYSTEM.job.estimates)

    site = job.site_resources(SYSTEM, "generate_dataset")
    return {"runtime": minutes, "gfs": 1} | site


def manifest(wildcards):
    """Return the manifest of a scenario's dataset."""
    scenario = EXPERIMENT.scenario(wildcards.scenario)
    kind = "-lmdb" if scenario.reads_database else ""
    return f"{RESULTS}/datasets/{scenario.dataset}-{scenario.n_osts}ost{kind}.parquet"


READ_TABLES = ("read_calls", "record_reads", "faults")


def read_tables(wildcards):
    """Return the tables of what a run of an LMDB loader read."""
    if not EXPERIMENT.scenario(wildcards.scenario).reads_database:
        return []
    return [f"{RUN}/{name}.parquet".format(**wildcards) for name in READ_TABLES]


def keep(folder, *tables):
    """Return a command that takes further tables of a run over from where it was staged.

    They are linked, so that a start after a killed one finds them again, and touched, as
    they were written before run.json, their input.
    """
    names = " ".join(f"{name}.parquet" for name in tables)
    return (
        f"{{{{ for name in {names}; do"
        f" ln -f {{params.staged:q}}/$name {folder}/$name;"
        f" touch {folder}/$name; done; }}}} 2> {{log:q}}"
    )


def n_object_servers(wildcards):
    """Return how many object servers an emulated GFS has, None for a real one."""
    if SYSTEM.gfs.kind != "emulated":
        return None
    return emulated_gfs(asdict(SYSTEM), int(wildcards.n_osts)).n_object_servers


def prediction_studies(wildcards):
    """Return what is predicted from what, and the descriptions of what is predicted."""
    scenarios = {
        tuple(scenario.keys.values()): scenario
        for scenario in EXPERIMENT.sweeps["predict"]
    }
    keys = [scenario.keys for scenario in scenarios.values()]
    if EXPERIMENT.simulated:
        pairs = written_pairs(keys)
    else:
        model = SETTINGS["model"]
        pairs = studied_pairs(keys, model["calibrations"], model["calibration"])
    return [
        {
            "pair": asdict(pair),
            "description": EXPERIMENT.model_description(
                scenarios[tuple(pair.scenario.values())]
            ),
        }
        for pair in pairs
    ]


def figure(name, source=EXPERIMENT.source):
    """Return a figure's files: SVG, marked for Snakemake's report, PNG and PDF."""
    kinds = ("svg", "png", "pdf")
    files = {kind: f"{RESULTS}/figures/{name}.{kind}" for kind in kinds}
    files["svg"] = report(
        files["svg"],
        caption=f"../report/{caption_name(name)}.rst",
        category="Figures",
        labels=lambda wildcards: {
            "figure": FIGURES[name.format(**wildcards)],
            "source of the numbers": source,
        },
    )
    return files


def page(name, title):
    """Return a page for readers, marked for Snakemake's report."""
    return report(
        f"{RESULTS}/{name}.html",
        caption=f"../report/{name}.rst",
        category="Pages",
        labels={"page": title, "source of the numbers": EXPERIMENT.source},
    )


def caption_name(name):
    """Return the name of a figure's caption: all of Fig. 4 share one, fig4."""
    return re.sub(r"^(fig\d+)_.*", r"\1", name)


def caption(name):
    """Return what both reports say of a page or a figure."""
    return workflow.source_path(f"../report/{caption_name(name)}.rst")


def refuse_other_settings():
    """Stop if a finished run was measured with other settings than asked for now."""
    for scenario, points in ALL_POINTS.items():
        wanted = json.loads(json.dumps(EXPERIMENT.description(scenario)))
        for point in points:
            path = Path(RESULTS, "runs", scenario.name, point.path, "run.json")
            if not path.is_file():
                continue
            run = json.loads(path.read_text())
            if run["hash"] != description_hash(wanted):
                raise WorkflowError(
                    f"{path}: was measured with {'; '.join(differences(run, wanted))}; "
                    "give the experiment a new name, or delete its runs to measure "
                    "again."
                )


def start():
    """Check what cannot be checked in a dry run, before the first job."""
    global LOCK
    executor = workflow.executor_plugin.name
    try:
        LOCK = lock_experiment(Path(RESULTS))
        if EXPERIMENT.simulated:  # submits nothing, reads no file of the tiers
            return
        SYSTEM.check_executor(executor)
        SYSTEM.gfs.data_root()
        if executor == "slurm":
            check_slurm()
        if len(EXPERIMENT.methods) < len(SETTINGS["figures"]["methods"]):
            reason = EXPERIMENT.why_no_model
            print(
                f"No estimates by the model, only by the rule ({reason}).",
                file=sys.stderr,
            )
    except (ConfigError, LockedError, slurm.SlurmError, TierError) as error:
        raise WorkflowError(str(error))


def made_places():
    """Return where to look, among what this start made or found up to date."""
    files = (Path(file) for made in workflow.dag.jobs for file in made.output)
    made = {path for file in files for path in (file, *file.parents)}
    places = {
        "Report": "report.html",
        "Figures": "figures",
        "Tables": "tables",
        "Policies": "policies",
        "Nodes": "nodes",
        "Accuracy": "accuracy",
        "Predictions": "predict",
        "What-if truth": "whatif-truth",
        "Calibrations": "model",
    }
    found = [
        f"{name}: {RESULTS}/{place}"
        for name, place in places.items()
        if Path(RESULTS, place) in made
    ]
    return found or [f"Runs: {RESULTS}/runs"]


def check_slurm():
    """Check Slurm, and cancel the jobs of a snakemake that was killed: they run again."""
    if workflow.executor_settings.status_command == "squeue":
        slurm.check_memory_of_ended_jobs()
    marked = {
        job_id
        for unfinished in workflow.dag.jobs
        for job_id in workflow.persistence.external_jobids(unfinished)
    }
    if cancelled := slurm.cancel_left_jobs(BATCH_JOBS, marked):
        print(
            f"Cancelled Slurm jobs that an earlier start left: {', '.join(cancelled)}.",
            file=sys.stderr,
        )


# Jobs on other machines need the variables that the path of the GFS is made of.
workflow.register_envvars(*filter(os.environ.get, SYSTEM.gfs.variables))

if workflow.remote_exec:
    slurm.note_job(BATCH_JOBS)
elif not EXPERIMENT.simulated:  # or it is simulated again
    refuse_other_settings()
