"""What a launch does for real devices, and for emulated ones."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from descriptions import describe_scenario
from tierscope.benchmark.devices import devices_of
from tierscope.benchmark.devices.emulated import EmulatedDevices
from tierscope.benchmark.devices.real import RealDevices
from tierscope.core.machine import TierError
from tierscope.core.validation import read_yaml
from tierscope.experiment.config import read_experiment
from tierscope.storage.clock import RealClock

ROOT = Path(__file__).parents[4]
PROBE = SimpleNamespace(name="gfs_read_rate", operation="read")


@pytest.fixture(scope="module")
def description():
    """Return a scenario of the scale model, of which both tiers are emulated."""
    config = read_yaml(ROOT / "config" / "config.yaml")
    experiment = read_experiment(config, ROOT / "resources")
    return experiment.description(next(iter(experiment.sweep)))


def on_directories(system):
    tiers = {
        name: replace(tier, kind="directory") for name, tier in system.tiers.items()
    }
    return replace(system, **tiers)


@pytest.fixture
def emulated(description, tmp_path):
    return devices_of(description.system, 60, tmp_path / "native", tmp_path, "x")


@pytest.fixture
def real(description, tmp_path):
    system = on_directories(description.system)
    return devices_of(system, 60, tmp_path / "native", tmp_path, "x")


class Notes:
    """A clock, a client or a source that notes what it is asked to do."""

    def __init__(self, **results):
        self.calls, self._results = [], results

    def __getattr__(self, name):
        def note(*arguments, **keywords):
            self.calls.append((name, *arguments, *keywords.items()))
            return self._results.get(name)

        return note


def test_kinds_of_the_tiers_choose_the_devices(real, emulated):
    assert type(real) is RealDevices
    assert type(emulated) is EmulatedDevices


def test_real_devices_need_nothing_and_have_the_clock_of_this_machine(real):
    waits = []
    real.join(SimpleNamespace(barrier=lambda: waits.append("all")))
    assert isinstance(real.clock, RealClock)
    real.clock.barrier()
    assert waits == ["all"]
    assert (real.preload(), real.environment()) == ([], {})
    assert real.described() is real.describe() is real.duration_s([1.0]) is None
    assert real.time_text(1.5, 2.0) == "1.500 s"


def test_emulated_devices_are_preloaded_and_have_times_of_their_own(emulated, tmp_path):
    assert emulated.preload() == [tmp_path / "native" / "libtierscope_device.so"]
    assert emulated.duration_s([1.5, 2.0]) == 3.5
    text = emulated.time_text(1.5, 2.0)
    assert text == "1.500 s of virtual time, 2.0 s of real time"
    assert len(emulated.described()["devices"]) == 3  # GFS and two nodes


def test_only_ideal_runs_of_real_tiers_need_memory(real, emulated):
    assert not real.needs_memory
    for devices, needs in ((real, True), (emulated, False)):
        devices.system = replace(devices.system, is_ideal=True)
        assert devices.needs_memory is needs


def test_filling_takes_time_on_real_tiers_only(real, emulated):
    on_lfs, source = np.array([True, False, True]), Notes(fill=4.5)
    assert real.hold(source, on_lfs, cold=True) == 4.5
    ((name, files, cold),) = source.calls
    assert (name, files.tolist()) == ("fill", [0, 2])
    assert cold == ("cold", True)
    source.calls.clear()
    assert emulated.hold(source, on_lfs, cold=True) == 0.0
    assert source.calls == [("exchange", on_lfs)]


def test_virtual_time_knows_what_is_read_in_an_epoch(real, emulated, description):
    emulated.clock, real.clock = Notes(), None
    for devices in (real, emulated):
        devices.plan(description, 40, 3, None)
    ((name, n_files, file_bytes, *_, meets),) = emulated.clock.calls
    assert (name, n_files) == ("plan", 40)
    assert file_bytes == description.dataset.file_size_bytes
    assert meets == ("meets", False)


def test_workers_of_virtual_time_read_batches(emulated):
    run = describe_scenario(scenario={"loader": "pytorch"}, loader={"workers": 4})
    emulated.clock = Notes()
    emulated.plan(run, 40, 3, None)
    ((name, n_steps, workers, *_),) = emulated.clock.calls
    assert (name, n_steps, workers) == ("plan_batches", 3, 4)


def test_probe_waits_for_all_and_only_some_take_part(real, emulated):
    waits = []
    processes = SimpleNamespace(rank=3, barrier=lambda *poll_s: waits.append(poll_s))
    client = Notes(run="timing")
    assert real.probe(client, PROBE, False, processes) is None
    assert real.probe(client, PROBE, True, processes) == "timing"
    assert [name for name, *_ in client.calls] == ["forget_pages"] * 2 + ["run"]
    assert len(waits) == 4


@pytest.mark.parametrize(("agree", "n_asked"), [(True, 3), (False, 1)])
def test_names_are_dropped_before_opens_until_machines_disagree(real, agree, n_asked):
    asked = []
    processes = SimpleNamespace(
        leads_machine=False,
        barrier=lambda *_: None,
        all_agree=lambda drops: asked.append(drops) or agree,
    )
    for _ in range(3):
        probe = SimpleNamespace(name="gfs_open", operation="open")
        real.probe(Notes(run="timing"), probe, True, processes)
    assert len(asked) == n_asked


def test_failing_probe_of_real_tiers_is_named(real):
    def run(probe):
        raise FileNotFoundError(2, "No such file", "a")

    client = SimpleNamespace(run=run, forget_pages=lambda: None)
    processes = SimpleNamespace(barrier=lambda *_: None)
    with pytest.raises(TierError, match=r"probe gfs_read_rate: .*No such file"):
        real.probe(client, PROBE, True, processes)


def test_failing_probe_of_virtual_time_says_why_the_launch_was_stopped(emulated):
    class Stopped(RealClock):
        def check(self):
            raise RuntimeError("the reason")

    def run(probe):
        raise OSError(5, "a consequence")

    emulated.clock = Stopped(lambda: None)
    with pytest.raises(RuntimeError, match="the reason"):
        emulated.probe(SimpleNamespace(run=run), PROBE, True, SimpleNamespace(rank=0))
