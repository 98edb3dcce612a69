"""A TensorFlow program with the orders of our loader reads what the loader reads."""

import json

import pandas as pd
import pytest
from integration.conftest import TINY_SYSTEM, Project
from tierscope.data.shuffle import epoch_files

N_FILES, N_RANKS, N_EPOCHS, RATES = 24, 2, 2, [0, 50, 100]
PROGRAM = """\
import json, os, sys
import tensorflow as tf
root, rank = sys.argv[1], int(os.environ["PMI_RANK"])
threads = tf.data.Options()
threads.autotune.enabled = False
threads.threading.private_threadpool_size = 2
for order in json.load(open("orders.json"))[rank]:
    names = [f"{root}/{number:07d}.tfrecord" for number in order]
    samples = tf.data.TFRecordDataset(names, buffer_size=262144)
    for batch in samples.batch(4).prefetch(2).with_options(threads):
        pass
"""
ORDER = {"shuffle": "global", "seed": 1, "repetition": 0}


def sections(loader):
    """Return the sections of the configuration for one of the two loaders."""
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
        },
        "datasets": {"tiny": {"n_files": N_FILES}},
        "training": {"epochs": N_EPOCHS, "seed": ORDER["seed"]},
        "loader": {"command": command},
        "figures": {"scenario": scenario, "methods": ["rule"]},
    }


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Return what each loader reads: rows of `file_records` of all runs."""
    project = Project(tmp_path_factory.mktemp("reads"))
    project.use_directories()
    project.change(TINY_SYSTEM, {"n_nodes": 1, "processes_per_node": N_RANKS})
    (project.folder / "program.py").write_text(PROGRAM)
    orders = [
        [
            epoch_files(N_FILES, rank, N_RANKS, epoch=epoch, **ORDER).tolist()
            for epoch in range(N_EPOCHS)
        ]
        for rank in range(N_RANKS)
    ]
    (project.folder / "orders.json").write_text(json.dumps(orders))
    found = {}
    for loader in ("tensorflow", "program"):
        project.change("config/tiny.yaml", sections(loader))
        results = project.folder / "results" / loader
        project.snakemake(f"results/{loader}/tables/verdicts.parquet")
        runs = sorted(results.glob("runs/*/*/*/file_records.parquet"))
        found[loader] = [pd.read_parquet(run) for run in runs]
    return found


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
