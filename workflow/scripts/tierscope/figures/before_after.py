"""Parts that the figures of a breakdown before and after an improvement share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import offset_copy

from tierscope.analysis.breakdown import io_time_spread, sums_of_classes
from tierscope.analysis.intervals import BestRates, best_rates
from tierscope.analysis.training.limit import advice_on
from tierscope.analysis.utilisation import best_utilised, goal_of, mean_utilisation
from tierscope.core.columns import IMPROVEMENTS, SCENARIO
from tierscope.core.provenance import Origin
from tierscope.core.words import (
    in_seconds,
)
from tierscope.figures.given_runs import Given
from tierscope.figures.style import (
    GOAL_LINE,
    SLOWEST_LABEL,
    class_handles,
    draw_error_bars,
    draw_legend,
    draw_mean,
    has_one_rate,
    named_in_sweep,
    new_figure,
    set_cache_rate_axis,
    source_notes,
    spread_handles,
    stack_classes,
    styled,
    titled,
    undecided,
    wrapped,
    write_first,
)

# Characters of a title that fit above a panel, of two or of three in a row.
PANEL_OF_TWO, PANEL_OF_THREE = 46, 36
_BEFORE = {
    "color": "#777777",
    "marker": "o",
    "markersize": 4,
    "markeredgewidth": 0,
    "linewidth": 1.5,
}
_AFTER = _BEFORE | {"color": "#222222", "linewidth": 2}
_WORDS_WIDTH = 60  # characters
_ROOM = 1.5  # height of a panel over the longest time
_OTHER_SLOWEST = {
    "color": "white",
    "marker": "s",
    "markersize": 5,
    "markeredgecolor": "black",
    "ls": "",
}
_BEST = {"marker": "D", "markersize": 8, "markeredgecolor": "white", "ls": ""}
BEST_BEFORE = {"color": "#777777"} | _BEST
BEST_AFTER = {"color": "#222222"} | _BEST
LEAST_RATE = {
    "color": GOAL_LINE["color"],
    "marker": "v",
    "markersize": 9,
    "markeredgecolor": "white",
    "ls": "",
}
_HOLLOW = _BEST | {"color": "#222222", "markerfacecolor": "white"}
_HOLLOW |= {"markeredgecolor": "#222222", "markeredgewidth": 1.6}


@dataclass(frozen=True)
class Shown:
    """The scenario and epoch that a figure shows, of those of a sweep.

    `table` has their rows, `spread` their rows of table ``spread``, and `scenarios` the
    scenario with its title.
    """

    table: pd.DataFrame
    spread: pd.DataFrame
    scenarios: pd.DataFrame
    provenance: Origin

    @classmethod
    def of(
        cls,
        table: pd.DataFrame,
        spread: pd.DataFrame,
        provenance: Origin,
        dataset_titles: Mapping[str, str] | None,
    ) -> Self:
        """Return what a table shows, and its part of table ``spread`` of a sweep."""
        scenarios = named_in_sweep(table, spread, dataset_titles)
        of_epoch = io_time_spread(spread, int(table["epoch"].iloc[0]))
        own = of_epoch.merge(scenarios[SCENARIO], on=SCENARIO)
        return cls(table, own, scenarios, provenance)

    @property
    def scenario(self) -> str:
        """The title of the scenario."""
        return self.scenarios["title"].iloc[0]

    @property
    def epoch(self) -> str:
        """The epoch in words."""
        return self.provenance.epoch_words(int(self.table["epoch"].iloc[0]))

    @property
    def notes(self) -> list[str]:
        """The first notes below the figure: source, repetitions and flags."""
        return source_notes(self.provenance, self.spread, self.scenarios)

    def titled(self, title: str) -> str:
        """Return a title that names sources other than measurement."""
        return titled(title, self.table, self.provenance)

    def draw_legend(self, figure: Figure, handles: Sequence[Line2D]) -> None:
        """Draw the legend of panels of breakdowns, marks of their own first."""
        band = not has_one_rate(self.table)
        of_spread = spread_handles(self.spread, self.provenance, bars=True, band=band)
        draw_legend(figure, [*handles, *class_handles(), *of_spread])


def draw_if_advised(draw: Callable[[Given], Figure], given: Given) -> Figure:
    """Draw what is recommended, with what limits above; else say why nothing is."""
    limits = given.shown("limits")
    if advice_on(limits, given.origin.phase).is_given:
        return write_advice(draw(given), given)
    return no_improvement(limits, given.table("spread"), **given.words)


def write_advice(figure: Figure, given: Given) -> Figure:
    """Write above a figure what limits the scenario that it shows, and return it."""
    advice = advice_on(given.shown("limits"), given.origin.phase)
    write_first(figure, advice.words)
    return figure


def draw_bars(ax: Axes, breakdown: pd.DataFrame, best_marks: Mapping) -> BestRates:
    """Draw a breakdown as bars with its best point; return the best rates."""
    sums = sums_of_classes(breakdown)
    stack_classes(ax, breakdown)
    draw_error_bars(ax, sums)
    best = best_rates(sums)
    ax.plot(best.best, best.time_s, **undecided(best_marks, best), zorder=4)
    return best


def error_notes(improved: pd.DataFrame) -> list[str]:
    """Return what the error bars of estimates hold besides the repetitions, if so."""
    if not (improved["model_error_percent"] > 0).any():
        return []
    return [
        "Error bars of the model also hold what its calibration does not know: the "
        "parameters, and lack of fit."
    ]


def draw_line(ax: Axes, breakdown: pd.DataFrame) -> BestRates:
    """Draw the sum of the breakdown before as a line; return its best rates."""
    sums = sums_of_classes(breakdown)
    draw_mean(ax, sums, "io_time_s", **_BEFORE)
    best = best_rates(sums)
    ax.plot(best.best, best.time_s, **undecided(BEST_BEFORE, best), zorder=3)
    return best


def mark_other_slowest(ax: Axes, before: pd.DataFrame, after: pd.DataFrame) -> bool:
    """Mark where another process than before is the slowest; return if any is marked.

    A cache rate is marked if this is so in at least one repetition. The model names no
    process.
    """
    point = ["cache_rate_percent", "repetition"]
    ranks, new_ranks = (
        table.drop_duplicates(point).set_index(point)["slowest_rank"]
        for table in (before, after)
    )
    is_other = (new_ranks != ranks.reindex(new_ranks.index)) & (new_ranks >= 0)
    rates = is_other[is_other].index.unique("cache_rate_percent")
    at_bottom = ax.get_xaxis_transform()
    ax.plot(rates, [0.03] * len(rates), **_OTHER_SLOWEST, transform=at_bottom, zorder=4)
    return len(rates) > 0


def set_axes(axes: Sequence[Axes], shown: Shown) -> None:
    """Set the axes of panels with the same y range."""
    improved = shown.table
    # Wide intervals of few repetitions may leave the panel.
    highest_s = min(
        max(ax.dataLim.y1 for ax in axes),
        _ROOM * sums_of_classes(improved)["io_time_s"].max(),
    )
    for ax in axes:
        set_cache_rate_axis(ax, improved["cache_rate_percent"], shown.provenance)
        ax.set_ylabel(SLOWEST_LABEL if ax.get_subplotspec().is_first_col() else "")
    axes[0].set_ylim(top=1.08 * highest_s or 1)


def mark_handles(has_others: bool, *best: BestRates) -> list[Line2D]:
    """Return the legend entries of the line before, best points and other slowest."""
    marks = {
        "before the\nimprovement": _BEFORE,
        "best before": BEST_BEFORE,
        "best after": BEST_AFTER,
    }
    if not all(one.is_decided for one in best):
        marks["hollow: undecided,\nothers may be as good"] = _HOLLOW
    if has_others:
        marks["another process\nis the slowest now"] = _OTHER_SLOWEST
    return [Line2D([], [], **mark, label=label) for label, mark in marks.items()]


def joined(
    table: pd.DataFrame, percents: Mapping[str, int] | None = None
) -> pd.DataFrame:
    """Return the rows of one improvement; by default those without improvement."""
    wanted = pd.Series(percents or dict.fromkeys(IMPROVEMENTS, 0))
    return table[(table[IMPROVEMENTS] == wanted).all(axis=1)]


def best_words(best: BestRates) -> str:
    """Return the best rates in words, such as ``best at 65 to 75 %: 8.00 s``."""
    return f"best at {best.words}: {in_seconds(best.time_s)}"


def moved_words(before: BestRates, after: BestRates) -> str:
    """Return how the best rates move, in two lines: ``best at 65 % → 60 %: ...``."""
    cut = after.time_s / before.time_s - 1 if before.time_s else 0
    moved = list(dict.fromkeys([before.words, after.words]))
    return (
        f"best at {' → '.join(moved)}:\n{in_seconds(before.time_s)} → "
        f"{in_seconds(after.time_s)} ({100 * cut:+.1f} %)".replace(
            "-", "\N{MINUS SIGN}"
        )
    )


def draw_utilisation(
    ax: Axes, shown: Shown, percents: Mapping[str, int], goal: pd.Series, words: str
) -> None:
    """Draw the AU over the cache rate before and after an improvement, and its goal.

    A triangle stands at the least cache rate that then meets the goal. The title has
    `words`, and how the best point moves.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    shown : Shown
        Its table is ``estimates`` by the model.
    percents : mapping of str to int
        The improvement: the columns `IMPROVEMENTS`.
    goal : Series
        The row of table ``goals``, a goal of utilisation.
    words : str
        The first lines of the title.
    """
    best = []
    for improved, line in ((None, _BEFORE), (percents, _AFTER)):
        rows = joined(shown.table, improved)
        draw_mean(ax, rows, "utilisation_percent", **line)
        best.append(best_utilised(mean_utilisation(rows)).iloc[0])
    ax.axhline(goal["goal_percent"], **GOAL_LINE)
    met = goal_of(goal).sufficient(rows).iloc[0]
    if met["sufficient"]:
        rate = met["min_cache_rate_percent"]
        at = rows[rows["cache_rate_percent"] == rate]["utilisation_percent"].mean()
        above = offset_copy(ax.transData, ax.figure, y=10, units="points")
        ax.plot(rate, at, **LEAST_RATE, transform=above, zorder=4)
    before, after = best
    rates = [f"{one['cache_rate_percent']} %" for one in best]
    ax.set_title(
        f"{words}\nbest at {' → '.join(dict.fromkeys(rates))}:\n"
        f"AU {before['utilisation_percent']:.1f} → {after['utilisation_percent']:.1f} %"
    )


@styled
def no_improvement(
    limits: pd.DataFrame,
    spread: pd.DataFrame,
    *,
    provenance: Origin,
    dataset_titles: Mapping[str, str] | None = None,
) -> Figure:
    """Draw no improvement, but say why none is recommended.

    Parameters
    ----------
    limits : DataFrame
        The scenario's rows of table ``limits``.
    spread : DataFrame
        Table ``spread``, of that scenario and possibly others.
    provenance, dataset_titles
        As for `tierscope.figures.execution_and_io_time.plot_execution_and_io_time`.
    """
    scenarios = named_in_sweep(limits, spread, dataset_titles)
    epoch = provenance.epoch_words(int(limits["epoch"].iloc[0]))
    title = f"Storage does not limit: {scenarios['title'].iloc[0]}, {epoch}"
    title = titled(title, scenarios, provenance)
    notes = [f"Source: {provenance}"]
    figure, (ax,) = new_figure(1, title, notes, row_height=2.4)
    ax.set_axis_off()
    words = wrapped(advice_on(limits, provenance.phase).words, _WORDS_WIDTH)
    ax.text(0.5, 0.5, words, ha="center", va="center", fontsize=12)
    return figure


def set_utilisation_axes(axes: Sequence[Axes], shown: Shown) -> None:
    """Set the axes of panels of AU, and explain their lines beside them."""
    rates = shown.table["cache_rate_percent"]
    for ax in axes:
        set_cache_rate_axis(ax, rates, shown.provenance)
        ax.set_ylim(0, 106)
        is_first = ax.get_subplotspec().is_first_col()
        ax.set_ylabel("Accelerator utilisation (%)" if is_first else "")
    lines = {
        "before the\nimprovement": _BEFORE,
        "after it,\nby the model": _AFTER,
        "goal": GOAL_LINE,
        "least cache rate\nto meet it": LEAST_RATE,
    }
    handles = [Line2D([], [], **line, label=label) for label, line in lines.items()]
    handles += spread_handles(
        shown.spread.assign(flagged=False),
        replace(shown.provenance, drifted=()),
        bars=has_one_rate(shown.table),
        band=True,
    )
    draw_legend(axes[0].figure, handles)
