"""Draw the map of two improvements that meet a goal, the paper's Fig. 4."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import offset_copy

from tierscope.analysis.utilisation import goal_of
from tierscope.analysis.whatif import (
    cheapest_sufficient,
    improvement_grid,
    select_improvements,
)
from tierscope.core.io_class import IOClass
from tierscope.core.output.declared import Declared
from tierscope.core.provenance import (
    METHOD_WORDS,
    Origin,
    method_notes,
    utilisation_note,
)
from tierscope.core.words import (
    goal_notes,
    goal_words,
    improvement_words,
    is_utilisation,
    ties_words,
)
from tierscope.figures.before_after import Shown, draw_if_advised
from tierscope.figures.cheapest_combination import ONLY_THE_MEAN
from tierscope.figures.given_runs import Given
from tierscope.figures.style import (
    shades,
    styled,
    wrapped,
    write_around,
)

FIGURE = Declared(
    file="fig4_{pair}",
    title="Figure 4: improvements of {pair}",
    tables=("goals", "spread", "limits"),
    inputs=("estimates",),
    settings=("epoch", "scenario", "classes", "grid", "cost_per_percent", "model"),
    target="fig4",
)

_TITLE_WIDTH = 54  # characters, of a panel
_DOT_AREA = 42  # in points, for at most 21 dots on an axis
_INSUFFICIENT = {"color": "#999999", "marker": ".", "markersize": 4, "ls": ""}
_CHEAPEST = {
    "color": "white",
    "marker": "*",
    "markersize": 17,
    "markeredgecolor": "black",
    "ls": "",
}
_UNSURE = {
    "color": "white",
    "marker": "o",
    "markersize": 3.5,
    "markeredgecolor": "#777777",
    "ls": "",
}


def draw(given: Given) -> Figure:
    """Draw which improvements of a pair of classes meet the goal."""
    return draw_if_advised(_draw, given)


def describe(given: Given) -> str:
    """Say the goal, and how many combinations meet it by each method."""
    n_sufficient = _combinations(given).groupby("method")["sufficient"].sum()
    goal = given.shown("goals").iloc[0]
    return f"{goal_words(goal)}; sufficient:\n{n_sufficient.to_string()}"


def _combinations(given: Given) -> pd.DataFrame:
    """Return the combinations of the grid, in the order of the tables' methods."""
    settings, goal = given.settings, given.shown("goals").iloc[0]
    grid = improvement_grid(settings.classes, **settings.grid)
    estimates = select_improvements(given.shown("estimates"), grid)
    combinations = goal_of(goal).sufficient(estimates).set_index("method")
    return combinations.loc[estimates["method"].unique()].reset_index()


def _draw(given: Given) -> Figure:
    settings = given.settings
    return plot_sufficient_combinations(
        _combinations(given),
        given.shown("goals").iloc[0],
        given.table("spread"),
        classes=settings.classes,
        cost_per_percent=settings.cost_per_percent,
        model=settings.model,
        **given.words,
    )


@styled
def plot_sufficient_combinations(
    combinations: pd.DataFrame,
    goal: pd.Series,
    spread: pd.DataFrame,
    *,
    provenance: Origin,
    cost_per_percent: Mapping[str, float],
    classes: Sequence[str] = (IOClass.GFS_META, IOClass.LFS_READ),
    model: str = "",
    dataset_titles: Mapping[str, str] | None = None,
) -> Figure:
    """Draw which improvements of two I/O classes meet a goal (Fig. 4).

    Parameters
    ----------
    combinations : DataFrame
        What `tierscope.analysis.whatif.Goal.sufficient` returns for one
        scenario and epoch, where only the two classes are improved; a panel for each
        method.
    goal : Series
        The row of table ``goals`` of that scenario and epoch.
    spread : DataFrame
        Table ``spread``, of that scenario and possibly others.
    provenance, dataset_titles
        As for `tierscope.figures.execution_and_io_time.plot_execution_and_io_time`.
    cost_per_percent : mapping of str to float
        Cost of one percent of improvement of each class.
    classes : pair of str
        The I/O classes on the x and the y axis.
    model : str, optional
        What the model is (`tierscope.core.provenance.model_words`), if it is one.

    Returns
    -------
    Figure
        A dot for each sufficient combination, coloured by the least cache rate
        that meets the goal (the same colours in both panels), white inside if not
        every repetition meets it there; a small grey mark for each insufficient
        combination. A star marks the cheapest. If none meets the goal, a text says so.
    """
    columns = [f"{io_class}_improvement_percent" for io_class in classes]
    shown = Shown.of(combinations, spread, provenance, dataset_titles)
    methods = list(combinations["method"].unique())
    figure = Figure(figsize=((8, 13.6)[len(methods) - 1], 6.6), layout="constrained")
    title = f"Improvements that meet {goal_words(goal)}: {shown.scenario}"
    notes_of_methods = method_notes(methods, model)
    if is_utilisation(goal):
        notes_of_methods = [utilisation_note(model)]
    notes = [*shown.notes, *goal_notes(goal), *notes_of_methods]
    write_around(figure, shown.titled(f"{title}, {shown.epoch}"), notes)
    axes = figure.subplots(1, len(methods), squeeze=False, sharey=True).ravel()
    rates = combinations["min_cache_rate_percent"].dropna().astype(int)
    colours = _colours(sorted(rates.unique()))
    for ax, method in zip(axes, methods, strict=True):
        panel = combinations[combinations["method"] == method]
        cheapest = cheapest_sufficient(panel, cost_per_percent)
        _draw_map(ax, panel, columns, colours)
        if cheapest is None:
            _write_that_none_meets(ax, goal)
        else:
            colour = colours[int(cheapest["min_cache_rate_percent"])]
            mark = _CHEAPEST | {"color": colour}
            ax.plot(*cheapest[columns], **mark, clip_on=False, zorder=4)
        ax.set_title(_panel_words(panel, cheapest, method), loc="left")
        ax.set_xlabel(f"{IOClass(classes[0]).label} improvement (% more throughput)")
        ax.set_xticks(_some(panel[columns[0]]))
        ax.set_yticks(_some(panel[columns[1]]))
        ax.grid(False)
    axes[0].set_ylabel(f"{IOClass(classes[1]).label} improvement (% more throughput)")
    if len(colours) > 1:
        _add_colour_bar(figure, axes, colours)
    axes[0].legend(
        handles=_handles(combinations, colours),
        loc="upper left",
        bbox_to_anchor=(-0.02, 0),
        bbox_transform=offset_copy(axes[0].transAxes, figure, y=-32, units="points"),
        ncols=2,
        handletextpad=0.2,
        columnspacing=1.2,
    )
    return figure


def _colours(rates: Sequence[int]) -> dict[int, tuple[float, ...]]:
    """Return a colour for each cache rate, from dark to light."""
    return dict(zip(map(int, rates), shades(len(rates)), strict=True))


def _draw_map(
    ax: Axes, panel: pd.DataFrame, columns: Sequence[str], colours: Mapping
) -> None:
    """Draw a dot for each combination, coloured by its least cache rate."""
    x, y = columns
    insufficient = panel[~panel["sufficient"]]
    ax.plot(x, y, data=insufficient, **_INSUFFICIENT)
    sufficient = panel[panel["sufficient"]]
    n_steps = panel[x].nunique()
    ax.scatter(
        sufficient[x],
        sufficient[y],
        s=_DOT_AREA * min(1, 21 / n_steps) ** 2,
        c=[colours[int(rate)] for rate in sufficient["min_cache_rate_percent"]],
        edgecolor="#444444",
        linewidth=0.4,
    )
    unsure = sufficient[~sufficient["in_every_repetition"]]
    ax.plot(x, y, data=unsure, **_UNSURE | {"markeredgewidth": 0}, zorder=3)


def _write_that_none_meets(ax: Axes, goal: pd.Series) -> None:
    """Write into a panel that none of its combinations meets the goal."""
    ax.text(
        0.5,
        0.5,
        f"No combination on this grid meets\n{goal_words(goal)}.",
        transform=ax.transAxes,
        ha="center",
        va="center",
        fontsize=11,
        bbox={"facecolor": "white", "edgecolor": "#888888", "pad": 8},
    )


def _panel_words(
    panel: pd.DataFrame,
    cheapest: pd.Series | None,
    method: str,
) -> str:
    """Return how many combinations meet the goal by a method, and the cheapest."""
    words = (
        f"{METHOD_WORDS[method].capitalize()}: {panel['sufficient'].sum()} of "
        f"{len(panel)} meet the goal"
    )
    if cheapest is None:
        return words
    lines = [
        words,
        f"cheapest of these: {improvement_words(cheapest)}, cache rate "
        f"{cheapest['min_cache_rate_percent']} %",
    ]
    if ties := ties_words(cheapest, minimal=False):
        lines[1] += f"; {ties}"
    return "\n".join(wrapped(line, _TITLE_WIDTH) for line in lines)


def _add_colour_bar(figure: Figure, axes: Sequence[Axes], colours: Mapping) -> None:
    """Add the key of the colours to the right of all panels."""
    norm = BoundaryNorm(np.arange(len(colours) + 1) - 0.5, len(colours))
    bar = figure.colorbar(
        ScalarMappable(norm, ListedColormap(list(colours.values()))),
        ax=axes,
        ticks=range(len(colours)),
        label="least cache rate that meets the goal (%)",
    )
    bar.ax.set_yticklabels([str(rate) for rate in colours])
    bar.ax.tick_params(length=0, which="both")


def _handles(combinations: pd.DataFrame, colours: Mapping) -> list[Line2D]:
    """Return the legend entries of the marks, and of the colour if only one."""
    handles = []
    sufficient = combinations[combinations["sufficient"]]
    if len(sufficient) < len(combinations):
        label = "no cache rate meets the goal"
        handles.append(Line2D([], [], **_INSUFFICIENT, label=label))
    if len(colours) == 1:
        ((rate, colour),) = colours.items()
        label = f"least cache rate that meets the goal: {rate} %"
        mark = {"marker": "o", "markeredgecolor": "#444444", "ls": ""}
        handles.append(Line2D([], [], color=colour, **mark, label=label))
    if len(sufficient):
        handles.append(Line2D([], [], **_CHEAPEST, label="cheapest"))
    if not sufficient["in_every_repetition"].all():
        handles.append(Line2D([], [], **_UNSURE, label=ONLY_THE_MEAN))
    return handles


def _some(percents: pd.Series) -> list[int]:
    """Return at most eleven evenly spaced values of a grid, for ticks."""
    values = sorted(percents.unique().tolist())
    return values[:: math.ceil(len(values) / 11)]
