"""Is the chosen design right? ``python tests/studies/choices.py``.

Each seed draws storage, prices, and how unsure a calibration of it is. A study of
designs that knows the calibration chooses the cheapest one that surely meets the goal.
The truth has parameters that are drawn from the calibration's uncertainty, and other
seeds; all designs are simulated with it. In every other case the next cheaper design
misses the goal by less than 10 %; in the others the design that just meets it does so
by less than 10 %. The study prints how often the choice meets the goal in truth, and
how often the next cheaper one that it calls missing does miss it.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "workflow" / "scripts"))

from tierscope.analysis.designs.choice import choose, designs_of  # noqa: E402
from tierscope.core.columns.designs import NO_CHOICE  # noqa: E402
from tierscope.core.machine import Machine  # noqa: E402
from tierscope.data.costs import HARDWARE, Cost, Unit  # noqa: E402
from tierscope.data.designs import Design, Goal, Plan, Storage, Study  # noqa: E402
from tierscope.experiment.designs.workloads import Workload  # noqa: E402
from tierscope.experiment.system import read_system  # noqa: E402
from tierscope.model.calibration.uncertainty import Source, Uncertainty  # noqa: E402
from tierscope.model.designs.draws import drawn_plans  # noqa: E402
from tierscope.model.designs.feeding import Trial, simulate_pace  # noqa: E402
from tierscope.model.designs.study import simulate_study  # noqa: E402

N, BATCH, STEPS = 16, 4, 40  # accelerators, and what they read
TRUE_SEEDS = 5
NEAR = 0.1  # of the goal
UNSURE = (
    "gfs.open_s",
    "gfs.ost_bandwidth_bytes_per_s",
    "gfs.link_bytes_per_s",
    "lfs.request_s",
)
PLACEMENTS = (("none", None), ("pinning", 40), ("adhoc", 60))
STORAGES = tuple(
    Storage(servers, links, speed, placement=placement, cache_rate_percent=rate)
    for servers, links, speed, (placement, rate) in product(
        (1, 2, 3, 4, 6), (1, 2, 4), (1.0, 2.0), PLACEMENTS
    )
)


@dataclass(frozen=True)
class Case:
    """What a seed draws.

    Parameters
    ----------
    plan, truth : Plan
        The workload on the calibrated and on the true storage.
    uncertainty : mapping
        What the calibration wrote.
    cost : Cost
        Prices.
    margin : float
        Part of the goal by which a design misses or just meets it.
    is_missed : bool
        Whether it misses it.
    """

    plan: Plan
    truth: Plan
    uncertainty: dict[str, Any]
    cost: Cost
    margin: float
    is_missed: bool

    def prices(self) -> np.ndarray:
        """Return the price of each storage."""
        found = [self.plan.hardware(N, one) for one in STORAGES]
        return np.array([self.cost.sums(one)["price"] for one in found])

    def goal(self, true_percent: np.ndarray) -> float:
        """Return a goal near a design that is better than all cheaper ones."""
        order = np.lexsort((-true_percent, self.prices()))
        steps = np.unique(np.maximum.accumulate(true_percent[order]))
        before, after = steps[:-1], steps[1:]
        if self.is_missed:
            goals = before * (1 + self.margin)
            fits = goals <= after
        else:
            goals = after * (1 - self.margin)
            fits = before < goals * (1 - NEAR)
        if not fits.any():  # into the middle of the largest step
            goals, fits = np.sqrt(before * after), after / before
            fits = fits == fits.max()
        return float(goals[fits][fits.sum() // 2])

    def study(self, goal_percent: float, simulations: int, repetitions: int) -> Study:
        """Return the study for a goal."""
        return Study(
            plans={"drawn": self.plan},
            shares={"drawn": 1.0},
            goals={"drawn": Goal("utilisation_percent", goal_percent)},
            storages=STORAGES,
            accelerators=(N,),
            repetitions=repetitions,
            simulations=simulations,
            draws=self.uncertainty,
            cost=self.cost,
        )


def simulate(jobs: Sequence[Trial]) -> list:
    """Simulate in this process."""
    return list(map(simulate_pace, jobs))


def utilisation_percent(plans: Sequence[Plan]) -> np.ndarray:
    """Return what each storage and plan reaches; repetition i goes with plan i."""
    return np.array(
        [
            [
                simulate_pace(Trial(plan, Design(N, one), i)).utilisation_percent
                for i, plan in enumerate(plans)
            ]
            for one in STORAGES
        ]
    )


def drawn(seed: int) -> Case:
    """Draw a case."""
    draw = np.random.default_rng([seed, 54])
    size = round(within(draw, 1e5, 2e7))
    server = within(draw, 5e8, 5e9)
    a_file_s = size / (3 * server)  # of three servers
    devices = _devices(draw, size, server, a_file_s)
    system = read_system("nvme-servers", ROOT / "resources" / "systems").machine
    machine = replace(system, n_nodes=4, processes_per_node=4, devices=devices)
    workload = Workload(
        name="drawn",
        n_files=N * BATCH * STEPS,
        file_size_bytes=size,
        batch_size=BATCH,
        compute_time_s=N * BATCH * a_file_s * within(draw, 0.8, 1.6),
        loader="pytorch",
        workers=int(draw.integers(1, 5)),
        prefetch_factor=2,
        utilisation_percent=90,
        source="drawn",
    )
    uncertainty = _uncertainty(draw).as_json()
    true = drawn_plans(_plan(workload, machine, 1000 + seed), uncertainty, 101)
    units = {kind: Unit(price=within(draw, 1, 10)) for kind in HARDWARE[:-1]}
    return Case(
        plan=_plan(workload, machine, seed),
        truth=true[1 + draw.integers(100)],
        uncertainty=uncertainty,
        cost=Cost("EUR", units=units),
        margin=draw.uniform(0.005, NEAR),
        is_missed=seed % 2 == 0,
    )


def within(draw: np.random.Generator, low: float, high: float) -> float:
    """Return a number whose logarithm is uniform."""
    return float(np.exp(draw.uniform(np.log(low), np.log(high))))


def _devices(
    draw: np.random.Generator, size: int, server: float, a_file_s: float
) -> dict[str, Any]:
    """Return devices whose stations are about as fast as each other."""
    request_bytes = 1 << 20
    gfs = {
        "open_s": within(draw, 0.05, 0.8) * a_file_s,
        "close_s": 1e-6,
        "metadata_latency_s": within(draw, 1e-4, 1e-3),
        "n_osts": 3,
        "ost_bandwidth_bytes_per_s": server,
        "read_latency_s": within(draw, 1e-4, 1e-3),
        "link_bytes_per_s": server * within(draw, 0.7, 2),
        "request_bytes": request_bytes,
    }
    lfs = {
        "request_bytes": request_bytes,
        "request_s": within(draw, 2, 16) * a_file_s / max(size / request_bytes, 1),
        "latency_s": 1e-4,
        "processes_per_server": 4,
    }
    rate = server * within(draw, 0.3, 2)
    return {
        "origin": "drawn",
        "gfs": gfs,
        "lfs": lfs,
        "network": {"latency_s": 1e-5, "bandwidth_bytes_per_s": rate},
        "simulation": {
            "service_distribution": "lognormal",
            "service_cv": draw.uniform(0.1, 1),
        },
    }


def _plan(workload: Workload, machine: Machine, seed: int) -> Plan:
    return Plan(workload.description(machine, seed), None, False, STEPS)


def _uncertainty(draw: np.random.Generator) -> Uncertainty:
    """Return what a calibration says of its uncertainty: errors of 1 to 8 %."""
    mixed = draw.normal(size=(len(UNSURE), len(UNSURE)))
    covariance = mixed @ mixed.T
    scale = draw.uniform(0.01, 0.08, len(UNSURE)) / np.sqrt(np.diag(covariance))
    covariance *= np.outer(scale, scale)
    source = Source("drawn", covariance, draw.integers(5, 40), draw.uniform(0, 0.04))
    return Uncertainty(UNSURE, (source,))


def places(designs: pd.DataFrame) -> list[int]:
    """Return the place in `STORAGES` of each design of a table."""
    known = [
        (one.object_servers, one.links, one.metadata_speed, one.placement)
        for one in STORAGES
    ]
    columns = designs[["object_servers", "n_links", "metadata_speed", "placement"]]
    return [known.index(tuple(row)) for row in columns.to_numpy().tolist()]


def check(seed: int, simulations: int, repetitions: int) -> dict[str, Any]:
    """Let a study choose, and compare with the truth."""
    case = drawn(seed)
    true = utilisation_percent([case.truth] * TRUE_SEEDS).mean(axis=1)
    goal = case.goal(true)
    study = case.study(goal, simulations, repetitions)
    table = simulate_study(study, simulate, str, str).designs
    choice = choose(designs_of(table), case.cost)
    place = places(table.set_index("design"))
    true, price = true[place], case.prices()[place]  # by number of the design
    least, chosen = price[true >= goal].min(), choice.chosen
    return {
        "seed": seed,
        "goal_percent": goal,
        "next_misses_by_percent": 100 * (1 - true[price < least].max() / goal),
        "simulations": table["n_repetitions"].sum(),
        "meets": chosen != NO_CHOICE and true[chosen] >= goal,
        "cheaper_misses": choice.miss == NO_CHOICE or true[choice.miss] < goal,
        "undecided": len(choice.undecided),
        "price_over_least": math.nan if chosen == NO_CHOICE else price[chosen] / least,
    }


def main() -> None:
    """Print all cases and the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--seeds", type=int, default=40, help="number of cases")
    parser.add_argument("--simulations", type=int, default=120)
    parser.add_argument("--repetitions", type=int, default=6)
    given = parser.parse_args()
    rows = []
    for seed in range(given.first, given.first + given.seeds):
        rows.append(check(seed, given.simulations, given.repetitions))
        print(
            pd.DataFrame(rows[-1:]).to_string(header=seed == given.first, index=False)
        )
    found = pd.DataFrame(rows)
    near = found["next_misses_by_percent"] < 100 * NEAR
    print(found.groupby(near)[["meets", "cheaper_misses"]].agg(["sum", "size"]))
    print(found["price_over_least"].describe())


if __name__ == "__main__":
    main()
