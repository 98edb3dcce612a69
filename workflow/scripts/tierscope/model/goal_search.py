"""Search the improvements that meet a goal of accelerator utilisation, by simulation.

`tierscope.analysis.search` asks the paper's rule, and knows every combination of its
grid. A simulation takes much longer. So this search has a coarser grid where runs are
many or large (`searched_percents`), simulates each combination at most once, and
supposes that more throughput does not lower the AU. That is so up to small
differences, because a faster device changes the order in which requests arrive at
another one. So the counts in table ``goals`` may be off by a few combinations, and a
combination at the edge may be overlooked. What table ``combinations`` holds does not
depend on it: each of these combinations has been simulated in all runs, and meets the
goal at its least cache rate. Of the cheapest ones, those that are one step smaller in a
class have been simulated, too, and do not meet it.
"""

import itertools
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import pandas as pd

from tierscope.analysis.breakdown import points_of, select_epoch
from tierscope.analysis.search import Search, as_improvements, in_tables, with_times
from tierscope.analysis.slowest.search import Combinations, Sufficient
from tierscope.analysis.utilisation import UtilisationGoal
from tierscope.analysis.whatif import (
    MAX_MAP_STEPS,
    costs,
    map_percents,
    select_improvements,
)
from tierscope.core.columns import CLASSES, IMPROVEMENTS
from tierscope.core.description import RunDescription
from tierscope.core.scenario import Point
from tierscope.model.improve import (
    estimate_by_model,
    evaluation,
    improved_network,
    improved_utilisation,
    measured_training,
)
from tierscope.model.predict import SIMULATION
from tierscope.storage.queueing_network import ModelError

_MOST_READS = 150_000_000  # that are simulated, about: half a minute of a processor
_SIMULATED_PART = 0.2  # of the places on the edge, for which nothing else tells
_LEAST_STEPS = 2
_MOST_LOWERED = 50  # combinations, the cheapest, for which smaller ones are simulated


def searched_percents(
    max_improvement_percent: int, step_percent: int, n_reads: int
) -> list[int]:
    """Return the improvements of a class that the search tries, in percent.

    They have as few steps as keep the search at about `_MOST_READS` simulated reads,
    but at least two, and at most as many as a map.

    Parameters
    ----------
    max_improvement_percent, step_percent : int
        Largest improvement of a class, and step of the experiment's grid.
    n_reads : int
        Reads of an epoch, summed over all runs.
    """
    # The edge between sufficient and other combinations has n_percents^3 places.
    n_percents = (_MOST_READS / (_SIMULATED_PART * n_reads)) ** (1 / 3)
    n_steps = min(max(int(n_percents) - 1, _LEAST_STEPS), MAX_MAP_STEPS)
    return map_percents(max_improvement_percent, step_percent, n_steps)


class SimulatedUtilisation:
    """The AU of the runs at one cache rate with faster devices.

    Parameters
    ----------
    description : RunDescription
        Settings of the scenario, with the devices for the model.
    points : list of Point
        The runs.
    epochs : DataFrame
        Table ``epochs`` with at least these runs.
    epoch : int
        The epoch, counted from 0.
    """

    def __init__(
        self,
        description: RunDescription,
        points: list[Point],
        epochs: pd.DataFrame,
        epoch: int,
    ) -> None:
        self.n_simulations, self._description = 0, description
        self._evaluate = evaluation(description, points, epoch, SIMULATION)
        _, self._measured = measured_training(epochs, points, epoch)
        self._before = self._simulated([0] * len(CLASSES))

    def mean_percent(self, percents: Sequence[int]) -> float:
        """Return the mean AU of the runs with improvements of the classes."""
        after = self._simulated(percents)
        return float(improved_utilisation(self._measured, self._before, after).mean())

    def _simulated(self, percents: Sequence[int]) -> np.ndarray:
        """Return the model's AU of each process: shape (n_runs, n_ranks)."""
        self.n_simulations += len(self._measured)
        network = improved_network(self._description, percents)
        return self._evaluate(network).utilisation_percent


class Edge(Combinations):
    """Which combinations of a grid meet a goal at one cache rate, asked when needed.

    If a combination meets the goal, so do those that are larger in all classes; if it
    does not, neither do smaller ones. Nothing is simulated that earlier answers tell.

    Parameters
    ----------
    runs : SimulatedUtilisation
        The runs at the cache rate.
    goal : UtilisationGoal
        The goal.
    percents : sequence of int
        Improvements that each of the four classes can have, ascending.
    """

    def __init__(
        self, runs: SimulatedUtilisation, goal: UtilisationGoal, percents: Sequence[int]
    ) -> None:
        self._runs, self._goal, self._percents = runs, goal, percents
        shape = (len(percents),) * len(CLASSES)
        self._met, self._missed = np.zeros((2, *shape), dtype=bool)
        self._simulated: dict[tuple[int, ...], bool] = {}

    @property
    def n_simulations(self) -> int:
        """Return the number of simulated epochs."""
        return self._runs.n_simulations

    def is_met(
        self, started: Sequence[np.ndarray], third: np.ndarray, fourth: np.ndarray
    ) -> np.ndarray:
        """Return which combinations meet the goal."""
        places = np.column_stack([*started, third, fourth]).tolist()
        return np.array([self.is_met_at(tuple(place)) for place in places])

    def is_met_at(self, place: tuple[int, ...]) -> bool:
        """Return whether a combination meets the goal; positions in the percents."""
        if not (self._met[place] or self._missed[place]):
            if self.is_met_itself(place):
                self._met[tuple(slice(one, None) for one in place)] = True
            else:
                self._missed[tuple(slice(one + 1) for one in place)] = True
        return bool(self._met[place])

    def is_met_itself(self, place: tuple[int, ...]) -> bool:
        """Return whether a combination meets the goal, whatever others do."""
        if place not in self._simulated:
            percents = [self._percents[one] for one in place]
            found = self._goal.is_met(self._runs.mean_percent(percents))
            self._simulated[place] = bool(found)
        return self._simulated[place]

    def least(self) -> np.ndarray:
        """Return `Sufficient.least` of the cache rate: int, shape (n, n, n)."""
        n = len(self._percents)
        first, last = 0, n - 1
        if not self.is_met_at((last,) * len(CLASSES)):
            return np.full((n, n, n), n, dtype=np.int16)
        # The corners of each pair tell most of the rest; the extreme pairs come first.
        order = dict.fromkeys([last, first, last // 2, *range(n)])
        corners = [(last, last), (first, first), (first, last), (last, first)]
        for pair in itertools.product(order, repeat=2):
            for corner in corners:
                self.is_met_at((*pair, *corner))
        return self.least_of_fourth(n)


class Found(NamedTuple):
    """What a search finds.

    `goals` and `combinations` are the tables of these names. `estimates` is a table of
    what figure 5 shows: no improvement, and the cheapest combination, or else the
    largest one. `n_simulations` is the number of simulated epochs.
    """

    goals: pd.DataFrame
    combinations: pd.DataFrame
    estimates: pd.DataFrame
    n_simulations: int


def search_by_model(
    io_time: pd.DataFrame,
    epochs: pd.DataFrame,
    goal: UtilisationGoal,
    epoch: int,
    description: RunDescription,
    search: Search,
    known: pd.DataFrame | None = None,
) -> Found:
    """Find the minimal and the cheapest combinations that meet a goal of AU.

    Parameters
    ----------
    io_time, epochs : DataFrame
        These tables, of one scenario.
    goal : UtilisationGoal
        The goal; the mean over the repetitions is compared.
    epoch : int
        The epoch, counted from 0.
    description : RunDescription
        As for `tierscope.model.improve.estimate_by_model`.
    search : Search
        The grid, which may be coarser here (`searched_percents`), and costs.
    known : DataFrame, optional
        Table ``estimates`` by the model of further combinations, as in figure 4.

    Raises
    ------
    ModelError
        If it is not known how the time of the runs was spent.
    """
    if select_epoch(epochs, epoch)["compute_time_s"].isna().any():
        raise ModelError(
            "config: whatif.goal.of: got utilisation, but runs of an older version of "
            "tierscope, which does not say how their time was spent; expected runs of "
            "this one: choose another name (experiment) to measure them again"
        )
    points = points_of(select_epoch(io_time, epoch))
    n_reads = description.dataset.n_files * len(points)
    grid = search.max_improvement_percent, search.step_percent
    percents = searched_percents(*grid, n_reads)
    sufficient, edges = find_sufficient(epochs, goal, epoch, description, percents)
    minimal = pd.DataFrame(sufficient.minimal(), columns=IMPROVEMENTS)
    if known is not None:
        found = goal.sufficient(select_epoch(known, epoch))
        minimal = pd.concat([minimal, found.loc[found["sufficient"], IMPROVEMENTS]])
    cost = costs(minimal, search.cost_per_percent)
    by_cost = minimal.assign(cost=cost).sort_values("cost")
    minimal = lowered(by_cost[IMPROVEMENTS].drop_duplicates(), edges, percents)
    largest = dict.fromkeys(CLASSES, percents[-1])
    estimates = estimate_by_model(
        io_time,
        as_improvements(minimal) or [largest],
        epoch,
        description,
        epochs=epochs,
    )
    rows = search.in_order(with_times(minimal, estimates, goal))
    today = select_improvements(estimates, [{}])
    step = {"grid_step_percent": percents[1]}
    goals, combinations = in_tables(today, sufficient, rows, goal, **step)
    shown = [{}, *(as_improvements(rows.head(1)) or [largest])]
    return Found(
        goals,
        combinations,
        select_improvements(estimates, shown),
        sum(edge.n_simulations for edge in edges) + len(estimates),
    )


def find_sufficient(
    epochs: pd.DataFrame,
    goal: UtilisationGoal,
    epoch: int,
    description: RunDescription,
    percents: Sequence[int],
) -> tuple[Sufficient, list[Edge]]:
    """Find the combinations that meet a goal of AU at some cache rate.

    Parameters
    ----------
    epochs, goal, epoch, description
        As for `search_by_model`.
    percents : sequence of int
        Improvements that each of the four classes can have, ascending.

    Returns
    -------
    sufficient : Sufficient
        The combinations.
    edges : list of Edge
        What was asked at each cache rate.
    """
    rate_of = attrgetter("cache_rate_percent")
    points = sorted(points_of(select_epoch(epochs, epoch)), key=rate_of)
    least, edges = {}, []
    for rate, some in itertools.groupby(points, key=rate_of):
        runs = SimulatedUtilisation(description, list(some), epochs, epoch)
        edges.append(Edge(runs, goal, percents))
        least[rate] = edges[-1].least()
    found = Sufficient(tuple(least), tuple(percents), np.stack(list(least.values())))
    return found, edges


def lowered(
    combinations: pd.DataFrame, edges: Sequence[Edge], percents: Sequence[int]
) -> pd.DataFrame:
    """Return combinations that meet a goal, the first ones as small as they can be.

    Parameters
    ----------
    combinations : DataFrame
        Improvements in percent by class (`IMPROVEMENTS`), the cheapest first.
    edges : sequence of Edge
        What can be asked at each cache rate.
    percents : sequence of int
        Improvements of a class on the grid, ascending; others are left out.

    Returns
    -------
    DataFrame
        Those of which none is at least as large as another one in all classes.
    """
    on_grid = combinations[combinations.isin(percents).all(axis=1)]
    places = [tuple(one) for one in np.searchsorted(percents, on_grid.to_numpy())]
    least = {_lowered(place, edges) for place in places[:_MOST_LOWERED]}
    kept: list[tuple[int, ...]] = []
    for place in sorted(least | set(places[_MOST_LOWERED:]), key=np.sum):
        if not any(all(a <= b for a, b in zip(k, place, strict=True)) for k in kept):
            kept.append(place)
    rows = np.array(percents)[np.array(kept, dtype=int).reshape(-1, len(CLASSES))]
    return pd.DataFrame(rows, columns=IMPROVEMENTS)


def _lowered(place: tuple[int, ...], edges: Sequence[Edge]) -> tuple[int, ...]:
    """Return a combination after as many steps down as leave the goal met somewhere."""
    for axis in range(len(place)):
        smaller = (*place[:axis], place[axis] - 1, *place[axis + 1 :])
        if smaller[axis] >= 0 and any(edge.is_met_itself(smaller) for edge in edges):
            return _lowered(smaller, edges)
    return place
