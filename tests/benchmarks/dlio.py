"""DLIO 2.0.0, the peer: installed beside the results, run as it is.

It shares TensorFlow, NumPy and MPI with our environment, so only the benchmarks differ.
Its packages get a folder of their own; nothing of the project's environment changes.
"""

import json
import os
import re
import shutil
import sys
from datetime import datetime
from functools import cache
from pathlib import Path

from common import (
    N_RANKS,
    OUTPUT,
    SCRIPTS,
    CannotMeasure,
    Files,
    WrongWork,
    progress,
    run,
    run_ranks,
)

# DLIO demands DALI and PyTorch, which TFRecord does not use: no dependencies but these.
PACKAGES = [
    "dlio-benchmark==2.0.0",
    "hydra-core==1.3.2",
    "omegaconf==2.3.0",
    "antlr4-python3-runtime==4.9.3",
    "pydftracer==1.0.2",
]
FOLDER = OUTPUT / "dlio-2.0.0"


@cache
def why_left_out(small: bool) -> str:
    """Return why DLIO cannot run, "" if it can; except in trials, install it first."""
    if FOLDER.is_dir():
        return ""
    if small:
        return "not installed; whole runs of the benchmark install it"
    try:
        _install()
    except CannotMeasure as error:
        return f"cannot be installed: {error}"
    return ""


def _install() -> None:
    """Install DLIO; CannotMeasure where that is impossible, such as offline."""
    progress("dlio", f"installing {PACKAGES[0]} in {FOLDER}")
    OUTPUT.mkdir(parents=True, exist_ok=True)
    partial = FOLDER.with_name(f".{FOLDER.name}.{os.getpid()}")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    try:
        run([*pip, "--target", partial, *PACKAGES], timeout_s=300)
        partial.rename(FOLDER)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _run(folder: Path, settings: dict[str, object]) -> None:
    """Run DLIO in a folder that holds its ``data`` and gets its ``output``."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    stand_in = tools / "tfrecord2idx"  # of DALI; TFRecord generation calls it
    if not stand_in.exists():
        stand_in.symlink_to(shutil.which("touch"))
    (folder / "data" / "valid").mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "output", ignore_errors=True)
    settings = {
        "framework": "tensorflow",
        "workflow.evaluation": False,
        "workflow.checkpoint": False,
        "dataset.data_folder": "data",
        "dataset.format": "tfrecord",
        "dataset.num_files_eval": 0,
        "dataset.num_samples_per_file": 1,
        "dataset.num_subfolders_train": 0,
        "dataset.num_subfolders_eval": 0,
        "reader.data_loader": "tensorflow",
        "output.folder": "output",
    } | settings
    overrides = [f"++workload.{key}={value}" for key, value in settings.items()]
    run_ranks(
        FOLDER / "dlio_benchmark" / "main.py",
        *overrides,
        "hydra.run.dir=hydra",
        folder=folder,
        environment={
            "PYTHONPATH": os.pathsep.join([str(FOLDER), str(SCRIPTS)]),
            "PATH": os.pathsep.join([str(tools), os.environ["PATH"]]),
        },
    )


def read_epochs(
    folder: Path, files_folder: Path, files: Files, epochs: int
) -> tuple[list[float], list[int]]:
    """Return the time of the step block of each epoch, in seconds, and its samples.

    DLIO's log has the time of an epoch, which goes on while the abandoned iterator is
    torn down (it reads ahead into the next repetition and its autotuner makes it
    wait). The *step block* ends with the last step and its barrier: the part that
    reads. DLIO keeps no time of it but derives the throughput from it,
    ``steps x batch_size / (end - start)``, unrounded, per rank in its ``output.json``;
    solved for the time that is what is returned, of the slowest rank. All ranks start
    together and every step ends in a barrier, so block times of ranks differ little.
    The block starts before the epoch's iterator is made, ours and the bare loops'
    time after that; how long that takes is measured beside them.
    """
    (folder / "data").mkdir(parents=True, exist_ok=True)
    link = folder / "data" / "train"
    if not link.exists():
        link.symlink_to(files_folder)
    settings = {
        "workflow.generate_data": False,
        "workflow.train": True,
        "dataset.num_files_train": files.n_files,
        "dataset.record_length": files.file_size_bytes,
        "reader.batch_size": files.batch_size,
        "reader.read_threads": 1,
        "reader.prefetch_size": 2,
        "reader.transfer_size": 1 << 18,
        "train.epochs": epochs,
        "train.computation_time": 0.0,
    }
    _run(folder, settings)
    times_s, samples = [0.0] * epochs, [0] * epochs
    for rank in range(N_RANKS):
        output = json.loads((folder / "output" / f"{rank}_output.json").read_text())
        for epoch in range(epochs):
            done = output[str(epoch + 1)]
            n_samples = len(done["compute"]["block1"]) * files.batch_size
            samples[epoch] += n_samples
            time_s = n_samples / done["throughput"]["block1"]
            times_s[epoch] = max(times_s[epoch], time_s)
    return times_s, samples


def generate(folder: Path, files: Files, *, with_index: bool) -> float:
    """Generate files and return the seconds that DLIO's log says it took.

    TFRecord generation starts ``tfrecord2idx`` once per file, here ``touch``, which is
    faster than the real one and leaves an empty index. Without index, empty index files
    are there before, and DLIO starts nothing.
    """
    index = folder / "data" / "index" / "train"
    index.mkdir(parents=True)
    if not with_index:
        width = len(str(files.n_files))
        for i in range(files.n_files):
            name = f"img_{i:0{width}d}_of_{files.n_files}.tfrecord.idx"
            (index / name).touch()
    settings = {
        "workflow.generate_data": True,
        "workflow.train": False,
        "dataset.num_files_train": files.n_files,
        "dataset.record_length": files.file_size_bytes,
    }
    _run(folder, settings)
    if (n_indices := len(list(index.iterdir()))) != files.n_files:
        raise WrongWork(f"got {n_indices} indices, expected {files.n_files}.")
    log = (folder / "output" / "dlio.log").read_text()
    times = [
        datetime.fromisoformat(re.search(rf"(\S+) {event}", log)[1])
        for event in ("Starting data generation", "Generation done")
    ]
    return (times[1] - times[0]).total_seconds()
