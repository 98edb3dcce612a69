"""What is known of designs: simulations, bounds, and what follows for the goal."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import numpy as np

from tierscope.core.columns.designs import MEETS, MISSES, UNDECIDED
from tierscope.data.designs import Design, Goal, Plan, Study
from tierscope.model.designs.bounds import Bounds, bounds_of
from tierscope.model.designs.feeding import Simulate, Trial
from tierscope.model.designs.pace import Pace

_VERDICTS = {True: MEETS, False: MISSES}


class Band(NamedTuple):
    """A mean, and the least and the largest of several values, else missing."""

    mean: float
    low: float = math.nan
    high: float = math.nan


@dataclass
class Evidence:
    """Simulations of designs, and what they say.

    Parameters
    ----------
    study : Study
        The study.
    variants : mapping of str to sequence of sequence of Plan
        Of each workload and repetition the plans to simulate: the first one, and those
        with the ends of a fitted parameter.
    simulate, say : callable
        What simulates, and what gets a line on each simulation.
    paces : dict
        What was simulated, by workload and design: of each repetition the pace of each
        plan.
    """

    study: Study
    variants: Mapping[str, Sequence[Sequence[Plan]]]
    simulate: Simulate
    say: Callable[[str], None]
    paces: dict[tuple[str, Design], list[list[Pace]]] = field(default_factory=dict)
    _best: dict[tuple[str, Design], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bounds, self._spread = cache(self._bounds), cache(self._spread_of)

    @property
    def workloads(self) -> tuple[str, ...]:
        """Return the names of the workloads."""
        return tuple(self.variants)

    def plan(self, workload: str) -> Plan:
        """Return a workload with the values of the study."""
        return self.variants[workload][0][0]

    @property
    def n_simulations(self) -> int:
        """Return how many simulations there are, but for ends of a fitted parameter."""
        return sum(map(len, self.paces.values()))

    def n_draws(self, workload: str, design: Design) -> int:
        """Return how often a design was simulated with seeds of its own."""
        return len(self.paces.get((workload, design), ()))

    def add(self, asked: Iterable[tuple[str, Design]]) -> None:
        """Simulate the next repetition of designs, and say what it was."""
        asked = [(place, self.n_draws(*place)) for place in asked]
        trials = [
            Trial(plan, design, repetition)
            for (workload, design), repetition in asked
            for plan in self.variants[workload][repetition]
        ]
        paces = iter(self.simulate(trials))
        for place, repetition in asked:
            found = [next(paces) for _ in self.variants[place[0]][repetition]]
            self.paces.setdefault(place, []).append(found)
            (workload, (n, _)), first = place, found[0]
            self.say(
                f"{workload}, {n} accelerators, simulation {self.n_draws(*place)}: AU "
                f"{first.utilisation_percent:.2f} %"
            )

    def band(self, workload: str, design: Design, quantity: str) -> Band:
        """Return a quantity of a design, which may be a bound or not known.

        The mean is that of the repetitions; of a bound there is only the best end.
        """
        if not (paces := self.paces.get((workload, design))):
            return self._band_of_bound(workload, design, quantity)
        values = [[getattr(one, quantity) for one in some] for some in paces]
        everything = [one for some in values for one in some]
        mean = float(np.mean([some[0] for some in values]))
        if len(everything) == 1:
            return Band(mean)
        return Band(mean, min(everything), max(everything))

    def _band_of_bound(self, workload: str, design: Design, quantity: str) -> Band:
        """Return the best end of a quantity."""
        if quantity == "samples_per_second":
            used = self._band_of_bound(workload, design, "utilisation_percent").high
            plan, n = self.plan(workload), design.n
            compute_s = plan.description.training.compute_time.mean_s
            rate = n * plan.batch_size * used / 100
            return Band(math.nan, high=rate / compute_s if compute_s else math.nan)
        best = getattr(self.bounds(workload, design), quantity)
        sign = Goal(quantity, 0.0).sign
        if quantity == self.study.goals[workload].quantity:
            noted = self._best.get((workload, design), sign * math.inf)
            best = sign * min(sign * best, sign * noted)
        end = "high" if sign > 0 else "low"
        return Band(math.nan)._replace(**{end: best})

    def _bounds(self, workload: str, design: Design) -> Bounds:
        """Return the best over all plans; if one may reach the goal, no more."""
        goal, found = self.study.goals[workload], []
        plans = {id(one): one for some in self.variants[workload] for one in some}
        for plan in plans.values():
            found.append(bounds_of(plan, design))
            if goal.is_met(getattr(found[-1], goal.quantity)):
                break
        return Bounds(
            max(one.utilisation_percent for one in found),
            min(one.epoch_time_s for one in found),
            min(one.io_time_s for one in found),
        )

    def note_no_better(self, designs: Iterable[Design], known: Design) -> None:
        """Note that designs are no better than another one, which was simulated."""
        for workload, goal in self.study.goals.items():
            _, most = self.ends(workload, known)
            for place in ((workload, one) for one in designs):
                best = min(goal.sign * self._best.get(place, most), goal.sign * most)
                self._best[place] = goal.sign * best

    def ends(self, workload: str, design: Design) -> tuple[float, float]:
        """Return the worst and the best value of the goal's quantity.

        Where only one draw is known, they are as far apart as the draws of any other
        design.
        """
        goal = self.study.goals[workload]
        band = self.band(workload, design, goal.quantity)
        if math.isnan(band.mean):  # a bound
            return -math.inf * goal.sign, band.high if goal.sign > 0 else band.low
        low, high = band.low, band.high
        if math.isnan(low):
            spread = self._spread(workload, self.n_simulations)
            low, high = (band.mean * one for one in spread)
        return (low, high)[:: goal.sign]

    def _spread_of(self, workload: str, _: int) -> tuple[float, float]:
        """Return the ends of designs with several draws, over their first draw."""
        quantity = self.study.goals[workload].quantity
        ratios = [1.0]
        for (name, design), paces in self.paces.items():
            if name == workload and len(paces) > 1:
                band = self.band(workload, design, quantity)
                first = getattr(paces[0][0], quantity)
                ratios += [band.low / first, band.high / first] if first else []
        return min(ratios), max(ratios)

    def verdict(self, workload: str, design: Design) -> str:
        """Return whether a design meets the goal of a workload, or is undecided."""
        goal = self.study.goals[workload]
        met = {goal.is_met(end) for end in self.ends(workload, design)}
        return _VERDICTS[met.pop()] if len(met) == 1 else UNDECIDED

    def verdict_of_all(self, design: Design) -> str:
        """Return whether a design meets the goals of all workloads."""
        found = {self.verdict(one, design) for one in self.workloads}
        return next(one for one in (MISSES, UNDECIDED, MEETS) if one in found)
