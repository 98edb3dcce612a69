"""Draw the breakdown of the slowest process, the paper's Fig. 2."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tierscope.analysis.breakdown import (
    io_time_spread,
    select_epoch,
    sums_of_classes,
)
from tierscope.analysis.whatif import best_point
from tierscope.core.columns import SCENARIO
from tierscope.core.io_class import NET_READ
from tierscope.core.sources import Origin
from tierscope.core.words import (
    epoch_words,
    in_seconds,
    scenario_titles,
)
from tierscope.figures.style import (
    EDGE,
    SLOWEST_LABEL,
    class_handles,
    draw_error_bars,
    mark_flagged,
    new_figure,
    over_repetitions,
    panels,
    set_cache_rate_axis,
    source_notes,
    spread_handles,
    stack_classes,
    styled,
    titled,
)

_TOTAL = {"color": "#222222", "marker": "o", "markersize": 4, "linewidth": 1.2}


@styled
def plot_breakdown(
    breakdown: pd.DataFrame,
    spread: pd.DataFrame,
    epoch: int,
    *,
    provenance: Origin,
    dataset_titles: Mapping[str, str] | None = None,
) -> Figure:
    """Draw the breakdown of the slowest process over the cache rate (Fig. 2).

    Parameters
    ----------
    breakdown, spread : DataFrame
        Tables ``breakdown`` and ``spread`` of the scenarios to draw, a panel each in
        the order of the rows of ``breakdown``.
    epoch : int
        The epoch to draw, counted from 0.
    provenance, dataset_titles
        As for `plot_times`.

    Returns
    -------
    Figure
        Bars at their true cache rate, stacked by I/O class; the line is their sum
        and the dotted line marks the cache rate with the least I/O time. With
        repetitions these are means, error bars go from the least to the largest sum
        and rings mark a spread above the limit. Each panel has its own y range.
    """
    breakdown = select_epoch(breakdown, epoch)
    scenarios = scenario_titles(breakdown, dataset_titles)
    title = f"I/O time of the slowest process by class, {epoch_words(epoch)}"
    spread = io_time_spread(spread, epoch).merge(scenarios[SCENARIO], on=SCENARIO)
    notes = source_notes(provenance, spread, scenarios)
    figure, axes = new_figure(
        len(scenarios), titled(title, breakdown, provenance), notes
    )
    for ax, (title, panel) in zip(axes, panels(breakdown, scenarios), strict=True):
        stack_classes(ax, panel)
        sums = sums_of_classes(panel)
        means_s, _, _ = over_repetitions(sums, "io_time_s")
        ax.plot(means_s.index, means_s, **EDGE | _TOTAL)
        draw_error_bars(ax, sums)
        mark_flagged(ax, spread.merge(panel[SCENARIO].drop_duplicates(), on=SCENARIO))
        set_cache_rate_axis(ax, breakdown["cache_rate_percent"])
        ax.set_ylim(top=1.2 * sums["io_time_s"].max() or 1)
        _mark_best(ax, best_point(sums).iloc[0])
        ax.set(title=title, ylabel=SLOWEST_LABEL)
    has_peers = breakdown["io_class"].eq(NET_READ).any()
    label = "sum of the five" if has_peers else "sum of the four"
    total = Line2D([], [], **_TOTAL, label=label)
    classes = class_handles(has_peers)
    figure.legend(
        handles=[total, *classes, *spread_handles(spread, bars=True)],
        loc="outside right center",
    )
    return figure


def _mark_best(ax: Axes, best: pd.Series) -> None:
    """Mark the best cache rate with a dotted line up to its numbers at the top."""
    rate = best["cache_rate_percent"]
    left, right = ax.get_xlim()
    side = np.searchsorted([0.2, 0.8], (rate - left) / (right - left))
    top_s = 0.9 * ax.get_ylim()[1]
    ax.vlines(rate, best["io_time_s"], top_s, color="#222222", lw=1, ls=":")
    ax.annotate(
        f"best: {rate} %, {in_seconds(best['io_time_s'])}",
        (rate, 0.915),
        xycoords=("data", "axes fraction"),
        ha=["left", "center", "right"][side],
        va="bottom",
        fontsize=9.5,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
    )
