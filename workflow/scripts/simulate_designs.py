"""Simulate 1, 2, 4 ... accelerators of a workload at a cache rate."""

import pandas as pd
from tierscope.core.columns import TABLES
from tierscope.core.files import log_to
from tierscope.core.output.streams import ending_on, say_step
from tierscope.core.scenario import Point
from tierscope.core.tables import write_table
from tierscope.data.designs import Plan
from tierscope.model.designs.feeding import limit_of
from tierscope.model.designs.fit import Fitted, fit_parameter
from tierscope.model.designs.search import (
    Row,
    accelerators_table,
    find_rows,
    row_of,
)
from tierscope.storage.queueing_network import ModelError


def fit_table(fitted: Fitted, fit: dict, rate: int) -> pd.DataFrame:
    """Return table ``accelerators_fit``."""
    plan = fitted.plan
    row = {
        "source": plan.description.source,
        "system": plan.machine.name,
        "workload": plan.description.dataset.name,
        "cache_rate_percent": rate,
        "parameter": fitted.parameter.name,
        "unit": fitted.parameter.unit,
        "value": fitted.value,
        "value_low": fitted.low,
        "value_high": fitted.high,
        "n_accelerators": fit["accelerators"],
        "utilisation_percent": float(fit["utilisation_percent"]),
        "deviation_points": float(fit["deviation_points"]),
    }
    return pd.DataFrame([row])[list(TABLES["accelerators_fit"])]


def main() -> None:
    """Fit a parameter if one is given, then simulate, with a line about each number."""
    params = snakemake.params
    plan, ends = Plan.from_json(params.plan), ()
    points = [Point(params.rate, one) for one in range(params.repetitions)]
    if params.fit:
        fitted = fit_parameter(plan, params.fit, points, say_step)
        plan, ends = fitted.plan, fitted.ends
        table = fit_table(fitted, params.fit, params.rate)
        write_table(table, snakemake.output.fit, "accelerators_fit")

    def simulate(n: int) -> Row:
        row = row_of(plan, ends, n, points, params.goal_percent)
        print(f"{n} accelerators: AU {row['utilisation_percent']:.2f} %")
        return row

    def limit(n: int) -> str:
        return limit_of(plan, n, points)

    rows = find_rows(simulate, limit, plan, params.most, params.goal_percent)
    write_table(accelerators_table(rows, plan), snakemake.output.table, "accelerators")


if __name__ == "__main__":
    log_to(snakemake.log[0])
    with ending_on(ModelError):
        main()
