"""What differs by where the numbers of an experiment come from."""

from dataclasses import replace
from pathlib import Path

import pytest
from tierscope.core.scenario import Point, Scenario
from tierscope.core.validation import ConfigError
from tierscope.experiment.sources import SOURCES
from tierscope.experiment.system import read_system
from tierscope.policies import POLICIES
from tierscope.storage.emulated.library import DEVICES_VERSION

ROOT = Path(__file__).parents[3]
MEASURED, EMULATED, SIMULATED = SOURCES.values()
SWEPT = [Point(rate, repetition) for repetition in (0, 1) for rate in (0, 50, 100)]
ALL = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)


def scenario(policy="pinning", loader="posix"):
    return Scenario("small", 60, policy, loader)


@pytest.fixture(scope="module")
def machine():
    """Return the machine of the scale model, which has devices and an emulation."""
    return read_system("scale-model", ROOT / "resources" / "systems").machine


@ALL
def test_each_is_found_by_what_figures_call_it(source):
    assert SOURCES[source.name] is source
    assert source.words(None).startswith(source.name)


def test_only_simulated_numbers_say_whose_parameters_they_have():
    devices = {"origin": "of the paper"}
    assert MEASURED.words(devices) == "measured"
    assert EMULATED.words(devices) == "emulated"
    assert SIMULATED.words(devices) == "simulated, parameters of the paper"
    assert SIMULATED.words(None) == "simulated, parameters of the emulated devices"


def test_description_has_of_a_machine_what_determines_the_numbers(machine):
    assert MEASURED.machine(machine) == replace(machine, devices=None)
    emulated = EMULATED.machine(machine)
    assert emulated.emulation["devices_version"] == DEVICES_VERSION
    assert replace(emulated, emulation=machine.emulation) == machine
    assert SIMULATED.machine(machine) is machine


def test_simulated_runs_alone_leave_nothing_to_audit():
    assert [one.audited(["a"]) for one in SOURCES.values()] == [["a"], ["a"], []]
    assert [one.is_launched for one in SOURCES.values()] == [True, True, False]


def test_only_real_devices_are_watched():
    assert MEASURED.has_own_devices
    assert MEASURED.observed == ("verdicts", "drift")
    for virtual in (EMULATED, SIMULATED):
        assert not virtual.has_own_devices
        assert virtual.observed == ()
        assert virtual.most_reads < MEASURED.most_reads


@pytest.mark.parametrize("policy", POLICIES)
def test_simulated_runs_have_logs_if_no_file_moves(policy):
    one = scenario(policy)
    assert MEASURED.why_no_log(one) is EMULATED.why_no_log(one) is None
    moves = POLICIES[policy].kind.moves_files
    why = SIMULATED.why_no_log(one)
    assert (why is not None) == moves
    assert not moves or why.startswith(f"policy {policy}: simulated runs have no log")


def test_database_is_why_there_is_no_simulated_log():
    why = SIMULATED.why_no_log(scenario(loader="lmdb"))
    assert why.startswith("loader lmdb: simulated runs have no log")


def test_nothing_is_calibrated_by_simulated_runs():
    assert [one.calibration("own") for one in SOURCES.values()] == ["own", "own", None]
    for launched in (MEASURED, EMULATED):
        launched.refuse_calibration("config: a", "laptop")
    with pytest.raises(ConfigError) as refusal:
        SIMULATED.refuse_calibration("config: a", "laptop")
    assert str(refusal.value) == (
        "config: a: got simulated runs, expected measured ones: the parameters of "
        "simulated runs are those of system laptop"
    )


def test_repetitions_are_fitted_where_luck_differs():
    first = [Point(0, 0), Point(50, 0)]
    repeated = Point(0, 0), Point(0, 1), Point(50, 0), Point(50, 1)
    assert MEASURED.fitted(first, SWEPT) == repeated
    assert EMULATED.fitted(first, SWEPT) == SIMULATED.fitted(first, SWEPT) == (*first,)


def test_launch_has_the_points_that_may_share_their_luck():
    alone = [(point,) for point in SWEPT]
    assert MEASURED.launches(SWEPT, together=False) == alone
    assert EMULATED.launches(SWEPT, together=False) == alone
    by_repetition = [tuple(SWEPT[:3]), tuple(SWEPT[3:])]
    assert MEASURED.launches(SWEPT, together=True) == by_repetition
    assert EMULATED.launches(SWEPT, together=True) == [tuple(SWEPT)]
    for together in (True, False):
        assert SIMULATED.launches(SWEPT, together) == [tuple(SWEPT)]


def test_only_launches_on_real_tiers_have_a_random_order_which_the_seed_tells():
    launch = tuple(Point(rate, 1) for rate in range(0, 101, 10))
    orders = [MEASURED.in_order(scenario(), launch, seed) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2] != launch
    assert all(sorted(order, key=launch.index) == [*launch] for order in orders)
    other = MEASURED.in_order(scenario("none"), launch, 1)
    assert other != orders[0]
    for virtual in (EMULATED, SIMULATED):
        assert virtual.in_order(scenario(), launch, 1) is launch
