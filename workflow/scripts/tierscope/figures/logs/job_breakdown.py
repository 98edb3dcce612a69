"""Draw the I/O time of a job's slowest process by class."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tierscope.core.columns import JOB_CLASS
from tierscope.core.provenance import Origin
from tierscope.core.words import bounds_words, printable, shortened
from tierscope.figures.logs.classes import (
    BOUND,
    UNSURE,
    Palette,
    bound_notes,
    class_patches,
    classes_of,
    counted,
    label,
    mpi_io_note,
    unsure_patch,
    visible,
)
from tierscope.figures.logs.processes import has_epochs, whole_job
from tierscope.figures.style import SLOWEST_LABEL, draw_legend, new_figure, styled

TITLE_LETTERS = 60
_TEXT_ROOM = 1.55  # width of the right panel over the longest bar, with room for words
_UNKNOWN_END = {"color": "#222222", "marker": "^", "ls": "", "ms": 8}
_MOST_TICKS = 24
# Units of the axis of classes. One is used from a tenth of it on, so labels are short.
_SECONDS = {"s": 1, "ms": 1e-3, "\N{MICRO SIGN}s": 1e-6}
_HEIGHT_OF_CLASS = 0.34  # inches


@styled
def plot_job_breakdown(
    breakdown: pd.DataFrame,
    slowest: pd.DataFrame,
    job: str,
    *,
    provenance: Origin,
    tiers: Sequence[str] | None = None,
) -> Figure:
    """Draw what the slowest process of a job waits for.

    Parameters
    ----------
    breakdown, slowest : DataFrame
        Tables ``job_breakdown`` and ``job_slowest`` of any jobs.
    job : str
        The job to draw.
    provenance : Origin
        Where the numbers come from.
    tiers : sequence of str, optional
        All tiers of the analysis, for their colours; default: those of the job.

    Returns
    -------
    Figure
        Left: a bar for each epoch, or for the job if it has none, stacked by class up
        to what is certain of each; what lies between the sum and the upper bound of the
        process is dotted, and the error bar has the bounds of its time. Right: the
        bounds of each class in the whole job. An arrow marks a time without upper
        bound.
    """
    breakdown = breakdown[breakdown["job"] == job]
    slowest = slowest[slowest["job"] == job].sort_values("epoch")
    palette = Palette(tiers or list(dict.fromkeys(breakdown["tier"])))
    name = shortened(printable(job), TITLE_LETTERS)
    title = f"I/O time of the slowest process by class: {name} (Darshan logs)"
    notes = bound_notes(slowest["times_are"], provenance) + mpi_io_note(breakdown)
    rows = counted(breakdown)
    classes = classes_of(rows)
    height = max(4.0, _HEIGHT_OF_CLASS * len(classes))
    figure, (left, right) = new_figure(2, title, notes, row_height=height)
    by_epoch = has_epochs(slowest)
    shown = slowest[slowest["epoch"] >= 0] if by_epoch else slowest
    is_unsure = _draw_stacks(left, rows, shown, classes, palette)
    left.set_title("Slowest process of each epoch" if by_epoch else "Whole job")
    is_unsure |= _draw_classes(right, whole_job(rows), palette)
    right.set_title("Each class, whole job")
    ends_s = rows[["least_s", "most_s"]].max(axis="columns")
    widest = ends_s.groupby([rows[name] for name in JOB_CLASS]).max()
    longest_s = slowest[["least_s", "most_s"]].max(axis=None)
    shown_classes = visible({one: widest[one] for one in classes}, longest_s)
    handles = class_patches(shown_classes, palette)
    handles += [unsure_patch()] if is_unsure else []
    if slowest["most_s"].isna().any():  # of the whole job, too
        handles.append(Line2D([], [], **_UNKNOWN_END, label="no upper bound"))
    draw_legend(figure, handles)
    return figure


def _draw_stacks(
    ax: Axes,
    rows: pd.DataFrame,
    slowest: pd.DataFrame,
    classes: Sequence[tuple],
    palette: Palette,
) -> bool:
    """Draw the stack of each epoch; return whether any is not exact."""
    epochs = slowest["epoch"].tolist()
    at = np.arange(len(epochs))
    width = 0.8 if len(epochs) > 1 else 0.35
    wide = rows.pivot_table(
        index="epoch", columns=JOB_CLASS, values="least_s", aggfunc="sum", fill_value=0
    ).reindex(epochs, fill_value=0)
    bottom_s = np.zeros(len(epochs))
    for one in classes:
        height_s = wide[one].to_numpy() if one in wide.columns else 0 * bottom_s
        ax.bar(at, height_s, width, bottom=bottom_s, **palette.look(*one))
        bottom_s = bottom_s + height_s
    least_s, most_s = (slowest[end].to_numpy() for end in ("least_s", "most_s"))
    top_s = np.fmax(least_s, most_s)
    unsure = ~np.isclose(top_s, bottom_s, rtol=1e-6, atol=0) & (top_s > bottom_s)
    ax.bar(at[unsure], (top_s - bottom_s)[unsure], width, bottom_s[unsure], **UNSURE)
    known = (most_s > least_s) & ~np.isclose(most_s, least_s, rtol=1e-9)
    if known.any():
        ends_s = [np.zeros(known.sum()), (most_s - least_s)[known]]
        ax.errorbar(at[known], least_s[known], ends_s, **BOUND)
    unknown = np.isnan(most_s)
    highest_s = max(top_s.max(initial=0), bottom_s.max(initial=0))
    ax.plot(at[unknown], top_s[unknown] + 0.04 * highest_s, **_UNKNOWN_END)
    ax.set_ylabel(SLOWEST_LABEL)
    ax.set_ylim(0, 1.1 * highest_s or 1)
    ax.set_xlim(-0.7, len(epochs) - 0.3)
    step = -(-len(epochs) // _MOST_TICKS)
    ax.set_xticks(at[::step], epochs[::step] if has_epochs(slowest) else [""])
    ax.set_xlabel("Epoch" if has_epochs(slowest) else "")
    return bool(unsure.any())


def _draw_classes(ax: Axes, rows: pd.DataFrame, palette: Palette) -> bool:
    """Draw the bounds of each class as a bar; return whether any is not exact."""
    classes = classes_of(rows)
    by_class = rows.groupby(JOB_CLASS)
    bounds = by_class[["least_s", "most_s"]].agg(lambda s: s.sum(skipna=False))
    least_s, most_s = bounds.reindex(classes).to_numpy().T if classes else ([], [])
    longest_s = max([1e-12, *np.fmax(least_s, most_s)])
    for place, (one, least, most) in enumerate(
        zip(classes, least_s, most_s, strict=True)
    ):
        ax.barh(place, least, 0.7, **palette.look(*one))
        end = least if np.isnan(most) else most
        if end > least:
            ax.barh(place, end - least, 0.7, left=least, **UNSURE)
        if np.isnan(most):
            mark = _UNKNOWN_END | {"marker": ">"}
            ax.plot(end + 0.03 * longest_s, place, **mark)
        room = 0.07 if np.isnan(most) else 0.02
        words = bounds_words(least, most)
        ax.text(end + room * longest_s, place, words, va="center", fontsize=8.5)
    ax.set_yticks(range(len(classes)), [label(*one) for one in classes], fontsize=8.5)
    ax.set_xlim(0, _TEXT_ROOM * longest_s)
    fitting = [name for name in _SECONDS if longest_s >= _SECONDS[name] / 10]
    unit = next(iter(fitting), "s")
    ax.xaxis.set_major_formatter(lambda time_s, _: f"{time_s / _SECONDS[unit]:g}")
    ax.set_xlabel(f"I/O time ({unit})")
    ax.grid(axis="y", visible=False)
    ax.grid(axis="x", visible=True)
    return bool((np.isnan(most_s) | (np.asarray(most_s) > least_s)).any())
