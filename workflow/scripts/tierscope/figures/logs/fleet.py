"""Draw what many jobs spend on I/O, and what a faster metadata server would save."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from tierscope.analysis.logs.asking import JobTables
from tierscope.analysis.logs.questions import (
    Parts,
    classes_of_jobs,
    largest_savings,
    most_costly,
    parts_of_io,
    totals,
)
from tierscope.core.columns import JOB_CLASS, LOWER_BOUNDS
from tierscope.core.output.declared import Declared
from tierscope.core.provenance import Origin
from tierscope.core.words import bounds_words, count_words, printable, shortened
from tierscope.figures.given import Given
from tierscope.figures.logs.classes import (
    UNSURE,
    Palette,
    bound_notes,
    class_patches,
    classes_of,
    unsure_patch,
    visible,
)
from tierscope.figures.style import styled, write_around

FIGURE = Declared(
    file="fleet",
    title="All jobs side by side",
    tables=("fleet", "fleet_classes", "tier_prefixes"),
    of="logs",
)

MOST_JOBS = 20  # that are drawn, the most costly first
_NAME_LETTERS = 26
_MOST_OUTLIERS = 6  # with a name
_MOST_DIAMONDS = 100  # outliers among many jobs
_CELLS = ListedColormap(colormaps["Blues"](np.linspace(0.3, 1, 256)))  # one is seen
_UNEVEN = 30  # times the median: shorter bars would not be seen
_ROUNDING = 1e-6
_WORDS_LETTERS, _USER_LETTERS = 44, 30
_COST = "I/O of the slowest process x size of the job"
_NAME_ROOM = 0.07  # height of a name over that of the panel
_LETTER_ROOM = 0.02  # width of a letter over that of the panel
_MOST_PERCENT = 150  # of the run time: jobs above are drawn at this end of the axis
# Hours in words, by the shortest time that has the unit, in hours.
_UNITS = {1: (1, "h", "hours"), 1 / 60: (60, "min", "minutes")}
_SECONDS = (3600, "s", "seconds")
_NO_JOBS = "No log could be used, so there is nothing to draw."
_NO_HOURS = "No job has I/O time that is certain, so there is nothing to draw."
_SAVING = {"color": "#117733", "height": 0.7}
_POINTS = {"color": "#4477AA", "alpha": 0.6, "s": 22, "linewidths": 0}
_OUTLIER = {"color": "#882255", "s": 42, "marker": "D", "edgecolors": "white"}
_LOWER = {"color": "#4477AA", "s": 26, "marker": "^", "facecolors": "none"}
_ABOVE = {"color": "#222222", "marker": "^", "ls": "", "ms": 6}
_ARROW = {"color": "#222222", "marker": ">", "ls": "", "ms": 6}
_OUTLIER_NAME = {
    "fontsize": 8,
    "bbox": {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.6},
}
_NAME = {"fontsize": 8, "textcoords": "offset points", "va": "center"}
_HOURS = {"color": "#888888", "height": 0.75}


def draw(given: Given) -> Figure:
    """Draw all jobs side by side."""
    return plot_fleet(**of_fleet(given))


def of_fleet(given: Given) -> dict[str, Any]:
    """Return the tables of all jobs, where they come from, and all tiers."""
    names = ("fleet", "fleet_classes")
    return {
        "tables": JobTables({name: given.inputs[name] for name in names}),
        "provenance": given.origin,
        "tiers": list(given.table("tier_prefixes")["tier"].unique()),
    }


@styled
def plot_fleet(
    tables: JobTables,
    *,
    provenance: Origin,
    tiers: Sequence[str] | None = None,
) -> Figure:
    """Draw the I/O of many jobs.

    Parameters
    ----------
    tables : JobTables
        With tables ``fleet`` and ``fleet_classes``.
    provenance : Origin
        Where the numbers come from.
    tiers : sequence of str, optional
        All tiers of the analysis, for their colours; default: those that are drawn.

    Returns
    -------
    Figure
        Left: hours of the most costly jobs by class, stacked up to what is certain. If
        they differ too much to be seen, the hours have a logarithmic axis, and the
        classes are percent of each job's own beside it.
        Upper right: what a metadata server twice as fast would save, from the least to
        the most. Lower right: each job's part of I/O over its run time; outliers have
        a name if there is room. Where many jobs would be on each other, colours say how
        many there are.
        Only a sentence if there is nothing to draw.
    """
    known, jobs = totals(tables), most_costly(tables, MOST_JOBS)
    jobs = jobs[jobs["io_hours"] > 0]
    rows = classes_of_jobs(tables, jobs["job"].tolist())
    palette = Palette(tiers or list(dict.fromkeys(rows["tier"])))
    figure = Figure(figsize=(13.6, 8.4), layout="constrained")
    n_jobs = known["n_jobs"]
    title = f"I/O of {count_words(n_jobs, 'job')} (Darshan logs)"
    write_around(figure, title, _notes(known, provenance))
    if jobs.empty:
        figure.set_size_inches(13.6, 2.4)
        words = _NO_HOURS if n_jobs else _NO_JOBS
        figure.text(0.5, 0.55, words, ha="center", va="center", fontsize=12)
        return figure
    rooms = {"width_ratios": (0.5, 0.65, 1), "height_ratios": (1, 1, 0.36)}
    grid = figure.add_gridspec(3, 3, **rooms)
    hours = hours_words(known["kinds"])
    is_uneven = jobs["io_hours"].max() > _UNEVEN * jobs["io_hours"].median()
    costly = figure.add_subplot(grid[:2, 1 if is_uneven else slice(0, 2)])
    saved, parts = (figure.add_subplot(grid[place, 2]) for place in (0, 1))
    if is_uneven:
        names = figure.add_subplot(grid[:2, 0])
        _draw_hours(names, jobs, hours)
    handles = _draw_classes(costly, jobs, rows, palette, hours, is_uneven=is_uneven)
    (names if is_uneven else costly).set_title(
        "All jobs"
        if len(jobs) == n_jobs
        else "The most costly job"
        if len(jobs) == 1
        else f"The {len(jobs)} most costly jobs"
    )
    _draw_savings(saved, largest_savings(tables, MOST_JOBS // 2), hours)
    of_parts = _draw_parts(parts, parts_of_io(tables, _MOST_PERCENT, _MOST_DIAMONDS))
    for place, entries, n in ((slice(0, 2), handles, 3), (2, of_parts, 2)):
        room = figure.add_subplot(grid[2, place])
        room.axis("off")
        legend = room.legend(handles=entries, loc="upper left", fontsize=8, ncols=n)
        legend.set_in_layout(False)  # its room is the panel's
    return figure


def hours_words(kinds: Collection[str]) -> str:
    """Return what hours are counted: ``node-hours``, ``process-hours``, or both.

    `kinds` are the distinct values of ``hours_of``.
    """
    words = {"nodes": "node-hours", "processes": "process-hours"}
    found = [words[kind] for kind in words if kind in kinds]
    return " or ".join(found) or words["nodes"]


def cost_words(least_hours: float, most_hours: float, hours: str = "") -> str:
    """Return bounds of hours in words, in minutes or seconds if they are few.

    Parameters
    ----------
    least_hours, most_hours : float
        The bounds; without an upper bound, `most_hours` is missing (NaN).
    hours : str, optional
        What `hours_words` returns, for ``1.20 node-minutes``; without it ``1.20 min``.
    """
    per_hour, short, unit = hours_unit(float(np.fmax(least_hours, most_hours)))
    unit = hours.replace("hours", unit) if hours else short
    return bounds_words(per_hour * least_hours, per_hour * most_hours, unit)


def hours_unit(hours: float) -> tuple[int, str, str]:
    """Return in which unit to show so many hours: how many an hour has, and names."""
    fitting = [_UNITS[least] for least in _UNITS if hours >= least or hours == 0]
    return (fitting or [_SECONDS])[0]


def job_label(row: pd.Series) -> str:
    """Return the name of a job on the figure, marked if its hours are of processes."""
    name = shortened(printable(row["job"]), _NAME_LETTERS)
    return f"{name} *" if row["is_marked"] else name


def _draw_classes(
    ax: Axes,
    jobs: pd.DataFrame,
    rows: pd.DataFrame,
    palette: Palette,
    hours: str,
    *,
    is_uneven: bool,
) -> list[Patch]:
    """Draw what jobs cost by class, in percent if uneven; return legend entries."""
    wide = rows.pivot_table(
        index="job",
        columns=JOB_CLASS,
        values="least_hours",
        aggfunc="sum",
        fill_value=0,
    ).reindex(jobs["job"], fill_value=0)
    certain = np.maximum(wide.sum(axis="columns").to_numpy(), jobs["io_hours"])
    per_hour, _, unit = hours_unit(certain.max())
    scale = 100 / certain.to_numpy() if is_uneven else np.full(len(jobs), per_hour)
    wide, end = wide.mul(scale, axis="index"), (certain * scale).to_numpy()
    at, left = np.arange(len(jobs)), np.zeros(len(jobs))
    classes = [one for one in classes_of(rows) if one in wide.columns]
    for one in classes:
        ax.barh(at, wide[one], 0.75, left=left, **palette.look(*one))
        left = left + wide[one].to_numpy()
    unsure = end - left > _ROUNDING * end  # certain, but of no certain class
    ax.barh(at[unsure], (end - left)[unsure], 0.75, left=left[unsure], **UNSURE)
    users = [f"({row['user']}: {row['exe']})" for _, row in jobs.iterrows()]
    if is_uneven:
        _write_behind(ax, users, end, _USER_LETTERS)
        _name_bars(ax, [""] * len(jobs))
        ax.set_xlim(0, 240)
        ax.set_xticks([0, 50, 100])
        ax.set_xlabel(f"% of the job's {hours}", loc="left")
        ax.set_title("By class", loc="left")
    else:
        both = map(" ".join, zip(_costs(jobs), users, strict=True))
        _write_behind(ax, list(both), end, _WORDS_LETTERS)
        _name_bars(ax, [job_label(row) for _, row in jobs.iterrows()])
        ax.set_xlim(0, 1.45 * end.max())
        ax.set_xlabel(f"{_COST} ({hours.replace('hours', unit)})")
    widest = {one: wide[one].max() for one in classes}
    handles = class_patches(visible(widest, end.max()), palette)[::-1]
    return [*handles, unsure_patch()] if unsure.any() else handles


def _draw_hours(ax: Axes, jobs: pd.DataFrame, hours: str) -> None:
    """Draw the hours of each job on a logarithmic axis."""
    certain = jobs["io_hours"]
    ax.barh(range(len(jobs)), certain, **_HOURS)
    _write_behind(ax, _costs(jobs), certain, _USER_LETTERS)
    _name_bars(ax, [job_label(row) for _, row in jobs.iterrows()])
    ax.set_xscale("log")
    first = 0.3 * certain.min()
    ax.set_xlim(first, certain.max() * (certain.max() / first) ** 0.6)
    ax.set_xlabel(_COST.replace(" x ", "\nx ") + f" ({hours})")


def _costs(jobs: pd.DataFrame) -> list[str]:
    """Return what each job costs, in words."""
    return [
        cost_words(*ends)
        for ends in zip(jobs["io_hours"], jobs["most_hours"], strict=True)
    ]


def _write_behind(
    ax: Axes, words: Sequence[str], end: Sequence[float], most_letters: int
) -> None:
    """Write words behind the bars."""
    for place, (text, of_bar) in enumerate(zip(words, end, strict=True)):
        short = shortened(printable(text), most_letters)
        ax.annotate(short, (of_bar, place), (4, 0), **_NAME)


def _name_bars(ax: Axes, names: Sequence[str]) -> None:
    """Write names before the bars of a panel, the first at the top."""
    ax.set_yticks(range(len(names)), names, fontsize=8.5)
    ax.set_ylim(len(names) - 0.4 if names else 1, -0.6)
    _across(ax)


def _draw_savings(ax: Axes, jobs: pd.DataFrame, hours: str) -> None:
    """Draw what a metadata server twice as fast would save, at least and at most."""
    longest = jobs["saved_hours"].max() if len(jobs) else 0.0
    per_hour, _, unit = hours_unit(longest)
    end, at = per_hour * jobs["saved_hours"], np.arange(len(jobs))
    least = per_hour * jobs["meta_saved_least_hours"]
    ax.barh(at, least, **_SAVING)
    unsure = (end > least).to_numpy()
    if unsure.any():
        more = (end - least)[unsure]
        ax.barh(at[unsure], more, 0.7, left=least[unsure], **UNSURE)
    for place, row in jobs.iterrows():
        most = row["meta_saved_most_hours"]
        if np.isnan(most):
            ax.plot(end[place] + 0.02 * end.max(), place, **_ARROW)
        words = cost_words(row["meta_saved_least_hours"], most)
        offset = 12 if np.isnan(most) else 4
        ax.annotate(words, (end[place], place), (offset, 0), **_NAME)
    _name_bars(ax, [job_label(row) for _, row in jobs.iterrows()])
    ax.set_xlim(0, 1.4 * max([1e-12, *end]))
    ax.set_xlabel(f"Saved ({hours.replace('hours', unit)})")
    ax.set_title("Metadata servers twice as fast\nwould save (by the rule)")


def _draw_parts(ax: Axes, parts: Parts) -> list[Line2D]:
    """Draw each job's part of I/O over its run time; return the legend's entries."""
    known = parts.points
    is_outlier = known["outlier"].ne("")
    is_lower = known["times_are"].eq(LOWER_BOUNDS) & ~is_outlier
    outliers = known[is_outlier]
    handles = []
    if len(parts.cells):
        _draw_cells(ax, parts.cells)
    else:
        usual = known[~is_outlier & ~is_lower]
        ax.scatter("run_time_s", "percent", data=usual, **_POINTS)
        ax.scatter("run_time_s", "percent", data=known[is_lower], **_LOWER)
        handles = [Line2D([], [], color="#4477AA", marker="o", ls="", label="job")]
    ax.scatter("run_time_s", "percent", data=outliers, **_OUTLIER)
    if is_lower.any():
        label = "at least (a log lacks some)"
        mark = {"color": "#4477AA", "marker": "^", "markerfacecolor": "none"}
        handles.append(Line2D([], [], ls="", label=label, **mark))
    if is_outlier.any():
        mark = {"color": "#882255", "marker": "D", "ls": ""}
        handles.append(Line2D([], [], label="outlier", **mark))
    above = known[known["io_least_percent"] > _MOST_PERCENT]
    if len(above):
        at_end = above["percent"] + 0.06 * _MOST_PERCENT
        label = f"above the axis: up to {parts.largest_percent:,.0f} %"
        handles += ax.plot(above["run_time_s"], at_end, **_ABOVE, label=label)
    if len(known) or len(parts.cells):
        ax.set_xscale("log")
    ax.margins(x=0.12)
    ax.set_ylim(0, 1.12 * max([1, *known["percent"], *parts.cells["to_percent"]]))
    _name_outliers(ax, outliers)
    ax.set_xlabel("Run time (s)")
    ax.set_ylabel("I/O time of the slowest process\n(% of the run time)")
    n = parts.n_unknown
    ax.set_title("Part of I/O" + (f" ({n:,} unknown)" if n else ""))
    return handles


def _draw_cells(ax: Axes, cells: pd.DataFrame) -> None:
    """Draw how many jobs are in each cell, darker where there are more."""
    boxes = [
        Rectangle((left, low), right - left, high - low)
        for left, right, low, high in zip(
            cells["run_time_s"],
            cells["to_s"],
            cells["percent"],
            cells["to_percent"],
            strict=True,
        )
    ]
    drawn = PatchCollection(boxes, cmap=_CELLS, norm=LogNorm(1, cells["n_jobs"].max()))
    drawn.set_array(cells["n_jobs"])
    ax.add_collection(drawn)
    ax.figure.colorbar(drawn, ax=ax, label="Jobs", pad=0.01, aspect=30)


def _name_outliers(ax: Axes, outliers: pd.DataFrame) -> None:
    """Write names beside the first outliers, as far as no two are on each other."""
    to_panel = ax.transData + ax.transAxes.inverted()
    boxes: list[tuple[float, float, float]] = []  # left, right and height
    for _, row in outliers.iterrows():
        words = shortened(printable(row["job"]), _NAME_LETTERS)
        point = (row["run_time_s"], row["percent"])
        x, y = to_panel.transform(point)
        is_left = x > 0.5  # of its point
        width = _LETTER_ROOM * len(words)
        left = x - width if is_left else x
        if any(
            left < right and other < left + width and abs(y - height) < _NAME_ROOM
            for other, right, height in boxes
        ):
            continue
        boxes.append((left, left + width, y))
        side = {"xytext": (-6 if is_left else 6, 3), "textcoords": "offset points"}
        side["ha"] = "right" if is_left else "left"
        ax.annotate(words, point, **_OUTLIER_NAME | side)
        if len(boxes) == _MOST_OUTLIERS:
            return


def _across(ax: Axes) -> None:
    """Draw the grid of horizontal bars."""
    ax.grid(axis="y", visible=False)
    ax.grid(axis="x", visible=True)


def _notes(known: Mapping[str, Any], provenance: Origin) -> list[str]:
    """Return the notes below the figure, of what `totals` says."""
    notes = bound_notes(known["times_are"], provenance)
    notes.append(
        "A job costs the I/O time of its slowest process times its nodes, as all "
        "others wait for it. Savings by the paper's rule; no model: logs do not "
        "determine the devices."
    )
    if len(known["kinds"]) > 1:
        notes.append("* Hours of processes: the log does not tell the nodes.")
    elif "processes" in known["kinds"]:
        notes.append("Hours of processes: the logs do not tell the nodes.")
    return notes
