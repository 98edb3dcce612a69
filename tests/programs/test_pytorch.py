"""PyTorch: each open is on its tier, and of the epoch in which the sampler drew it."""

from pathlib import Path

import pytest
from redirected import VIRTUAL

ROOT = Path(__file__).parents[2]
FORK = ["--workers", "2", "--method", "fork"]
TORCHRUN = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
WHOLE = [(48, 48)] * 3  # files and opens of three epochs
HELD = [(16, 16)] * 3


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("persistent", [[], ["--persistent"]])
def test_workers_read_for_the_epoch_of_their_batches(method, persistent, pytorch):
    found = pytorch("--workers", "2", "--method", method, *persistent)
    assert found.of_epochs() == WHOLE
    loader = next(one for one in found.notes if one["kind"] == "loader")
    assert (loader["workers"], loader["prefetch_factor"]) == (2, 2)
    assert loader["persistent"] == bool(persistent)
    assert found.sums("fetch", "samples") == {0: 48, 1: 48, 2: 48}
    n_batches = -(-48 // loader["batch_size"])
    assert found.sums("loop", "batches") == dict.fromkeys(range(3), n_batches)


def test_trainer_without_workers(pytorch):
    assert pytorch().of_epochs() == WHOLE


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_two_ranks_of_torchrun(method, pytorch):
    found = pytorch("--ddp", "--workers", "2", "--method", method, launcher=TORCHRUN)
    assert found.of_epochs() == WHOLE
    loaders = [one for one in found.notes if one["kind"] == "loader"]
    assert sorted(one["rank"] for one in loaders) == [0, 1]


@pytest.mark.parametrize("rank", [{}, {"RANK": "0"}], ids=["none", "rank"])
def test_programs_that_run_one_after_the_other(rank, pytorch, monkeypatch):
    for name, value in rank.items():
        monkeypatch.setenv(name, value)
    evaluation = ["--evaluate", "--first", "1", *FORK]
    resumed = ["--epochs", "1", "--first", "2", "--workers", "2", "--method", "spawn"]
    found = pytorch("--epochs", "2", *FORK, then=[evaluation, resumed])
    assert found.of_epochs() == [(48, 48), (48, 96), (48, 48)]


def test_ranks_that_torchrun_starts_again_after_a_failure(pytorch):
    launcher = [*TORCHRUN, "--max-restarts", "1"]
    found = pytorch("--ddp", "--epochs", "2", "--restart-as", "2", launcher=launcher)
    assert found.of_epochs() == [(48, 48), (16, 16), (48, 48), (48, 48)]
    begins = [one for one in found.notes if one["kind"] == "begin"]
    told = [(one["rank"], one["epoch"]) for one in begins]
    assert sorted(told) == [(rank, epoch) for rank in (0, 1) for epoch in range(4)]


@pytest.mark.parametrize("persistent", [[], ["--persistent"]])
def test_break_with_full_queues_of_prefetched_batches(persistent, pytorch):
    found = pytorch(*FORK, "--break-after", "3", "--prefetch", "4", *persistent)
    read = [files for files, _ in found.of_epochs()]
    assert len(read) == 3
    assert max(read) > 12  # more than three batches of 4: workers read ahead


@pytest.mark.parametrize("gradients", ["grad", "no_grad"])
def test_validation_is_of_the_epoch_before_it(gradients, pytorch):
    found = pytorch(*FORK, "--validate", gradients)
    assert found.of_epochs("train") == WHOLE
    assert found.of_epochs("val") == HELD
    begins = [one for one in found.notes if one["kind"] == "begin"]
    is_evaluation = [one["evaluation"] for one in begins]
    assert is_evaluation == [False, gradients == "no_grad"] * 3


def test_validation_on_the_training_files(pytorch):
    found = pytorch(*FORK, "--validate", "grad", "--same-files", "--persistent")
    assert found.of_epochs() == [(48, 96)] * 3


def test_validation_three_times_an_epoch(pytorch):
    found = pytorch(*FORK, "--validate", "often")
    assert found.of_epochs("train") == WHOLE
    assert found.of_epochs("val") == [(16, 48)] * 3


def test_validation_in_the_middle_of_an_epoch_with_gradients(pytorch):
    found = pytorch(*FORK, "--validate", "within")
    assert found.of_epochs("train") == WHOLE
    assert found.of_epochs("val") == [(16, 32)] * 3


def test_check_of_the_validation_before_the_first_epoch(pytorch):
    found = pytorch(*FORK, "--validate", "first", "--persistent")
    assert found.of_epochs("train") == WHOLE


def test_loaders_that_are_made_anew_each_epoch(pytorch):
    found = pytorch(*FORK, "--new-loaders", "--validate", "grad")
    assert found.of_epochs("train") == WHOLE
    assert found.of_epochs("val") == HELD


@pytest.mark.parametrize("new", [[], ["--new-loaders"]])
def test_one_line_that_goes_through_both_loaders(new, pytorch):
    found = pytorch(*FORK, "--one-line", *new)
    assert found.of_epochs("train") == WHOLE
    assert found.of_epochs("val") == HELD


@pytest.mark.parametrize(
    "how",
    [[], FORK, [*FORK, "--persistent"], ["--workers", "2", "--method", "spawn"]],
    ids=["none", "fork", "persistent", "spawn"],
)
def test_shards_of_an_iterable_dataset(how, pytorch):
    assert pytorch("--shards", *how).of_epochs("shards") == [(8, 8)] * 3


def test_example(redirect, python):
    example = ROOT / "examples" / "pytorch_files.py"
    found = redirect(python, example, "--data", VIRTUAL, "--epochs", "2")
    assert found.of_epochs() == [(72, 72)] * 2
