"""Time to generate a dataset beside DLIO's and beside merely copying as many bytes.

Nothing is deleted before the end: ext4 gives the inode of a file just deleted to no
other for minutes and looks at each anew for each new file, five times the time of a
small file. What has been timed is emptied and put aside. So a second run, or a test,
minutes before still spoils the times; they are alike for all, the ratios suffer.
The files that each has written are counted, and their bytes.
"""

import os
from functools import partial
from pathlib import Path

import dlio
from common import (
    LARGE_FILES,
    N_RANKS,
    SMALL_FILES,
    TRIAL_FILES,
    Files,
    Results,
    run_as_script,
    run_python,
    temporary_folder,
)

N_REPEATS = 2  # of the fast ones, per round
OURS, FLOOR = "tierscope", "copy floor"
DLIO, DLIO_BARE = "DLIO", "DLIO without index"


def measure(small: bool = False) -> Results:
    """Measure all candidates on both datasets."""
    results = Results(
        "generation", f"time to write a dataset, {N_RANKS} processes", small
    )
    if reason := dlio.why_left_out(small):
        for what in (DLIO, DLIO_BARE):
            results.skip(what, reason)
    with temporary_folder() as folder:
        for files in TRIAL_FILES if small else [SMALL_FILES, LARGE_FILES]:
            (folder / files.name).mkdir()
            _measure_files(results, files, folder / files.name)
    results.notes.append(
        "DLIO's time is its log's, from starting to done, without TensorFlow's start; "
        "`touch` stands for tfrecord2idx, which would take longer."
    )
    return results


def _measure_files(results: Results, files: Files, folder: Path) -> None:
    """Measure all candidates on one dataset."""
    case = files.title
    n_times = {OURS: N_REPEATS, FLOOR: N_REPEATS}
    if not dlio.why_left_out(results.small):
        n_times |= {DLIO: 1, DLIO_BARE: 1}

    def write(what: str) -> list[float]:
        return [_write(results, what, files, folder) for _ in range(n_times[what])]

    n_rounds = 1 if results.small else 4
    runs = {what: partial(write, what) for what in n_times}
    results.interleave(case, n_rounds, runs, peers=[DLIO, DLIO_BARE])
    results.compare(case, DLIO, OURS, at_least=3)
    results.compare(case, DLIO_BARE, OURS)
    is_small = files.name == "small"
    goal, start = (1.35, "1.8-2.0") if is_small else (1.25, "1.3-2.8")
    results.compare(case, OURS, FLOOR, at_most=goal, start=start)


def _write(results: Results, what: str, files: Files, folder: Path) -> float:
    """Return the time of writing a dataset, and count what was written."""
    target = _new_folder(folder)
    numbers = files.n_files, files.file_size_bytes, N_RANKS
    try:
        if what in (DLIO, DLIO_BARE):
            time_s = dlio.generate(target, files, with_index=what == DLIO)
        else:
            kind = "tierscope" if what == OURS else "floor"
            time_s = run_python("write_files.py", kind, target / "files", *numbers)
        _count(results, what, files, target)
    finally:
        _empty_files(target)
    return time_s


def _count(results: Results, what: str, files: Files, folder: Path) -> None:
    """Count the files written, and their bytes: DLIO's may differ by a percent."""
    sizes = [path.stat().st_size for path in folder.rglob("*.tfrecord")]
    n_bytes, expected = sum(sizes), files.n_files * files.file_size_bytes
    if what in (DLIO, DLIO_BARE) and abs(n_bytes / expected - 1) < 0.01:
        n_bytes = expected
    results.count(files.title, what, "files", len(sizes), files.n_files)
    results.count(files.title, what, "bytes", n_bytes, expected)


def _new_folder(folder: Path) -> Path:
    """Make another folder, with nothing of the ones before left to write back."""
    target = folder / f"{len(list(folder.iterdir())):03d}"
    target.mkdir()
    os.sync()
    return target


def _empty_files(folder: Path) -> None:
    """Give back the memory and the space of all files, but not their inodes."""
    for path in folder.rglob("*.tfrecord"):
        os.truncate(path, 0)


if __name__ == "__main__":
    run_as_script(measure)
