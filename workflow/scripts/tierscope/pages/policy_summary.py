"""Describe how policies and loaders compare, to be read on a terminal."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tierscope.analysis.comparing.policies import is_reference
from tierscope.analysis.comparing.savings import (
    RUN,
    VARIANT,
    cut_words,
    interval_words,
    is_undecided,
)
from tierscope.analysis.comparing.staging import BY_COPIES, ESTIMATED
from tierscope.core.words import scenario_titles, short_number, size_words
from tierscope.figures.comparing.loaders import in_order as loaders_in_order
from tierscope.figures.comparing.policies import cautions, in_order, terminal_lines

_SCENE = ["dataset", "n_osts", "loader"]
_HEAD = ("rate ", "policy", "time", "I/O time", "GFS", "copied", "staging ", "pays")
_ALIGN = "><>>>>>>"
_GAP = "  "  # between columns
_STAGING = {
    ESTIMATED: (
        "*",
        "estimated, not measured: as if every node read its part from the GFS.",
    ),
    BY_COPIES: ("\N{DAGGER}", "measured, from the rate of the copies that were made."),
}


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
    references = policy_epochs[is_reference(policy_epochs)]
    summary = _with_references(summary, references)
    compared = summary[summary["n_references"] < summary["n_repetitions"]]
    head = [
        f"Saved in {n_epochs} epoch{'s' if n_epochs > 1 else ''}, in percent of the "
        "same loader without LFS, the reference; below 0: it takes more. Time and GFS "
        "operations include staging and copies, I/O time (slowest process) does not; "
        "copied: to the LFS of all nodes while training; staging: in seconds; pays: "
        "number of epochs after which staging pays off.",
        interval_words(compared["n_repetitions"]),
    ]
    means = references.groupby(_SCENE)[["execution_time_s", "io_time_s"]].mean()
    blocks = []
    for scene_keys, rows in summary.groupby(_SCENE[:-1]):
        scene = scenario_titles(rows.assign(policy="", loader=""))["title"].iloc[0]
        blocks += ["", scene, _HEAD]
        for loader in loaders_in_order(rows["loader"]):
            part = _sorted(rows[rows["loader"] == loader])
            epoch_s, io_s = map(short_number, means.loc[(*scene_keys, loader)])
            blocks += [
                f"loader {loader}: {epoch_s} s an epoch without LFS, {io_s} s of I/O"
                f"{_reference_words(part)}",
                *map(_cells, part),
            ]
    notes = [
        f"{mark}: {words}"
        for kind, (mark, words) in _STAGING.items()
        if (summary["staging"] == kind).any()
    ]
    if (summary["pays_after_epochs"] > summary["n_epochs"]).any():
        notes.append("~: if all further epochs are like the last.")
    notes += cautions(policy_epochs)
    lines = [f"Source: {provenance}", *terminal_lines(head), *_aligned(blocks)]
    return "\n".join([*lines, *([""] if notes else []), *terminal_lines(notes)]) + "\n"


def _sorted(rows: pd.DataFrame) -> list[dict]:
    """Return a loader's rows, sorted by cache rate and by policy as in the figure."""
    places = {name: place for place, name in enumerate(in_order(rows["policy"]))}
    rows = rows.assign(place=rows["policy"].map(places))
    return rows.sort_values(["cache_rate_percent", "place"]).to_dict("records")


def _with_references(summary: pd.DataFrame, references: pd.DataFrame) -> pd.DataFrame:
    """Add the number of repetitions for which each row is the reference."""
    n_references = references.drop_duplicates(RUN).groupby(VARIANT).size()
    summary = summary.join(n_references.rename("n_references"), on=VARIANT)
    return summary.fillna({"n_references": 0})


def _reference_words(rows: Sequence[dict]) -> str:
    """Return which policies are references of a loader if there are several."""
    found = {row["policy"]: int(row["n_references"]) for row in rows}
    found = {policy: n for policy, n in found.items() if n}
    if len(found) < 2:
        return ""
    words = (
        f"{policy} in {n} repetition{'s' if n > 1 else ''}"
        for policy, n in found.items()
    )
    return f" (reference: {', '.join(words)})"


def _aligned(lines: Sequence[str | Sequence[str]]) -> list[str]:
    """Return lines; cells are aligned in columns as wide as their widest cell."""
    rows = [line for line in lines if not isinstance(line, str)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        line
        if isinstance(line, str)
        else _GAP.join(
            f"{cell:{side}{width}}"
            for cell, side, width in zip(line, _ALIGN, widths, strict=False)
        ).rstrip()
        for line in lines
    ]


def _cells(row: dict) -> tuple[str, ...]:
    """Return the words of a row."""
    start = f"{row['cache_rate_percent']} % ", row["policy"]
    if row["n_references"] == row["n_repetitions"]:
        return (*start, "reference", "", "", "", "", "")
    pays = row["pays_after_epochs"]
    beyond = "~" if pays > row["n_epochs"] else ""
    words = "never" if np.isnan(pays) else f"{beyond}{pays:.0f}"
    doubt = "?" if is_undecided(row) else ""
    mark, _ = _STAGING.get(row["staging"], (" ", ""))
    time, io_time = (cut_words(row, name) for name in ("time", "io_time"))
    gfs = f"{row['gfs_operations_cut_percent']:z.1f}"
    copied = size_words(row["background_bytes"]) if row["background_bytes"] else ""
    staging = f"{row['staging_time_s']:.2f}{mark}"
    return *start, time, io_time, gfs, copied, staging, doubt + words
