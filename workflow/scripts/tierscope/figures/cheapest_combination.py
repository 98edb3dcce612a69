"""Draw the breakdown after the cheapest combination that meets the goal."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import offset_copy

from tierscope.analysis.search import cheapest_combination
from tierscope.analysis.whatif import estimate, estimated_breakdown
from tierscope.core.columns import CLASSES, IMPROVEMENTS
from tierscope.core.output.declared import Declared
from tierscope.core.provenance import RULE_NOTE, Origin, utilisation_note
from tierscope.core.words import (
    goal_notes,
    goal_words,
    improvement_words,
    is_out_of_reach,
    is_utilisation,
    ties_words,
)
from tierscope.figures.before_after import (
    BEST_AFTER,
    BEST_BEFORE,
    LEAST_RATE,
    PANEL_OF_TWO,
    Shown,
    best_words,
    draw_bars,
    draw_if_advised,
    draw_line,
    draw_utilisation,
    joined,
    mark_handles,
    mark_other_slowest,
    moved_words,
    set_axes,
    set_utilisation_axes,
)
from tierscope.figures.given_runs import Given
from tierscope.figures.style import (
    GOAL_LINE,
    mark_flagged,
    new_figure,
    styled,
    wrapped,
)

FIGURE = Declared(
    file="fig5_cheapest",
    title="Figure 5: the cheapest improvement that meets the goal",
    tables=("io_time", "goals", "combinations", "spread", "limits"),
    inputs=("estimates_cheapest",),
    settings=("epoch", "scenario", "max_improvement_percent", "searching_model"),
    target="fig5",
)

ONLY_THE_MEAN = "met by the mean, not by every repetition"


def draw(given: Given) -> Figure:
    """Draw the figures' scenario before and after the cheapest combination."""
    return draw_if_advised(_draw, given)


def describe(given: Given) -> str:
    """Say the goal, and the cheapest combination or that there is none."""
    goal, cheapest = _found(given)
    found = (
        "no combination meets the goal" if cheapest is None else cheapest.to_string()
    )
    return f"{goal.to_string()}\n{found}"


def _found(given: Given) -> tuple[pd.Series, pd.Series | None]:
    goal = given.shown("goals").iloc[0]
    return goal, cheapest_combination(given.table("combinations"), goal)


def _draw(given: Given) -> Figure:
    (goal, cheapest), spread = _found(given), given.table("spread")
    if is_utilisation(goal):
        estimates = given.table("estimates", "estimates_cheapest")
        words = given.words | {"model": given.settings.searching_model}
        return plot_cheapest_utilisation(estimates, goal, cheapest, spread, **words)
    percents = shown_improvements(cheapest, given.settings.max_improvement_percent)
    io_time = given.shown("io_time")
    estimates = estimate(io_time, percents, io_time["epoch"])
    improved = estimated_breakdown(estimates, percents)
    return plot_cheapest_combination(improved, goal, cheapest, spread, **given.words)


def shown_improvements(
    cheapest: pd.Series | None, max_improvement_percent: int
) -> list[Mapping[str, int]]:
    """Return no improvement and the cheapest, or the largest if none meets the goal."""
    if cheapest is None:
        return [{}, dict.fromkeys(CLASSES, max_improvement_percent)]
    percents = dict(zip(CLASSES, map(int, cheapest[IMPROVEMENTS]), strict=True))
    return [{}, percents] if any(percents.values()) else [{}]


@styled
def plot_cheapest_combination(
    improved: pd.DataFrame,
    goal: pd.Series,
    cheapest: pd.Series | None,
    spread: pd.DataFrame,
    *,
    provenance: Origin,
    dataset_titles: Mapping[str, str] | None = None,
) -> Figure:
    """Draw the cheapest combination that meets a goal, before and after (Fig. 5).

    Parameters
    ----------
    improved : DataFrame
        One scenario's and epoch's breakdown without any improvement and after the
        cheapest combination, as made by
        `tierscope.analysis.whatif.estimated_breakdown`; if no combination meets the
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
        the line from the left in grey. Both have the goal, the best points and, with
        repetitions, the intervals of the means; squares as in
        `plot_improvement`. If no combination meets the goal, the right panel says so
        and shows the largest improvements of the grid. If no I/O time meets the goal,
        there is no goal line.
    """
    shown = Shown.of(improved, spread, provenance, dataset_titles)
    percents, title, notes = _head(shown, goal, cheapest)
    notes += [*goal_notes(goal), RULE_NOTE]
    figure, axes = new_figure(2, title, notes, row_height=4.8, share_y=True)
    before, after = joined(improved), joined(improved, percents)
    best_before = draw_bars(axes[0], before, BEST_BEFORE)
    best_after = draw_bars(axes[1], after, BEST_AFTER)
    draw_line(axes[1], before)
    has_others = mark_other_slowest(axes[1], before, after)
    for ax in axes:
        mark_flagged(ax, shown.spread, provenance)
        if not is_out_of_reach(goal):
            ax.axhline(goal["goal_s"] - goal["difference_s"], **GOAL_LINE)
    axes[0].set_title(f"before\n{best_words(best_before)}")
    handles = mark_handles(has_others, best_before, best_after)
    if not is_out_of_reach(goal):
        handles.append(Line2D([], [], **GOAL_LINE, label="goal (I/O time)"))
    lines = [
        wrapped(f"after {improvement_words(percents)}", PANEL_OF_TWO),
        moved_words(best_before, best_after),
    ]
    if cheapest is not None:
        above = offset_copy(axes[1].transData, figure, y=12, units="points")
        at = cheapest["min_cache_rate_percent"], cheapest["io_time_s"]
        axes[1].plot(*at, **LEAST_RATE, transform=above)
        handles.append(
            Line2D([], [], **LEAST_RATE, label="least cache rate\nto meet it")
        )
        if not any(percents.values()):
            lines = ["goal is met without improvement", best_words(best_after)]
    else:
        lines[0] = wrapped(f"even {lines[0]}", PANEL_OF_TWO)
    axes[1].set_title("\n".join(lines))
    set_axes(axes, shown)
    shown.draw_legend(figure, handles)
    return figure


@styled
def plot_cheapest_utilisation(
    estimates: pd.DataFrame,
    goal: pd.Series,
    cheapest: pd.Series | None,
    spread: pd.DataFrame,
    *,
    provenance: Origin,
    model: str = "",
    dataset_titles: Mapping[str, str] | None = None,
) -> Figure:
    """Draw the AU with the cheapest combination that meets a goal of AU (Fig. 5).

    Parameters
    ----------
    estimates : DataFrame
        One scenario's and epoch's rows of table ``estimates`` by the model, without any
        improvement and with the cheapest combination; if no combination meets the goal,
        with the largest improvements of the grid.
    goal, cheapest, spread, provenance, dataset_titles
        As for `plot_cheapest_combination`.
    model : str, optional
        What the model is (`tierscope.core.provenance.model_words`).

    Returns
    -------
    Figure
        What `tierscope.figures.before_after.draw_utilisation` draws.
    """
    shown = Shown.of(estimates, spread, provenance, dataset_titles)
    percents, title, notes = _head(shown, goal, cheapest)
    notes.append(f"Searched in steps of {goal['grid_step_percent']:g} % of each class.")
    notes += [*goal_notes(goal), utilisation_note(model)]
    figure, axes = new_figure(1, title, notes, row_height=4.8)
    after = "even after" if cheapest is None else "after"
    words = f"{after} {improvement_words(percents)}"
    if not any(percents.values()):
        words = "goal is met without improvement"
    draw_utilisation(axes[0], shown, percents, goal, wrapped(words, PANEL_OF_TWO))
    set_utilisation_axes(axes, shown)
    return figure


def _head(
    shown: Shown, goal: pd.Series, cheapest: pd.Series | None
) -> tuple[dict[str, int], str, list[str]]:
    """Return the improvements, the title and the first notes."""
    percents, notes = shown.table[IMPROVEMENTS].max().to_dict(), shown.notes
    what = "No improvements of the grid"
    if cheapest is not None:
        what = "Cheapest improvements that"
        notes.append(_cheapest_note(cheapest, percents))
    subject = f"{shown.scenario}, {shown.epoch}"
    title = shown.titled(f"{what} meet {goal_words(goal)}: {subject}")
    return percents, title, notes


def _cheapest_note(cheapest: pd.Series, percents: Mapping[str, int]) -> str:
    """Return the cost of the cheapest combination and its need for LFS volume."""
    parts = []
    if any(percents.values()):
        ties = ties_words(cheapest, minimal=True)
        cost = f"costs {cheapest['cost']:.6g} by whatif.search.cost_per_percent"
        parts += [cost, *([ties] if ties else [])]
    parts.append(
        f"needs {cheapest['min_cache_rate_percent']} % on the LFS: "
        f"{cheapest['lfs_gib_per_node']:.3g} GiB per node"
    )
    if not cheapest["in_every_repetition"]:
        parts.append(ONLY_THE_MEAN)
    return f"Cheapest improvement: {'; '.join(parts)}."
