"""The runs of an experiment for the report: their audits and their spread."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from tierscope.analysis.intervals import METHOD, NO_INTERVAL, unit_words
from tierscope.core.columns import RUN_KEYS, SCENARIO
from tierscope.core.provenance import NO_ORIGIN, Origin
from tierscope.core.words import (
    FAILED,
    FLAG,
    PASSED,
    UNKNOWN,
    count_words,
    iso_time_words,
    scenario_titles,
    seconds_words,
)
from tierscope.pages.report.facts import SIMULATED, ReportedRun

_RUN = list(RUN_KEYS)


def all_run_keys(runs: Sequence[ReportedRun], breakdown: pd.DataFrame) -> pd.DataFrame:
    """Return the keys of all runs: first those given, then others of the table."""
    given = [run.keys for run in runs]
    keys = pd.concat([pd.DataFrame(given, columns=_RUN), breakdown[_RUN]])
    return keys.drop_duplicates(ignore_index=True).astype(dict(RUN_KEYS))


def runs_table(
    runs: Sequence[ReportedRun],
    breakdown: pd.DataFrame,
    dataset_titles: Mapping[str, str] | None = None,
    origin: Origin = NO_ORIGIN,
) -> pd.DataFrame:
    """Return one row per run: its audit, I/O time of every epoch, start.

    Parameters
    ----------
    runs : sequence of ReportedRun
        The runs, in the order of the rows.
    breakdown : DataFrame
        Table ``breakdown``. Runs that are only in this table come last, as not audited.
    dataset_titles : mapping of str to str, optional
        What to call each dataset.
    origin : Origin, optional
        Where the numbers come from; it knows what epochs are called.

    Returns
    -------
    DataFrame of str
        There is no column for scheduler jobs if no run has one. Simulated runs, which
        are not audited, have no columns for audit and start.
    """
    keys = all_run_keys(runs, breakdown)
    titles = scenario_titles(keys, dataset_titles)
    given = {tuple(run.keys[key] for key in _RUN): run for run in runs}
    sums_s = breakdown.groupby([*_RUN, "epoch"])["time_s"].sum().unstack("epoch")
    rows = []
    for key in keys.merge(titles, on=SCENARIO, how="left").to_dict("records"):
        index = tuple(key[name] for name in _RUN)
        run = given.get(index)
        row = {
            "Scenario": key["title"],
            "Cache rate (%)": str(key["cache_rate_percent"]),
            "Repetition": str(key["repetition"]),
            "Audit": _audit_cell(run.audit if run else None),
        }
        for epoch in sums_s.columns:
            time_s = sums_s[epoch].get(index, math.nan)
            row[f"I/O time, {origin.epoch_words(epoch)} (s)"] = seconds_words(time_s)
        row["Started (UTC)"] = iso_time_words(run.run["started"]) if run else UNKNOWN
        job = run.run.get("scheduler_job") if run else None
        rows.append(row | {"Scheduler job": job or ""})
    table = pd.DataFrame(rows)
    unused = [] if any(table["Scheduler job"]) else ["Scheduler job"]
    if (keys["source"] == SIMULATED).all():
        unused += ["Audit", "Started (UTC)"]
    return table.drop(columns=unused)


def _audit_cell(audit: Mapping[str, Any] | None) -> str:
    """Return an audit's result, with the numbers of the checks that failed."""
    if audit is None:
        return f"{UNKNOWN} not audited"
    if audit["passed"]:
        return f"{PASSED} passed"
    failed = [check for check in audit["checks"] if not check["passed"]]
    words = [f"{c['name']}: got {c['got']}, expected {c['expected']}" for c in failed]
    return f"{FAILED} failed: {'; '.join(words)}"


def audit_words(runs: Sequence[ReportedRun], n_runs: int) -> str:
    """Return how many runs passed their audit."""
    audits = [run.audit for run in runs if run.audit is not None]
    n_passed = sum(bool(audit["passed"]) for audit in audits)
    n_checks = sum(len(audit["checks"]) for audit in audits)
    counts = {"passed": n_passed, "failed": len(audits) - n_passed}
    counts["without an audit"] = n_runs - len(audits)
    if n_passed == n_runs:
        text = f"All {n_runs} runs passed" if n_runs > 1 else "The run passed"
    else:
        text = ", ".join(f"{count} {words}" for words, count in counts.items() if count)
        text = f"Of {count_words(n_runs, 'run', separator='')}: {text}"
    if n_checks:
        text += f" ({count_words(n_checks, 'check', separator='')})"
    return text + "."


def spread_words(spread: pd.DataFrame) -> str:
    """Return how many points spread above the limit, or that nothing is known."""
    known = spread[spread["cv"].notna()]
    if known.empty:
        return (
            f"Every point has {NO_INTERVAL}: differences between points may be "
            "chance. Set sweep.repetitions to 3 or more to measure the spread."
        )
    limit = known["max_spread_percent"].iloc[0]
    median, largest = 100 * known["cv"].median(), 100 * known["cv"].max()
    return (
        "The spread is the coefficient of variation, the standard deviation of the "
        "repetitions in percent of their mean. Half of the spreads are below "
        f"{median:.1f} %, the largest is {largest:.1f} %. Above the limit of "
        f"{limit} %, marked {FLAG}: {known['flagged'].sum()} of {len(known)}. "
        f"In brackets: {METHOD} (Student's t), in seconds; repetitions are independent "
        f"{unit_words(spread['source'])}.{_once_words(spread)}"
    )


def _once_words(spread: pd.DataFrame) -> str:
    """Return how many points of table ``spread`` were run once, if there are any."""
    point = [*SCENARIO, "cache_rate_percent"]
    once = spread.drop_duplicates(point)["n_repetitions"] == 1
    if not once.any():
        return ""
    return (
        f" Of the {len(once)} points {once.sum()} were run once: they have no interval."
    )


def spread_table(
    spread: pd.DataFrame, titles: pd.DataFrame, origin: Origin = NO_ORIGIN
) -> pd.DataFrame:
    """Return spread in percent and interval of each mean, one row per point.

    Parameters
    ----------
    spread : DataFrame
        Table ``spread``.
    titles : DataFrame
        What `tierscope.core.words.scenario_titles` returns.
    origin : Origin, optional
        Where the numbers come from; it knows what epochs are called.

    Returns
    -------
    DataFrame of str
        Sorted like `titles`, with one column per quantity and epoch. Values above the
        limit are marked. Empty if no point was repeated.
    """
    known = spread[spread["cv"].notna()]
    if known.empty:
        return pd.DataFrame()
    titles = titles.assign(place=range(len(titles)))
    rows = {}
    for point in known.merge(titles, on=SCENARIO).to_dict("records"):
        key = (point["place"], point["cache_rate_percent"], point["n_repetitions"])
        row = {
            "Scenario": point["title"],
            "Cache rate (%)": str(point["cache_rate_percent"]),
            "Repetitions": str(point["n_repetitions"]),
        }
        column = f"{point['quantity']}, {origin.epoch_words(point['epoch'])} (%)"
        sign = f"{FLAG} " if point["flagged"] else ""
        ends = " to ".join(map(seconds_words, (point["low_s"], point["high_s"])))
        ends = f"({ends} s)".replace(" ", "\N{NO-BREAK SPACE}")
        rows.setdefault(key, row)[column] = f"{sign}{100 * point['cv']:.1f} {ends}"
    return pd.DataFrame([rows[key] for key in sorted(rows)]).fillna(UNKNOWN)
