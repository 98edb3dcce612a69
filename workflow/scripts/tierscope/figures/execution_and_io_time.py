"""Draw execution time and I/O time over the cache rate, the paper's Fig. 1."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tierscope.analysis.breakdown import (
    epoch_times,
)
from tierscope.core.columns import SCENARIO
from tierscope.core.output.declared import Declared
from tierscope.core.provenance import Origin
from tierscope.core.words import (
    scenario_titles,
)
from tierscope.figures.given_runs import Given
from tierscope.figures.style import (
    draw_legend,
    draw_mean,
    has_one_rate,
    mark_flagged,
    new_figure,
    panels,
    set_cache_rate_axis,
    shades,
    source_notes,
    spread_handles,
    styled,
    titled,
)

FIGURE = Declared(
    file="fig1_execution_and_io_time",
    title="Figure 1: execution time and I/O time",
    tables=("epochs", "io_time", "spread"),
    settings=("scenarios",),
    target="fig1",
)

_EPOCH_COLOURS = ["#000000", "#009E73", "#CC79A7"]
_QUANTITIES = {
    "execution time": {"marker": "o"},
    "I/O time": {"marker": "^", "linestyle": (0, (4, 2))},
}


def draw(given: Given) -> Figure:
    """Draw the times of all scenarios."""
    tables = given.table("epochs"), given.drawn("io_time"), given.table("spread")
    return plot_execution_and_io_time(*tables, **given.words)


@styled
def plot_execution_and_io_time(
    epochs: pd.DataFrame,
    io_time: pd.DataFrame,
    spread: pd.DataFrame,
    *,
    provenance: Origin,
    dataset_titles: Mapping[str, str] | None = None,
) -> Figure:
    """Draw execution time and I/O time of every epoch over the cache rate (Fig. 1).

    Parameters
    ----------
    epochs, io_time, spread : DataFrame
        Tables ``epochs``, ``io_time`` and ``spread`` of the scenarios to draw, a panel
        each in the order of the rows of ``io_time``.
    provenance : Origin
        Where the numbers come from, written below the panels.
    dataset_titles : mapping of str to str, optional
        What to call each dataset.

    Returns
    -------
    Figure
        Round markers: execution time, the largest over the ranks; triangles: I/O
        time of the slowest process. With repetitions the line is their mean and
        the band, at a single cache rate the error bar, is the interval of the mean;
        rings mark a spread above the limit. Each panel has its own y range.
    """
    times = epoch_times(epochs, io_time)
    scenarios = scenario_titles(io_time, dataset_titles)
    title = titled("Execution time and I/O time of each epoch", io_time, provenance)
    spread = spread.merge(scenarios[SCENARIO], on=SCENARIO)
    notes = source_notes(provenance, spread, scenarios)
    figure, axes = new_figure(len(scenarios), title, notes)
    numbers = sorted(times["epoch"].unique().tolist())
    words = {epoch: provenance.epoch_words(epoch) for epoch in numbers}
    palette = _EPOCH_COLOURS[: len(numbers)]
    if len(numbers) > len(_EPOCH_COLOURS):
        palette = shades(len(numbers))
    for ax, (title, panel) in zip(axes, panels(times, scenarios), strict=True):
        for (quantity, epoch), points in panel.groupby(["quantity", "epoch"]):
            colour = palette[numbers.index(epoch)]
            draw_mean(ax, points, "time_s", color=colour, **_QUANTITIES[quantity])
        of_panel = spread.merge(panel[SCENARIO].drop_duplicates(), on=SCENARIO)
        mark_flagged(ax, of_panel, provenance)
        set_cache_rate_axis(ax, times["cache_rate_percent"], provenance)
        ax.set(title=title, ylabel="Time of an epoch (s)")
        ax.set_ylim(top=1.05 * panel["time_s"].max() or 1)
    draw_legend(
        figure,
        [
            *(
                Line2D([], [], color="#444444", label=label, **_QUANTITIES[quantity])
                for quantity, label in (
                    ("execution time", "execution time"),
                    ("I/O time", "I/O time of the\nslowest process"),
                )
            ),
            *(
                Line2D([], [], color=colour, linewidth=3, label=word)
                for colour, word in zip(palette, words.values(), strict=True)
            ),
            *spread_handles(
                spread,
                provenance,
                bars=has_one_rate(times),
                band=not has_one_rate(times),
            ),
        ],
    )
    return figure
