"""Epoch time of our driver beside DLIO and bare loops, warm page cache, compute time 0.

All read the same files on two MPI ranks. The first epoch of every launch is dropped:
it warms up (ours does so before, DLIO does not). Of each other epoch, what was read is
counted, and hardly any of it may have come from devices.
"""

import json
import os
import struct
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import partial
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
    Files,
    Results,
    WrongWork,
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
READ_AHEAD = "bare os.read (a thread reads ahead)"
BUILD = "  building the bare pipeline"
DROPPED_EPOCHS = 1
MOST_COLD = 0.01  # of the bytes read: pages of programs come from devices, too


def measure(small: bool = False) -> Results:
    """Measure all candidates on both datasets."""
    results = Results(
        "reading", f"time of an epoch, {N_RANKS} MPI ranks, warm page cache", small
    )
    build_native()
    if reason := dlio.why_left_out(small):
        results.skip(DLIO, reason)
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
    write_examples(_files_folder(folder, dataset), dataset)
    os.sync()  # or writing back disturbs the first rounds
    n_rounds, epochs = (1, 2) if results.small else (3, 6)
    case = files.title
    runs = _runs(results, folder, files, epochs)
    results.interleave(case, n_rounds, runs, peers=[DLIO])
    judged = files.name == "small"
    results.compare(case, TENSORFLOW, DLIO, at_most=0.5 if judged else None)
    goals = (1.03, 1.5) if judged else (None, None)
    starts = ("1.04", "2.7") if judged else ("", "")
    results.compare(case, TENSORFLOW, TFRECORD, at_most=goals[0], start=starts[0])
    results.compare(case, POSIX, OS_READ, at_most=goals[1], start=starts[1])
    results.compare(case, READ_AHEAD, OS_READ)  # what the goal above cannot fall below
    results.compare(case, POSIX, READ_AHEAD)


def _runs(
    results: Results, folder: Path, files: Files, epochs: int
) -> dict[str, Callable[[], list[float]]]:
    """Return what runs each candidate, counts its reads, and returns its times."""
    dataset = Dataset(**asdict(files))
    files_folder = _files_folder(folder, dataset)

    def ours(what: str, loader: str) -> list[float]:
        table = run_driver(folder, dataset, loader, epochs).groupby("epoch")
        sums = table[["samples", "bytes", "device_bytes"]].sum().iloc[DROPPED_EPOCHS:]
        _count(results, files, what, "samples", sums["samples"])
        _count(results, files, what, "bytes", sums["bytes"])
        _refuse_cold(files, what, sums["device_bytes"])
        return table["execution_time_s"].max().tolist()[DROPPED_EPOCHS:]

    def bare(what: str, kind: str) -> list[float]:
        numbers = files.batch_size, epochs
        done = run_python_ranks("bare_loops.py", kind, files_folder, *numbers)
        done = {name: values[DROPPED_EPOCHS:] for name, values in done.items()}
        unit = "samples" if kind == "tfrecord" else "bytes"
        _count(results, files, what, unit, done["amount"])
        _refuse_cold(files, what, done["device_bytes"])
        if kind == "tfrecord":
            results.add(files.title, BUILD, done["build"])
        return done["epoch"]

    def peer() -> list[float]:
        arguments = folder / "dlio", files_folder, files, epochs
        times_s, samples = dlio.read_epochs(*arguments)
        _count(results, files, DLIO, "samples", samples)
        return times_s[DROPPED_EPOCHS:]

    runs = {
        TENSORFLOW: partial(ours, TENSORFLOW, "tensorflow"),
        POSIX: partial(ours, POSIX, "posix"),
        DLIO: peer,
        TFRECORD: partial(bare, TFRECORD, "tfrecord"),
        OS_READ: partial(bare, OS_READ, "os"),
        READ_AHEAD: partial(bare, READ_AHEAD, "ahead"),
    }
    if dlio.why_left_out(results.small):
        del runs[DLIO]
    return runs


def _count(
    results: Results, files: Files, what: str, unit: str, of_epochs: Iterable[int]
) -> None:
    """Count what each epoch has read."""
    expected = files.n_files
    if unit == "bytes":
        expected *= files.file_size_bytes
    for amount in of_epochs:
        results.count(files.title, what, f"{unit} an epoch", int(amount), expected)


def _refuse_cold(files: Files, what: str, device_bytes: Iterable[float]) -> None:
    """Refuse epochs whose files were not in the page cache, where the kernel counts."""
    n_bytes = files.n_files * files.file_size_bytes
    for found in device_bytes:
        if found > MOST_COLD * n_bytes:
            raise WrongWork(
                f"{files.title}, {what}: got {found:,.0f} bytes from devices, expected "
                f"at most {MOST_COLD * n_bytes:,.0f}, as the files are cached."
            )


def _files_folder(folder: Path, dataset: Dataset) -> Path:
    """Return where the files of all candidates are."""
    return folder / "gfs" / "data" / dataset.directory(0)


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


def run_driver(
    folder: Path, dataset: Dataset, loader: str, epochs: int
) -> pd.DataFrame:
    """Run the real driver, traced, and return what each rank did in each epoch."""
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
            SCRIPTS / "run_benchmark.py",
            description,
            "--staging",
            staging,
            "--runs",
            staging / "none",
            "--native",
            NATIVE,
            "--launch",
            "bench",
            point.path,
        ]
        start = run([sys.executable, *command, "--prepare"])
        run_ranks(*command, start=start)
        return pd.read_parquet(staging / point.path / "epochs.parquet")


if __name__ == "__main__":
    run_as_script(measure)
