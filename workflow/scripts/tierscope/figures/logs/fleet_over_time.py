"""Draw what jobs spend on I/O over the time: the hours of a day, week or month."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from tierscope.analysis.logs.asking import JobTables
from tierscope.analysis.logs.questions import Course, over_time, totals
from tierscope.core.columns import JOB_CLASS
from tierscope.core.output.declared import Declared
from tierscope.core.provenance import Origin
from tierscope.core.words import count_words
from tierscope.figures.given import Given
from tierscope.figures.logs.classes import (
    UNSURE,
    Palette,
    bound_notes,
    class_patches,
    in_class_order,
    unsure_patch,
    visible,
)
from tierscope.figures.logs.fleet import hours_unit, hours_words, of_fleet
from tierscope.figures.style import styled, write_around

FIGURE = Declared(
    file="fleet_over_time",
    title="All jobs over the time",
    tables=("fleet", "fleet_classes", "tier_prefixes"),
    of="logs",
)

_NOTHING = "Too few days, weeks or months have jobs for a figure."
_ROUNDING = 1e-6
_PART = 0.86  # of its time that a bar fills


def draw(given: Given) -> Figure:
    """Draw all jobs over the time."""
    return plot_fleet_over_time(**of_fleet(given))


@styled
def plot_fleet_over_time(
    tables: JobTables, *, provenance: Origin, tiers: Sequence[str] | None = None
) -> Figure:
    """Draw the hours of I/O of all jobs by when they began, stacked by class.

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
        A bar for each day, week or month. Bars are stacked up to what is certain. Only
        a sentence if a few bars would be all.
    """
    known, course = totals(tables), over_time(tables)
    figure = Figure(figsize=(13.6, 5.0), layout="constrained")
    notes = bound_notes(known["times_are"], provenance)
    title = f"I/O of {count_words(known['n_jobs'], 'job')} over the time (Darshan logs)"
    if course is None:
        write_around(figure, title, notes)
        figure.set_size_inches(13.6, 2.4)
        figure.text(0.5, 0.55, _NOTHING, ha="center", va="center", fontsize=12)
        return figure
    if course.n_outside:
        words = count_words(course.n_outside, "job is", "jobs are")
        notes.append(f"{words} long before or after all others, and left out.")
    write_around(figure, title, notes)
    hours = hours_words(known["kinds"])
    palette = Palette(tiers or list(dict.fromkeys(course.classes["tier"])))
    ax = figure.add_subplot()
    per_hour, _, unit = hours_unit(course.bars["least_hours"].max())
    handles = _draw_bars(ax, course, palette, per_hour)
    words = hours.replace("hours", unit).capitalize()
    ax.set_ylabel(f"{words} of I/O a {course.unit}")
    ax.set_xlabel(f"Begin of the job, by {course.unit} (UTC)")
    figure.legend(handles=handles, loc="outside right upper", fontsize=8.5)
    return figure


def _draw_bars(
    ax: Axes, course: Course, palette: Palette, per_hour: float
) -> list[Patch]:
    """Draw a stack for each bar of a course; return the entries of the legend."""
    bars = course.bars
    wide = course.classes.pivot_table(
        index="begin", columns=JOB_CLASS, values="least_hours", fill_value=0
    ).reindex(bars["begin"], fill_value=0)
    wide = wide.mul(per_hour)
    at = date2num(bars["begin"])
    width = _PART * np.diff(at, append=2 * at[-1] - at[-2])
    bottom = np.zeros(len(at))
    classes = in_class_order(one for one in wide.columns if wide[one].gt(0).any())
    for one in classes:
        look = palette.look(*one)
        ax.bar(at, wide[one], width, bottom, align="edge", **look)
        bottom = bottom + wide[one].to_numpy()
    certain = np.maximum(bottom, per_hour * bars["least_hours"].to_numpy())
    unsure = certain - bottom > _ROUNDING * certain  # certain, but of no certain class
    if unsure.any():
        more = (certain - bottom)[unsure]
        place = {"bottom": bottom[unsure], "align": "edge"}
        ax.bar(at[unsure], more, width[unsure], **place, **UNSURE)
    locator = AutoDateLocator()
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    ax.set_xlim(at[0] - width[0] * 0.2, at[-1] + width[-1] * 1.2)
    ax.set_ylim(0, 1.05 * certain.max())
    widest = {one: wide[one].max() for one in classes}
    handles = class_patches(visible(widest, certain.max()), palette)
    return [unsure_patch(), *handles] if unsure.any() else handles
