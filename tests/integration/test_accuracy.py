"""Trainings of the accuracy study: their arithmetic, and the study as a whole."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from integration.conftest import ROOT, Project
from tierscope.benchmark.preparation import TENSORFLOW_ENVIRONMENT
from tierscope.core.tables import read_table
from tierscope.data.labelled_samples import (
    N_FEATURES,
    Distribution,
    sample_paths,
    write_samples,
)
from tierscope.data.tfrecord import DatasetError

os.environ.update(TENSORFLOW_ENVIRONMENT)  # before TensorFlow is loaded

STUDY = {
    "networks": ["plain", "batch-norm"],
    "repetitions": 5,
    "epochs": 3,
    "n_processes": 4,
    "batch_size": 8,
    "n_classes": 4,
    "n_train_files": 640,
    "n_test_files": 800,
}


@pytest.fixture(scope="module")
def training():
    """Return the module, which loads TensorFlow, set up as the study sets it up."""
    from tierscope.benchmark import accuracy_study

    accuracy_study.compute_as_written()  # before anything is computed in this process
    return accuracy_study


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Return a project whose accuracy study has been run."""
    project = Project(tmp_path_factory.mktemp("accuracy"))
    project.change("config/tiny.yaml", {"studies": {"accuracy": STUDY}})
    project.output = project.snakemake("accuracy")
    return project


def test_one_process_takes_the_steps_of_three_mpi_ranks_bit_by_bit():
    mpiexec = Path(sys.executable).parent / "mpiexec"
    script = Path(__file__).with_name("steps_under_mpi.py")
    process = subprocess.run(
        [mpiexec, "-n", "3", sys.executable, script],
        env={**os.environ, "PYTHONPATH": str(ROOT / "workflow" / "scripts")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr
    result = json.loads(process.stdout)
    for network in ("plain", "batch-norm"):
        assert result[network]["n_compared"] > 10_000
        assert result[network]["moved"] > 0.01
        assert result[network]["largest_difference"] == 0
        assert result[network]["allreduce_relative_difference"] < 1e-5


@pytest.mark.parametrize(("network", "same"), [("plain", True), ("batch-norm", False)])
def test_who_holds_which_sample_matters_with_batch_normalisation_only(
    training, network, same
):
    """The average over processes against the step of one process with all samples."""
    features, labels = Distribution(4, 1).draw(64, "train")
    weights = training.initial_weights(N_FEATURES, 4, network, (1,))
    weights = list(map(training.tf.constant, weights))
    parts = [
        training.process_step(weights, features[mine], labels[mine], network)
        for mine in np.arange(64).reshape(4, 16)  # a class each
    ]
    averages = training.average(parts)[: len(weights)]
    at_once = training.process_step(weights, features, labels, network)
    gradients = zip(averages, at_once, strict=False)
    farthest = max(float(abs(one - other).numpy().max()) for one, other in gradients)
    assert (farthest < 1e-6) == same
    assert same or farthest > 0.01


def test_synchronised_batches_are_those_of_all_processes(training):
    values = np.arange(2 * 3 * 4).reshape(2, 3, 4)  # 2 processes, 3 steps, 4 samples
    batches = training.as_one_process(training.tf.constant(values)).numpy()
    assert batches.shape == (1, 3, 8)
    assert batches[0, 1].tolist() == [4, 5, 6, 7, 16, 17, 18, 19]


def test_synchronised_trainings_are_those_of_one_process_with_large_batches(training):
    train, test = (Distribution(4, 1).draw(320, part) for part in ("train", "test"))
    order = np.random.default_rng(0).permutation(320)
    at_once = order.reshape(4, 10, 8).swapaxes(0, 1).ravel()
    trainings = [
        training.Trainer(
            network, training.Schedule(n, size, 1, 0.1), train, test, 4
        ).run((1,), [files])
        for network, n, size, files in (
            ("sync-batch-norm", 4, 8, order),
            ("batch-norm", 1, 32, at_once),
        )
    ]
    assert trainings[0] == trainings[1]


def test_the_same_seeds_give_the_same_accuracy_and_others_another(training):
    train, test = (Distribution(4, 1).draw(640, part) for part in ("train", "test"))
    schedule = training.Schedule(4, 8, epochs=2, learning_rate=0.1)
    trainer = training.Trainer("batch-norm", schedule, train, test, 4)
    orders = [np.random.default_rng(epoch).permutation(640) for epoch in (0, 1)]
    first, other, again = (trainer.run((1, seed), orders) for seed in (0, 1, 0))
    assert first == again
    assert first != other
    assert 30 < first[-1] < 100


def test_a_spoilt_sample_is_refused(training, tmp_path):
    write_samples(tmp_path, *Distribution(4, 1).draw(8, "train"))
    paths = sample_paths(tmp_path, 8)
    features, labels = training.read_samples(paths)
    assert labels.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert (features == Distribution(4, 1).draw(8, "train")[0]).all()
    content = bytearray(Path(paths[3]).read_bytes())
    content[40] ^= 1
    Path(paths[3]).write_bytes(content)
    with pytest.raises(DatasetError, match="corrupted record"):
        training.read_samples(paths)


def test_study_trains_every_network_with_every_shuffle(project):
    accuracy = read_table(project.path("accuracy", "accuracy.parquet"), "accuracy")
    runs = accuracy.groupby(["network", "shuffle", "repetition"])["epoch"].size()
    assert len(runs) == 2 * 3 * 5
    assert (runs == 3).all()
    assert set(accuracy["source"]) == {"trained"}
    unbiased = accuracy[(accuracy["epoch"] == 2) & (accuracy["shuffle"] != "biased")]
    assert unbiased["accuracy_percent"].between(50, 99).all()  # chance is 25


def test_study_answers_in_words_table_and_figure(project):
    tests = read_table(
        project.path("accuracy", "accuracy_tests.parquet"), "accuracy_tests"
    )
    assert len(tests) == 2 * 2
    text = project.path("accuracy", "summary.txt").read_text()
    assert text in project.output
    assert text.count("two one-sided tests: p = ") == 4
    assert project.path("figures", "accuracy.png").stat().st_size > 10_000
    assert not project.path("accuracy", "samples").exists()


def test_another_margin_trains_nothing_again(project):
    study = {"accuracy": STUDY | {"margin_points": 5}}
    project.change("config/tiny.yaml", {"studies": study})
    output = project.snakemake("accuracy", "-n")
    assert "compare_accuracy" in output
    assert "train_network" not in output
