"""Simulate the designs of a study, and answer what it asks."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import pandas as pd

from tierscope.core.columns import TABLES
from tierscope.core.columns.designs import NO_CHOICE
from tierscope.data.designs import Study
from tierscope.model.designs.draws import drawn_plans
from tierscope.model.designs.evidence import Evidence
from tierscope.model.designs.feeding import Simulate, limit_of
from tierscope.model.designs.fit import Fitted, fit_parameter
from tierscope.model.designs.inputs import inputs_table, rivals_of
from tierscope.model.designs.search import Grid, find_most
from tierscope.model.designs.table import designs_table, numbered


@dataclass(frozen=True)
class Simulated:
    """Tables of a study: `designs`, `designs_inputs`, and `designs_fit` if any."""

    designs: pd.DataFrame
    inputs: pd.DataFrame
    fit: pd.DataFrame | None


def simulate_study(
    study: Study,
    simulate: Simulate,
    say: Callable[[str], None],
    say_step: Callable[[str], None],
) -> Simulated:
    """Fit a parameter if one is given, then simulate the designs.

    Parameters
    ----------
    study : Study
        The study.
    simulate : callable
        What simulates (`feeding.simulating`).
    say, say_step : callable
        Get a line on each simulation, and on each value of a fit.

    Raises
    ------
    ModelError
        If the devices cannot be simulated, or no value of the parameter fits.
    """
    n, fitted = study.repetitions, None
    variants = {
        name: [[one] for one in drawn_plans(plan, study.draws, n)]
        for name, plan in study.plans.items()
    }
    if study.fit:
        (plan,), (storage,) = study.plans.values(), study.storages
        fitted = fit_parameter(simulate, plan, study.fit, storage, n, say_step)
        variants = {name: [fitted.plans] * n for name in variants}
    evidence = Evidence(study, variants, simulate, say)
    table, inputs = _answered(evidence)
    return Simulated(table, inputs, fitted and fit_table(fitted, study))


def _answered(evidence: Evidence) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return tables `designs` and `designs_inputs`, of which answers know what limits.

    That are the first numbers of accelerators beyond the most, or the chosen design and
    the next cheaper one.
    """
    study = evidence.study
    if study.most is not None:
        asked, repetitions = find_most(evidence), study.repetitions
        numbers = numbered(evidence)
    else:
        (grid := Grid(evidence)).simulate()
        numbers, repetitions = numbered(evidence, grid.designs), 1
    designs, table = list(numbers), designs_table(evidence, numbers)
    rivals = rivals_of(evidence, table)
    if study.most is None:
        answers = {rivals.chosen, rivals.cheaper} - {NO_CHOICE}
        asked = product(evidence.workloads, (designs[at] for at in sorted(answers)))
    for workload, design in asked:
        is_asked = table["design"] == numbers[design]
        is_asked &= table["workload"] == workload
        plan = evidence.plan(workload)
        limit = limit_of(evidence.simulate, plan, design, repetitions)
        table.loc[is_asked, "limit"] = limit
    return table, inputs_table(evidence, designs, rivals)


def fit_table(fitted: Fitted, study: Study) -> pd.DataFrame:
    """Return table ``designs_fit``."""
    plan, fit = fitted.plans[0], study.fit
    n = fit["accelerators"]
    row = {
        "source": plan.description.source,
        "system": plan.machine.name,
        "workload": plan.description.dataset.name,
        "cache_rate_percent": plan.cache_rate_percent(n, study.storages[0]),
        "parameter": fitted.parameter.name,
        "unit": fitted.parameter.unit,
        "value": fitted.value,
        "value_low": fitted.low,
        "value_high": fitted.high,
        "n_accelerators": n,
        "utilisation_percent": float(fit["utilisation_percent"]),
        "deviation_points": float(fit["deviation_points"]),
    }
    return pd.DataFrame([row])[list(TABLES["designs_fit"])]
