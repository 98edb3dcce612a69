"""Parts that the figures of a breakdown before and after an improvement share."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from tierscope.analysis.breakdown import sums_of_classes
from tierscope.analysis.intervals import BestRates, best_rates
from tierscope.core.columns import IMPROVEMENTS
from tierscope.core.provenance import Origin
from tierscope.core.words import (
    in_seconds,
)
from tierscope.figures.style import (
    SLOWEST_LABEL,
    draw_error_bars,
    draw_mean,
    set_cache_rate_axis,
    stack_classes,
    undecided,
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
_HOLLOW = _BEST | {"color": "#222222", "markerfacecolor": "white"}
_HOLLOW |= {"markeredgecolor": "#222222", "markeredgewidth": 1.6}


def draw_bars(ax: Axes, breakdown: pd.DataFrame, best_marks: Mapping) -> BestRates:
    """Draw a breakdown as bars with its best point; return the best rates."""
    sums = sums_of_classes(breakdown)
    stack_classes(ax, breakdown)
    draw_error_bars(ax, sums)
    best = best_rates(sums)
    ax.plot(best.best, best.time_s, **undecided(best_marks, best), zorder=4)
    return best


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


def set_axes(axes: Sequence[Axes], improved: pd.DataFrame, provenance: Origin) -> None:
    """Set the axes of panels with the same y range."""
    # Wide intervals of few repetitions may leave the panel.
    highest_s = min(
        max(ax.dataLim.y1 for ax in axes),
        _ROOM * sums_of_classes(improved)["io_time_s"].max(),
    )
    for ax in axes:
        set_cache_rate_axis(ax, improved["cache_rate_percent"], provenance)
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
