import os
from dataclasses import replace
from pathlib import Path

import pytest
from tierscope.core.machine import TierError
from tierscope.core.validation import read_yaml
from tierscope.experiment.config import read_experiment
from tierscope.storage.emulated.library import Emulation

ROOT = Path(__file__).parents[4]
LAUNCH = f"test-{os.getpid()}"


@pytest.fixture
def machine():
    config = read_yaml(ROOT / "config" / "config.yaml")
    experiment = read_experiment(config, ROOT / "resources")
    return experiment.description(next(iter(experiment.sweep))).system


def test_both_tiers_of_the_scale_model_are_devices(machine, tmp_path):
    gfs, *lfs = Emulation(machine, 60, tmp_path, tmp_path, LAUNCH).devices
    assert gfs.prefixes == (str(Path("scratch/gfs/data").absolute()),)
    names = [[Path(prefix).name for prefix in one.prefixes] for one in lfs]
    assert names == [["node-00000"], ["node-00001"]]
    assert gfs.open_s > 0
    assert lfs[0].request_s == lfs[1].request_s > 0


@pytest.mark.parametrize("clock", ["virtual", "real"])
def test_state_is_made_once_for_all_processes_of_a_launch(
    machine, tmp_path, device_library, clock
):
    emulation = {**machine.emulation, "clock": clock}
    machine = replace(machine, emulation=emulation)
    native = device_library.parent
    first, second = (Emulation(machine, 60, native, tmp_path, LAUNCH) for _ in range(2))
    environment = first.environment()
    state = Path(environment["TIERSCOPE_DEVICE_STATE"])
    inode = state.stat().st_ino
    assert second.environment() == environment
    assert state.stat().st_ino == inode
    first.remove()
    assert not state.exists()


def test_processes_that_see_other_folders_are_refused(machine, tmp_path):
    emulation = Emulation(machine, 60, tmp_path, tmp_path, LAUNCH)

    class Processes:
        """Two processes, of which the other one has another root."""

        gather, barrier = staticmethod(lambda answer: None), staticmethod(lambda: None)

        class comm:
            @staticmethod
            def allgather(value):
                return [value, [("/elsewhere",)] if isinstance(value, list) else value]

    with pytest.raises(TierError, match=r"one machine and the same folders"):
        emulation.join(Processes)
