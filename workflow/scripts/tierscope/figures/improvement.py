"""Draw estimated breakdowns: the paper's Fig. 3, and the cheapest combination."""

import itertools
from collections.abc import Iterable, Mapping

import pandas as pd
from matplotlib.figure import Figure

from tierscope.analysis.whatif import estimated_breakdown, improvement_percents
from tierscope.core.columns import IMPROVEMENTS
from tierscope.core.output.declared import Declared
from tierscope.core.provenance import (
    METHOD_WORDS,
    Origin,
    method_notes,
    utilisation_note,
)
from tierscope.core.words import goal_notes, goal_words, improvement_words
from tierscope.figures.before_after import (
    BEST_AFTER,
    PANEL_OF_THREE,
    PANEL_OF_TWO,
    Shown,
    draw_bars,
    draw_line,
    draw_utilisation,
    error_notes,
    joined,
    mark_handles,
    mark_other_slowest,
    moved_words,
    set_axes,
    set_utilisation_axes,
    write_advice,
)
from tierscope.figures.given_runs import Given
from tierscope.figures.style import (
    mark_flagged,
    new_figure,
    styled,
    wrapped,
)

FIGURE = Declared(
    file="fig3_improvement",
    title="Figure 3: if one class were faster",
    tables=("spread", "limits"),
    inputs=("estimates", "utilisation_goals"),
    settings=("epoch", "scenario", "improvements", "model"),
    target="fig3",
)


def draw(given: Given) -> Figure:
    """Draw the figures' scenario after each of the improvements."""
    estimates, settings = given.shown("estimates"), given.settings
    spread, words = given.table("spread"), given.words | {"model": settings.model}
    goals = given.table("goals", "utilisation_goals")
    if goals is None:
        breakdown = estimated_breakdown(estimates, [{}, *settings.improvements])
        figure = plot_improvement(breakdown, spread, **words)
    else:
        figure = plot_improved_utilisation(
            estimates, settings.improvements, goals.iloc[0], spread, **words
        )
    return write_advice(figure, given)


@styled
def plot_improvement(
    improved: pd.DataFrame,
    spread: pd.DataFrame,
    *,
    provenance: Origin,
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
        As for `tierscope.figures.execution_and_io_time.plot_execution_and_io_time`.
    model : str, optional
        What the model is (`tierscope.core.provenance.model_words`), if it is one.

    Returns
    -------
    Figure
        Stacked bars: breakdown of the process that is slowest after the
        improvement; grey line: I/O time without it; diamonds: the best points, hollow
        where other rates may be as good; white squares: by the rule, the slowest
        process differs from the one without it. All panels have the same y range. With
        repetitions all are means; error bars and the band are their intervals, and
        rings mark a measured spread above the limit.
    """
    shown = Shown.of(improved, spread, provenance, dataset_titles)
    changed = improved[IMPROVEMENTS].drop_duplicates()
    changed = changed[(changed > 0).any(axis=1)].to_dict("records")
    methods = list(improved["method"].unique())
    wanted = list(itertools.product(changed, methods))
    title = f"Estimated I/O time of the {shown.epoch} after an improvement"
    n_columns = len(methods) if len(methods) > 1 else None
    figure, axes = new_figure(
        len(wanted),
        shown.titled(f"{title}: {shown.scenario}"),
        [*shown.notes, *method_notes(methods, model), *error_notes(improved)],
        row_height=3.8,
        share_y=True,
        n_columns=n_columns,
    )
    has_others, best = False, []
    for ax, (percents, method) in zip(axes, wanted, strict=True):
        estimated = improved[improved["method"] == method]
        before, after = joined(estimated), joined(estimated, percents)
        best_after = draw_bars(ax, after, BEST_AFTER)
        best_before = draw_line(ax, before)
        best += [best_before, best_after]
        has_others |= mark_other_slowest(ax, before, after)
        mark_flagged(ax, shown.spread, provenance)
        words = improvement_words(percents)
        if n_columns:
            words = wrapped(f"{words}, {METHOD_WORDS[method]}", PANEL_OF_TWO)
        else:
            words = wrapped(words, PANEL_OF_THREE)
        ax.set_title(f"{words}\n{moved_words(best_before, best_after)}")
    set_axes(axes, shown)
    shown.draw_legend(figure, mark_handles(has_others, *best))
    return figure


@styled
def plot_improved_utilisation(
    estimates: pd.DataFrame,
    improvements: Iterable[Mapping[str, int]],
    goal: pd.Series,
    spread: pd.DataFrame,
    *,
    provenance: Origin,
    model: str = "",
    dataset_titles: Mapping[str, str] | None = None,
) -> Figure:
    """Draw the accelerator utilisation after improvements (Fig. 3, goal of AU).

    Parameters
    ----------
    estimates : DataFrame
        One scenario's and epoch's rows of table ``estimates`` by the model.
    improvements : iterable of mapping of str to int
        Improvements in percent by I/O class, all in the table: a panel for each.
    goal : Series
        The row of table ``goals`` of that scenario and epoch.
    spread, provenance, model, dataset_titles
        As for `plot_improvement`.

    Returns
    -------
    Figure
        What `tierscope.figures.before_after.draw_utilisation` draws.
    """
    shown = Shown.of(estimates, spread, provenance, dataset_titles)
    percents = improvement_percents(improvements).tolist()
    changed = [dict(zip(IMPROVEMENTS, row, strict=True)) for row in percents]
    title = f"Accelerator utilisation of the {shown.epoch} after an improvement"
    figure, axes = new_figure(
        len(changed),
        shown.titled(f"{title}, and {goal_words(goal)}: {shown.scenario}"),
        [*shown.notes, *goal_notes(goal), utilisation_note(model)],
        row_height=3.8,
        share_y=True,
    )
    width = PANEL_OF_THREE if len(changed) > 2 else PANEL_OF_TWO
    for ax, percents in zip(axes, changed, strict=True):
        words = wrapped(improvement_words(percents), width)
        draw_utilisation(ax, shown, percents, goal, words)
    set_utilisation_axes(axes, shown)
    return figure
