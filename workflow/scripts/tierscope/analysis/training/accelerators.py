"""Say how many accelerators a storage feeds, by workload and cache rate."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from tierscope.analysis.training.stalls import limit_label
from tierscope.core.words import count_words, number_words, size_words

STATEMENTS = (
    "Simulated: a model of the whole system, no process read a file. An accelerator is "
    "a process; AU is computation over time, both without the first step (DLIO)."
)


def summary_text(
    table: pd.DataFrame,
    fit: pd.DataFrame | None,
    sources: Mapping[str, str],
    provenance: str,
) -> str:
    """Return in words how many accelerators reach their goal.

    Parameters
    ----------
    table : DataFrame
        Table ``accelerators``.
    fit : DataFrame or None
        Table ``accelerators_fit``, of one row.
    sources : mapping of str to str
        Where the numbers of each workload come from.
    provenance : str
        Source and system, in words.
    """
    lines = [f"Source: {provenance}.", STATEMENTS]
    if fit is not None:
        lines.append(fit_words(fit.iloc[0]))
    for name, rows in table.groupby("workload", sort=False):
        lines += ["", *workload_lines(rows, sources[name])]
        if fit is not None:
            lines += map(row_words, rows.to_dict("records"))
    return "\n".join(lines)


def workload_lines(rows: pd.DataFrame, source: str) -> Iterator[str]:
    """Yield what is said of a workload, of which `rows` are."""
    first = rows.iloc[0]
    yield (
        f"{first['workload']} on {first['system']}: "
        f"{number_words(first['compute_time_s'])} s of computation a step, goal AU "
        f"{first['goal_percent']:g} %"
    )
    for _, of_rate in rows.groupby("cache_rate_percent"):
        yield f"  {rate_words(of_rate)}"
    yield f"  {steps_words(rows)}"
    yield f"  Workload: {source.strip().rstrip('.')}."


def rate_words(rows: pd.DataFrame) -> str:
    """Return how many accelerators reach the goal at a cache rate, and what limits."""
    rows = rows.sort_values("n_accelerators")
    rate, reaches = rows["cache_rate_percent"].iloc[0], _reaches(rows)
    largest = rows.loc[reaches, "n_accelerators"].max() if reaches.any() else 0
    beyond = rows[rows["n_accelerators"] > largest]
    words = f"cache rate {rate} %: "
    if not largest:
        words += f"none; one has an AU of {_used(rows.iloc[0])}"
    else:
        best = rows[rows["n_accelerators"] == largest].iloc[0]
        counted = count_words(largest, "accelerator", separator="")
        rates = (
            f"{number_words(best['samples_per_second'])} samples and "
            f"{size_words(best['throughput'])} a second"
        )
        words += f"{counted} (AU {_used(best)}, {rates})"
    if beyond.empty:
        steps = count_words(best["n_steps"], "step", separator="")
        words += f", the largest number that was simulated (an epoch has {steps})"
    else:
        words += f"; {limit_words(beyond.iloc[0], largest)}"
    return words + room_words(rows, largest) + lost_words(rows, largest) + "."


def limit_words(row: pd.Series, largest: int) -> str:
    """Return what limits the next number of accelerators."""
    limit = limit_label(row["limit"])
    verb = "limit" if " " in limit else "limits"
    n = row["n_accelerators"]
    return f"{limit} {verb}" + (f" {n} (AU {_used(row)})" if largest else "")


def room_words(rows: pd.DataFrame, largest: int) -> str:
    """Return how many accelerators the LFS has room for, if not for all."""
    without = rows[~rows["fits_lfs"] & (rows["n_accelerators"] <= max(largest, 1))]
    if without.empty:
        return ""
    fitting = rows[rows["fits_lfs"]]["n_accelerators"].max()
    if pd.isna(fitting):
        most = rows["lfs_rate_percent"].max()
        return f". The LFS of a node has no room for it: {most:.3g} % at most"
    return (
        f". Of the simulated numbers, the LFS of a node has room for it up to {fitting}"
    )


def lost_words(rows: pd.DataFrame, largest: int) -> str:
    """Return which smaller numbers miss the goal, if any do."""
    lost = rows[~_reaches(rows) & (rows["n_accelerators"] < largest)]
    if lost.empty:
        return ""
    numbers = ", ".join(map(str, lost["n_accelerators"]))
    return f". Fewer miss the goal: {numbers}"


def row_words(row: Mapping[str, Any]) -> str:
    """Return the utilisation and the samples a second of a row, for predictions."""
    samples = f"{row['samples_per_second']:.2f}"
    if not math.isnan(low := row["samples_per_second_low"]):
        samples += f" ({low:.2f} to {row['samples_per_second_high']:.2f})"
    counted = count_words(row["n_accelerators"], "accelerator", separator="")
    return f"  {counted}: AU {_used(row)}; {samples} samples a second"


def steps_words(rows: pd.DataFrame) -> str:
    """Return how much of the epochs was simulated."""
    parts = rows["n_simulated_steps"] < rows["n_steps"]
    steps = rows.loc[parts, "n_simulated_steps"].max() if parts.any() else 0
    if not steps:
        return "All steps of each epoch were simulated."
    ends = rows["n_steps"].min(), rows["n_steps"].max()
    of = " to ".join(map(str, sorted(set(ends))))
    most = "" if parts.all() else "At most "
    return (
        f"{most}{steps} of {of} steps of an epoch were simulated; the rest goes on "
        "like their second half."
    )


def fit_words(fit: pd.Series) -> str:
    """Return what was fitted, of a row of table ``accelerators_fit``."""
    ends = sorted((fit["value_low"], fit["value_high"]))
    low, high = (f"{end:.4g}" for end in ends)
    counted = count_words(fit["n_accelerators"], "accelerator")
    return (
        f"Fitted: {fit['parameter']} = {fit['value']:.4g} {fit['unit']} "
        f"({low} to {high}), which gives {counted} an AU of "
        f"{fit['utilisation_percent']:g} \N{PLUS-MINUS SIGN} "
        f"{fit['deviation_points']:g} %."
    )


def _reaches(rows: pd.DataFrame) -> pd.Series:
    """Return which rows reach their goal."""
    return rows["utilisation_percent"] >= rows["goal_percent"]


def _used(row: Mapping[str, Any]) -> str:
    """Return the utilisation of a row, with its band if there is one."""
    words = f"{row['utilisation_percent']:.1f} %"
    if not math.isnan(low := row["utilisation_low_percent"]):
        words += f", {low:.1f} to {row['utilisation_high_percent']:.1f} %"
    return words
