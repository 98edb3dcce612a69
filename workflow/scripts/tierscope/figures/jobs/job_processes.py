"""Draw how the I/O time of a job spreads over its processes."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tierscope.core.columns import LOWER_BOUNDS
from tierscope.core.job_words import printable, shortened
from tierscope.core.sources import Origin
from tierscope.figures.jobs.classes import (
    UNSURE,
    Palette,
    bound_notes,
    class_patches,
    mpi_io_note,
    unsure_patch,
    visible,
)
from tierscope.figures.jobs.job_breakdown import TITLE_LETTERS
from tierscope.figures.jobs.processes import (
    WHOLE_JOB,
    class_times,
    process_totals,
    times_in,
)
from tierscope.figures.style import new_figure, styled

MOST_BARS = 64  # processes that are drawn as bars; more are a curve
_MOST_TICKS = 32
_MOST_POINTS, _MOST_MARKS = 1000, 40  # more would be drawn on each other
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
    times: pd.DataFrame,
    slowest: pd.DataFrame,
    job: str,
    epoch: int = WHOLE_JOB,
    *,
    provenance: Origin,
    tiers: Sequence[str] | None = None,
) -> Figure:
    """Draw the I/O time of each process of a job in an epoch, the longest first.

    Parameters
    ----------
    times, slowest : DataFrame
        Tables ``job_times`` and ``job_slowest`` of any jobs.
    job, epoch
        The job and the epoch to draw; by default the whole job.
    provenance, tiers
        As for `tierscope.figures.jobs.job_breakdown.plot_job_breakdown`.

    Returns
    -------
    Figure
        Up to 64 processes are bars, stacked by class up to what is certain, with
        dots up to the upper bound. More are a curve: the sorted lower bounds, and a
        band up to the sorted upper bounds, between which the sorted times are. Marks
        show which processes can be the slowest.
    """
    times = times_in(times[times["job"] == job], epoch)
    is_shown = slowest["job"].eq(job) & slowest["epoch"].eq(epoch)
    of_epoch = slowest[is_shown].iloc[0]
    totals = process_totals(times, of_epoch)
    palette = Palette(tiers or list(dict.fromkeys(times["tier"])))
    name = shortened(printable(job), TITLE_LETTERS)
    words = "whole job" if epoch == WHOLE_JOB else f"epoch {epoch}"
    title = f"I/O time of each process, {words}: {name} (Darshan logs)"
    notes = bound_notes([of_epoch["times_are"]], provenance) + mpi_io_note(times)
    figure, (ax,) = new_figure(1, title, notes, row_height=3.9)
    draw = _draw_bars if len(totals) <= MOST_BARS else _draw_curve
    handles = draw(ax, times, totals, palette)
    is_lost = of_epoch["times_are"] == LOWER_BOUNDS
    label = "slowest process" + (",\nas far as is recorded" if is_lost else "")
    handles += [_mark_candidates(ax, totals, label), _draw_median(ax, totals)]
    ends_s = totals[["least_s", "most_s"]].max().max()
    ax.set_ylim(0, 1.15 * ends_s if ends_s > 0 else 1)
    ax.set_ylabel("I/O time of a process (s)")
    figure.legend(handles=handles, loc="outside right center")
    return figure


def _draw_bars(
    ax: Axes, times: pd.DataFrame, totals: pd.DataFrame, palette: Palette
) -> list[Patch]:
    """Draw a stacked bar of each process; return the entries of the legend."""
    at, bottom_s = np.arange(len(totals)), np.zeros(len(totals))
    by_class = class_times(times, totals["rank"])
    for one, height_s in by_class.items():
        ax.bar(at, height_s, 0.85, bottom=bottom_s, **palette.look(*one))
        bottom_s = bottom_s + height_s
    more_s = (totals["most_s"] - bottom_s).fillna(0).clip(lower=0).to_numpy()
    unsure = more_s > 1e-9 * bottom_s
    ax.bar(at[unsure], more_s[unsure], 0.85, bottom_s[unsure], **UNSURE)
    step = -(-len(totals) // _MOST_TICKS)
    ax.set_xticks(at[::step], totals["rank"][::step])
    ax.tick_params(axis="x", labelsize=8)
    ax.set_xlabel("Rank of the process, longest I/O time first")
    ax.set_xlim(-0.7, len(totals) - 0.3)
    widest = {one: height_s.max() for one, height_s in by_class.items()}
    handles = class_patches(visible(widest, bottom_s.max()), palette)
    return [*handles, unsure_patch()] if unsure.any() else handles


def _draw_curve(
    ax: Axes, times: pd.DataFrame, totals: pd.DataFrame, palette: Palette
) -> list[Line2D | Patch]:
    """Draw a curve over the processes; return the entries of the legend."""
    at = np.arange(1, len(totals) + 1)
    ends = totals[["least_s", "most_s"]].to_numpy()
    least_s, most_s = -np.sort(-ends, axis=0).T  # each sorted, missing ones last
    drawn = _some(len(at), _MOST_POINTS)
    at, least_s, most_s = at[drawn], least_s[drawn], most_s[drawn]
    is_exact = bool((ends[:, 0] == ends[:, 1]).all())
    label = "I/O time" if is_exact else "at least"
    handles = ax.plot(at, least_s, **_CURVE, label=label)
    if not is_exact and not np.isnan(most_s).all():
        label = "up to the upper bound"
        handles.append(ax.fill_between(at, least_s, most_s, **_BAND, label=label))
    ax.set_xlabel(f"Processes ({len(totals):,}), longest I/O time first")
    ax.set_xlim(-0.01 * len(totals), 1.01 * len(totals))
    return handles


def _some(n: int, most: int) -> np.ndarray:
    """Return so many of n positions, evenly spaced, with the first and the last."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(int))


def _mark_candidates(ax: Axes, totals: pd.DataFrame, label: str) -> Line2D:
    """Mark the processes that can be the slowest; return the entry of the legend."""
    first = 0 if len(totals) <= MOST_BARS else 1
    found = totals[totals["is_candidate"]]
    n_found = len(found)
    found = found.iloc[_some(n_found, _MOST_MARKS)]
    end_s = found["most_s"].fillna(found["least_s"])
    room_s = 0.04 * totals[["least_s", "most_s"]].max().max()
    if n_found != 1:
        label = f"any of these {n_found:,} can\nbe the slowest process"
    (line,) = ax.plot(first + found.index, end_s + room_s, **_CANDIDATE, label=label)
    return line


def _draw_median(ax: Axes, totals: pd.DataFrame) -> Line2D:
    """Draw the median of the lower bounds; return the entry of the legend."""
    is_exact = (totals["least_s"] == totals["most_s"]).all()
    label = "median" if is_exact else "median of what\nis certain"
    return ax.axhline(totals["least_s"].median(), **_MEDIAN, label=label)
