"""Benchmarks: what did no work fails, and goals that are missed are seen."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks import common
from benchmarks.common import CannotMeasure, Results, WrongWork, summary
from native import compile_library
from sessions import HANG_S

BENCHMARKS = Path(common.__file__).parent
CASE, OURS, FLOOR, PEER = "a file", "tierscope", "floor", "peer"
READS = """
import os, sys
path, content, parts = sys.argv[1], bytes(8), [bytearray(8)]
for read in (
    lambda file: os.read(file, 8),
    lambda file: os.pread(file, 8, 0),
    lambda file: os.readv(file, parts),
    lambda file: os.preadv(file, parts, 0),
):
    file = os.open(path, os.O_RDONLY)
    assert read(file)
    os.close(file)
"""
LOADER = """
import sys
from tierscope.benchmark.loaders.posix import PosixLoader
from tierscope.core.description import LoaderSettings
loader = PosixLoader(2, LoaderSettings(read_threads=1, prefetch_batches=2))
assert sum(samples for samples, _ in loader.epoch(sys.argv[1:] * 5)) == 5
"""


def measured(small=False, **samples):
    """Return results with counted samples, in seconds."""
    results = Results("speed", "a trial", small)
    for what, values in samples.items():
        results.count(CASE, what, "files", 3, 3)
        results.add(CASE, what, list(values))
    return results


def failing(error):
    """Return what raises an error."""

    def run(*_):
        raise error

    return run


@pytest.fixture
def finish(monkeypatch, tmp_path, capsys):
    """Return a function that runs a benchmark; it gives status and printed lines."""
    monkeypatch.setattr(common, "OUTPUT", tmp_path)

    def run(measure, small=False):
        status = common.run_benchmarks({"speed": measure}, small)
        return status, capsys.readouterr().out.splitlines()

    return run


@pytest.mark.parametrize(("found", "amount"), [(0, "24"), (23, "24"), (0, "some")])
def test_other_work_than_expected_is_refused(found, amount):
    expected = 0 if amount == "some" else 24
    with pytest.raises(WrongWork) as error:
        measured().count(CASE, FLOOR, "waits", found, expected)
    assert str(error.value) == f"a file, floor: got {found} waits, expected {amount}."


def test_work_is_recorded_once_with_its_number_of_times():
    results = measured()
    for _ in range(3):
        results.count(CASE, FLOOR, "files", 24, 24)
    (count,) = results.as_json()["counts"]
    assert (count["found"], count["n_times"]) == (24, 3)


def test_what_nobody_counted_is_not_compared():
    results = measured(tierscope=[1])
    results.add(CASE, FLOOR, [1])
    with pytest.raises(WrongWork, match="a file, floor: got no count of its work"):
        results.compare(CASE, OURS, FLOOR)


def test_limit_of_what_nobody_counted_is_not_judged():
    results = measured()
    results.add(CASE, OURS, [1])
    for limit in (results.limit, results.limit_median):
        with pytest.raises(WrongWork, match="got no count of its work"):
            limit(CASE, OURS, at_most=2)


def test_goal_of_what_was_not_measured_is_not_dropped():
    results = measured(tierscope=[1])
    for judge in (
        lambda: results.compare(CASE, OURS, "tiercsope"),
        lambda: results.limit(CASE, "memory", at_most=1),
        lambda: results.limit_median(CASE, "memory", at_most=1),
        lambda: results.agree(CASE, OURS, "real", within_percent=5),
    ):
        with pytest.raises(WrongWork, match="got no measurement, expected one"):
            judge()


def test_nothing_is_compared_with_itself():
    with pytest.raises(WrongWork, match="compares tierscope with itself"):
        measured(tierscope=[1]).compare(CASE, OURS, OURS)


def test_no_samples_are_refused():
    with pytest.raises(WrongWork, match="floor: got no samples, expected some"):
        measured().add(CASE, FLOOR, [])


def test_peer_that_is_not_installed_is_left_out():
    results = measured(tierscope=[1])
    assert results.has_peer("numpy", "numpy")
    assert not results.has_peer("no-such-package", PEER)
    assert results.skipped == [f"{PEER}: no-such-package is not installed"]


def test_goal_with_a_peer_left_out_is_said_to_be_not_measured():
    results = measured(tierscope=[1])
    results.skip(PEER, "not installed")
    results.compare(CASE, PEER, OURS, at_least=3)
    assert results.comparisons[0].verdict == "not measured"
    *_, skipped, last = summary([results], [])
    assert skipped == "  speed      SKIPPED peer: not installed"
    assert last.startswith("Goals: 0 met, 0 by one measure only, 0 MISSED, 1 not")


@pytest.mark.parametrize("error", [CannotMeasure("it crashed"), WrongWork("0 steps")])
def test_peer_that_fails_fails_the_benchmark_after_the_rest(finish, error):
    def measure(small):
        results = measured(tierscope=[1], peer=[2])
        results.measurements.clear()
        runs = {PEER: failing(error), OURS: lambda: [1.0]}
        results.interleave(CASE, 2, runs, peers=[PEER])
        results.compare(CASE, PEER, OURS, at_least=3)
        assert len(results.find(CASE, OURS).samples) == 2
        return results

    status, lines = finish(measure)
    assert status == 1
    assert lines[-2] == f"FAILED speed: a file, peer: {error}"


def test_failure_of_our_own_ends_the_benchmark():
    with pytest.raises(CannotMeasure):
        measured().interleave(CASE, 1, {OURS: failing(CannotMeasure("x"))}, peers=[])


def test_benchmark_that_counts_nothing_fails(finish):
    status, lines = finish(lambda small: Results("speed", "nothing", small))
    assert status == 1
    assert lines[-2] == "FAILED speed: got no count of any work, expected some."


def test_wrong_work_is_one_line_and_fails_a_trial_too(finish):
    work = WrongWork("a file, floor: got 0 waits, expected 24.")
    status, lines = finish(failing(work), small=True)
    assert status == 1
    assert lines[-2] == f"FAILED speed: {work}"
    assert lines[-1].endswith("Failures: 1.")


def test_missed_goal_of_speed_is_in_the_last_lines_and_no_failure(finish):
    def measure(small):
        results = measured(tierscope=[2], floor=[1], peer=[1, 2, 2])
        results.compare(CASE, OURS, FLOOR, at_most=1.5)
        results.compare(CASE, FLOOR, OURS, at_most=1.5)
        results.compare(CASE, PEER, FLOOR, at_most=1.5)
        return results

    status, lines = finish(measure)
    assert status == 0
    ends = [line.split("1.5")[-1].strip() for line in lines[-4:-1]]
    assert ends == ["MISSED", "met", "met by minimum only"]
    assert lines[-1] == (
        "Goals: 1 met, 1 by one measure only, 1 MISSED, 0 not measured. "
        "Counts of work: 3 as expected. Failures: 0."
    )


def test_trial_judges_no_goal(finish):
    def measure(small):
        results = measured(small, tierscope=[2], floor=[1])
        results.compare(CASE, OURS, FLOOR, at_most=1.5)
        results.agree(CASE, OURS, FLOOR, within_percent=5)
        return results

    status, lines = finish(measure, small=True)
    assert status == 0
    assert not any("MISSED" in line for line in lines)
    assert lines[-1].startswith("Goals: 2 not judged in a trial. Counts of work: 2 as")


@pytest.mark.parametrize(("real_s", "status"), [(4.1, 0), (1.93, 1), (7.84, 1)])
def test_clocks_that_do_not_agree_are_a_failure(finish, real_s, status):
    def measure(small):
        results = measured(virtual=[3.92], real=[real_s])
        results.agree(CASE, "real", "virtual", within_percent=5)
        return results

    found, lines = finish(measure)
    assert found == status
    message = f"a file: real is {real_s:g} s, virtual 3.92, expected within 5 %"
    assert (lines[-2] == f"FAILED speed: {message}") == bool(status)


@pytest.fixture(scope="module")
def waits(tmp_path_factory):
    """Return a function that runs code on a file that waits: it counts waits, bytes."""
    folder = tmp_path_factory.mktemp("waiting")
    compile_library(folder, "waiting", [BENCHMARKS / "waiting.c"])
    file, state = folder / "slow", folder / "state"
    file.write_bytes(bytes(8))

    def run(code, prefix=file):
        state.write_bytes(bytes(4096))
        environment = {
            "LD_PRELOAD": str(folder / "libtierscope_waiting.so"),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "WAITING_PREFIX": str(prefix),
            "WAITING_STATE": str(state),
            "WAITING_OPEN_NS": "0",
            "WAITING_READ_NS": "1000",
        }
        command = [sys.executable, "-c", code, file]
        subprocess.run(command, env=environment, check=True, timeout=HANG_S)
        return tuple(np.fromfile(state, np.int64, 6)[4:].tolist())

    return run


def test_every_way_to_read_waits_and_is_counted(waits):
    assert waits(READS) == (4, 4 * 8)


def test_files_of_other_paths_do_not_wait(waits):
    assert waits(READS, prefix="/elsewhere") == (0, 0)


def test_reference_of_the_devices_waits_for_loader_posix(waits):
    assert waits(LOADER) == (5, 5 * 8)
