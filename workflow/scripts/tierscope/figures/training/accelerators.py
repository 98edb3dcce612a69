"""Draw the utilisation of accelerators over their number."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from tierscope.analysis.training.accelerators import (
    STATEMENTS,
    steps_words,
    summary_text,
)
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
)

FIGURE = Declared(
    file="accelerators",
    title="How many accelerators",
    tables=("accelerators",),
    inputs=("fit",),
    settings=("sources",),
    has_text=True,
    of="accelerators",
)

_HOLLOW = {"markerfacecolor": "white"}
_MOST_TICKS = 8
_NO_ROOM = "Hollow: the LFS of a node has no room for this cache rate of the dataset"
_BAND_NOTE = (
    "Bands: least and largest of the repetitions, and of the ends of what was fitted"
)


def draw(given: Given) -> Figure:
    """Draw how many accelerators the storage feeds."""
    return plot_accelerators(given.table("accelerators"), provenance=str(given.origin))


def describe(given: Given) -> str:
    """Say the same in words."""
    table, fit = given.table("accelerators"), given.table("accelerators_fit", "fit")
    sources = given.settings.sources
    return f"{summary_text(table, fit, sources, str(given.origin))}\n"


@styled
def plot_accelerators(table: pd.DataFrame, *, provenance: str) -> Figure:
    """Draw a panel for each workload, and a line for each cache rate.

    Parameters
    ----------
    table : DataFrame
        Table ``accelerators``.
    provenance : str
        Source and system, in words.

    Returns
    -------
    Figure
        Accelerator utilisation over the number of accelerators (logarithmic), with the
        goal's line.
    """
    workloads = list(table.groupby("workload", sort=False))
    notes = [f"Source: {provenance}.", STATEMENTS]
    notes += [f"{name}: {steps_words(rows)}" for name, rows in workloads]
    notes += [f"{_NO_ROOM}."] * (not table["fits_lfs"].all())
    notes += [f"{_BAND_NOTE}."] * bool(table["utilisation_low_percent"].notna().any())
    title = "How many accelerators the storage feeds (simulated)"
    figure, axes = new_figure(len(workloads), title, notes, share_y=True)
    rates = sorted(table["cache_rate_percent"].unique())
    colours = dict(zip(rates, shades(len(rates)), strict=True))
    for ax, (name, rows) in zip(axes, workloads, strict=True):
        for rate, of_rate in rows.groupby("cache_rate_percent"):
            _draw_rate(ax, of_rate.sort_values("n_accelerators"), colours[rate])
        _finish(ax, rows, name)
    draw_legend(figure, _handles(colours, table))
    return figure


def _draw_rate(ax: Axes, rows: pd.DataFrame, colour: tuple[float, ...]) -> None:
    """Draw the line of a cache rate; markers are hollow where the LFS has no room."""
    numbers, used = rows["n_accelerators"], rows["utilisation_percent"]
    line = {"color": colour, "markeredgecolor": colour, "markersize": 4.5}
    ax.plot(numbers, used, color=colour, linewidth=1.4)
    for fits, look in ((True, {}), (False, _HOLLOW)):
        shown = rows[rows["fits_lfs"] == fits]
        ax.plot(
            shown["n_accelerators"],
            shown["utilisation_percent"],
            marker="o",
            linestyle="",
            **line | look,
        )
    low, high = rows["utilisation_low_percent"], rows["utilisation_high_percent"]
    if low.notna().any():
        ax.fill_between(numbers, low, high, color=colour, **BAND)


def _finish(ax: Axes, rows: pd.DataFrame, name: str) -> None:
    """Draw the goal, and label the axes of a panel."""
    ax.axhline(rows["goal_percent"].iloc[0], **GOAL_LINE)
    numbers = sorted(rows["n_accelerators"].unique())
    ax.set_xscale("log", base=2)
    powers = [n for n in numbers if n & (n - 1) == 0] or numbers
    ticks = powers[:: -(-len(powers) // _MOST_TICKS)]
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticklabels([f"{n}" for n in ticks])
    step_s = number_words(rows["compute_time_s"].iloc[0])
    ax.set(
        title=f"{name}, {step_s} s a step",
        xlabel="Accelerators (processes)",
        ylabel="Accelerator utilisation (%)",
        ylim=(0, 105),
    )
    ax.yaxis.set_tick_params(labelleft=True)


def _handles(
    colours: dict[int, tuple[float, ...]], table: pd.DataFrame
) -> list[Line2D]:
    """Return the legend entries: cache rates, and the goals."""
    handles = [
        Line2D([], [], color=colour, marker="o", markersize=4.5, label=f"{rate} %")
        for rate, colour in colours.items()
    ]
    handles.insert(0, Line2D([], [], linestyle="", label="cache rate"))
    goals = " and ".join(f"{one:g} %" for one in sorted(set(table["goal_percent"])))
    return [*handles, Line2D([], [], **GOAL_LINE, label=f"goal: {goals} AU")]
