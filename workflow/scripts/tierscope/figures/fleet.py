"""Draw what many jobs spend on I/O, and what a faster metadata server would save."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tierscope.core.columns import EXACT, JOB_CLASS
from tierscope.core.job_words import bounds_words, number_words, printable, shortened
from tierscope.core.sources import Origin
from tierscope.figures.jobs.classes import (
    UNSURE,
    Palette,
    bound_notes,
    class_patches,
    classes_of,
    counted,
    unsure_patch,
    visible,
)
from tierscope.figures.style import styled, write_around

MOST_JOBS = 20  # that are drawn, the most costly first
_NAME_LETTERS = 26
_MOST_OUTLIERS = 6  # with a name
_UNEVEN = 30  # times the median: shorter bars would not be seen
_ROUNDING = 1e-6
_WORDS_LETTERS = 44
_NAME_ROOM = 0.07  # height of a name over that of the panel
_SAVING = {"color": "#117733", "height": 0.7}
_POINTS = {"color": "#4477AA", "alpha": 0.6, "s": 22, "linewidths": 0}
_OUTLIER = {"color": "#882255", "s": 42, "marker": "D", "edgecolors": "white"}
_LOWER = {"color": "#4477AA", "s": 26, "marker": "^", "facecolors": "none"}
_ARROW = {"color": "#222222", "marker": ">", "ls": "", "ms": 6}
_OUTLIER_NAME = {
    "fontsize": 8,
    "bbox": {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.6},
}
_NAME = {"fontsize": 8, "textcoords": "offset points", "va": "center"}


@styled
def plot_fleet(
    fleet: pd.DataFrame,
    fleet_classes: pd.DataFrame,
    *,
    provenance: Origin,
    tiers: Sequence[str] | None = None,
) -> Figure:
    """Draw the I/O of many jobs.

    Parameters
    ----------
    fleet, fleet_classes : DataFrame
        These tables.
    provenance : Origin
        Where the numbers come from.
    tiers : sequence of str, optional
        All tiers of the analysis, for their colours; default: those of the table.

    Returns
    -------
    Figure
        Left: hours of the most costly jobs by class, stacked up to what is certain; in
        percent of each job's own if they differ too much to be seen.
        Upper right: what a metadata server twice as fast would save, from the least to
        the most. Lower right: each job's part of I/O over its run time; outliers have
        a name.
    """
    rows = counted(fleet_classes)
    palette = Palette(tiers or list(dict.fromkeys(rows["tier"])))
    figure = Figure(figsize=(13.6, 8.4), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(1.15, 1))
    costly = figure.add_subplot(grid[:, 0])
    saved, parts = (figure.add_subplot(grid[place, 1]) for place in (0, 1))
    n_jobs = len(fleet)
    title = f"I/O of {n_jobs:,} {'job' if n_jobs == 1 else 'jobs'} (Darshan logs)"
    write_around(figure, title, _notes(fleet, provenance))
    hours = hours_words(fleet["hours_of"])
    _draw_costly(costly, fleet, rows, palette, hours)
    _draw_savings(saved, fleet, hours)
    _draw_parts(parts, fleet)
    return figure


def hours_words(kinds: pd.Series) -> str:
    """Return what hours are counted: ``node-hours``, ``process-hours``, or both."""
    words = {"nodes": "node-hours", "processes": "process-hours"}
    found = [words[kind] for kind in words if kinds.eq(kind).any()]
    return " or ".join(found) or words["nodes"]


def job_label(row: pd.Series) -> str:
    """Return the name of a job on the figure, marked if its hours are of processes."""
    name = shortened(printable(row["job"]), _NAME_LETTERS)
    return f"{name} *" if row["is_marked"] else name


def most_costly(fleet: pd.DataFrame, by: str, n_jobs: int = MOST_JOBS) -> pd.DataFrame:
    """Return the jobs with the most hours of a kind, those without any left out.

    ``is_marked`` says whether a job has process-hours while others have node-hours.
    """
    is_mixed = fleet["hours_of"].nunique() > 1
    marked = fleet["hours_of"].eq("processes") & is_mixed
    found = fleet.assign(is_marked=marked)
    found = found[found[by] > 0].sort_values([by, "job"], ascending=[False, True])
    return found.head(n_jobs).reset_index(drop=True)


def _draw_costly(
    ax: Axes, fleet: pd.DataFrame, rows: pd.DataFrame, palette: Palette, hours: str
) -> None:
    """Draw the hours of the most costly jobs by class.

    Where one job costs much more than most, bars are parts of each job's own hours.
    """
    jobs = most_costly(fleet, "io_hours")
    rows = rows[rows["job"].isin(jobs["job"])]
    wide = rows.pivot_table(
        index="job",
        columns=JOB_CLASS,
        values="least_hours",
        aggfunc="sum",
        fill_value=0,
    ).reindex(jobs["job"], fill_value=0)
    certain = np.maximum(wide.sum(axis="columns").to_numpy(), jobs["io_hours"])
    is_uneven = len(jobs) > 0 and certain.max() > _UNEVEN * certain.median()
    scale = 100 / certain.to_numpy() if is_uneven else np.ones(len(jobs))
    wide, end = wide.mul(scale, axis="index"), (certain * scale).to_numpy()
    at, left = np.arange(len(jobs)), np.zeros(len(jobs))
    classes = [one for one in classes_of(rows) if one in wide.columns]
    for one in classes:
        ax.barh(at, wide[one], 0.75, left=left, **palette.look(*one))
        left = left + wide[one].to_numpy()
    unsure = end - left > _ROUNDING * end  # certain, but of no certain class
    ax.barh(at[unsure], (end - left)[unsure], 0.75, left=left[unsure], **UNSURE)
    _write_names(ax, jobs, end)
    if is_uneven:
        ax.set_xticks(range(0, 101, 20))
    what = "I/O of the slowest process x size of the job"
    ax.set_xlabel(
        f"{what} (% of the job's {hours})" if is_uneven else f"{what} ({hours})"
    )
    ax.set_title(f"The {len(jobs)} most costly jobs, by class")
    widest = {one: wide[one].max() for one in classes}
    handles = class_patches(visible(widest, max(end, default=0)), palette)[::-1]
    handles += [unsure_patch()] if unsure.any() else []
    below = {"loc": "upper left", "bbox_to_anchor": (0, -0.08), "ncols": 3}
    ax.legend(handles=handles, fontsize=8, **below)


def _write_names(ax: Axes, jobs: pd.DataFrame, end: np.ndarray) -> None:
    """Write names before the bars, and hours, users and programs behind them."""
    for place, row in jobs.iterrows():
        at_least = "" if row["times_are"] == EXACT else "\N{GREATER-THAN OR EQUAL TO} "
        hours_of_job = f"{at_least}{number_words(row['io_hours'])} h"
        words = f"{hours_of_job} ({row['user']}: {row['exe']})"
        words = shortened(printable(words), _WORDS_LETTERS)
        ax.annotate(words, (end[place], place), (4, 0), **_NAME)
    names = [job_label(row) for _, row in jobs.iterrows()]
    ax.set_yticks(range(len(jobs)), names, fontsize=8.5)
    ax.set_ylim(len(jobs) - 0.4 if len(jobs) else 1, -0.6)
    ax.set_xlim(0, 1.45 * max([1e-12, *end]))
    _across(ax)


def _draw_savings(ax: Axes, fleet: pd.DataFrame, hours: str) -> None:
    """Draw what a metadata server twice as fast would save, at least and at most."""
    fleet = fleet.assign(
        end=np.fmax(fleet["meta_saved_most_hours"], fleet["meta_saved_least_hours"])
    )
    jobs = most_costly(fleet, "end", MOST_JOBS // 2)
    at, least = np.arange(len(jobs)), jobs["meta_saved_least_hours"]
    longest = max([1e-12, *jobs["end"]])
    ax.barh(at, least, **_SAVING)
    unsure = (jobs["end"] > least).to_numpy()
    if unsure.any():
        more = (jobs["end"] - least)[unsure]
        ax.barh(at[unsure], more, 0.7, left=least[unsure], **UNSURE)
    for place, row in jobs.iterrows():
        most = row["meta_saved_most_hours"]
        if np.isnan(most):
            ax.plot(row["end"] + 0.02 * longest, place, **_ARROW)
        words = bounds_words(row["meta_saved_least_hours"], most, "h")
        offset = 12 if np.isnan(most) else 4
        ax.annotate(words, (row["end"], place), (offset, 0), **_NAME)
    ax.set_yticks(at, [job_label(row) for _, row in jobs.iterrows()], fontsize=8.5)
    ax.set_ylim(len(jobs) - 0.4 if len(jobs) else 1, -0.6)
    ax.set_xlim(0, 1.4 * longest)
    _across(ax)
    ax.set_xlabel(f"Saved ({hours})")
    ax.set_title("Metadata servers twice as fast would save (rule)")


def _draw_parts(ax: Axes, fleet: pd.DataFrame) -> None:
    """Draw each job's part of I/O over its run time; name outliers."""
    known = fleet[fleet["io_least_percent"].notna() & fleet["run_time_s"].gt(0)]
    is_outlier = known["outlier"].ne("")
    is_lower = known["times_are"].eq("lower bounds") & ~is_outlier
    usual = known[~is_outlier & ~is_lower]
    ax.scatter("run_time_s", "io_least_percent", data=usual, **_POINTS)
    ax.scatter("run_time_s", "io_least_percent", data=known[is_lower], **_LOWER)
    outliers = known[is_outlier].sort_values("io_hours", ascending=False)
    ax.scatter("run_time_s", "io_least_percent", data=outliers, **_OUTLIER)
    highest = 1.12 * max([1, *known["io_least_percent"]])
    named = outliers.head(_MOST_OUTLIERS).sort_values("io_least_percent")
    least = 0.0  # where the next name has room
    for _, row in named.iterrows():
        words = shortened(printable(row["job"]), _NAME_LETTERS)
        place = max(least, row["io_least_percent"])
        where = {"xytext": (1.06 * row["run_time_s"], place), "va": "bottom"}
        ax.annotate(words, (row["run_time_s"], place), **_OUTLIER_NAME | where)
        least = place + _NAME_ROOM * highest
    if len(known):
        ax.set_xscale("log")
    ax.set_ylim(0, highest)
    ax.margins(x=0.12)
    ax.set_xlabel("Run time (s)")
    ax.set_ylabel("I/O time of the slowest process\n(% of the run time)")
    n_left_out = len(fleet) - len(known)
    ax.set_title("Part of I/O" + (f" ({n_left_out} unknown)" if n_left_out else ""))
    handles = [Line2D([], [], color="#4477AA", marker="o", ls="", label="job")]
    if is_lower.any():
        label = "at least (records lost)"
        mark = {"color": "#4477AA", "marker": "^", "markerfacecolor": "none"}
        handles.append(Line2D([], [], ls="", label=label, **mark))
    if is_outlier.any():
        mark = {"color": "#882255", "marker": "D", "ls": ""}
        handles.append(Line2D([], [], label="outlier", **mark))
    ax.legend(handles=handles, loc="upper right", fontsize=8, frameon=True)


def _across(ax: Axes) -> None:
    """Draw the grid of horizontal bars."""
    ax.grid(axis="y", visible=False)
    ax.grid(axis="x", visible=True)


def _notes(fleet: pd.DataFrame, provenance: Origin) -> list[str]:
    """Return the notes below the figure."""
    notes = bound_notes(fleet["times_are"], provenance)
    notes.append(
        "A job costs the I/O time of its slowest process times its nodes, as all "
        "others wait for it. Savings by the paper's rule; no model: logs do not "
        "determine the devices."
    )
    if fleet["hours_of"].nunique() > 1:
        notes.append("* Hours of processes: the log does not tell the nodes.")
    elif fleet["hours_of"].eq("processes").any():
        notes.append("Hours of processes: the logs do not tell the nodes.")
    return notes
