"""The sum of squares of a calibration, and its minimisation.

`tierscope.model.calibration.fit` says what its terms are.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
from scipy.optimize import OptimizeResult, least_squares

from tierscope.core.columns import CLASSES
from tierscope.core.description import ProbeDescription, RunDescription
from tierscope.core.words import count_words
from tierscope.model.calibration.identifiability import (
    broad_derivatives,
    derivatives,
    uncertainty,
)
from tierscope.model.calibration.observations import (
    class_of_probe,
    measured_epochs,
    measured_probes,
    modelled_epochs,
    probes_of_program,
)
from tierscope.model.calibration.probe_times import probe_times
from tierscope.model.calibration.replicates import (
    LABELS,
    PROBE,
    SLOWEST,
    Observations,
    observations_of,
)
from tierscope.model.calibration.result import CREDIT, IN_SERIES, Parameter
from tierscope.model.calibration.starting_values import (
    starting_values,
    station,
    with_values,
)
from tierscope.model.simulator.run import planned_reads, workload_of
from tierscope.storage.probes import plan
from tierscope.storage.queueing_network import ModelError, network_of

NOISE = 0.01  # relative precision of any time, at best
_CLEARLY = 3.0  # standard errors by which any other solution must be worse
# The simulator is not smooth: a small change can reorder two ranks and so change all
# later events. So it is averaged over neighbours at this distance (logarithms). Their
# number gives `_READS` reads in total: many points, epochs and files average as well.
_NEAR = 0.01
_READS, _MOST_PAIRS = 48_000, 8
# Factors of the starting credit: with too much credit a rate limit has no effect.
_CREDITS = (1.0, 0.5, 0.2, 0.05)
# Factors of the starting rates of OSTs and links: a search may end where the wrong one
# of the two limits the reads.
_STARTS = ((1.0, 1.0), (4.0, 1.0), (1.0, 4.0))
_TOLERANCE = 1e-5
# A step that lowers the sum of squares by less than this part of a term's variance ends
# a search: along it the parameters move by a tenth of their standard error.
_GAIN = 0.01
_MOST_EVALUATIONS, _FEW_EVALUATIONS = 60, 12


def unsaid(line: str) -> None:
    """Tell nobody of the progress of a fit."""


@dataclass(frozen=True)
class Space:
    """The directions in which a fit changes the parameters: x = offset + directions z.

    x holds the logarithms of all parameters, z one number for each direction.
    """

    offset: np.ndarray
    directions: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray, groups: Sequence[Sequence[int]], signs: np.ndarray):
        """Return the space in which groups of parameters change, from `x` on.

        Parameters
        ----------
        x : ndarray of float, shape (n_parameters,)
            Logarithms of all parameters; those outside the groups keep theirs.
        groups : sequence of sequences of int
            Parameters that change together, by a common factor. z is the logarithm of
            the one with the lowest number.
        signs : ndarray of float, shape (n_parameters,)
            1 for a time, -1 for a rate: a group becomes slower or faster as a whole.
        """
        directions = np.zeros((len(x), len(groups)))
        for column, group in enumerate(groups):
            members = sorted(group)
            directions[members, column] = signs[members] * signs[members[0]]
        first = x[[min(group) for group in groups]] if groups else np.zeros(0)
        return cls(x - directions @ first, directions)

    def at(self, z: np.ndarray) -> np.ndarray:
        """Return the logarithms of all parameters."""
        return self.offset + self.directions @ z

    def start(self, x: np.ndarray) -> np.ndarray:
        """Return the z of the parameters `x`."""
        first = [int(np.flatnonzero(column)[0]) for column in self.directions.T]
        return x[first]

    def bounds(self, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        """Return the range of each z in which no member leaves its own: (2, n)."""
        ranges = []
        for column in self.directions.T:
            members = np.flatnonzero(column)
            ends = [
                (np.array([lower[i], upper[i]]) - self.offset[i]) / column[i]
                for i in members
            ]
            low, high = np.sort(ends, axis=1).T
            ranges.append((low.max(), high.min()))
        return np.array(ranges).reshape(-1, 2).T


@dataclass(frozen=True)
class Minimum:
    """Where the sum of squares is least.

    Parameters
    ----------
    x : ndarray of float, shape (n_parameters,)
        Logarithms of all parameters.
    space : Space
        The directions that were searched.
    terms : ndarray of float, shape (n_terms,)
        Terms of the sum of squares, before they are squared.
    s : float
        Standard deviation of a term, at least `NOISE`.
    jacobian : ndarray of float, shape (n_terms, n_directions)
        Derivatives of the terms by z.
    noise : ndarray of float, shape (n_directions,)
        Squared standard error of each column of `jacobian`.
    converged : bool
        Whether the search came to its end.
    """

    x: np.ndarray
    space: Space
    terms: np.ndarray
    s: float
    jacobian: np.ndarray
    noise: np.ndarray
    converged: bool

    @property
    def z(self) -> np.ndarray:
        """Return the place in the directions that were searched."""
        return self.space.start(self.x)

    @property
    def sum_of_squares(self) -> float:
        """Return the least sum of squares."""
        return float((self.terms**2).sum())

    @property
    def rms_percent(self) -> float:
        """Return the root of the mean square of the terms, in percent."""
        return float(100 * np.sqrt((self.terms**2).mean()))

    def uncertainty(self) -> tuple[np.ndarray, np.ndarray]:
        """Return standard errors and correlations of z (`uncertainty`)."""
        return uncertainty(self.jacobian, self.noise, self.s)

    def within(self, space: Space) -> "Minimum":
        """Return the minimum in fewer directions, each a sum of those that it has.

        It is none the less a minimum there. The columns of the jacobian add up.
        """
        sums = np.linalg.pinv(self.space.directions) @ space.directions
        jacobian, noise = self.jacobian @ sums, self.noise @ sums**2
        return replace(self, space=space, jacobian=jacobian, noise=noise)


class _Steps:
    """The steps of a search: tells of each, and ends with one that gains too little."""

    def __init__(self, what: str, say: Callable[[str], None]):
        self.what, self.say, self.left, self.is_done = what, say, np.inf, False

    def check(self, intermediate_result: OptimizeResult) -> None:
        """End the search if a step has gained less than the noise lets us see."""
        terms = intermediate_result.fun
        before, self.left = self.left, float((terms**2).sum())
        square = self.left / len(terms)
        rms_percent = 100 * square**0.5
        step = f"step {intermediate_result.nit}: {rms_percent:.2f} % off"
        self.say(f"{self.what}, {step}")
        self.is_done = before - self.left < _GAIN * max(square, NOISE**2)
        if self.is_done:
            raise StopIteration


class Objective:
    """The sum of squares of a calibration as a function of all its parameters.

    Parameters
    ----------
    description, io_time, probes
        As for `tierscope.model.calibration.fit.calibrate`.
    parameters : tuple of Parameter
        The parameters that may be fitted.
    say : callable
        Gets a line on each step.
    """

    def __init__(
        self,
        description: RunDescription,
        io_time: pd.DataFrame,
        probes: pd.DataFrame | None,
        parameters: tuple[Parameter, ...],
        say: Callable[[str], None] = unsaid,
    ):
        self.description, self.parameters, self.say = description, parameters, say
        self.names = [one.name for one in parameters]
        bounds = np.log([[one.lower, one.upper] for one in parameters])
        self.bounds = bounds[:, 0], bounds[:, 1]
        self.signs = np.array([one.sign for one in parameters], dtype=float)
        self.measured = measured_epochs(description, io_time)
        # With a rate limit among the parameters, epochs depend on each other.
        described = self.at(self.bounds[1])
        self.planned = {
            point: list(planned_reads(described, point)) for point in self.measured
        }
        self.workload = workload_of(description)
        self.measured_probes = measured_probes(description, probes)
        if description.probed:
            self.measured_probes = probes_of_program(
                description, self.measured, self.measured_probes, NOISE
            )

    def start(self) -> np.ndarray:
        """Return the logarithms of the starting values."""
        found = {one.name: np.sqrt(one.lower * one.upper) for one in self.parameters}
        found |= starting_values(self.description, self.measured, self.measured_probes)
        start = np.log([found[name] for name in self.names])
        start = np.clip(start, self.bounds[0] + 0.1, self.bounds[1] - 0.1)
        return self._with_best_credit(start)

    def _with_best_credit(self, start: np.ndarray) -> np.ndarray:
        """Return starting values with the credit at which the points are met best."""
        is_credit = np.array([name == CREDIT for name in self.names])
        if not is_credit.any():
            return start
        starts = [start + is_credit * np.log(factor) for factor in _CREDITS]
        left = [(self.table_residuals([one]) ** 2).sum() for one in starts]
        return starts[int(np.argmin(left))]

    def at(self, x: np.ndarray) -> RunDescription:
        """Return the description with the parameters of these logarithms."""
        values = dict(zip(self.names, np.exp(x), strict=True))
        return with_values(self.description, values)

    def table_residuals(self, near: Sequence[np.ndarray]) -> np.ndarray:
        """Return the terms of the points, with the mean over several parameters."""
        n_osts = self.description.scenario.n_osts
        networks = [network_of(self.at(x).system, n_osts) for x in near]
        terms = []
        for point, measured in self.measured.items():
            planned = self.planned[point]
            modelled = [modelled_epochs(planned, of, self.workload) for of in networks]
            share = (np.mean(modelled, axis=0) - measured) / measured[:, -1:]
            terms.append(share[~np.isnan(measured)])
        return np.concatenate(terms)

    def probe_residuals(self, x: np.ndarray) -> np.ndarray:
        """Return the terms of the probes."""
        terms = [
            weight * np.log(modelled_s / one.time_s)
            for _, _, one, modelled_s, weight in self._probes(x)
        ]
        return np.array(terms)

    def _probes(self, x: np.ndarray) -> Iterator[tuple]:
        """Yield OSTs, name, time, modelled time in seconds and weight of each probe."""
        probed = ProbeDescription.of(self.at(x))
        for n_osts, measured in self.measured_probes.items():
            modelled = probe_times(probed, n_osts, self.description.training.seed)
            for name, one in measured.items():
                if modelled[name] > 0:
                    weight = NOISE / np.hypot(NOISE, one.error)
                    yield n_osts, name, one, modelled[name], weight

    def observations(self, found: Minimum) -> Observations:
        """Return the terms at a minimum as means over replicates."""
        labels, own = self._labels(found.x)
        return observations_of(labels, found.terms, found.jacobian, own, NOISE)

    def all_derivatives(self, found: Minimum) -> tuple[np.ndarray, np.ndarray]:
        """Return `broad_derivatives` by every parameter, joined or left out, too."""
        n = len(self.names)
        jacobian, noise = np.zeros((len(found.terms), n)), np.zeros(n)
        alone = (found.space.directions != 0).sum(axis=0) == 1
        own = found.space.directions[:, alone].argmax(axis=0)
        jacobian[:, own], noise[own] = found.jacobian[:, alone], found.noise[alone]
        if others := [i for i in range(n) if i not in own]:
            self.say(f"{count_words(len(others), 'other parameter')}: their effect")
            space = Space.of(found.x, [[i] for i in others], self.signs)
            residuals = partial(self.residuals, space)
            of_others = broad_derivatives(residuals, found.x[others])
            jacobian[:, others], noise[others] = of_others
        return jacobian, noise

    def _labels(self, x: np.ndarray) -> tuple[pd.DataFrame, np.ndarray]:
        """Return what each term is, and by how much it grows with its time."""
        rows, own = [], []
        n_osts = self.description.scenario.n_osts
        for point, measured in self.measured.items():
            shares = measured / measured[:, -1:]
            for epoch, column in np.argwhere(~np.isnan(measured)):
                is_class = column < len(CLASSES)
                name = CLASSES[column] if is_class else SLOWEST
                io_class = name if is_class else ""
                rows.append((*astuple(point), epoch, name, n_osts, io_class))
                own.append(shares[epoch, column])
        calls = {one.name: one for one in plan(ProbeDescription.of(self.description))}
        for n_osts, name, _, _, weight in self._probes(x):
            rows.append((PROBE, 0, 0, name, n_osts, class_of_probe(calls[name])))
            own.append(weight)
        return pd.DataFrame(rows, columns=LABELS), np.array(own)

    def residuals(self, space: Space, z: np.ndarray) -> np.ndarray:
        """Return all terms, those of the points averaged over neighbours."""
        near = [space.at(z + shift) for shift in self._shifts(len(z))]
        tables = self.table_residuals(near)
        return np.concatenate([tables, self.probe_residuals(space.at(z))])

    def _shifts(self, n: int) -> np.ndarray:
        """Return the neighbours for averaging the simulator, in logarithms."""
        n_epochs = len(self.measured) * self.description.training.epochs
        n_reads = n_epochs * self.description.dataset.n_files
        n_pairs = min(_MOST_PAIRS, _READS // (2 * n_reads))
        if n_pairs == 0:
            return np.zeros((1, n))
        shifts = np.random.default_rng(0).standard_normal((n_pairs, n))
        return _NEAR * np.concatenate([shifts, -shifts])

    def minimise(self, space: Space, x: np.ndarray) -> Minimum:
        """Return the least sum of squares in some directions, from `x` on."""
        steps = _Steps(count_words(len(space.start(x)), "parameter"), self.say)
        z, converged = self._search(partial(self.residuals, space), space, x, steps)
        return self.minimum(space, z, converged)

    def least(
        self, space: Space, starts: Sequence[np.ndarray]
    ) -> tuple[float, np.ndarray]:
        """Return about the least sum of squares, and where it is.

        The search begins at the better one of some starts, and is short.
        """

        def left(z: np.ndarray) -> float:
            return float((self.residuals(space, z) ** 2).sum())

        steps = _Steps("another structure", self.say)
        self.say(f"{steps.what}: the best of {count_words(len(starts), 'start')}")
        best = min(starts, key=lambda x: left(space.start(x)))
        residuals = partial(self.residuals, space)
        found, _ = self._search(residuals, space, best, steps, _FEW_EVALUATIONS)
        return left(found), space.at(found)

    def best_start(self, groups: Sequence[Sequence[int]], x: np.ndarray) -> np.ndarray:
        """Return a start at which the probes are met, of several the best one.

        Probes on one OST count may be met with either the OSTs or the link as what
        limits the reads. So other starts are tried until the points are met as well.

        Parameters
        ----------
        groups : sequence of sequences of int
            Parameters that are fitted (`Space.of`).
        x : ndarray of float, shape (n_parameters,)
            Logarithms of rough values of all parameters.
        """
        best, least = x, np.inf
        for start in self._starts(x):
            self.say("a start that meets the probes")
            space = Space.of(start, groups, self.signs)
            found = self._fit_probes(space, start)
            terms = self.residuals(space, space.start(found))
            if (left := float((terms**2).sum())) < least:
                best, least = found, left
            if least <= NOISE**2 * len(terms):
                break
        return best

    def _starts(self, x: np.ndarray) -> Iterator[np.ndarray]:
        """Yield `x`, and the same with faster OSTs or links if both are fitted."""
        if not set(IN_SERIES) <= set(self.names):
            yield x
            return
        at = [self.names.index(name) for name in IN_SERIES]
        for factors in _STARTS:
            start = x.copy()
            start[at] += np.log(factors)
            yield np.clip(start, *self.bounds)

    def _fit_probes(self, space: Space, x: np.ndarray) -> np.ndarray:
        """Return the parameters with which the probes alone are met best, if any."""
        if not self.measured_probes:
            return space.at(space.start(x))
        steps = _Steps("probes alone", unsaid)
        z, _ = self._search(
            lambda z: self.probe_residuals(space.at(z)), space, x, steps
        )
        return space.at(z)

    def minimum(self, space: Space, z: np.ndarray, converged: bool = True) -> Minimum:
        """Return the sum of squares at a place, with its derivatives there."""
        self.say(f"{count_words(len(z), 'parameter')}: what the data tell")
        terms = self.residuals(space, z)
        n_free = len(terms) - len(z)
        s = np.sqrt((terms**2).sum() / n_free) if n_free > 0 else 0.0
        jacobian, noise = broad_derivatives(partial(self.residuals, space), z)
        return Minimum(
            space.at(z), space, terms, max(s, NOISE), jacobian, noise, converged
        )

    def _search(
        self,
        residuals: Callable,
        space: Space,
        x: np.ndarray,
        steps: _Steps,
        most_evaluations: int = _MOST_EVALUATIONS,
    ) -> tuple[np.ndarray, bool]:
        """Return a minimum of a sum of squares from `x`, and whether it was reached."""
        lower, upper = space.bounds(*self.bounds)
        if not len(lower):
            return space.start(x), True
        found = least_squares(
            residuals,
            np.clip(space.start(x), lower + 1e-6, upper - 1e-6),
            jac=lambda z: derivatives(residuals, z),
            bounds=(lower, upper),
            xtol=_TOLERANCE,
            ftol=_TOLERANCE,
            max_nfev=most_evaluations,
            callback=steps.check,
        )
        return found.x, bool(found.success) or steps.is_done

    def exchanged(self, x: np.ndarray) -> np.ndarray | None:
        """Return the parameters with the rates of OSTs and links exchanged.

        None if one of them is no parameter. The rates are those of all OSTs and all
        links together, on the OST count of the points.
        """
        if not set(IN_SERIES) <= set(self.names):
            return None
        n_osts = self.description.scenario.n_osts
        at = [self.names.index(name) for name in IN_SERIES]
        osts, links = (
            np.log(station(self.at(x), n_osts, name)) - x[i]
            for name, i in zip(IN_SERIES, at, strict=True)
        )
        other = x.copy()
        other[at] = x[at[1]] + links - osts, x[at[0]] + osts - links
        return other

    def is_ambiguous(self, found: Minimum) -> bool:
        """Return whether the data fit about as well with these rates exchanged."""
        if (other := self.exchanged(found.x)) is None:
            return False
        space = Space(found.space.offset + other - found.x, found.space.directions)
        limit = found.sum_of_squares + (_CLEARLY * found.s) ** 2
        terms = self.residuals(space, found.z)
        return bool((terms**2).sum() < limit)


def refuse_unfinished(found: Minimum, names: Sequence[str]) -> None:
    """Refuse a search that has not come to its end."""
    if not found.converged:
        raise ModelError(
            f"{', '.join(names)}: the fit has not converged after "
            f"{_MOST_EVALUATIONS} evaluations; measure again, or fit fewer parameters."
        )
