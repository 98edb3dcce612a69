"""Time and memory to read the log of the paper's run, beside PyDarshan's fast route.

Ours ends in the table `file_records` (attributed to epochs, tiers and files, checked,
sorted); PyDarshan's ends in two data frames and the path of each record. The floor
inflates names and records with zlib and copies them once.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common import (
    CannotMeasure,
    Results,
    WrongWork,
    progress,
    run_as_script,
    run_python,
    temporary_folder,
)

OURS, PYDARSHAN = "tierscope", "PyDarshan (numpy)"
FLOOR = "inflating and copying"
MEMORY = "peak memory"
PAPER_PROCESSES, PAPER_FILES = 3072, 192
TRIAL_PROCESSES, TRIAL_FILES = 16, 192


def measure(small: bool = False) -> Results:
    """Write the log once and read it both ways."""
    results = Results("parsing", "time to read a Darshan log into tables", small)
    sizes = (TRIAL_PROCESSES, TRIAL_FILES) if small else (PAPER_PROCESSES, PAPER_FILES)
    with temporary_folder() as folder:
        log = folder / "run.darshan"
        progress("parsing", f"writing the log of {sizes[0]} processes")
        written = run_python("parse_log.py", "write", log, *sizes)
        results.notes.append(
            f"the log has {written['bytes'] / 1e6:.0f} MB; to write it took "
            f"{written['peak_memory_mb']:.0f} MB of memory."
        )
        _read(results, log, written)
    return results


def _read(results: Results, log: Path, written: Mapping[str, Any]) -> None:
    """Read the log several times with ours around one time with PyDarshan."""
    run_python("parse_log.py", "tierscope", log)  # so that all find it in memory
    case = f"{written['n_records']} records"
    both = [(OURS, "tierscope"), (FLOOR, "floor")]
    peer = [(PYDARSHAN, "pydarshan")]
    if not results.has_peer("darshan", PYDARSHAN):
        peer = []
    for what, kind in [*both, *both, *peer, *both, *both]:
        progress("parsing", f"{case}, {what}")
        try:
            sample = run_python("parse_log.py", kind, log)
            count_what_was_read(results, case, what, sample, written)
        except (CannotMeasure, WrongWork) as error:
            if what != PYDARSHAN:
                raise
            results.fail(case, what, error)
            continue
        results.add(case, what, [sample["seconds"]])
        if what != FLOOR:
            results.add(case, f"{MEMORY}, {what}", [sample["peak_memory_mb"]], "MB")
    results.compare(case, OURS, FLOOR, at_most=1.6)
    results.compare(case, PYDARSHAN, OURS, at_least=12, start="5.3-6.6")
    results.compare(case, PYDARSHAN, FLOOR)  # what the ratio above cannot exceed
    results.limit(case, f"{MEMORY}, {OURS}", at_most=600)


def count_what_was_read(
    results: Results,
    case: str,
    what: str,
    sample: Mapping[str, Any],
    written: Mapping[str, Any],
) -> None:
    """Count what a reader of a log found, which is what was written."""
    if what == FLOOR:
        found, expected = sample["inflated_bytes"], written["inflated_bytes"]
        results.count(case, what, "bytes inflated", found, expected)
        return
    units = {"n_records": "records", "n_names": "names", "bytes_read": "bytes read"}
    for key, unit in units.items():
        results.count(case, what, unit, sample[key], written[key])
    if not math.isclose(found := sample["read_time_s"], written["read_time_s"]):
        expected = written["read_time_s"]
        raise WrongWork(f"{case}, {what}: got {found} s of reads, expected {expected}.")


if __name__ == "__main__":
    run_as_script(measure)
