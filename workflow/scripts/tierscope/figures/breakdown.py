"""Draw the breakdown of the slowest process, the paper's Fig. 2."""

import textwrap
from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tierscope.analysis.breakdown import (
    io_time_spread,
    select_epoch,
    shown_epoch,
    sums_of_classes,
)
from tierscope.analysis.intervals import BEST_METHOD, BestRates, best_rates
from tierscope.analysis.training.limit import limit_notes
from tierscope.core.columns import SCENARIO, TOGETHER
from tierscope.core.io_class import NET_READ
from tierscope.core.output.declared import Declared
from tierscope.core.provenance import Origin
from tierscope.core.words import (
    in_seconds,
    scenario_titles,
)
from tierscope.figures.given_runs import Given
from tierscope.figures.style import (
    EDGE,
    MODEL_HATCH,
    SLOWEST_LABEL,
    TOGETHER_COLOUR,
    class_handles,
    draw_error_bars,
    draw_legend,
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
    undecided,
)

FIGURE = Declared(
    file="fig2_breakdown",
    title="Figure 2: breakdown of the slowest process",
    tables=("breakdown", "spread", "limits"),
    inputs=("stalls_of_training",),
    settings=("epoch", "scenarios"),
    target="fig2",
)

_REASON_WIDTH = 44  # characters
_ROOM = 1.36  # height of a panel over the longest time, with room for three lines
_DOTS_END = 0.8  # of that height
_BEST = {
    "color": "#222222",
    "marker": "D",
    "markersize": 7,
    "markeredgecolor": "white",
    "ls": "",
}
_BEST_LOOKS = {
    "best cache rate": {},
    "best, undecided: these\nrates cannot be told\nfrom the best": {
        "markerfacecolor": "white",
        "markeredgecolor": "#222222",
        "markeredgewidth": 1.6,
    },
}
_STALLS = Patch(facecolor="#777777", **MODEL_HATCH, label="stall of the class\n(model)")
_TOGETHER = Patch(
    facecolor=TOGETHER_COLOUR,
    **MODEL_HATCH,
    label="stall of several classes\ntogether (model)",
)
_TOTAL = {"color": "#222222", "marker": "o", "markersize": 4, "linewidth": 1.2}


def draw(given: Given) -> Figure:
    """Draw the breakdown of all scenarios in the figures' epoch."""
    breakdown = given.drawn("breakdown")
    return plot_breakdown(
        breakdown,
        given.table("spread"),
        shown_epoch(breakdown, given.settings.epoch),
        limits=given.table("limits"),
        stalls=given.table("class_stalls", "stalls_of_training"),
        **given.words,
    )


@styled
def plot_breakdown(
    breakdown: pd.DataFrame,
    spread: pd.DataFrame,
    epoch: int,
    *,
    provenance: Origin,
    limits: pd.DataFrame,
    dataset_titles: Mapping[str, str] | None = None,
    stalls: pd.DataFrame | None = None,
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
    limits : DataFrame
        Table ``limits`` of the epoch.
    stalls : DataFrame, optional
        Table ``class_stalls`` of the epoch, if the training computes and a model tells
        the stall.

    Returns
    -------
    Figure
        Bars at their true cache rate, stacked by I/O class; the line is their sum
        and a dotted line marks the cache rate with the least I/O time. Diamonds mark
        the rates that cannot be told from it; all are hollow unless it is the only one
        and was repeated. Where a training computes, hatched bars beside them are the
        stall by class, and on top what goes only with several classes together. With
        repetitions these are means, error bars are their intervals and rings mark a
        spread above the limit. Each panel has its own y range.
    """
    breakdown = select_epoch(breakdown, epoch)
    scenarios = scenario_titles(breakdown, dataset_titles)
    title = f"I/O time of the slowest process by class, {provenance.epoch_words(epoch)}"
    spread = io_time_spread(spread, epoch).merge(scenarios[SCENARIO], on=SCENARIO)
    notes = [*source_notes(provenance, spread, scenarios), f"{BEST_METHOD}."]
    notes += limit_notes(limits, scenarios)
    title = titled(title, breakdown, provenance)
    height = 3.5 if stalls is None else 4.0  # room for both bars
    figure, axes = new_figure(len(scenarios), title, notes, row_height=height)
    found = []
    for ax, (title, panel) in zip(axes, panels(breakdown, scenarios), strict=True):
        top_s = _draw_classes(ax, panel, stalls)
        sums = sums_of_classes(panel)
        means_s, _, _ = over_repetitions(sums, "io_time_s")
        ax.plot(means_s.index, means_s, **EDGE | _TOTAL)
        draw_error_bars(ax, sums)
        of_panel = spread.merge(panel[SCENARIO].drop_duplicates(), on=SCENARIO)
        mark_flagged(ax, of_panel, provenance)
        set_cache_rate_axis(ax, breakdown["cache_rate_percent"], provenance)
        ax.set_ylim(top=_ROOM * max(sums["io_time_s"].max(), top_s) or 1)
        found.append(best_rates(sums))
        _mark_best(ax, found[-1], means_s)
        ax.set(title=title, ylabel=SLOWEST_LABEL)
    has_peers = breakdown["io_class"].eq(NET_READ).any()
    label = "sum of the five" if has_peers else "sum of the four"
    total = Line2D([], [], **_TOTAL, label=label)
    marks = [
        Line2D([], [], **_BEST | look, label=words)
        for words, look in _BEST_LOOKS.items()
        if any((look == {}) == best.is_decided for best in found)
    ]
    classes = class_handles(has_peers)
    draw_legend(
        figure,
        [
            total,
            *classes,
            *_stall_handles(stalls),
            *marks,
            *spread_handles(spread, provenance, bars=True, band=False),
        ],
    )
    return figure


def _draw_classes(ax: Axes, panel: pd.DataFrame, stalls: pd.DataFrame | None) -> float:
    """Draw I/O time by class, beside it stalls if known; return the longest stall."""
    if stalls is None:
        stack_classes(ax, panel)
        return 0.0
    stack_classes(ax, panel, place=-0.25, width=0.5)
    stalls = stalls.merge(panel[SCENARIO].drop_duplicates(), on=SCENARIO)
    stalls = stalls.rename(columns={"part": "io_class", "stall_s": "time_s"})
    if stalls.empty:
        return 0.0
    stack_classes(ax, stalls, place=0.25, width=0.5, **MODEL_HATCH)
    return stalls.groupby("cache_rate_percent")["time_s"].sum().max()


def _stall_handles(stalls: pd.DataFrame | None) -> list[Patch]:
    """Return the legend entries of the stall by the model, top of the stack first."""
    if stalls is None:
        return []
    together_s = stalls.loc[stalls["part"] == TOGETHER, "stall_s"]
    return [_TOGETHER, _STALLS] if together_s.any() else [_STALLS]


def _mark_best(ax: Axes, best: BestRates, means_s: pd.Series) -> None:
    """Mark the best cache rates, the best with a dotted line up to its numbers."""
    rates = list(best.rates)
    ax.plot(rates, means_s[rates], **undecided(_BEST, best), zorder=5)
    top_s = _DOTS_END * ax.get_ylim()[1]
    ax.vlines(best.best, best.time_s, top_s, color="#222222", lw=1, ls=":")
    reason = f"({best.reason})".replace(
        "n = ", "n\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"
    )
    ax.annotate(
        f"best: {best.words}, {in_seconds(best.time_s)}\n"
        + textwrap.fill(reason, _REASON_WIDTH),
        (0.5, 0.99),
        xycoords="axes fraction",
        ha="center",
        va="top",
        fontsize=8.5,
        linespacing=1.15,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
    )
