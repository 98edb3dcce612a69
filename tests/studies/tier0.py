"""Predict a pool of the nodes' own drives: ``python tests/studies/tier0.py``.

What is known is one row: of one node alone, the largest number of accelerators that
reach the goal, and their utilisation. One parameter is fitted to it by each of three
structures, which say what two to four nodes share. The study prints the largest number
for each structure, and their geometric mean (docs/results.md).
"""

import argparse
import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "workflow" / "scripts"))

from tierscope.data.designs import Design, Plan, Storage  # noqa: E402
from tierscope.experiment.designs.workloads import read_workloads  # noqa: E402
from tierscope.experiment.system import read_system  # noqa: E402
from tierscope.model.calibration.starting_values import with_values  # noqa: E402
from tierscope.model.designs.feeding import Trial, simulating  # noqa: E402
from tierscope.model.designs.fit import fit_parameter  # noqa: E402

RESOURCES = ROOT / "resources"
NODES = (2, 3, 4)
# Accelerators and utilisation of the published row of one node. Epochs there scatter by
# 0.03 to 0.2 points.
ROWS = {"unet3d_b200": (26, 93.19), "retinanet_b200": (58, 85.21)}
SCATTER_POINTS = 0.2
NODE, METADATA = "lfs.request_s", "gfs.open_s"


@dataclass(frozen=True)
class Structure:
    """What limits the node, and what nodes share.

    Parameters
    ----------
    words : str
        What it says.
    parameter : str
        The fitted one.
    storage : Storage
        Where the files are.
    remote : float
        By which part a read from another node takes more of the nodes' capacity.
    """

    words: str
    parameter: str
    storage: Storage
    remote: float = 0.0


LOCAL = Structure("each node alone", NODE, Storage(cache_rate_percent=100))
POOLED = Storage(placement="adhoc", cache_rate_percent=100)
STRUCTURES = {
    "unet3d_b200": (
        LOCAL,
        Structure("the network too", NODE, POOLED),
        Structure("remote reads cost half as much again", NODE, POOLED, 0.5),
    ),
    "retinanet_b200": (
        LOCAL,
        Structure("the network too", NODE, POOLED),
        Structure("the metadata node", METADATA, Storage(placement="none")),
    ),
}


def plan_of(name: str, n_nodes: int, per_node: int, steps: int) -> Plan:
    """Return a workload on so many nodes, with accelerators on each."""
    system = read_system("tier0", RESOURCES / "systems")
    (workload,) = read_workloads([name], {}, [RESOURCES])
    description = workload.description(system.machine, seed=1)
    devices = description.system.devices
    lfs = {**devices["lfs"], "processes_per_server": per_node}
    machine = replace(
        description.system,
        n_nodes=n_nodes,
        processes_per_node=per_node,
        devices={**devices, "lfs": lfs},
    )
    described = replace(description, system=machine)
    return Plan(described, workload.sizes, True, steps, system.job.memory_gib_per_node)


def study(name: str, structure: Structure, seeds: int, steps: int) -> list[int]:
    """Fit a structure to one node, and return the most accelerators of more nodes."""
    one, used_percent = ROWS[name]
    goal_percent = read_workloads([name], {}, [RESOURCES])[0].utilisation_percent
    fit = {
        "parameter": structure.parameter,
        "accelerators": one,
        "utilisation_percent": used_percent,
        "deviation_points": SCATTER_POINTS,
    }
    with simulating(1) as simulate:
        plan = plan_of(name, 1, one, steps)
        fitted = fit_parameter(simulate, plan, fit, structure.storage, seeds, str)

        def utilisation(n_nodes: int, per_node: int) -> float:
            factor = 1 + structure.remote * (1 - 1 / n_nodes)
            plan = plan_of(name, n_nodes, per_node, steps)
            values = {structure.parameter: fitted.value * factor}
            plan = replace(plan, description=with_values(plan.description, values))
            design = Design(n_nodes * per_node, structure.storage)
            paces = simulate([Trial(plan, design, seed) for seed in range(seeds)])
            return float(np.mean([pace.utilisation_percent for pace in paces]))

        def most(n_nodes: int) -> int:
            for per_node in range(one, 0, -1):
                found = utilisation(n_nodes, per_node)
                if found >= goal_percent:
                    print(
                        f"  {n_nodes * per_node} on {n_nodes} nodes: AU {found:.2f} %"
                    )
                    return n_nodes * per_node
            return 0

        print(f"{name}: {structure.words}, {structure.parameter} {fitted.value:.4g} s")
        return [most(n_nodes) for n_nodes in NODES]


def main() -> None:
    """Print what each structure says, and the geometric mean."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seeds", type=int, default=5, help="simulations of each number"
    )
    parser.add_argument("--steps", type=int, default=100, help="simulated steps")
    given = parser.parse_args()
    for name, structures in STRUCTURES.items():
        found = [study(name, one, given.seeds, given.steps) for one in structures]
        means = [math.exp(np.mean(np.log(some))) for some in zip(*found, strict=True)]
        print(f"{name}: {found}, geometric mean {[round(one, 1) for one in means]}")


if __name__ == "__main__":
    main()
