"""Which designs to simulate: the most accelerators of each storage, or a grid of both.

How many processes simulate changes nothing: what is next follows from what is known.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pandas as pd

from tierscope.analysis.designs.choice import choose, designs_of
from tierscope.core.columns.designs import MEETS, MISSES
from tierscope.data.designs import Design, Plan, Storage
from tierscope.model.designs.evidence import Evidence
from tierscope.model.designs.table import designs_table, numbered

_AT_ONCE = 8  # simulations between which it is asked again which are next
_OF_DESIGNS = 0.75  # of all simulations; others tell what limits, and what to measure
_NO_GAIN = 0.005  # of a quantity: a design that is better by less is no better


def find_most(evidence: Evidence) -> list[tuple[str, Design]]:
    """Simulate 1, 2, 4 ... accelerators on each storage, and find the most.

    All repetitions of each are simulated. Between the largest number whose mean reaches
    the goal and the next one there is no other of whole nodes. What is the most for all
    workloads is simulated for each.

    Returns
    -------
    list of tuple
        Of each workload and storage the first number beyond that misses the goal.
    """
    study = evidence.study
    curves = {
        (workload, storage): numbers_to_most(
            evidence.plan(workload), study.most, _reaching(evidence, workload, storage)
        )
        for workload in evidence.workloads
        for storage in study.storages
    }
    while asked := [
        (workload, Design(n, storage))
        for (workload, storage), curve in curves.items()
        for n in next(curve, ())
    ]:
        for _ in range(study.repetitions):
            evidence.add(asked)
    ends = {key: _ends(evidence, key) for key in curves}
    others = [
        (workload, Design(min(ends[one, at][0] for one in evidence.workloads), at))
        for workload, at in curves
    ]
    others = [one for one in others if one[1].n and not evidence.n_draws(*one)]
    for _ in range(study.repetitions):
        evidence.add(others)
    return [(one, Design(n, at)) for (one, at), (_, n) in ends.items() if n]


def numbers_to_most(
    plan: Plan, most: int, reaches: Callable[[int], bool]
) -> Iterator[list[int]]:
    """Yield which numbers of accelerators to simulate next, until the most is known."""
    numbers = plan.numbers(most)
    yield numbers
    passing = max(filter(reaches, numbers), default=0)
    failing = min((n for n in numbers if n > passing), default=None)
    while passing and failing:
        middle = plan.whole((passing + failing) // 2)
        if not passing < middle < failing:  # there is none of whole nodes
            return
        yield [middle]
        passing, failing = (middle, failing) if reaches(middle) else (passing, middle)


def _reaching(evidence: Evidence, workload: str, storage: Storage) -> Callable:
    """Return what says whether so many accelerators reach the goal, by their mean."""
    goal = evidence.study.goals[workload]

    def reaches(n: int) -> bool:
        band = evidence.band(workload, Design(n, storage), goal.quantity)
        return goal.is_met(band.mean)

    return reaches


def _ends(evidence: Evidence, key: tuple[str, Storage]) -> tuple[int, int | None]:
    """Return the most accelerators that reach the goal, and the next number, if any."""
    numbers = [one.n for name, one in evidence.paces if (name, one.storage) == key]
    most = max(filter(_reaching(evidence, *key), numbers), default=0)
    return most, min((n for n in numbers if n > most), default=None)


class Grid:
    """The designs of lists of accelerators and storages, most of which need no time.

    What surely misses a goal is not simulated, nor what is surely no better than a
    design with no more of any hardware. Of the others those come first of which nothing
    follows from those known, if more hardware is never worse; then those that should
    reach the goal, then those that should miss it. Half of the simulations are for
    further draws of designs near the goal and at the border between both. The chosen
    design gets all its draws, as far as `simulations` allows. In the end no design is
    said to be better than one that was simulated and has no less hardware.

    Parameters
    ----------
    evidence : Evidence
        What is known.
    """

    def __init__(self, evidence: Evidence):
        study = evidence.study
        self._evidence, self._study = evidence, study
        self.designs = [
            Design(n, storage) for storage in study.storages for n in study.accelerators
        ]
        any_plan = evidence.plan(evidence.workloads[0])
        amounts = [[*any_plan.hardware(*one).values()] for one in self.designs]
        self._amounts = np.nan_to_num(np.array(amounts, float))
        parts = self._amounts / self._amounts.max(axis=0).clip(1e-300)
        self._size = parts.sum(axis=1)
        self._n = np.array([one.n for one in self.designs])
        # More hardware is comparable for the same placement and cache rates only.
        plans = [evidence.plan(one) for one in evidence.workloads]
        kinds = [
            (one.n, one.storage.placement, *(p.cache_rate_percent(*one) for p in plans))
            for one in self.designs
        ]
        self._kind, _ = pd.factorize(pd.Series(kinds))
        self._best, self._possible = {}, np.ones(len(self.designs), bool)
        for workload, goal in study.goals.items():
            bounds = [evidence.bounds(workload, one) for one in self.designs]
            best = np.array([getattr(one, goal.quantity) for one in bounds])
            self._best[workload] = best
            self._possible &= goal.is_met(best)

    def simulate(self) -> None:
        """Simulate what the number of simulations allows."""
        once = len(self._evidence.workloads)  # of at least one design
        most = max(int(self._study.simulations * _OF_DESIGNS), once)
        halves = (max(most // 2, once), most)[self._study.repetitions == 1 :]
        for first in halves:
            self._until(first, self._first_draws)
            self._until(most, self._border_draws)
        self._until(most, lambda: self._again(self._known()))
        self._until(self._study.simulations, self._answer_draws)
        for at in self._known():
            less = np.flatnonzero(self._has_less(at) & self._possible)
            others = [self.designs[one] for one in less]
            self._evidence.note_no_better(others, self.designs[at])

    def _until(self, most: int, choose: Callable[[], Sequence[int]]) -> None:
        """Simulate what is chosen until nothing is, or so much was simulated."""
        evidence = self._evidence
        while chosen := choose():
            left = (most - evidence.n_simulations) // len(evidence.workloads)
            if left <= 0:
                return
            evidence.add(
                (workload, self.designs[at])
                for at in chosen[: min(left, _AT_ONCE)]
                for workload in evidence.workloads
            )

    def _known(self) -> dict[int, str]:
        """Return the verdicts of designs that were simulated, by their places."""
        tried = {design for _, design in self._evidence.paces}
        return {
            at: self._evidence.verdict_of_all(design)
            for at, design in enumerate(self.designs)
            if design in tried
        }

    def _first_draws(self) -> list[int]:
        """Return designs to simulate for the first time, those that tell most first."""
        known, left = self._known(), self._possible.copy()
        should_meet, should_miss = np.zeros_like(left), np.zeros_like(left)
        for at, verdict in known.items():
            left[at] = False
            left &= ~self._is_no_better_than(at)
            should_meet |= self._has_more(at) & (verdict == MEETS)
            should_miss |= self._has_less(at) & (verdict == MISSES)
        by_size = np.argsort(self._size, kind="stable")
        unknown = [at for at in by_size if (left & ~should_meet & ~should_miss)[at]]
        if unknown:  # evenly over the amounts of hardware, the middle first
            n = min(-(-len(unknown) // 3), _AT_ONCE)
            some = ((np.arange(n) + 0.5) / n * len(unknown)).astype(int)
            return [
                unknown[i] for i in sorted(some, key=lambda i: abs(i - some[n // 2]))
            ]
        border = [at for at in by_size if (left & should_meet)[at]]
        return border + [at for at in by_size[::-1] if (left & ~should_meet)[at]]

    def _has_more(self, at: int) -> np.ndarray:
        """Return which designs of the same kind have no less of any hardware."""
        more = (self._amounts >= self._amounts[at]).all(axis=1)
        return more & (self._kind == self._kind[at])

    def _has_less(self, at: int) -> np.ndarray:
        """Return which designs of the same kind have no more of any hardware."""
        less = (self._amounts <= self._amounts[at]).all(axis=1)
        return less & (self._kind == self._kind[at])

    def _is_no_better_than(self, at: int) -> np.ndarray:
        """Return which designs surely are no better than one with no more hardware."""
        found = (self._amounts >= self._amounts[at]).all(axis=1)
        found &= self._n == self._n[at]
        for workload, best in self._best.items():
            sign = self._study.goals[workload].sign
            worst, _ = self._evidence.ends(workload, self.designs[at])
            found &= sign * (best - worst) <= _NO_GAIN * abs(worst)
        return found

    def _border_draws(self) -> list[int]:
        """Return designs to simulate once more: undecided ones, and at the border."""
        known, found = self._known(), []
        for at, verdict in known.items():
            beyond = {MEETS: self._has_less, MISSES: self._has_more}.get(verdict)
            if beyond is None or not any(
                beyond(at)[one] for one in known if known[one] == verdict and one != at
            ):
                found.append(at)
        return self._again(found)

    def _answer_draws(self) -> list[int]:
        """Return the chosen design if it has draws left, or undecided cheaper ones."""
        numbers, study = numbered(self._evidence, self.designs), self._study
        found = designs_of(designs_table(self._evidence, numbers))
        choice = choose(found, study.cost, study.limits)
        places = {numbers[self.designs[at]]: at for at in self._known()}
        for asked in ((choice.chosen,), choice.undecided):
            if left := self._again(places[at] for at in asked if at in places):
                return left
        return []

    def _again(self, some: Iterable[int]) -> list[int]:
        """Return those designs whose draws are not used up, those near the goal first.

        Designs with fewer draws come before.
        """
        first, *_ = self._evidence.workloads
        draws = {at: self._evidence.n_draws(first, self.designs[at]) for at in some}
        left = [at for at, n in draws.items() if n < self._study.repetitions]
        return sorted(left, key=lambda at: (draws[at], self._distance(at)))

    def _distance(self, at: int) -> float:
        """Return how far a design is from a goal, as a part of it."""
        parts = []
        for workload, goal in self._study.goals.items():
            band = self._evidence.band(workload, self.designs[at], goal.quantity)
            parts.append(abs(band.mean / goal.value - 1))
        return min(parts)
