from dataclasses import replace

import numpy as np
from descriptions import describe_scenario

MACHINE = describe_scenario(system={"n_nodes": 3, "processes_per_node": 2}).system


def test_processes_are_numbered_node_by_node():
    assert MACHINE.n_processes == 6
    assert MACHINE.node_of(np.arange(6)).tolist() == [0, 0, 1, 1, 2, 2]


def test_emulated_tiers_are_named():
    assert MACHINE.emulated_tiers == ()
    lfs = replace(MACHINE.lfs, kind="emulated")
    assert replace(MACHINE, lfs=lfs).emulated_tiers == ("lfs",)
    assert list(MACHINE.tiers) == ["gfs", "lfs"]
