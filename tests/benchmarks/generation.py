"""Time to generate a dataset beside DLIO's and beside merely copying as many bytes.

Nothing is deleted before the end: ext4 gives the inode of a file just deleted to no
other for minutes and looks at each anew for each new file, five times the time of a
small file. What has been timed is emptied and put aside. So a second run, or a test,
minutes before still spoils the times; they are alike for all, the ratios suffer.
"""

import os
from pathlib import Path

import dlio
from common import (
    LARGE_FILES,
    N_RANKS,
    SMALL_FILES,
    TRIAL_FILES,
    CannotMeasure,
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
    try:
        if not small:
            dlio.install()
    except CannotMeasure as error:
        results.skip(DLIO, error)
    with temporary_folder() as folder:
        for files in TRIAL_FILES if small else [SMALL_FILES, LARGE_FILES]:
            (folder / files.name).mkdir()
            _measure_files(results, files, folder / files.name)
    results.notes.append(
        "DLIO's time is its log's, from starting to done, without TensorFlow's start; "
        "`true` stands for tfrecord2idx, which would take longer."
    )
    return results


def _measure_files(results: Results, files: Files, folder: Path) -> None:
    """Measure all candidates on one dataset."""
    runs = {
        OURS: lambda: _repeat("tierscope", files, folder),
        FLOOR: lambda: _repeat("floor", files, folder),
        DLIO: lambda: _dlio(files, folder, with_index=True),
        DLIO_BARE: lambda: _dlio(files, folder, with_index=False),
    }
    if not dlio.FOLDER.is_dir() or results.small:
        del runs[DLIO], runs[DLIO_BARE]
    case = files.title
    n_rounds = 1 if results.small else 4
    results.interleave(case, n_rounds, runs, peers=[DLIO, DLIO_BARE])
    results.compare(case, DLIO, OURS, at_least=3)
    results.compare(case, DLIO_BARE, OURS)
    is_small = files.name == "small"
    goal, start = (1.35, "1.8-2.0") if is_small else (1.25, "1.3-2.8")
    results.compare(case, OURS, FLOOR, at_most=goal, start=start)


def _repeat(kind: str, files: Files, folder: Path) -> list[float]:
    """Return the times of writing a dataset with our code or the floor's."""
    times_s = []
    for _ in range(N_REPEATS):
        target = _new_folder(folder)
        numbers = files.n_files, files.file_size_bytes, N_RANKS
        times_s.append(run_python("write_files.py", kind, target / "files", *numbers))
        _empty_files(target)
    return times_s


def _dlio(files: Files, folder: Path, *, with_index: bool) -> list[float]:
    """Return DLIO's time of writing a dataset."""
    target = _new_folder(folder)
    try:
        return [dlio.generate(target, files, with_index=with_index)]
    finally:
        _empty_files(target)


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
