"""Draw estimated breakdowns: the paper's Fig. 3, and the cheapest combination."""

import itertools
import math
import textwrap
from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import offset_copy

from tierscope.analysis.breakdown import io_time_spread, sums_of_classes
from tierscope.analysis.whatif import best_point
from tierscope.core.columns import IMPROVEMENTS, SCENARIO
from tierscope.core.sources import METHOD_WORDS, RULE_NOTE, method_notes
from tierscope.core.words import (
    GOAL_KINDS,
    epoch_words,
    improvement_words,
    in_seconds,
    scenario_titles,
    ties_words,
)
from tierscope.figures.style import (
    SLOWEST_LABEL,
    class_handles,
    draw_error_bars,
    draw_mean,
    has_one_rate,
    mark_flagged,
    new_figure,
    set_cache_rate_axis,
    source_notes,
    spread_handles,
    stack_classes,
    styled,
    titled,
)

ONLY_THE_MEAN = "met by the mean, not by every repetition"
# Characters of a title that fit above a panel, of two or of three in a row.
_PANEL_OF_TWO, _PANEL_OF_THREE = 46, 36
_BEFORE = {
    "color": "#777777",
    "marker": "o",
    "markersize": 4,
    "markeredgewidth": 0,
    "linewidth": 1.5,
}
_OTHER_SLOWEST = {
    "color": "white",
    "marker": "s",
    "markersize": 5,
    "markeredgecolor": "black",
    "ls": "",
}
_GOAL = {"color": "#117733", "linestyle": (0, (6, 3)), "linewidth": 1.6}
_BEST = {"marker": "D", "markersize": 8, "markeredgecolor": "white", "ls": ""}
_BEST_BEFORE = {"color": "#777777"} | _BEST
_BEST_AFTER = {"color": "#222222"} | _BEST
_LEAST = {
    "color": _GOAL["color"],
    "marker": "v",
    "markersize": 9,
    "markeredgecolor": "white",
    "ls": "",
}


@styled
def plot_improvement(
    improved: pd.DataFrame,
    spread: pd.DataFrame,
    *,
    provenance: str,
    model: str = "",
    dataset_titles: Mapping[str, str] | None = None,
) -> Figure:
    """Draw the breakdown of the slowest process after improvements (Fig. 3).

    Parameters
    ----------
    improved : DataFrame
        One scenario's and epoch's breakdown after each improvement and without any, as
        made by `tierscope.analysis.whatif.estimated_breakdown`; a panel for each
        improvement and method in the order of the rows, the methods side by side.
    spread : DataFrame
        Table ``spread``, of that scenario and possibly others.
    provenance, dataset_titles
        As for `tierscope.figures.style.plot_times`.
    model : str, optional
        What the model is (`tierscope.core.sources.model_words`), if it is one method.

    Returns
    -------
    Figure
        Stacked bars: breakdown of the process that is slowest after the
        improvement; grey line: I/O time without it; diamonds: the best points; white
        squares: by the rule, another process than without it is the slowest. All
        panels have the same y range. With repetitions all are means; error bars and
        the band go from the least to the largest, and rings mark a measured spread
        above the limit.
    """
    epoch = int(improved["epoch"].iloc[0])
    scenarios = scenario_titles(improved, dataset_titles)
    spread = io_time_spread(spread, epoch).merge(scenarios[SCENARIO], on=SCENARIO)
    changed = improved[IMPROVEMENTS].drop_duplicates()
    changed = changed[(changed > 0).any(axis=1)].to_dict("records")
    methods = list(improved["method"].unique())
    wanted = list(itertools.product(changed, methods))
    title = f"Estimated I/O time of the {epoch_words(epoch)} after an improvement"
    title = titled(f"{title}: {scenarios['title'].iloc[0]}", improved)
    notes = source_notes(provenance, spread, scenarios)
    n_columns = len(methods) if len(methods) > 1 else None
    figure, axes = new_figure(
        len(wanted),
        title,
        [*notes, *method_notes(methods, model)],
        row_height=3.8,
        share_y=True,
        n_columns=n_columns,
    )
    has_others = False
    for ax, (percents, method) in zip(axes, wanted, strict=True):
        estimated = improved[improved["method"] == method]
        before, after = _with(estimated), _with(estimated, percents)
        best_after = _draw_bars(ax, after, _BEST_AFTER)
        best_before = _draw_line(ax, before)
        has_others |= _mark_other_slowest(ax, before, after)
        mark_flagged(ax, spread)
        words = improvement_words(percents)
        if n_columns:
            words = wrapped(f"{words}, {METHOD_WORDS[method]}", _PANEL_OF_TWO)
        else:
            words = wrapped(words, _PANEL_OF_THREE)
        ax.set_title(f"{words}\n{_cut_words(best_before, best_after)}")
    _set_axes(axes, improved)
    figure.legend(
        handles=[
            *_mark_handles(has_others),
            *class_handles(),
            *spread_handles(spread, bars=has_one_rate(improved)),
        ],
        loc="outside right center",
    )
    return figure


def _draw_bars(ax: Axes, breakdown: pd.DataFrame, best_marks: Mapping) -> pd.Series:
    """Draw a breakdown as bars with its best point; return that."""
    sums = sums_of_classes(breakdown)
    stack_classes(ax, breakdown)
    draw_error_bars(ax, sums)
    best = best_point(sums).iloc[0]
    ax.plot(best["cache_rate_percent"], best["io_time_s"], **best_marks, zorder=4)
    return best


def _draw_line(ax: Axes, breakdown: pd.DataFrame) -> pd.Series:
    """Draw a breakdown's sum as the line before, with its best point; return that."""
    sums = sums_of_classes(breakdown)
    draw_mean(ax, sums, "io_time_s", **_BEFORE)
    best = best_point(sums).iloc[0]
    ax.plot(best["cache_rate_percent"], best["io_time_s"], **_BEST_BEFORE, zorder=3)
    return best


def _mark_other_slowest(ax: Axes, before: pd.DataFrame, after: pd.DataFrame) -> bool:
    """Mark where another process than before is the slowest; return whether there is.

    With repetitions, in one of them at least. The model names no process.
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


def _set_axes(axes: Sequence[Axes], improved: pd.DataFrame) -> None:
    """Set the axes of panels with the same y range."""
    highest_s = max(ax.dataLim.y1 for ax in axes)
    for ax in axes:
        set_cache_rate_axis(ax, improved["cache_rate_percent"])
        ax.set_ylabel(SLOWEST_LABEL if ax.get_subplotspec().is_first_col() else "")
    axes[0].set_ylim(top=1.08 * highest_s or 1)


def _mark_handles(has_others: bool) -> list[Line2D]:
    """Return the legend entries of the line before, best points and other slowest."""
    marks = {
        "before the\nimprovement": _BEFORE,
        "best before": _BEST_BEFORE,
        "best after": _BEST_AFTER,
    }
    if has_others:
        marks["another process\nis the slowest now"] = _OTHER_SLOWEST
    return [Line2D([], [], **mark, label=label) for label, mark in marks.items()]


def _with(
    table: pd.DataFrame, percents: Mapping[str, int] | None = None
) -> pd.DataFrame:
    """Return the rows of one improvement, by default of none at all."""
    wanted = pd.Series(percents or dict.fromkeys(IMPROVEMENTS, 0))
    return table[(table[IMPROVEMENTS] == wanted).all(axis=1)]


def wrapped(words: str, width: int) -> str:
    """Return what `improvement_words` returns in lines that keep a class together."""
    for apart in (" +", " %", " the ", " rule", " model"):
        words = words.replace(apart, apart.replace(" ", "\N{NO-BREAK SPACE}"))
    return textwrap.fill(
        words,
        width,
        break_on_hyphens=False,
    ).replace("\N{NO-BREAK SPACE}", " ")


def _best_words(best: pd.Series) -> str:
    """Return the best point in words, such as ``best at 65 %: 8.00 s``."""
    return f"best at {best['cache_rate_percent']} %: {in_seconds(best['io_time_s'])}"


def _cut_words(before: pd.Series, after: pd.Series) -> str:
    """Return how the best point moves, in two lines: ``best at 65 % → 60 %: ...``."""
    rates = [point["cache_rate_percent"] for point in (before, after)]
    cut = after["io_time_s"] / before["io_time_s"] - 1 if before["io_time_s"] else 0
    moved = f"{rates[0]} % → {rates[1]} %" if rates[0] != rates[1] else f"{rates[0]} %"
    return (
        f"best at {moved}:\n{in_seconds(before['io_time_s'])} → "
        f"{in_seconds(after['io_time_s'])} ({100 * cut:+.1f} %)".replace(
            "-", "\N{MINUS SIGN}"
        )
    )


def goal_words(goal: pd.Series) -> str:
    """Return a goal in words, such as ``the goal of 4.00 s of I/O time``.

    Parameters
    ----------
    goal : Series
        A row of table ``goals``.
    """
    best_s = goal["best_io_time_s"] + goal["difference_s"]
    percent = 100 * goal["goal_s"] / best_s if best_s else math.inf
    how = "estimated " if goal["goal_of"] == "execution_time" else ""
    of = GOAL_KINDS[goal["goal_of"]]
    return (
        f"the goal of {in_seconds(goal['goal_s'])} of {of} "
        f"({percent:.0f} % of the best {how}without improvement)"
    )


def _is_out_of_reach(goal: pd.Series) -> bool:
    """Return whether a goal of execution time leaves no I/O time at all."""
    return goal["goal_s"] < goal["difference_s"]


def goal_notes(goal: pd.Series) -> list[str]:
    """Return how a goal of execution time is compared with an I/O time.

    `goal` is a row of table ``goals``.
    """
    if goal["goal_of"] == "io_time":
        return []
    if _is_out_of_reach(goal):
        return [
            f"The difference alone, {in_seconds(goal['difference_s'])}, exceeds the "
            "goal: no I/O improvement can meet it. Execution time is estimated as I/O "
            "time plus their mean difference."
        ]
    return [
        "Execution time is estimated as I/O time plus their mean difference, "
        f"{in_seconds(goal['difference_s'])}, so the goal leaves "
        f"{in_seconds(goal['goal_s'] - goal['difference_s'])} of I/O time."
    ]


@styled
def plot_cheapest(
    improved: pd.DataFrame,
    goal: pd.Series,
    cheapest: pd.Series | None,
    spread: pd.DataFrame,
    *,
    provenance: str,
    dataset_titles: Mapping[str, str] | None = None,
) -> Figure:
    """Draw the cheapest combination that meets a goal, before and after (Fig. 5).

    Parameters
    ----------
    improved : DataFrame
        One scenario's and epoch's breakdown without any improvement and after the
        cheapest combination, as made by
        `tierscope.analysis.whatif.break_down_improved`; if no combination meets the
        goal, after the largest improvements of the grid.
    goal : Series
        The row of table ``goals`` of that scenario and epoch.
    cheapest : Series or None
        The cheapest row of table ``combinations``; None if none meets the goal.
    spread, provenance, dataset_titles
        As for `plot_improvement`.

    Returns
    -------
    Figure
        Left: the measured breakdown; right: the breakdown after the improvements, with
        the line from the left in grey; both with the goal, the best points and, with
        repetitions, the spread from least to largest; squares as in
        `plot_improvement`. If no combination meets the goal,
        the right panel says so and shows how far the grid gets; if no I/O time does,
        there is no line of the goal.
    """
    scenarios = scenario_titles(improved, dataset_titles)
    epoch = int(improved["epoch"].iloc[0])
    spread = io_time_spread(spread, epoch).merge(scenarios[SCENARIO], on=SCENARIO)
    found = cheapest is not None
    what = "Cheapest improvements that" if found else "No improvements of the grid"
    subject = f"{scenarios['title'].iloc[0]}, {epoch_words(epoch)}"
    title = f"{what} meet {goal_words(goal)}: {subject}"
    percents = improved[IMPROVEMENTS].max().to_dict()
    notes = source_notes(provenance, spread, scenarios)
    if found:
        notes.append(_cheapest_note(cheapest, percents))
    notes += [*goal_notes(goal), RULE_NOTE]
    figure, axes = new_figure(
        2, titled(title, improved), notes, row_height=4.8, share_y=True
    )
    before, after = _with(improved), _with(improved, percents)
    best_before = _draw_bars(axes[0], before, _BEST_BEFORE)
    best_after = _draw_bars(axes[1], after, _BEST_AFTER)
    _draw_line(axes[1], before)
    has_others = _mark_other_slowest(axes[1], before, after)
    for ax in axes:
        mark_flagged(ax, spread)
        if not _is_out_of_reach(goal):
            ax.axhline(goal["goal_s"] - goal["difference_s"], **_GOAL)
    axes[0].set_title(f"before\n{_best_words(best_before)}")
    handles = _mark_handles(has_others)
    if not _is_out_of_reach(goal):
        handles.append(Line2D([], [], **_GOAL, label="goal (I/O time)"))
    lines = [
        wrapped(f"after {improvement_words(percents)}", _PANEL_OF_TWO),
        _cut_words(best_before, best_after),
    ]
    if found:
        above = offset_copy(axes[1].transData, figure, y=12, units="points")
        at = cheapest["min_cache_rate_percent"], cheapest["io_time_s"]
        axes[1].plot(*at, **_LEAST, transform=above)
        handles.append(Line2D([], [], **_LEAST, label="least cache rate\nto meet it"))
        if not any(percents.values()):
            lines = ["goal is met without improvement", _best_words(best_after)]
    else:
        lines[0] = wrapped(f"even {lines[0]}", _PANEL_OF_TWO)
    axes[1].set_title("\n".join(lines))
    _set_axes(axes, improved)
    figure.legend(
        handles=[
            *handles,
            *class_handles(),
            *spread_handles(spread, bars=has_one_rate(improved)),
        ],
        loc="outside right center",
    )
    return figure


def _cheapest_note(cheapest: pd.Series, percents: Mapping[str, int]) -> str:
    """Return what the cheapest combination costs, and what it needs on the LFS."""
    parts = []
    if any(percents.values()):
        ties = ties_words(cheapest, minimal=True)
        parts += [f"costs {cheapest['cost']:.6g}", *([ties] if ties else [])]
    parts.append(
        f"needs {cheapest['min_cache_rate_percent']} % on the LFS: "
        f"{cheapest['lfs_gib_per_node']:.3g} GiB a node"
    )
    if not cheapest["in_every_repetition"]:
        parts.append(ONLY_THE_MEAN)
    return f"Cheapest improvement: {'; '.join(parts)}."
