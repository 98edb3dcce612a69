"""Notes about deleted runs, as inputs of tables (see `deletions`)."""

import time
from contextlib import suppress


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
    for name in ("run.json", "epochs.parquet", "io_time.parquet"):
        yield from run_files(name, sweep)
    yield from if_measured(run_files("audit.json", sweep))
