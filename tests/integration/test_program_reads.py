"""A TensorFlow program with the orders of our loader reads what the loader reads."""

import json
import tempfile

import pandas as pd
import pytest
import yaml
from integration.conftest import ROOT, TINY_SYSTEM, Project
from tierscope.core.tables import read_table
from tierscope.core.validation import read_yaml
from tierscope.data.shuffle import epoch_files

N_FILES, N_RANKS, N_EPOCHS, RATES = 24, 2, 2, [0, 50, 100]
PROGRAM = """\
import json, os, sys, time
import tensorflow as tf
root, rank = sys.argv[1], int(os.environ["PMI_RANK"])
threads = tf.data.Options()
threads.autotune.enabled = False
threads.threading.private_threadpool_size = 2
for order in json.load(open("orders.json"))[rank]:
    names = [f"{root}/{number:07d}.tfrecord" for number in order]
    samples = tf.data.TFRecordDataset(names, buffer_size=262144)
    for batch in samples.batch(4).prefetch(2).with_options(threads):
        time.sleep(0.002)
"""
ORDER = {"shuffle": "global", "seed": 1, "repetition": 0}


def sections(loader, memory):
    """Return the sections of the configuration for one of the two loaders.

    The program has ideal runs in a directory in memory.
    """
    scenario = {"dataset": "tiny", "n_osts": 0, "loader": loader}
    command = ["python", "program.py", "{dataset}"] if loader == "program" else None
    return {
        "experiment": loader,
        "sweep": {
            "datasets": ["tiny"],
            "n_osts": [0],
            "loaders": [loader],
            "cache_rates_percent": RATES,
            "repetitions": 1,
            "ideal": loader == "program",
        },
        "roots": {"ideal": memory},
        "datasets": {"tiny": {"n_files": N_FILES}},
        "training": {"epochs": N_EPOCHS, "seed": ORDER["seed"]},
        "loader": {"command": command},
        "figures": {"scenario": scenario, "methods": ["rule"]},
    }


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Return the results of each loader; the program's I/O time is predicted."""
    project = Project(tmp_path_factory.mktemp("reads"))
    system = read_yaml(ROOT / "resources/systems/one-process.yaml")
    del system["job"]  # the launcher is that of MPI
    (project.folder / TINY_SYSTEM).write_text(
        yaml.safe_dump(system | {"processes_per_node": N_RANKS})
    )
    (project.folder / "program.py").write_text(PROGRAM)
    orders = [
        [
            epoch_files(N_FILES, rank, N_RANKS, epoch=epoch, **ORDER).tolist()
            for epoch in range(N_EPOCHS)
        ]
        for rank in range(N_RANKS)
    ]
    (project.folder / "orders.json").write_text(json.dumps(orders))
    for loader, further in (("tensorflow", []), ("program", ["predict"])):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
            project.change("config/tiny.yaml", sections(loader, memory))
            verdicts = f"results/{loader}/tables/verdicts.parquet"
            project.snakemake(verdicts, *further)
    return {
        loader: project.folder / "results" / loader
        for loader in ("tensorflow", "program")
    }


@pytest.fixture(scope="module")
def records(results):
    """Return what each loader reads: rows of `file_records` of all runs."""
    return {
        loader: [
            pd.read_parquet(run)
            for run in sorted(folder.glob("runs/*program/*/*/file_records.parquet"))
            or sorted(folder.glob("runs/*/*/*/file_records.parquet"))
        ]
        for loader, folder in results.items()
    }


def test_program_opens_and_reads_what_the_loader_does(records):
    columns = ["rank", "epoch", "tier", "file_id", "opens", "bytes_read"]
    for loader, program in zip(records["tensorflow"], records["program"], strict=True):
        pd.testing.assert_frame_equal(
            *(
                one[columns].sort_values(columns, ignore_index=True)
                for one in (loader, program)
            )
        )


def test_half_of_the_bytes_is_on_the_lfs_and_every_epoch_reads_all(records):
    on_lfs = [
        [run[run["tier"] == "lfs"]["opens"].sum() for run in runs]
        for runs in records.values()
    ]
    n_reads = N_FILES * N_EPOCHS
    assert on_lfs == [[0, n_reads / 2, n_reads]] * 2
    assert all(run["opens"].sum() == n_reads for run in records["program"])


def test_a_program_that_loads_as_ours_is_predicted(results):
    folder = results["program"] / "predict"
    table = read_table(folder / "predictions.parquet", "predictions")
    held_out = table[table["held_out"]]
    assert set(held_out["cache_rate_percent"]) == {50}
    assert set(held_out["loader"]) == {"program"}
    simulated = held_out[held_out["model"] == "simulation"]
    assert (simulated["predicted_s"] > 0).all()
    assert simulated["predicted_execution_s"].between(0.001, 60).all()
    assert simulated["measured_utilisation_percent"].between(1, 100).all()
    words = (folder / "summary.txt").read_text()
    assert (
        f"The program loads as tensorflow: batches of 4, one reader, 2 batches ahead, "
        f"{N_RANKS} ranks, {N_EPOCHS} epochs."
    ) in words


def test_probes_of_its_dataset_are_made_and_used(results):
    """Per rank and tier: as many files as there are, at most 32."""
    folder = results["program"]
    probes = read_table(folder / "probes/tiny-0ost/probes.parquet", "probes")
    reads = probes[probes["probe"].str.endswith("_read_rate")]
    assert set(reads["tier"]) == {"gfs", "lfs"}
    assert set(reads["operations"]) == {N_FILES}
    manifest = folder / "datasets/tiny-0ost-files.parquet"
    sizes = read_table(manifest, "user_manifest")["size_bytes"]
    assert set(reads["bytes"]) == {sizes.sum()}
    (table,) = folder.glob("model/*/calibration.parquet")
    # Of rates 0 and 100 the slowest process and two classes of each of two epochs. Of
    # the LFS no small reads count, and no closes, which take no time in the model.
    calibration = read_table(table, "calibration")
    assert set(calibration["n_observations"]) == {2 * 2 * 3 + 7 + 4}
