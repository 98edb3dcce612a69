"""Times of a device beside its own account, with the `DataLoader` and a stand-in."""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from redirected import HOOK
from sessions import HANG_S
from stand_in import used_percent

CLIENT = Path(__file__).with_name("device_client.py")
PYTHON = Path(__file__).parents[2] / ".venv-programs" / "bin" / "python"
STORAGE, COMPUTATION = [], ["--read-s", "0.0002"]
FORK, SPAWN = (["--workers", "2", "--method", one] for one in ("fork", "spawn"))


@pytest.fixture
def trained(tmp_path):
    """Return a function that gives the notes of loops, and the device's account."""

    def train(*options):
        account, notes = tmp_path / "account.json", tmp_path / "notes"
        notes.mkdir()
        hooked = {"PYTHONPATH": str(HOOK), "TIERSCOPE_REDIRECT": "no table"}
        hooked["TIERSCOPE_HOOK_NOTES"] = str(notes)
        subprocess.run(
            [PYTHON, CLIENT, "--account", account, *options],
            env=os.environ | hooked,
            stderr=sys.stderr,
            timeout=HANG_S,
            check=True,
        )
        told = [
            json.loads(line)
            for path in notes.iterdir()
            for line in path.read_text().splitlines()
        ]
        assert not [one for one in told if one["kind"] == "error"]
        loops = [one for one in told if one["kind"] == "loop"]
        training = sorted(
            (one for one in loops if not one["evaluation"]),
            key=lambda one: (one["epoch"], one["left"]),
        )
        return training, json.loads(account.read_text())

    return train


def assert_told_as_counted(loops, account):
    """Compare utilisation, computation and first steps of all epochs."""
    assert [one["epoch"] for one in loops] == list(range(len(account)))
    errors, shares = [], []
    for loop, true in zip(loops, account, strict=True):
        seen = loop["device"]
        assert loop["batches"] == true["steps"]
        errors.append(abs(used_percent(seen) - used_percent(true)))
        shares.append(seen["busy_s"] / true["busy_s"])
    assert statistics.median(errors) < 2
    assert statistics.median(shares) == pytest.approx(1, rel=0.02)


@pytest.mark.parametrize("synchronise", [[], ["--synchronise"]])
@pytest.mark.parametrize("bound", [STORAGE, COMPUTATION])
def test_device_is_told_as_it_counts_itself(bound, synchronise, trained):
    loops, account = trained(*bound, *synchronise, "--first-s", "1")
    assert_told_as_counted(loops, account)
    first_s = account[0]["first_busy_s"]
    assert loops[0]["device"]["first_busy_s"] == pytest.approx(first_s, rel=0.02)
    words = {loop["least_because"] for loop in loops}
    assert words == {"never behind" if synchronise else ""}


@pytest.mark.parametrize(
    "how",
    [
        FORK,
        [*SPAWN, "--persistent"],
        [*FORK, "--persistent"],
        ["--validate", "after"],
        [*FORK, "--accumulate", "4"],
    ],
)
def test_device_is_told_however_the_loader_works(how, trained):
    loops, account = trained(*how)
    assert_told_as_counted(loops, account)
    assert {loop["least_because"] for loop in loops} == {""}
    assert not any(loop["left"] for loop in loops)


@pytest.mark.parametrize("persistent", [[], ["--persistent"]])
def test_loop_that_is_left_counts_until_its_last_batch(persistent, trained):
    loops, account = trained(*FORK, *persistent, "--break-after", "8")
    assert_told_as_counted(loops, account)
    assert all(loop["left"] for loop in loops)


def test_validation_within_an_epoch_is_work_of_its_step(trained):
    loops, account = trained("--validate", "within", "--work-s", "0.02")
    more_s = [
        loop["device"]["busy_s"] - true["busy_s"]
        for loop, true in zip(loops, account, strict=True)
    ]
    # 12 batches of 10 ms; waits for these are none.
    assert statistics.median(more_s) == pytest.approx(0.12, rel=0.02)


def test_waits_for_either_of_two_loaders_are_idle(trained):
    loops, account = trained("--both")
    assert [one["left"] for one in loops] == [False, True] * len(account)
    assert_told_as_counted(loops[::2], account)
