"""Tell how policies and loaders compare, to be read on a terminal."""

import numpy as np
import pandas as pd

from tierscope.plot import scenario_titles
from tierscope.plot_loaders import in_order as loaders_in_order
from tierscope.plot_policies import cautions, in_order
from tierscope.policy_comparison import ESTIMATED, is_reference
from tierscope.savings import cut_words

_HEAD = (
    f"{'rate':>5}  {'policy':<18}  {'time':>12}  {'I/O time':>12} {'GFS':>6} "
    f"{'staging':>7}  pays after"
)


def summary_text(
    summary: pd.DataFrame, policy_epochs: pd.DataFrame, *, provenance: str
) -> str:
    """Return table ``policy_summary`` in words, a block a loader.

    Parameters
    ----------
    summary, policy_epochs : DataFrame
        Tables ``policy_summary`` and ``policy_epochs`` of the same runs.
    provenance : str
        Where the numbers come from; the first line.
    """
    n_epochs = summary["n_epochs"].max()
    lines = [
        f"Source: {provenance}",
        f"Saved in {n_epochs} epoch{'s' if n_epochs > 1 else ''}, in percent of the "
        "same loader without LFS, the reference;",
        "below 0: it takes more. Time and GFS operations with staging and copies;",
        "staging in seconds.",
    ]
    if summary["time_cut_sd_points"].notna().any():
        lines[-1] += " ±: standard deviation of the repetitions."
    summary = summary.assign(is_reference=is_reference(summary.assign(repetition=0)))
    for _, rows in summary.groupby(["dataset", "n_osts"]):
        scene = scenario_titles(rows.assign(policy="", loader=""))["title"].iloc[0]
        lines += ["", scene, _HEAD]
        for loader in loaders_in_order(rows["loader"]):
            lines.append(f"loader {loader}")
            lines += map(_line, _sorted(rows[rows["loader"] == loader]))
    notes = []
    if (summary["staging"] == ESTIMATED).any():
        notes.append("*: not run; estimated as if every node read its part of the GFS.")
    if (summary["pays_after_epochs"] > summary["n_epochs"]).any():
        notes.append("~: if all further epochs are like the last.")
    if notes:
        lines += ["", *notes]
    return "\n".join([*lines, *cautions(policy_epochs)]) + "\n"


def _sorted(rows: pd.DataFrame) -> list[dict]:
    """Return a loader's rows by cache rate, policies in the order of the figure."""
    places = {name: place for place, name in enumerate(in_order(rows["policy"]))}
    rows = rows.assign(place=rows["policy"].map(places))
    return rows.sort_values(["cache_rate_percent", "place"]).to_dict("records")


def _line(row: dict) -> str:
    """Return the line of a row."""
    start = f"{row['cache_rate_percent']:3} %  {row['policy']:<18}"
    if row["is_reference"]:
        return f"{start}  {'reference':>12}"
    pays = row["pays_after_epochs"]
    beyond = "~" if pays > row["n_epochs"] else ""
    words = (
        "never"
        if np.isnan(pays)
        else f"{beyond}{pays:.0f} epoch{'s' if pays > 1 else ''}"
    )
    mark = "*" if row["staging"] == ESTIMATED else " "
    time, io_time = (
        cut_words(row[f"{name}_cut_percent"], row[f"{name}_cut_sd_points"])
        for name in ("time", "io_time")
    )
    return (
        f"{start}  {time:>12}  {io_time:>12} "
        f"{row['gfs_operations_cut_percent']:6.1f} "
        f"{row['staging_time_s']:6.2f}{mark}  {words}"
    )
