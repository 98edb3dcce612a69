"""The workload file of DLIO of a program that was measured."""

from dataclasses import replace

import numpy as np
import pytest
from tierscope.experiment.designs.workloads import Workload, read_workloads
from tierscope.storage.queueing_network import ModelError
from unit.model.programs.conftest import LOADER, LOOP, N_FILES, PIPELINE
from write_workload import program_text

PATH = "results/workload/dlio/workload/mine.yaml"
SIZES = np.array([90, 110] * (N_FILES // 2))
MINE = Workload(
    name="mine",
    n_files=N_FILES,
    file_size_bytes=100,
    file_size_stdev_bytes=10,
    batch_size=2,
    compute_time_s=0.1,
    loader="pytorch",
    workers=2,
    prefetch_factor=2,
    utilisation_percent=90,
    source="",
)


def workload_of(text, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    (found,) = read_workloads([str(path)], {}, [])
    return replace(found, source="")


def test_runs_tell_sizes_batches_workers_and_computation(made, tmp_path):
    """A step computes for (0.4 - 0.1) / 3 s."""
    text = program_text("mine", PATH, [made(), made()], [], SIZES)
    assert workload_of(text, tmp_path) == MINE
    first, second, third, *_ = text.splitlines()
    assert first.endswith(f"workload file for DLIO and target designs is {PATH}.")
    assert second.startswith(
        "# It loads as pytorch: batches of 2, 2 workers a rank, 2 "
    )
    assert third.endswith(
        "dlio_benchmark --config-dir results/workload/dlio workload=mine"
    )
    assert "0.1  # mean of usual steps of 2 runs; assumed: the same in each s" in text
    assert '"npz"  # assumed: a format of DLIO' in text
    assert "epochs: 2\n" in text  # which was measured


def test_ideal_runs_tell_the_computation_if_there_are_any(made, tmp_path):
    slow = [LOOP | {"rank": 0, "epoch": one, "use_s": 0.7} for one in (0, 1)]
    slow[0]["least_because"] = "it was behind"
    ideal = [made(loops=slow)]
    text = program_text("mine", PATH, [made()], ideal, SIZES)
    assert workload_of(text, tmp_path) == replace(MINE, compute_time_s=0.2)
    assert "usual steps of 1 ideal run; assumed" in text
    assert "; a least: it was behind\n" in text


def test_a_pipeline_is_the_loader_of_tensorflow(made, tmp_path):
    text = program_text("mine", PATH, [made(loader=PIPELINE)], [], SIZES)
    assert workload_of(text, tmp_path) == replace(
        MINE, loader="tensorflow", workers=1, prefetch_factor=3, buffer_bytes=262144
    )


@pytest.mark.parametrize(
    ("loader", "words"),
    [
        (LOADER | {"framework": "keras"}, "got loops of keras, expected those of"),
        (
            PIPELINE | {"batch_size": 64},
            "got 4 batches of 64 in an epoch, expected a s",
        ),
    ],
)
def test_what_dlio_does_not_load_has_no_workload(made, loader, words):
    with pytest.raises(ModelError, match=words):
        program_text("mine", PATH, [made(loader=loader)], [], SIZES)
