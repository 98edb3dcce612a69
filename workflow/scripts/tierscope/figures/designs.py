"""Draw what designs of a storage cost and reach, and how many processes they feed."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from tierscope.analysis.designs.answer import GOALS, Answer
from tierscope.analysis.designs.choice import BY_HARDWARE, ends_of, value_of
from tierscope.analysis.designs.summary import (
    BY_WORDS,
    shown_names,
    statements,
    steps_words,
    summary_text,
)
from tierscope.core.columns.designs import MEETS, MISSES, NO_CHOICE, UNDECIDED
from tierscope.core.output.declared import Declared
from tierscope.core.words import number_words
from tierscope.figures.given import Given
from tierscope.figures.style import (
    BAND,
    GOAL_LINE,
    draw_legend,
    new_figure,
    shades,
    styled,
    wrapped,
    write_first,
)

FIGURE = Declared(
    file="fig7_designs",
    title="What to buy",
    tables=("designs", "designs_inputs"),
    inputs=("fit",),
    settings=("sources", "cost", "limits"),
    has_text=True,
    of="designs",
)

_HOLLOW = {"markerfacecolor": "white"}
_POINT = {"marker": "o", "markersize": 4.5}
_ALONE = {**_POINT, "linestyle": ""}
_MARKS = {
    MEETS: {**_ALONE, "color": "#117733"},
    UNDECIDED: {**_ALONE, "color": "#c9a227", **_HOLLOW},
    MISSES: {**_ALONE, "color": "#999999"},
}
_CHOSEN = {"marker": "*", "markersize": 15, "linestyle": "", "color": "#9A2A7B"}
_MOST_TICKS = 8
_NAME_WIDTH = 26  # characters, of a storage in the legend
_NO_ROOM = "Hollow: the LFS has no room for this cache rate of the dataset"
_BAND_NOTE = "Bands and bars: least and largest of repetitions and of parameters"


def given_answer(given: Given) -> Answer:
    """Return the study of a rule that has its tables, cost and limits."""
    tables = given.table("designs"), given.table("designs_inputs")
    return Answer.of(*tables, given.settings)


def draw(given: Given) -> Figure:
    """Draw the designs."""
    return plot_designs(given_answer(given), provenance=str(given.origin))


def describe(given: Given) -> str:
    """Say the same in words."""
    fit, sources = given.table("designs_fit", "fit"), given.settings.sources
    return f"{summary_text(given_answer(given), fit, sources, str(given.origin))}\n"


@styled
def plot_designs(answer: Answer, *, provenance: str) -> Figure:
    """Draw the front if designs differ in cost, and the accelerators if they vary.

    Parameters
    ----------
    answer : Answer
        The study.
    provenance : str
        Source and system, in words.

    Returns
    -------
    Figure
        What is reached over cost, and over the number of accelerators (logarithmic), a
        panel for each workload, with the goal's line.
    """
    workloads = list(answer.table.groupby("workload", sort=False))
    differ = answer.table["n_accelerators"].nunique() > 1
    shown = workloads if differ or not answer.has_front else []
    names = shown_names(answer)
    notes = [f"Source: {provenance}.", statements(answer)]
    notes += [f"{name}: {steps_words(rows)}" for name, rows in workloads]
    notes += [f"{_NO_ROOM}."] * (not answer.table["fits_lfs"].all())
    if shown and len(names) < answer.names.nunique():
        notes.append(f"Lines: {len(names)} of {answer.names.nunique()} storages.")
    low, high = ends_of(answer.table)
    notes += [f"{_BAND_NOTE}."] * bool((low < high).any())
    title = "How many accelerators the storage feeds (simulated)"
    if answer.has_front:
        declared = "; costs declared" * (answer.choice.by != BY_HARDWARE)
        title = f"What to buy (simulated{declared})"
    n_panels = answer.has_front + len(shown)
    figure, axes = new_figure(n_panels, title, notes)
    write_first(figure, answer.sentences()[0].replace(" %", "\N{NO-BREAK SPACE}%"))
    handles = []
    if answer.has_front:
        handles += _draw_front(axes[0], answer)
    colours = dict(zip(names, shades(len(names)), strict=True))
    for ax, (name, rows) in zip(axes[-len(shown) :], shown, strict=False):
        by_storage = rows.groupby(rows["design"].map(answer.names), sort=False)
        for storage, of_storage in by_storage:
            if storage in colours:
                _draw_storage(ax, of_storage, colours[storage])
        _finish(ax, rows, name)
    handles += [
        Line2D([], [], color=colour, label=wrapped(one, _NAME_WIDTH), **_POINT)
        for one, colour in colours.items()
        if shown
    ]
    draw_legend(figure, [*handles, Line2D([], [], **GOAL_LINE, label="goal")])
    return figure


def _draw_front(ax: Axes, answer: Answer) -> list[Line2D]:
    """Draw designs over their cost, their front, and the chosen one."""
    cost = answer.choice.costs[answer.choice.by]
    values, goal, axis = answer.reached
    shown = values[answer.choice.compared]
    for verdict, look in _MARKS.items():
        of = shown[answer.designs["verdict"][shown.index] == verdict]
        low, high = (of["value"] - of["low"]).abs(), (of["high"] - of["value"]).abs()
        ax.errorbar(cost[of.index], of["value"], [low, high], elinewidth=1, **look)
    ax.plot(cost[answer.front], values["value"][answer.front], color="#444444", lw=1.2)
    if (chosen := answer.choice.chosen) != NO_CHOICE:
        ax.plot(cost[chosen], values["value"][chosen], **_CHOSEN)
    ax.axhline(goal, **GOAL_LINE)
    unit = f", {answer.cost.unit}" * ("price" in answer.choice.by)
    words = f"{BY_WORDS[answer.choice.by]}{unit}"
    ax.set(title="Cost and goal", xlabel=words, ylabel=axis)
    return [
        *(Line2D([], [], **look, label=one) for one, look in _MARKS.items()),
        Line2D([], [], color="#444444", lw=1.2, label="front"),
        Line2D([], [], **_CHOSEN, label="chosen"),
    ]


def _draw_storage(ax: Axes, rows: pd.DataFrame, colour: tuple[float, ...]) -> None:
    """Draw the line of a storage; markers are hollow where the LFS has no room."""
    rows = rows.sort_values("n_accelerators")
    numbers, values = rows["n_accelerators"], value_of(rows)
    ax.plot(numbers, values, color=colour, linewidth=1.4)
    for fits, look in ((True, {}), (False, _HOLLOW)):
        of = rows["fits_lfs"] == fits
        ax.plot(numbers[of], values[of], color=colour, **_ALONE, **look)
    low, high = ends_of(rows)
    if (low < high).any():
        ax.fill_between(numbers, low, high, color=colour, **BAND)


def _finish(ax: Axes, rows: pd.DataFrame, name: str) -> None:
    """Draw the goal, and label the axes of a panel."""
    first = rows.iloc[0]
    ax.axhline(first["goal_value"], **GOAL_LINE)
    numbers = sorted(rows["n_accelerators"].unique())
    ax.set_xscale("log", base=2)
    powers = [n for n in numbers if n & (n - 1) == 0] or numbers
    ticks = powers[:: -(-len(powers) // _MOST_TICKS)]
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticklabels([f"{n}" for n in ticks])
    ax.set(
        title=f"{name}, {number_words(first['compute_time_s'])} s a step",
        xlabel="Accelerators (processes)",
        ylabel=GOALS[first["goal"]].axis,
    )
    ax.set_ylim(0, 1.05 * max(ax.dataLim.y1, first["goal_value"]))
