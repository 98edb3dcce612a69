"""Draw how the I/O time of a job spreads over its processes."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tierscope.core.columns import LOWER_BOUNDS
from tierscope.core.provenance import Origin
from tierscope.core.words import printable, shortened
from tierscope.figures.logs.classes import (
    UNSURE,
    Palette,
    bound_notes,
    class_patches,
    mpi_io_note,
    unsure_patch,
    visible,
)
from tierscope.figures.logs.job_breakdown import TITLE_LETTERS
from tierscope.figures.logs.processes import (
    WHOLE_JOB,
    class_times,
    median_bounds,
    ordered_bounds,
    times_in,
    with_io,
)
from tierscope.figures.style import draw_legend, new_figure, styled

MOST_BARS = 64  # processes that are drawn as bars; more are a curve
_MOST_TICKS = 32
_MOST_POINTS = 1000  # of a curve; more would be drawn on each other
_MOST_MARKS = 10  # processes that can be the slowest; more are said in words
_CURVE = {"color": "#222222", "lw": 1.4}
_BAND = {"color": "#0072B2", "alpha": 0.25, "lw": 0}
_CANDIDATE = {
    "color": "#882255",
    "marker": "v",
    "ls": "",
    "ms": 7,
    "markeredgecolor": "white",
    "markeredgewidth": 0.6,
}
_MEDIAN = {"color": "#444444", "ls": "--", "lw": 1}


@styled
def plot_job_processes(
    tables: Mapping[str, pd.DataFrame],
    job: str,
    epoch: int = WHOLE_JOB,
    *,
    provenance: Origin,
    tiers: Sequence[str] | None = None,
) -> Figure:
    """Draw the I/O time of each process of a job in an epoch, the longest first.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Tables ``job_processes``, ``job_times``, ``job_slowest`` and ``job_breakdown``
        of any jobs.
    job, epoch
        The job and the epoch to draw; by default the whole job.
    provenance, tiers
        As for `tierscope.figures.logs.job_breakdown.plot_job_breakdown`.

    Returns
    -------
    Figure
        Up to 64 processes are bars, stacked by class up to what is certain, with
        dots up to the upper bound. More are a curve: the least and the most of the
        longest time, of the second longest, and so on. Marks show which processes can
        be the slowest, or words how many can be.
    """
    processes, times, slowest, breakdown = (
        tables[name][tables[name]["job"] == job]
        for name in ("job_processes", "job_times", "job_slowest", "job_breakdown")
    )
    processes, times = with_io(processes, epoch), times_in(times, epoch)
    (times_are,) = slowest.loc[slowest["epoch"] == epoch, "times_are"]
    ordered = ordered_bounds(processes, breakdown[breakdown["epoch"] == epoch])
    palette = Palette(tiers or list(dict.fromkeys(times["tier"])))
    name = shortened(printable(job), TITLE_LETTERS)
    words = "whole job" if epoch == WHOLE_JOB else f"epoch {epoch}"
    title = f"I/O time of each process, {words}: {name} (Darshan logs)"
    notes = bound_notes([times_are], provenance) + mpi_io_note(times)
    figure, (ax,) = new_figure(1, title, notes, row_height=3.9)
    if len(processes) <= MOST_BARS:
        handles = _draw_bars(ax, times, processes, palette)
    else:
        handles = _draw_curve(ax, ordered)
    is_lost = times_are == LOWER_BOUNDS
    handles.append(_mark_slowest(ax, processes, is_lost))
    handles += _draw_median(ax, ordered)
    ends_s = processes[["least_s", "most_s"]].max().max()
    ax.set_ylim(0, 1.15 * ends_s if ends_s > 0 else 1)
    ax.set_ylabel("I/O time of a process (s)")
    draw_legend(figure, handles)
    return figure


def _draw_bars(
    ax: Axes, times: pd.DataFrame, processes: pd.DataFrame, palette: Palette
) -> list[Patch]:
    """Draw a stacked bar of each process; return the entries of the legend."""
    at, bottom_s = np.arange(len(processes)), np.zeros(len(processes))
    by_class = class_times(times, processes["rank"])
    for one, height_s in by_class.items():
        ax.bar(at, height_s, 0.85, bottom=bottom_s, **palette.look(*one))
        bottom_s = bottom_s + height_s
    more_s = (processes["most_s"] - bottom_s).fillna(0).clip(lower=0).to_numpy()
    unsure = more_s > 1e-9 * bottom_s
    ax.bar(at[unsure], more_s[unsure], 0.85, bottom_s[unsure], **UNSURE)
    step = -(-len(processes) // _MOST_TICKS)
    ax.set_xticks(at[::step], processes["rank"][::step])
    ax.tick_params(axis="x", labelsize=8)
    ax.set_xlabel("Rank of the process, longest I/O time first")
    ax.set_xlim(-0.7, len(processes) - 0.3)
    widest = {one: height_s.max() for one, height_s in by_class.items()}
    handles = class_patches(visible(widest, bottom_s.max()), palette)
    return [*handles, unsure_patch()] if unsure.any() else handles


def _draw_curve(ax: Axes, ordered: pd.DataFrame) -> list[Line2D | Patch]:
    """Draw a curve over the processes; return the entries of the legend."""
    n = len(ordered)
    drawn = ordered.iloc[_some(n, _MOST_POINTS)]
    is_exact = (ordered["least_s"] == ordered["most_s"]).all()
    label = "I/O time" if is_exact else "at least"
    handles = ax.plot(drawn.index + 1, drawn["least_s"], **_CURVE, label=label)
    if not is_exact and ordered["most_s"].notna().any():
        ends = drawn.index + 1, drawn["least_s"], drawn["most_s"]
        handles.append(ax.fill_between(*ends, **_BAND, label="up to the upper bound"))
    ax.set_xlabel(f"Processes ({n:,}), longest I/O time first")
    ax.set_xlim(-0.01 * n, 1.01 * n)
    return handles


def _some(n: int, most: int) -> np.ndarray:
    """Return so many of n positions, evenly spaced, with the first and the last."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(int))


def _mark_slowest(ax: Axes, processes: pd.DataFrame, is_lost: bool) -> Line2D:
    """Mark the processes that can be the slowest; return the entry of the legend."""
    can_be = processes["can_be_slowest"]
    label = "slowest process"
    if is_lost:  # any process can be
        can_be = processes["least_s"].eq(processes["least_s"].max())
        label += ",\nas far as is recorded"
    found = processes[can_be]
    if len(found) > 1 and not is_lost:
        label = f"any of {len(found):,} processes\ncan be the slowest"
    if len(found) > _MOST_MARKS:
        return Line2D([], [], ls="", label=label)
    first = 0 if len(processes) <= MOST_BARS else 1
    end_s = found["most_s"].fillna(found["least_s"])
    room_s = 0.04 * processes[["least_s", "most_s"]].max().max()
    (line,) = ax.plot(first + found.index, end_s + room_s, **_CANDIDATE, label=label)
    return line


def _draw_median(ax: Axes, ordered: pd.DataFrame) -> list[Line2D]:
    """Draw the least and the most of the median; return the entries of the legend."""
    least_s, most_s = median_bounds(ordered)
    if least_s == most_s:
        return [ax.axhline(least_s, **_MEDIAN, label="median")]
    lines = [ax.axhline(least_s, **_MEDIAN, label="median, at least")]
    if most_s > least_s:
        most = _MEDIAN | {"ls": ":"}
        lines.append(ax.axhline(most_s, **most, label="median, at most"))
    return lines
