"""Calibration that chooses for itself: it fits what the data can tell.

It begins with all parameters, and in turn

- leaves out a parameter on which the data hardly depend,
- joins two parameters that affect the data only together: from then on they change by a
  common factor,

until all that remain are known (`tierscope.model.calibration.identifiability`). It
looks first at the starting values, then at each solution. A parameter that was left out
keeps the value of the system file if the data allow it. Otherwise it goes to the limit
of what they allow: "at least" for a rate, "at most" for a time. Two stations in series
whose rates can be exchanged are told as the smaller of two rates.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from tierscope.core.description import RunDescription
from tierscope.model.calibration.identifiability import (
    NOTHING_KNOWN,
    advice,
    derivatives,
    errors_alone,
)
from tierscope.model.calibration.judgement import judge
from tierscope.model.calibration.objective import (
    NOISE,
    Minimum,
    Objective,
    Space,
    unsaid,
)
from tierscope.model.calibration.result import (
    BOUND,
    FURTHER_PARAMETERS,
    IN_SERIES,
    JOINED,
    KEPT,
    PARAMETERS,
    Calibration,
    Finding,
)

_SURELY = 1.645  # standard errors of a limit: 95 % on one side
_AT_END = 1.05  # factor to the end of a range below which a search is stuck
_BAD_FIT_PERCENT = 20
_FIRST_STEP, _BISECTIONS = 0.1, 4  # towards a limit, in logarithms


def fit_what_data_tell(
    description: RunDescription,
    io_time: pd.DataFrame,
    probes: pd.DataFrame | None,
    start: Mapping[str, float] | None = None,
    say: Callable[[str], None] = unsaid,
) -> Calibration:
    """Fit the devices' parameters that the data can tell, and say what became of all.

    Parameters and errors are those of `tierscope.model.calibration.fit.calibrate`.
    `start` has a value of each parameter from which the search begins; default: rough
    ones from the data.
    """
    known = PARAMETERS | {
        name: one
        for name, one in FURTHER_PARAMETERS.items()
        if _written(description, name)
    }
    written = {name: _written(description, name) for name in known}
    # A service time of 0 is no value but says that the station does not exist.
    absent = [name for name in ("gfs.close_s",) if not written[name]]
    chosen = tuple(one for name, one in known.items() if name not in absent)
    objective = Objective(description, io_time, probes, chosen, say)
    search = _Search(objective, np.array([written[one.name] for one in chosen]))
    if start is not None:
        search.start = np.log([start[name] for name in objective.names])
    found = search.run()
    values = dict(zip(objective.names, np.exp(found.minimum.x), strict=True))
    findings = dict(zip(objective.names, found.findings(), strict=True))
    errors = dict(zip(objective.names, found.errors(), strict=True))
    for one in chosen:
        if not one.lower < values[one.name] / _AT_END < one.upper / _AT_END**2:
            findings[one.name] = Finding(BOUND, "the search ended at its range")
    test, uncertainty = judge(objective, found.minimum)
    for name in absent:
        values[name], errors[name] = 0.0, np.nan
        findings[name] = Finding(KEPT, "the system file says that it takes no time")
    return Calibration(
        description,
        tuple(known.values()),
        np.array([values[name] for name in known]),
        np.array([values[name] * errors[name] for name in known]),
        len(found.minimum.terms),
        found.minimum.rms_percent,
        tuple(findings[name] for name in known),
        note=found.note(),
        lack_of_fit=test,
        uncertainty=uncertainty,
    )


def _written(description: RunDescription, name: str) -> float:
    """Return the system file's value of a parameter."""
    tier, key = name.split(".")
    return float(description.system.devices[tier].get(key, 0.0))


@dataclass
class _Search:
    """The state of a search: which parameters change together, which are left out."""

    objective: Objective
    written: np.ndarray  # values of the system file, shape (n_parameters,)
    groups: list[list[int]] = field(default_factory=list)
    left_out: dict[int, Finding | None] = field(default_factory=dict)
    is_ambiguous: bool = False
    minimum: Minimum | None = None
    start: np.ndarray | None = None  # logarithms, if they are known

    def run(self) -> "_Search":
        """Fit, leave out and join until the data tell all that remains."""
        x = self._begin()
        while True:
            self.minimum = self.objective.minimise(self._space(x), x)
            if self._simplify():
                x = self.minimum.x
            elif None in self.left_out.values():
                self._put_osts_first()
                x = self._settle()
            else:
                break
        self._put_osts_first()
        return self

    def _space(self, x: np.ndarray) -> Space:
        """Return the directions of the present groups."""
        return Space.of(x, self.groups, self.objective.signs)

    def _begin(self) -> np.ndarray:
        """Return the start; leave out what has no effect on the data there."""
        objective, n = self.objective, len(self.objective.names)
        x = objective.start() if self.start is None else self.start
        self.groups = [[i] for i in range(n)]
        space = self._space(x)
        jacobian = derivatives(lambda z: objective.residuals(space, z), x)
        alone = errors_alone(jacobian, np.zeros(n), NOISE)
        self.left_out = dict.fromkeys(np.flatnonzero(alone >= NOTHING_KNOWN).tolist())
        self.groups = [[i] for i in range(n) if i not in self.left_out]
        return objective.best_start(self.groups, x) if self.start is None else x

    def _simplify(self) -> bool:
        """Leave out and join what the minimum does not tell; return whether it did."""
        found, before = self.minimum, self.groups
        while step := advice(found.jacobian, found.noise, found.s):
            taken = sorted(i for at in step for i in self.groups[at])
            self.groups = [one for i, one in enumerate(self.groups) if i not in step]
            if len(step) > 1:
                self.groups = sorted([*self.groups, taken])
            else:  # their values are settled later
                self.left_out |= dict.fromkeys(taken)
            found = found.within(self._space(found.x))
        return self.groups != before

    def _settle(self) -> np.ndarray:
        """Give each parameter that was left out its value, and say why."""
        for i in sorted(self.left_out):
            if self.left_out[i] is None:
                self.objective.say(f"the limits of {self.objective.names[i]}")
                one = _Aside(self.objective, self.minimum, i)
                value, self.left_out[i] = one.settled(self.written[i])
                x = self.minimum.x.copy()
                x[i] = value
                self.minimum = replace(self.minimum, x=x, space=self._space(x))
        return self.minimum.x

    def _put_osts_first(self) -> None:
        """If OSTs and links can be exchanged, let the OSTs be the slower ones."""
        objective = self.objective
        self.is_ambiguous = objective.is_ambiguous(self.minimum)
        if not self.is_ambiguous:
            return
        osts, links = (objective.names.index(name) for name in IN_SERIES)
        other = objective.exchanged(self.minimum.x)
        is_settled = self.left_out.get(osts) or self.left_out.get(links)
        if is_settled or other[osts] >= self.minimum.x[osts]:
            return  # they are the slower ones
        swap = {osts: links, links: osts}
        self.groups = [sorted(swap.get(i, i) for i in one) for one in self.groups]
        self.left_out = {swap.get(i, i): one for i, one in self.left_out.items()}
        space = self._space(other)
        self.minimum = objective.minimum(space, space.start(other))

    def findings(self) -> list[Finding]:
        """Return what became of each parameter."""
        names = self.objective.names
        findings = [Finding()] * len(names)
        for i, finding in self.left_out.items():
            findings[i] = finding
        for group in self.groups:
            for i in group if len(group) > 1 else ():
                others = " and ".join(names[k] for k in group if k != i)
                reason = (
                    f"with {others}: these data tell their common factor only, so the "
                    "ratio is that of rough starting values"
                )
                findings[i] = Finding(JOINED, reason)
        for name, words in zip(IN_SERIES, ("smaller", "larger"), strict=True):
            if self.is_ambiguous and names.index(name) not in self.left_out:
                reason = (
                    f"the {words} of the rates of all OSTs and of the link: these "
                    "data do not tell which of the two is the smaller one, taken is "
                    "the OSTs'"
                )
                findings[names.index(name)] = Finding(JOINED, reason)
        return findings

    def errors(self) -> np.ndarray:
        """Return relative standard errors; missing for what is not fitted."""
        errors = np.full(len(self.objective.names), np.nan)
        if self.groups:
            found, _ = self.minimum.uncertainty()
            for group, error in zip(self.groups, found, strict=True):
                errors[group] = error
        return errors

    def note(self) -> str:
        """Return a warning if the search has not come to its end, or fits badly."""
        notes = []
        if not self.minimum.converged:
            notes.append("The search stopped before its end: values may be less exact.")
        if self.minimum.rms_percent > _BAD_FIT_PERCENT:
            notes.append(
                f"The data deviate from the model by {self.minimum.rms_percent:.0f} % "
                "(root mean square): it describes this storage badly."
            )
        return " ".join(notes)


@dataclass(frozen=True)
class _Aside:
    """A parameter that was left out, beside the fit of the others."""

    objective: Objective
    found: Minimum
    which: int

    def settled(self, written: float) -> tuple[float, Finding]:
        """Return the logarithm of the value, and why it is this one."""
        one = self.objective.parameters[self.which]
        limits = self._limits()
        words = _limit_words(one.sign, one.unit, limits)
        if written > 0 and self._is_allowed(np.log(written)):
            return float(np.log(written)), Finding(
                KEPT, f"{words}; the system file's value is kept"
            )
        known = [limit for limit in limits if limit is not None]
        value = known[0] if len(known) == 1 else self.found.x[self.which]
        return float(value), Finding(
            BOUND, f"{words}; the system file's value {written:.3g} contradicts them"
        )

    def _limits(self) -> tuple[float | None, float | None]:
        """Return the least and the largest allowed value, None without a limit."""
        lower, upper = (bound[self.which] for bound in self.objective.bounds)
        return self._limit(-1, lower), self._limit(1, upper)

    def _limit(self, direction: int, bound: float) -> float | None:
        """Return how far the data let the parameter go, None if to its bound."""
        here = inside = self.found.x[self.which]
        step = _FIRST_STEP
        while True:
            outside = inside + direction * step
            if direction * (outside - bound) > 0:
                return None
            if not self._is_allowed(outside):
                break
            inside, step = outside, 2 * step
        for _ in range(_BISECTIONS):
            middle = (inside + outside) / 2
            if self._is_allowed(middle):
                inside = middle
            else:
                outside = middle
        return inside if inside != here else outside

    def _is_allowed(self, value: float) -> bool:
        """Return whether the others can make up for this value, to first order."""
        limit = self._left(self.found.x[self.which]) + (_SURELY * self.found.s) ** 2
        return self._left(value) <= limit

    def _left(self, value: float) -> float:
        """Return the sum of squares that remains with the best others."""
        offset = self.found.space.offset.copy()
        offset[self.which] = value
        space = Space(offset, self.found.space.directions)
        terms = self.objective.residuals(space, self.found.z)
        if len(self.found.z):
            jacobian = self.found.jacobian
            best, *_ = np.linalg.lstsq(jacobian, terms, rcond=None)
            terms = terms - jacobian @ best
        return float((terms**2).sum())


def _limit_words(sign: int, unit: str, limits: Sequence[float | None]) -> str:
    """Return what the data tell about a parameter that they do not determine."""
    low, high = (None if limit is None else f"{np.exp(limit):.3g}" for limit in limits)
    if low and high:
        return f"these data tell only that it is {low} to {high} {unit}"
    if low:
        return f"these data tell only that it is at least {low} {unit}"
    if high:
        return f"these data tell only that it is at most {high} {unit}"
    return "these data do not depend on it"
