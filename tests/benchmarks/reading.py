"""Epoch time of our driver beside DLIO and bare loops, warm page cache, compute time 0.

All read the same files on two MPI ranks. The first epoch of every launch is dropped:
it warms up (ours does so before, DLIO does not).
"""

import json
import os
import struct
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import dlio
import google_crc32c
import numpy as np
import pandas as pd
from common import (
    LARGE_FILES,
    N_RANKS,
    NATIVE,
    SCRIPTS,
    SMALL_FILES,
    TRIAL_FILES,
    CannotMeasure,
    Files,
    Results,
    build_native,
    run,
    run_as_script,
    run_python_ranks,
    run_ranks,
    temporary_folder,
)
from tierscope.core.machine import Tier
from tierscope.core.scenario import Dataset, Point, Scenario
from tierscope.core.validation import read_yaml
from tierscope.data.tfrecord import FRAMING_BYTES, masked_crc32c
from tierscope.experiment.experiment import Experiment
from tierscope.experiment.system import System

TENSORFLOW, POSIX = "tierscope (tensorflow)", "tierscope (posix)"
DLIO, TFRECORD, OS_READ = "DLIO step block", "bare TFRecordDataset", "bare os.read"
READ_AHEAD = "bare os.read, a thread reads ahead"
BUILD = "  building the bare pipeline"
DROPPED_EPOCHS = 1


def measure(small: bool = False) -> Results:
    """Measure all candidates on both datasets."""
    results = Results(
        "reading", f"time of an epoch, {N_RANKS} MPI ranks, warm page cache", small
    )
    build_native()
    try:
        if not small:
            dlio.install()
    except CannotMeasure as error:
        results.skip(DLIO, error)
    for files in TRIAL_FILES if small else [SMALL_FILES, LARGE_FILES]:
        with temporary_folder() as folder:
            _measure_files(results, files, folder)
    results.notes += [
        "DLIO's step block includes making the epoch's iterator, ours and the bare "
        "loops' times do not.",
        "the files are ours in name and size, each holds a tf.train.Example as DLIO's.",
    ]
    return results


def _measure_files(results: Results, files: Files, folder: Path) -> None:
    """Measure all candidates on one dataset."""
    dataset = Dataset(**asdict(files))
    files_folder = folder / "gfs" / "data" / dataset.directory(0)
    write_examples(files_folder, dataset)
    os.sync()  # or writing back disturbs the first rounds
    n_rounds, epochs = (1, 2) if results.small else (3, 6)
    case = files.title

    def bare(kind: str) -> list[float]:
        numbers = files.batch_size, epochs
        times_s = run_python_ranks("bare_loops.py", kind, files_folder, *numbers)
        if kind == "tfrecord":
            results.add(case, BUILD, times_s["build"][DROPPED_EPOCHS:])
        return times_s["epoch"]

    runs = {
        TENSORFLOW: lambda: run_driver(folder, dataset, "tensorflow", epochs),
        POSIX: lambda: run_driver(folder, dataset, "posix", epochs),
        DLIO: lambda: dlio.read_epochs(folder / "dlio", files_folder, files, epochs),
        TFRECORD: lambda: bare("tfrecord"),
        OS_READ: lambda: bare("os"),
        READ_AHEAD: lambda: bare("ahead"),
    }
    if not dlio.FOLDER.is_dir() or results.small:
        del runs[DLIO]
    warm = {what: _without_first(run) for what, run in runs.items()}
    results.interleave(case, n_rounds, warm, peers=[DLIO])
    judged = files.name == "small"
    results.compare(case, TENSORFLOW, DLIO, at_most=0.5 if judged else None)
    goals = (1.03, 1.5) if judged else (None, None)
    starts = ("1.04", "2.7") if judged else ("", "")
    results.compare(case, TENSORFLOW, TFRECORD, at_most=goals[0], start=starts[0])
    results.compare(case, POSIX, OS_READ, at_most=goals[1], start=starts[1])
    results.compare(case, READ_AHEAD, OS_READ)  # what the goal above cannot fall below
    results.compare(case, POSIX, READ_AHEAD)


def _without_first(run: Callable[[], list[float]]) -> Callable[[], list[float]]:
    """Return a run that leaves out the epochs of warming up."""
    return lambda: run()[DROPPED_EPOCHS:]


def write_examples(folder: Path, dataset: Dataset) -> None:
    """Write files of our sizes and names that DLIO can parse as well."""
    folder.mkdir(parents=True)
    payload = example(dataset.file_size_bytes - FRAMING_BYTES)
    length = struct.pack("<Q", len(payload))
    parts = [
        length,
        struct.pack("<I", masked_crc32c(google_crc32c.value(length))),
        payload,
        struct.pack("<I", masked_crc32c(google_crc32c.value(payload))),
    ]
    frame = b"".join(parts)
    for file_id in range(dataset.n_files):
        (folder / dataset.file_name(file_id)).write_bytes(frame)


def example(n_bytes: int) -> bytes:
    """Return a serialised tf.train.Example of DLIO's features, `n_bytes` long."""
    image = np.random.default_rng(0).bytes(n_bytes)
    for length in range(n_bytes - 80, n_bytes):
        features = _feature(b"image", _field(1, _field(1, image[:length])))
        features += _feature(b"size", _field(3, _field(1, b"\1")))
        if len(message := _field(1, features)) == n_bytes:
            return message
    raise ValueError(f"n_bytes: got {n_bytes}, expected at least a few hundred.")


def _feature(key: bytes, value: bytes) -> bytes:
    """Return an entry of the map of features."""
    return _field(1, _field(1, key) + _field(2, value))


def _field(number: int, content: bytes) -> bytes:
    """Return a length-delimited field of a protocol buffer."""
    varint, left = b"", len(content)
    while left > 127:
        varint += bytes([left & 127 | 128])
        left >>= 7
    return bytes([number << 3 | 2]) + varint + bytes([left]) + content


def run_driver(folder: Path, dataset: Dataset, loader: str, epochs: int) -> list[float]:
    """Run the real driver, traced, and return the time of each epoch (slowest rank)."""
    system = System(
        name="bench",
        description="plain directories",
        n_nodes=1,
        processes_per_node=N_RANKS,
        virtual_nodes=True,
        points_per_launch="all",
        gfs=Tier("gfs", "directory", str(folder / "gfs")),
        lfs=Tier("lfs", "directory", str(folder / "lfs")),
    )
    defaults = read_yaml(SCRIPTS.parents[1] / "config" / "config.yaml")
    settings = {
        "training": defaults["training"]
        | {"epochs": epochs, "compute_time_s": 0, "cold": False},
        "loader": defaults["loader"],
        "darshan": {**defaults["darshan"], "runtime": "builtin"},
        "policies": defaults["policies"],
    }
    scenario = Scenario(dataset.name, 0, "pinning", loader)
    point = Point(0, 0)
    experiment = Experiment(
        "bench", system, {dataset.name: dataset}, {scenario: (point,)}, settings
    )
    description = folder / "scenario.json"
    description.write_text(json.dumps(experiment.description(scenario).as_json()))
    with temporary_folder() as staging:
        command = [
            *(SCRIPTS / "run_benchmark.py", description),
            *("--staging", staging),
            *("--runs", staging / "none"),
            *("--native", NATIVE),
            *("--launch", "bench"),
            point.path,
        ]
        start = run([sys.executable, *command, "--prepare"])
        run_ranks(*command, start=start)
        table = pd.read_parquet(staging / point.path / "epochs.parquet")
    if (table.groupby("epoch")["samples"].sum() != dataset.n_files).any():
        raise CannotMeasure("our driver did not read every file once an epoch.")
    return table.groupby("epoch")["execution_time_s"].max().tolist()


if __name__ == "__main__":
    run_as_script(measure)
