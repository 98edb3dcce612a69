"""Time to generate a dataset beside DLIO's and beside merely copying as many bytes."""

import os
import shutil
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

OURS, FLOOR = "tierscope", "copy floor"
DLIO, DLIO_BARE = "DLIO", "DLIO without index"


def measure(small: bool = False) -> Results:
    """Measure all candidates on both datasets."""
    results = Results(
        "generation", f"time to write a dataset, {N_RANKS} processes", small
    )
    try:
        dlio.install()
    except CannotMeasure as error:
        results.skip(DLIO, error)
    for files in TRIAL_FILES if small else [SMALL_FILES, LARGE_FILES]:
        with temporary_folder() as folder:
            _measure_files(results, files, folder)
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
    if not dlio.FOLDER.is_dir():
        del runs[DLIO], runs[DLIO_BARE]
    results.interleave(files.title, 1 if results.small else 3, runs)
    case = files.title
    results.compare(case, DLIO, OURS, at_least=3)
    results.compare(case, DLIO_BARE, OURS)
    results.compare(case, OURS, FLOOR, at_most=1.5)


def _repeat(kind: str, files: Files, folder: Path) -> list[float]:
    """Return the times of writing a dataset with our code or the floor's, thrice."""
    times_s = []
    for _ in range(3):
        target = folder / "files"
        os.sync()
        times_s.append(
            run_python(
                *("write_files.py", kind, target),
                *(files.n_files, files.file_size_bytes, N_RANKS),
            )
        )
        shutil.rmtree(target)
    return times_s


def _dlio(files: Files, folder: Path, *, with_index: bool) -> list[float]:
    """Return DLIO's time of writing a dataset."""
    target = folder / "dlio"
    target.mkdir()
    os.sync()
    try:
        return [dlio.generate(target, files, with_index=with_index)]
    finally:
        shutil.rmtree(target)


if __name__ == "__main__":
    run_as_script(measure)
