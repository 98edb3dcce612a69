"""Table `designs_inputs`: which unknown input would change the choice."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tierscope.analysis.designs.choice import choose, designs_of
from tierscope.core.columns import TABLES
from tierscope.core.columns.designs import MEETS, NO_CHOICE, ORIGINS
from tierscope.core.tables import empty_table
from tierscope.data.designs import POOLED, Design, Plan
from tierscope.model.calibration.result import FURTHER_PARAMETERS, PARAMETERS
from tierscope.model.calibration.starting_values import with_values
from tierscope.model.calibration.uncertainty import RelativeErrors, Uncertainty
from tierscope.model.designs.draws import total_covariance, value_of
from tierscope.model.designs.evidence import Evidence
from tierscope.model.designs.feeding import Trial

_USUAL = 1.2  # a factor by which an input may be off that is not calibrated
COMPUTE_TIME = "compute_time_s"  # of a step: of the workload, not of the devices
_UNITS = {
    **{name: one.unit for name, one in (PARAMETERS | FURTHER_PARAMETERS).items()},
    "network.latency_s": "s",
    "network.bandwidth_bytes_per_s": "B/s",
    "processor.sample_s": "s",
}
_CALIBRATED, _DECLARED = "calibrated", "declared"
# How a value is known by words of its source; "fitted to measurements": by `calibrate`.
_BY_WORDS = {"fitted to measurements": _CALIBRATED, "fitted": "reconstructed"}
_BY_WORDS |= {"by hand": "assumed", "guessed": "assumed"}
_BY_WORDS |= {one: one for one in ORIGINS}


class Input(NamedTuple):
    """An input of a study, and both ends of what it may be."""

    parameter: str
    unit: str
    origin: str
    value: float
    low: float
    high: float

    def changed(self, plan: Plan, value: float) -> Plan:
        """Return a plan with another value of the input."""
        description = plan.description
        if self.parameter != COMPUTE_TIME:
            values = {self.parameter: value}
            return replace(plan, description=with_values(description, values))
        given = description.training.compute_time_s
        varied = {**given, "mean_s": value} if isinstance(given, Mapping) else value
        training = replace(description.training, compute_time_s=varied)
        return replace(plan, description=replace(description, training=training))


def inputs_of(
    plans: Sequence[Plan], draws: Mapping[str, Any] | None
) -> Iterator[Input]:
    """Yield what a workload's times depend on, and how sure that is.

    Parameters
    ----------
    plans : sequence of Plan
        The workload on the machine, and with both ends of a fitted parameter.
    draws : mapping or None
        What a calibration wrote on its uncertainty: of its parameters the ends are
        those of its interval. All others may be off by `_USUAL`: this is assumed.
    """
    (plan, *_), errors = plans, _errors(draws)
    devices = plan.machine.devices
    for name, unit in _UNITS.items():
        part, key = name.split(".")
        # What takes no time takes none if it is off by a part of it.
        if value := devices.get(part, {}).get(key):
            by, ends = errors.get(name, _USUAL), {value_of(one, name) for one in plans}
            is_fitted = name in errors or len(ends) > 1
            origin = _CALIBRATED if is_fitted else _origin(devices, part, key)
            ends = ends if len(ends) > 1 else {value / by, value * by}
            yield Input(name, unit, origin, value, min(ends), max(ends))
    if s := plan.description.training.compute_time.mean_s:
        yield Input(COMPUTE_TIME, "s", plan.computed, s, s / _USUAL, s * _USUAL)


def _errors(draws: Mapping[str, Any] | None) -> dict[str, float]:
    """Return by which factor each parameter of a calibration may be off."""
    if draws is None:
        return {}
    uncertainty = Uncertainty.from_json(draws)
    covariance, degrees = total_covariance(uncertainty)
    deviations = np.sqrt(np.diag(covariance))
    _, factors = RelativeErrors(deviations, degrees).interval(np.ones_like(deviations))
    return dict(zip(uncertainty.parameters, factors.tolist(), strict=False))


def _origin(devices: Mapping[str, Any], part: str, key: str) -> str:
    """Return how a value of devices is known, one of `ORIGINS`.

    The first words that tell it decide, of the value's source or, without one, of that
    of the devices.
    """
    origin = devices.get("origin", _DECLARED)
    words = devices.get("sources", {}).get(part, {}).get(key, origin)
    found = re.search("|".join(_BY_WORDS), words)
    return _BY_WORDS[found[0]] if found else _DECLARED


class Rivals(NamedTuple):
    """Numbers of the chosen design, the next cheaper one, and the next that meets."""

    cheaper: int
    chosen: int
    dearer: int


def rivals_of(evidence: Evidence, table: pd.DataFrame) -> Rivals:
    """Return which designs of table ``designs`` may be chosen; `NO_CHOICE` is none.

    If none is chosen, that nearest to the goal takes the place of the cheaper one.
    """
    found = designs_of(table)
    choice = choose(found, evidence.study.cost, evidence.study.limits)
    price, allowed = choice.costs[choice.by], choice.compared
    if choice.chosen == NO_CHOICE:  # the nearest to the goal, of those simulated if any
        known = allowed & found["is_simulated"]
        cheaper = found["margin"][known if known.any() else allowed]
    else:
        cheaper = price[price.index.isin([*choice.undecided, choice.miss])]
    meets = allowed & (found["verdict"] == MEETS)
    dearer = price[meets & (price > price.get(choice.chosen, math.inf))]
    return Rivals(
        NO_CHOICE if cheaper.empty else int(cheaper.idxmax()),
        choice.chosen,
        NO_CHOICE if dearer.empty else int(dearer.idxmin()),
    )


def inputs_table(
    evidence: Evidence, designs: Sequence[Design], rivals: Rivals
) -> pd.DataFrame:
    """Return table ``designs_inputs``: what would be chosen with other inputs.

    One input of a workload is changed at a time. The chosen design is simulated with
    both ends of it; where it is better so, the next cheaper one, too, and where it
    misses the goal, the next one that meets it. What the change makes of the first
    simulation is taken for the worst end of the interval.

    Parameters
    ----------
    evidence : Evidence
        What is known.
    designs : sequence of Design
        All designs by their numbers.
    rivals : Rivals
        The designs to compare.
    """
    study, asked = evidence.study, []
    for workload in evidence.workloads:
        plans = evidence.variants[workload][0]
        for one in inputs_of(plans, study.draws):
            asked += [_Change(workload, one, end) for end in (one.low, one.high)]
    watched = rivals.cheaper if rivals.chosen == NO_CHOICE else rivals.chosen
    if watched == NO_CHOICE or not asked:
        return empty_table("designs_inputs")
    chosen, others = [], []
    for meets, is_better in _tried(
        evidence, [(one, designs[watched]) for one in asked]
    ):
        chosen.append(watched if meets else NO_CHOICE)
        may_be_cheaper = is_better and watched == rivals.chosen
        cheaper = rivals.cheaper if may_be_cheaper else NO_CHOICE
        others.append(cheaper if meets else rivals.dearer)
    places = [at for at, other in enumerate(others) if other != NO_CHOICE]
    again = _tried(evidence, [(asked[at], designs[others[at]]) for at in places])
    for at, (meets, _) in zip(places, again, strict=True):
        chosen[at] = others[at] if meets else chosen[at]
    rows = [
        {"workload": asked[at].workload, **asked[at].input._asdict()}
        | {"choice": rivals.chosen}
        | {"choice_low": chosen[at], "choice_high": chosen[at + 1]}
        for at in range(0, len(asked), 2)
    ]
    return pd.DataFrame(rows)[list(TABLES["designs_inputs"])]


class _Change(NamedTuple):
    """Another value of an input of a workload."""

    workload: str
    input: Input
    value: float

    def matters_on(self, evidence: Evidence, design: Design) -> bool:
        """Return whether a design uses what the input is of."""
        rate = evidence.plan(self.workload).cache_rate_percent(*design)
        is_pooled = design.storage.placement == POOLED
        used = {"gfs": rate < 100, "lfs": rate > 0, "network": is_pooled}
        return used.get(self.input.parameter.partition(".")[0], True)


def _tried(
    evidence: Evidence, changes: Sequence[tuple[_Change, Design]]
) -> list[tuple[bool, bool]]:
    """Return whether designs meet all goals after changes, and are better than before.

    Of a design that was known by its bound it is what was simulated.
    """
    asked = [one for one in changes if one[0].matters_on(evidence, one[1])]
    trials = [
        Trial(one.input.changed(evidence.plan(one.workload), one.value), design)
        for one, design in asked
    ]
    paces = dict(zip(asked, evidence.simulate(trials), strict=True))
    found = []
    for one, design in changes:
        goal = evidence.study.goals[one.workload]
        before, _ = evidence.ends(one.workload, design)
        worst = before
        if pace := paces.get((one, design)):
            known = evidence.paces.get((one.workload, design))
            ratio = before / getattr(known[0][0], goal.quantity) if known else 1.0
            worst = getattr(pace, goal.quantity) * ratio
        others = {*evidence.workloads} - {one.workload}
        verdicts = {evidence.verdict(name, design) for name in others}
        meets = goal.is_met(worst) and verdicts <= {MEETS}
        found.append((meets, goal.sign * (worst - before) > 0))
    return found
