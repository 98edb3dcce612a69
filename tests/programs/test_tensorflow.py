"""TensorFlow and Keras, in the project's own environment."""

import sys
from pathlib import Path

import pytest
from redirected import VIRTUAL

CLIENT = Path(__file__).with_name("clients") / "tensorflow_client.py"
EXAMPLE = Path(__file__).parents[2] / "examples" / "tensorflow_files.py"
WHOLE, HELD = [(48, 48)] * 3, [(16, 16)] * 3


@pytest.mark.parametrize("kind", ["loop", "new"])
def test_loop_over_datasets(kind, redirect):
    found = redirect(sys.executable, CLIENT, kind, VIRTUAL)
    assert found.of_epochs("train") == WHOLE
    assert found.of_epochs("val") == HELD


@pytest.mark.parametrize("kind", ["interleave", "strategy"])
def test_interleaved_files_and_distributed_datasets(kind, redirect):
    found = redirect(sys.executable, CLIENT, kind, VIRTUAL)
    assert found.of_epochs() == WHOLE


def test_keras_counts_its_own_epochs_over_two_calls_of_fit(redirect):
    found = redirect(sys.executable, CLIENT, "keras", VIRTUAL)
    assert found.of_epochs("train") == [(48, 48)] * 4
    assert found.of_epochs("val") == HELD
    begins = [one for one in found.notes if one["kind"] == "begin"]
    assert [one["epoch"] for one in begins if one["marked"]] == [0, 1, 2, 3]
    assert [one["epoch"] for one in begins if one["evaluation"]] == [0, 1, 2]


@pytest.mark.parametrize("ranks", [1, 2])
def test_example(ranks, redirect):
    launcher = [Path(sys.executable).with_name("mpiexec"), "-n", str(ranks)]
    found = redirect(*launcher, sys.executable, EXAMPLE, "--data", VIRTUAL)
    assert found.of_epochs() == [(72, 72)] * 3
