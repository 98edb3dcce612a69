"""Draw what an epoch's time is: computation, processor, and stall by I/O class."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import CARETUPBASE
from matplotlib.patches import Patch

from tierscope.analysis.breakdown import select_epoch, shown_epoch
from tierscope.analysis.comparing.ideal import storage_sentences
from tierscope.analysis.training.after_training import times_after_training
from tierscope.analysis.training.stalls import (
    COMPUTATION,
    LEAST_PERCENT,
    LOADER_END,
    NOT_KNOWN_APART,
    NOT_STORAGE,
    OTHER_IO,
    PROCESSOR,
    STALL,
    STALL_PARTS,
    WARMUP,
    divide_execution_time,
    has_other_loop,
)
from tierscope.core.columns import SCENARIO, TOGETHER
from tierscope.core.io_class import IOClass
from tierscope.core.output.declared import Declared
from tierscope.core.provenance import Origin
from tierscope.core.words import in_seconds, scenario_titles
from tierscope.figures.given_runs import Given
from tierscope.figures.style import (
    ERROR_BARS,
    GOAL_LINE,
    MODEL_HATCH,
    TOGETHER_COLOUR,
    bar_width,
    draw_legend,
    panels,
    set_cache_rate_axis,
    styled,
    titled,
    write_around,
)

FIGURE = Declared(
    file="fig6_stalls",
    title="Figure 6: computation, processor and stall",
    tables=("storage_time", "epochs"),
    inputs=("stalls",),
    settings=("epoch", "may_hide", "scenarios", "goal"),
    in_report="ideal",
    target="fig6",
)

_BESIDES = [COMPUTATION, WARMUP, NOT_KNOWN_APART, PROCESSOR, LOADER_END, OTHER_IO]
_PARTS = [*_BESIDES, *STALL_PARTS, STALL]
_COLOURS = {
    COMPUTATION: "#BBBBBB",
    WARMUP: "#DDDDDD",
    NOT_KNOWN_APART: "#FFFFFF",
    PROCESSOR: "#777777",
    LOADER_END: "#555555",
    OTHER_IO: "#DDCC77",
    TOGETHER: TOGETHER_COLOUR,
    STALL: "#882255",
    **{str(one): one.colour for one in IOClass},
}
_LABELS = {
    COMPUTATION: "computation",
    WARMUP: "warm-up: what the first step\ncomputes longer than others",
    PROCESSOR: "processor, and waits for\nother processes: what else"
    "\nan epoch takes if storage\ncosts nothing",
    NOT_KNOWN_APART: "computation or processor:\nnot known apart",
    LOADER_END: "end of the loader, such as\nthat of its workers",
    OTHER_IO: "other storage I/O, such as\ncheckpoints",
    TOGETHER: "stall of several classes\ntogether (model)",
    STALL: "stall (not divided)",
    **{str(one): f"stall of {one.label}\n(model)" for one in IOClass},
}
_HEIGHTS = 3.4, 1.5  # inches, of the time and of the utilisation of a scenario
_UTILISATION = {"color": "#222222", "marker": "o", "markersize": 4, "linewidth": 1.2}
_LEAST = _UTILISATION | {"marker": CARETUPBASE, "markersize": 7, "ls": ""}
_OF_LOOP = {"color": "#777777", "marker": "x", "markersize": 5, "linewidth": 0.9}
_OF_LOOP |= {"linestyle": (0, (2, 2))}
_UNKNOWN_HATCH = {"hatch": "....", "edgecolor": "#777777", "linewidth": 0}
_AFTER = {"facecolor": "#FFFFFF", "edgecolor": "#222222", "linewidth": 0.8}
_AFTER |= {"clip_on": False}  # beside the last bar, too
_AFTER_TEXT = {"ha": "center", "va": "bottom", "fontsize": 6, "rotation": 90}
_CUT_PERCENT = 1  # of all computation: what is cut off less is not worth a note
_NO_UTILISATION = "not known of an epoch of one step"
_DIVIDED = (
    "Stall is what storage costs, the difference of pairs of runs. Hatched parts "
    "divide it by the model: what would go if the devices of a class cost nothing"
)
_FOLLOWS = (
    "After training, from the end of the last loop to that of the program, is in no "
    "epoch: white bars with their times, cut where they would be higher than the panel"
)
_CUT = (
    "Computation is drawn up to what an epoch takes if storage costs nothing; it takes "
    "longer in the runs, as the runs of a pair differ by more than storage"
)
_NEGATIVE = (
    "\N{WARNING SIGN} Parts that came out below 0 are drawn as 0, so that their bars "
    "are higher than the epoch: the runs of a pair differ by more than storage"
)


def draw(given: Given) -> Figure:
    """Draw all scenarios in the figures' epoch."""
    table, settings = given.drawn("storage_time"), given.settings
    epoch, goal = shown_epoch(table, settings.epoch), settings.goal
    epochs = given.table("epochs", after_training=True)
    return plot_stalls(
        table,
        given.table("class_stalls", "stalls"),
        epoch,
        sentences=storage_sentences(
            table, epoch, settings.may_hide, given.origin, settings.dataset_titles
        ),
        goal_percent=goal.get("percent") if goal["of"] == "utilisation" else None,
        after_s=times_after_training(epochs),
        **given.words,
    )


@styled
def plot_stalls(
    storage_time: pd.DataFrame,
    stalls: pd.DataFrame | None,
    epoch: int,
    *,
    provenance: Origin,
    sentences: Sequence[str] = (),
    goal_percent: float | None = None,
    dataset_titles: Mapping[str, str] | None = None,
    after_s: pd.Series | None = None,
) -> Figure:
    """Draw computation, processor and stall of an epoch over the cache rate (Fig. 6).

    Parameters
    ----------
    storage_time : DataFrame
        Table ``storage_time`` of the scenarios to draw, a panel each.
    stalls : DataFrame or None
        Table ``class_stalls`` of the epoch, None without a model.
    epoch : int
        The epoch, counted from 0.
    provenance, dataset_titles
        As for `tierscope.figures.breakdown.plot_breakdown`.
    sentences : sequence of str, optional
        What storage costs in words, below the panels.
    goal_percent : float, optional
        Goal of the utilisation.
    after_s : Series, optional
        What `times_after_training` returns.

    Returns
    -------
    Figure
        Bars at their true cache rate are stacked; hatched parts are the model's
        division of the stall. Whiskers are the intervals of what storage costs. Beside
        a bar is what follows training, cut at the height of the panel. Below
        each panel is the utilisation, if it is known: an arrow up is a least.
    """
    table = select_epoch(storage_time, epoch)
    after_s = pd.Series(dtype=float) if after_s is None else after_s
    scenarios = scenario_titles(table, dataset_titles)
    parts = divide_execution_time(table, stalls)
    has_utilisation = table["utilisation_percent"].notna().any()
    figure, rows = _new_figure(len(scenarios), has_utilisation)
    phase = provenance.phase
    title = f"What the {phase}'s time is, {provenance.epoch_words(epoch)}"
    notes = [f"Source: {provenance}", *sentences, *_notes(parts, table, after_s)]
    write_around(figure, titled(title, table, provenance), notes)
    for axes, (title, panel) in zip(rows, panels(table, scenarios), strict=True):
        shown = parts.merge(panel[SCENARIO].drop_duplicates(), on=SCENARIO)
        _draw_parts(axes[0], shown, panel)
        _draw_after(axes[0], after_s, panel)
        axes[0].set(title=title, ylabel=f"Time of the {phase} (s)")
        for ax in axes:
            set_cache_rate_axis(ax, table["cache_rate_percent"], provenance)
        for ax in axes[:-1]:
            ax.set_xlabel("")
        for ax in axes[1:]:
            _draw_utilisation(ax, panel, goal_percent)
    goal = goal_percent if has_utilisation else None
    handles = [*_part_handles(parts, table), *_utilisation_handles(table, goal)]
    if len(after_s):
        handles.insert(0, Patch(**_AFTER, label="after training,\nin no epoch"))
    draw_legend(figure, handles)
    return figure


def _new_figure(
    n_panels: int, has_utilisation: bool
) -> tuple[Figure, list[list[Axes]]]:
    """Return a figure, and the axes of each scenario: time, and utilisation."""
    n_columns = 2 if n_panels == 4 else min(n_panels, 3)
    n_rows = math.ceil(n_panels / n_columns)
    heights = _HEIGHTS[: 1 + has_utilisation]
    width = {1: 7.4, 2: 10.2, 3: 13.6}[n_columns]
    size = (width, 0.9 + math.fsum(heights) * n_rows)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(
        n_rows * len(heights), n_columns, squeeze=False, height_ratios=heights * n_rows
    )
    blocks = axes.reshape(n_rows, len(heights), n_columns).swapaxes(1, 2)
    blocks = blocks.reshape(-1, len(heights))
    for unused in blocks[n_panels:].ravel():
        unused.remove()
    return figure, [list(one) for one in blocks[:n_panels]]


def _draw_parts(ax: Axes, parts: pd.DataFrame, panel: pd.DataFrame) -> None:
    """Draw the parts as stacked bars, with the interval of what storage costs."""
    times_s = parts.pivot(index="cache_rate_percent", columns="part", values="time_s")
    rates = times_s.index.to_numpy()
    top_s = np.zeros(len(rates))
    for part in [part for part in _PARTS if part in times_s]:
        height_s = times_s[part].fillna(0.0).to_numpy()
        ax.bar(rates, height_s, bar_width(rates), bottom=top_s, **_look(part))
        top_s = top_s + height_s
    half_s = panel.set_index("cache_rate_percent")["storage_interval_s"][rates]
    if half_s.notna().any():
        line = {"color": "#222222", "ls": ""} | ERROR_BARS
        ax.errorbar(rates, top_s, half_s.to_numpy(), **line)
    ax.set_ylim(top=1.08 * (top_s + half_s.fillna(0).to_numpy()).max() or 1)


def _draw_after(ax: Axes, after_s: pd.Series, panel: pd.DataFrame) -> None:
    """Draw what follows training as narrow bars beside those of epochs, with times."""
    points = pd.MultiIndex.from_frame(panel[[*SCENARIO, "cache_rate_percent"]])
    rates = panel["cache_rate_percent"].to_numpy()
    width, top_s = bar_width(rates), ax.get_ylim()[1]
    for rate, time_s in zip(rates, after_s.reindex(points), strict=True):
        if np.isnan(time_s):
            continue
        left, height_s = rate + width / 2, min(time_s, top_s / 1.08)
        ax.bar(left, height_s, 0.4 * width, align="edge", **_AFTER)
        ax.text(left + 0.2 * width, 0, f" {in_seconds(time_s)}", **_AFTER_TEXT)


def _look(part: str) -> dict[str, object]:
    """Return how a part is filled: what the model divides, or nobody, is hatched."""
    hatch = MODEL_HATCH if part in STALL_PARTS else {}
    hatch = _UNKNOWN_HATCH if part == NOT_KNOWN_APART else hatch
    return {"facecolor": _COLOURS[part]} | hatch


def _draw_utilisation(
    ax: Axes, panel: pd.DataFrame, goal_percent: float | None
) -> None:
    """Draw the utilisation with its interval or as a least, that of loops, the goal."""
    points = panel.sort_values("cache_rate_percent").set_index("cache_rate_percent")
    used, is_least = points["utilisation_percent"], points["least_because"] != ""
    half = points["utilisation_interval_percent"].where(~is_least)
    ax.plot(used.index, used.where(~is_least), **_UTILISATION)
    ax.plot(used.index, used.where(is_least), **_LEAST)
    if half.notna().any():
        ax.errorbar(used.index, used, half, color="#222222", ls="", **ERROR_BARS)
    if panel.apply(has_other_loop, axis=1).any():
        ax.plot(used.index, points["loop_utilisation_percent"], **_OF_LOOP)
    if used.isna().all():
        ax.text(0.5, 0.5, _NO_UTILISATION, ha="center", transform=ax.transAxes)
    if goal_percent is not None:
        ax.axhline(goal_percent, **GOAL_LINE)
    ax.set(ylabel="AU (%)", ylim=(0, 105))


def _notes(parts: pd.DataFrame, table: pd.DataFrame, after_s: pd.Series) -> list[str]:
    """Return how the stall was divided, what noise made negative, and what follows."""
    drawn_s = parts.loc[parts["part"] == COMPUTATION, "time_s"].sum()
    said = {
        _CUT: drawn_s < (1 - _CUT_PERCENT / 100) * table["compute_time_s"].sum(),
        _FOLLOWS: len(after_s) > 0,
        _DIVIDED: parts["part"].isin(STALL_PARTS).any(),
        _NEGATIVE: parts["is_negative"].any(),
    }
    return [f"{note}." for note, is_so in said.items() if is_so]


def _part_handles(parts: pd.DataFrame, table: pd.DataFrame) -> list[Patch]:
    """Return the legend entries of the parts that count, top of the stack first."""
    whole_s = parts.groupby([*SCENARIO, "cache_rate_percent"])["time_s"]
    least_s = whole_s.transform("sum") * LEAST_PERCENT / 100
    is_shown = (parts["time_s"] > 0) & (parts["time_s"] >= least_s)
    shown = parts.loc[is_shown, "part"].unique()
    labels = dict(_LABELS)
    if table["compute_time_s"].isna().all():  # it is not known of such programs
        labels[PROCESSOR] = NOT_STORAGE
    if (table["least_because"] != "").any():
        labels[COMPUTATION] = "computation; at least this\nwhere the rest is dotted"
    return [
        Patch(**_look(part), label=labels[part])
        for part in reversed(_PARTS)
        if part in shown
    ]


def _utilisation_handles(
    table: pd.DataFrame, goal_percent: float | None
) -> list[Line2D]:
    """Return the legend entries of the utilisation, if it is known."""
    known = table[table["utilisation_percent"].notna()]
    is_least, handles = known["least_because"] != "", []
    if (~is_least).any():
        label = "accelerator utilisation\n(AU)"
        handles.append(Line2D([], [], **_UTILISATION, label=label))
    if is_least.any():
        handles.append(Line2D([], [], **_LEAST, label="AU is at least this"))
    if known.apply(has_other_loop, axis=1).any():
        handles.append(Line2D([], [], **_OF_LOOP, label="AU as the loop sees it"))
    if goal_percent is not None:
        label = f"goal: {goal_percent:g} % AU"
        handles.append(Line2D([], [], **GOAL_LINE, label=label))
    return handles
