"""Actions at the start, before any job, and after a failure."""

import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress

from tierscope.core.description import content_hash, difference_words
from tierscope.core.imports import digest_of_modules
from tierscope.storage.lease import NAME, LeaseError, hold_lease
from tierscope.storage.own_folder import FolderError
from tierscope.core.machine import TierError

from tierscope.experiment import slurm
from tierscope.experiment.plan import check_places, plan_lines, read_room
from tierscope.experiment.snakemake_internals import after_failure

BATCH_JOBS = Path(RESULTS, ".slurm-jobs")


def refuse_other_settings(scenarios):
    """Stop if a finished run was measured with other settings than the current ones."""
    for scenario in scenarios:
        wanted = settings_of(scenario)
        for point in ALL_POINTS[scenario]:
            path = Path(RESULTS, "runs", scenario.name, point.path, "run.json")
            if not path.is_file():
                continue
            run = json.loads(path.read_text())
            if run["hash"] != content_hash(wanted):
                raise WorkflowError(
                    f"{path}: was measured with {difference_words(run, wanted)}; "
                    "give the experiment a new name, or delete its runs to measure "
                    "again."
                )


def warn_of_other_modules():
    """Say before a launch that its runs cannot be joined with finished ones.

    Runs are compared when their tables are joined, which may be many hours later.
    """
    if "modules" in SETTINGS["allow_mixed"]:
        return
    present = digest_of_modules(SCRIPTS / "run_benchmark.py")
    for sweep in EXPERIMENT.sweeps:
        finished = [
            path for path in map(Path, run_files("run.json", sweep)) if path.exists()
        ]
        if len(finished) == len(run_files("run.json", sweep)):
            continue
        for path in finished:
            modules = json.loads(path.read_text()).get("modules")
            if modules != present:
                logger.warning(
                    f"{path.parent}: was measured with modules "
                    f"{(modules or 'unknown')[:12]}, but new runs are measured with "
                    f"{present[:12]}: they cannot be joined into one table. Delete the "
                    "runs made before to measure them again, or set allow_mixed: "
                    "[modules]."
                )
                return


def settings_of(scenario):
    """Return the settings that determine a scenario's runs, as read from JSON."""
    return json.loads(json.dumps(EXPERIMENT.description(scenario).as_json()))


def is_described_otherwise(scenario):
    """Return whether a scenario had other settings; a dry run reads only this file."""
    path = Path(RESULTS, "runs", scenario.name, "scenario.json")
    try:
        return json.loads(path.read_text()) != settings_of(scenario)
    except FileNotFoundError:
        return False
    except ValueError:  # incomplete file: check the runs themselves
        return True


def note_deleted_runs():
    """Write a note about deleted runs of each table (see `deletions`)."""
    for name, (table, files) in merged_runs().items():
        if not Path(table).exists():
            continue
        absent = [file for file in files if not Path(file).exists()]
        note = Path(LOGS, "deletions", f"{name}.txt")
        if absent and not is_noted(absent, note, Path(table)):
            with suppress(OSError):  # a dry run needs no note, a start reports it
                note.parent.mkdir(parents=True, exist_ok=True)
                # The time changes the content, so a second deletion is noticed as well.
                note.write_text("\n".join([f"missing at {time.time()}:", *absent, ""]))


def is_noted(absent, note, table):
    """Return whether a note names exactly these files and is newer than the table."""
    try:
        is_newer = note.stat().st_mtime > table.stat().st_mtime
        return is_newer and note.read_text().splitlines()[1:] == absent
    except OSError:
        return False


def merged_runs():
    """Return {name: (table, files of runs that it was made from)}."""
    merged = {
        sweep: (f"{RESULTS}/{sweep}/io_time.parquet", files_of_runs(sweep))
        for sweep in EXPERIMENT.sweeps
    }
    for name, plan in EXPERIMENT.calibrations.items():
        runs = [
            f"{RESULTS}/runs/{plan.scenario.name}/{point.path}/io_time.parquet"
            for point in plan.points
        ]
        merged[f"model-{name}"] = (f"{RESULTS}/model/{name}/devices.yaml", runs)
    return merged


def files_of_runs(sweep):
    """Yield the files of runs from which the tables of a sweep are made."""
    if not EXPERIMENT.simulated:
        for name in ("run.json", "epochs.parquet", "audit.json", "io_time.parquet"):
            yield from run_files(name, sweep)
        return
    for scenario, points in EXPERIMENT.sweeps[sweep].items():
        folder = f"{RESULTS}/runs/{scenario.name}/{first_sweep(scenario, points)}"
        yield from (f"{folder}/{name}.parquet" for name in ("epochs", "io_time"))


def start():
    """Make the checks that a dry run cannot make, before the first job."""
    end_in_a_thread()
    me = f"snakemake of experiment {EXPERIMENT.name} in {Path.cwd()}"
    try:
        hold_lease(Path(RESULTS, ".lease"), me)
        if EXPERIMENT.simulated:  # submits nothing, reads no file of the tiers
            return
        executor = SNAKEMAKE.executor()
        refuse_other_settings(ALL_POINTS)
        SYSTEM.check_executor(executor)
        gfs_root = SYSTEM.gfs.data_root().parent
        if uses_the_gfs():
            warn_of_other_modules()
            check_places(SYSTEM)
            # Only our own: jobs of another killed snakemake may still run.
            hold_lease(gfs_root / NAME, me, only_own=True)
        if executor == "slurm":
            check_slurm()
    except (ConfigError, FolderError, LeaseError, TierError) as error:
        raise WorkflowError(str(error))
    except (InterfaceError, slurm.SlurmError) as error:
        raise WorkflowError(str(error))
    except OSError as error:
        raise WorkflowError(f"{error.filename}: cannot be written: {error.strerror}.")


def uses_the_gfs():
    """Return whether a job generates or measures on the GFS, which excludes others."""
    return "gfs" in SNAKEMAKE.resources_in_use()


def end_in_a_thread():
    """Let Snakemake handle SIGTERM in a separate thread.

    Its handler takes a lock that the interrupted main thread may hold, for example
    while it finishes a job. Then Snakemake 9 would hang forever.
    """
    end_gracefully = signal.getsignal(signal.SIGTERM)
    if callable(end_gracefully):
        signal.signal(
            signal.SIGTERM, lambda *_: threading.Thread(target=end_gracefully).start()
        )


def made_places(made_files):
    """Return the folders of the results that this start made or found up to date."""
    made = {path for file in map(Path, made_files) for path in (file, *file.parents)}
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
    """Check Slurm, and cancel jobs of a killed snakemake, which will run again."""
    if SNAKEMAKE.status_command() == "squeue":
        slurm.check_memory_of_ended_jobs()
    if cancelled := slurm.cancel_left_jobs(BATCH_JOBS, SNAKEMAKE.batch_job_ids()):
        logger.info(
            f"Cancelled Slurm jobs that an earlier start left: {', '.join(cancelled)}."
        )


def end_batch_jobs():
    """Cancel the batch jobs that Snakemake has left, so that none runs in vain."""
    if SNAKEMAKE.executor() == "slurm":
        marked = try_to(SNAKEMAKE.batch_job_ids, logger.warning, set())
        with suppress(slurm.SlurmError):  # the next start cancels them
            slurm.cancel_forgotten_jobs(BATCH_JOBS, marked)


def mark_out_of_date():
    """Let the next start repeat all jobs that depend on a failed one.

    Snakemake removes the outputs of a failed job but records it as finished with its
    current inputs and parameters. It then treats dependent files as up to date, and the
    failure would be lost. Measurements are not repeated: neither runs, which are
    protected, nor other launches. A job ended by Ctrl-C needs no mark because Snakemake
    records it as unfinished. A failure is lost if snakemake is killed, or stops by its
    own error, while it waits for jobs that run beside the failed one.
    """
    for unfinished in SNAKEMAKE.jobs_after_failed():
        is_launch = "mpi" in unfinished.resources
        if not (is_launch or unfinished.has_protected_files):
            SNAKEMAKE.mark_unfinished(unfinished)


AFTER_FAILURE = {
    "cancel the remaining batch jobs": end_batch_jobs,
    "mark what depends on failed jobs": mark_out_of_date,
}


def why_no_estimates_by_the_model(made_files):
    """Return why new figures lack the requested model, if they do."""
    if ESTIMATES[RULE] not in made_files or MODEL not in SETTINGS["figures"]["methods"]:
        return []
    if (reason := EXPERIMENT.why_no_model) is None:
        return []
    return [f"No estimates by the model, only by the rule: {reason}."]


def left_out_calibrations(made_files):
    """Return why some calibrations were left out, if others were made."""
    made = {str(Path(path).parent) for path in made_files}
    if not any(f"{RESULTS}/model/{name}" in made for name in EXPERIMENT.calibrations):
        return []
    left_out = EXPERIMENT.left_out_calibrations.items()
    return [f"Calibration {name} left out: {reason}." for name, reason in left_out]


def remove_staging_folders():
    """Remove the empty folders of launches; `keep` uses the others."""
    staging = Path(RESULTS, "staging")
    for path in (*sorted(staging.rglob("*/"), reverse=True), staging):
        with suppress(OSError):  # it holds tables, or a run that was not moved
            path.rmdir()


# Jobs on other machines need the variables in the path of the GFS.
envvars:
    *filter(os.environ.get, SYSTEM.gfs.variables),


def lacks_runs():
    """Return whether runs of the sweep are missing."""
    return not all(Path(run).exists() for run in run_files("run.json"))


def check_plan():
    """Make the checks of a start that need no plan, for a dry run."""
    warn_of_other_modules()
    try:
        check_places(SYSTEM)
    except TierError as error:  # a plan may be printed elsewhere than it is run
        logger.warning(str(error))
    except FolderError as error:
        raise WorkflowError(str(error))
    except OSError as error:
        raise WorkflowError(f"{error.filename}: cannot be written: {error.strerror}.")


def say_plan():
    """Say which rules of a good measurement the runs that are missing will not meet."""
    with suppress(OSError, TierError):  # the start says why a tier cannot be used
        cold = EXPERIMENT.training.cold
        for line in plan_lines(EXPERIMENT, read_room(SYSTEM), cold=cold):
            logger.info(line)


if not (IS_JOB or EXPERIMENT.simulated) and lacks_runs():
    if try_to(SNAKEMAKE.is_dry_run, logger.warning, False):
        check_plan()
    if EXPERIMENT.source == "measured":
        say_plan()

if IS_REMOTE_JOB:
    slurm.note_job(BATCH_JOBS)
elif not EXPERIMENT.simulated:  # simulated runs are repeated instead
    refuse_other_settings(filter(is_described_otherwise, ALL_POINTS))
