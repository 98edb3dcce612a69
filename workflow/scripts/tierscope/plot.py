"""Draw the paper's four figures from tidy tables; `breakdown` and `whatif` compute.

Every figure names the source of its numbers twice: emulated and simulated numbers
are called so in the title, and a line at the bottom says where they come from.
"""

import functools
import math
import os
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MultipleLocator

from tierscope.breakdown import SCENARIO, epoch_times, select_epoch
from tierscope.io_class import IOClass
from tierscope.whatif import IMPROVEMENTS, best_point, mean_over_repetitions

CACHE_RATE_LABEL = "Cache rate (% of files on the LFS)"
SLOWEST_LABEL = "I/O time of the slowest process (s)"

_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "figure.constrained_layout.h_pad": 0.08,
    "figure.constrained_layout.w_pad": 0.08,
}
_SAVING = {"svg.hashsalt": "tierscope", "svg.fonttype": "path", "pdf.fonttype": 42}
_METADATA = {
    ".svg": {"Date": None},
    ".png": {},
    ".pdf": {"CreationDate": None},
}
_EPOCH_COLOURS = ["#000000", "#009E73", "#CC79A7"]
_ORDINALS = ["first", "second", "third", "fourth", "fifth"]
_TOTAL = {"color": "#222222", "marker": "o", "markersize": 4, "linewidth": 1.2}
_BAND = {"alpha": 0.15, "linewidth": 0}
_MEASURED = {"color": "#777777", "marker": "o", "markersize": 4, "linewidth": 1.5}


def _styled(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    """Make a function draw in the project's style, whatever the user's settings."""

    @functools.wraps(draw)
    def styled(*args, **kwargs) -> Figure:
        with style.context(["default", _STYLE]):
            return draw(*args, **kwargs)

    return styled


def epoch_words(epoch: int) -> str:
    """Return an epoch, counted from 0, in words: 1 is the ``second epoch``."""
    if epoch < len(_ORDINALS):
        return f"{_ORDINALS[epoch]} epoch"
    return f"epoch number {epoch + 1}"


def scenario_titles(
    table: pd.DataFrame, dataset_titles: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return the scenarios of a table in the order of their rows, with a title.

    Parameters
    ----------
    table : DataFrame
        Any table with the keys of a scenario.
    dataset_titles : mapping of str to str, optional
        What to call each dataset, such as ``{"small": "128 KiB files"}``.

    Returns
    -------
    DataFrame, shape (n_scenarios, 7)
        The keys and ``title``, such as "128 KiB files, 60 OSTs", followed by
        whatever else differs between the scenarios (policy, loader, system, source).
    """
    scenarios = table[SCENARIO].drop_duplicates(ignore_index=True)
    others = [key for key in SCENARIO if key not in ("dataset", "n_osts")]
    differing = [key for key in reversed(others) if scenarios[key].nunique() > 1]
    titles = []
    for scenario in scenarios.to_dict("records"):
        dataset = scenario["dataset"]
        words = [(dataset_titles or {}).get(dataset, f"{dataset} dataset")]
        if n_osts := scenario["n_osts"]:
            words.append(f"{n_osts} OST" if n_osts == 1 else f"{n_osts} OSTs")
        words += [str(scenario[key]) for key in differing]
        titles.append(", ".join(words))
    return scenarios.assign(title=titles)


def _seconds(time_s: float) -> str:
    """Return a time with three digits and its unit, such as ``10.0 s``."""
    return f"{time_s:#.3g}".rstrip(".") + " s"


def _titled(title: str, table: pd.DataFrame) -> str:
    """Return a title that names sources other than measurement."""
    sources = sorted(set(table["source"]) - {"measured"})
    return f"{title} ({', '.join(sources)})" if sources else title


def _new_figure(
    n_panels: int, title: str, provenance: str, share_y: bool = False
) -> tuple[Figure, list[Axes]]:
    """Return a figure of up to three panels a row, with title and source line."""
    n_columns = 2 if n_panels == 4 else min(n_panels, 3)
    n_rows = math.ceil(n_panels / n_columns)
    width = {1: 7.4, 2: 10.2, 3: 13.6}[n_columns]
    figure = Figure(figsize=(width, 0.9 + 3.5 * n_rows), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, squeeze=False, sharey=share_y).ravel()
    for unused in axes[n_panels:]:
        unused.remove()
    _write_around(figure, title, provenance)
    return figure, list(axes[:n_panels])


def _write_around(figure: Figure, title: str, provenance: str) -> None:
    """Write the title above and the source line below the panels, left-aligned."""
    width = figure.get_figwidth()
    figure.suptitle(
        textwrap.fill(title, int(9.5 * width)),
        x=0.01,
        ha="left",
        fontsize=12.5,
        fontweight="bold",
    )
    figure.supxlabel(
        textwrap.fill(f"Source: {provenance}", int(13 * width)),
        x=0.01,
        ha="left",
        fontsize=8.5,
        color="#555555",
    )


def _set_cache_rate_axis(ax: Axes, cache_rates_percent: Sequence[int]) -> None:
    """Label the x axis and leave room for the outermost cache rates."""
    lowest, highest = min(cache_rates_percent), max(cache_rates_percent)
    ax.set_xlabel(CACHE_RATE_LABEL)
    ax.set_xlim(lowest - 4, highest + 4)
    if highest - lowest >= 40:
        ax.xaxis.set_major_locator(MultipleLocator(20))
    ax.set_ylim(bottom=0)


@_styled
def plot_times(
    epochs: pd.DataFrame,
    io_time: pd.DataFrame,
    *,
    provenance: str,
    dataset_titles: Mapping[str, str] | None = None,
) -> Figure:
    """Draw execution time and I/O time of every epoch over the cache rate (Fig. 1).

    Parameters
    ----------
    epochs, io_time : DataFrame
        Tables ``epochs`` and ``io_time`` of the scenarios to draw, a panel each in
        the order of the rows of ``io_time``.
    provenance : str
        Where the numbers come from, written below the panels.
    dataset_titles : mapping of str to str, optional
        What to call each dataset.

    Returns
    -------
    Figure
        Round markers: execution time, the largest over the ranks; triangles: I/O
        time of the slowest process. With repetitions the line is their mean and
        the band goes from the least to the largest. Each panel has its own y range.
    """
    times = epoch_times(epochs, io_time)
    scenarios = scenario_titles(io_time, dataset_titles)
    title = _titled("Execution time and I/O time of each epoch", io_time)
    figure, axes = _new_figure(len(scenarios), title, provenance)
    numbers = sorted(times["epoch"].unique())
    words = {epoch: epoch_words(epoch) for epoch in numbers}
    palette = _EPOCH_COLOURS[: len(numbers)]
    if len(numbers) > len(_EPOCH_COLOURS):
        palette = sns.color_palette("viridis", len(numbers))
    times = times.assign(epoch_words=times["epoch"].map(words))
    for ax, (title, panel) in zip(axes, _panels(times, scenarios), strict=True):
        sns.lineplot(
            panel,
            x="cache_rate_percent",
            y="time_s",
            hue="epoch_words",
            hue_order=list(words.values()),
            palette=list(palette),
            style="quantity",
            style_order=["execution time", "I/O time"],
            markers=["o", "^"],
            dashes=["", (4, 2)],
            errorbar=("pi", 100),
            err_kws=_BAND,
            legend=False,
            ax=ax,
        )
        _set_cache_rate_axis(ax, panel["cache_rate_percent"])
        ax.set(title=title, ylabel="Time of an epoch (s)")
        ax.set_ylim(top=1.05 * panel["time_s"].max() or 1)
    figure.legend(
        handles=[
            Line2D([], [], color="#444444", marker="o", label="execution time"),
            Line2D(
                [],
                [],
                color="#444444",
                marker="^",
                linestyle=(0, (4, 2)),
                label="I/O time of the\nslowest process",
            ),
            *(
                Line2D([], [], color=colour, linewidth=3, label=word)
                for colour, word in zip(palette, words.values(), strict=True)
            ),
        ],
        loc="outside right center",
    )
    return figure


def _panels(
    table: pd.DataFrame, scenarios: pd.DataFrame
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Return title and rows of each scenario, in the order of the scenarios."""
    for row in range(len(scenarios)):
        scenario = scenarios.iloc[[row]]
        yield scenario["title"].iloc[0], table.merge(scenario[SCENARIO], on=SCENARIO)


@_styled
def plot_breakdown(
    breakdown: pd.DataFrame,
    epoch: int,
    *,
    provenance: str,
    dataset_titles: Mapping[str, str] | None = None,
) -> Figure:
    """Draw the breakdown of the slowest process over the cache rate (Fig. 2).

    Parameters
    ----------
    breakdown : DataFrame
        Table ``breakdown`` of the scenarios to draw, a panel each in the order of
        its rows.
    epoch : int
        The epoch to draw, counted from 0.
    provenance, dataset_titles
        As for `plot_times`.

    Returns
    -------
    Figure
        Bars at their true cache rate, stacked by I/O class; the line is their sum
        and the dotted line marks the cache rate with the least I/O time. With
        repetitions these are means, and the band goes from the least to the largest
        sum. Each panel has its own y range.
    """
    breakdown = select_epoch(breakdown, epoch)
    scenarios = scenario_titles(breakdown, dataset_titles)
    title = f"I/O time of the slowest process by class, {epoch_words(epoch)}"
    figure, axes = _new_figure(len(scenarios), _titled(title, breakdown), provenance)
    for ax, (title, panel) in zip(axes, _panels(breakdown, scenarios), strict=True):
        _stack_classes(ax, panel)
        totals = _totals(panel)
        sns.lineplot(
            totals,
            x="cache_rate_percent",
            y="io_time_s",
            errorbar=("pi", 100),
            err_kws=_BAND,
            ax=ax,
            **_TOTAL,
        )
        _set_cache_rate_axis(ax, totals["cache_rate_percent"])
        ax.set_ylim(top=1.2 * totals["io_time_s"].max() or 1)
        _mark_best(ax, best_point(totals).iloc[0])
        ax.set(title=title, ylabel=SLOWEST_LABEL)
    total = Line2D([], [], **_TOTAL, label="sum of the four")
    figure.legend(handles=[total, *_class_handles()], loc="outside right center")
    return figure


def _totals(breakdown: pd.DataFrame) -> pd.DataFrame:
    """Return the I/O time of the slowest process of each run of a breakdown."""
    keys = [column for column in breakdown if column not in ("io_class", "share")]
    keys.remove("time_s")
    totals = breakdown.groupby(keys, sort=True)["time_s"].sum()
    return totals.rename("io_time_s").reset_index()


def _stack_classes(ax: Axes, panel: pd.DataFrame) -> None:
    """Draw the mean time of each I/O class as stacked bars at the cache rates."""
    by = ["cache_rate_percent", "io_class"]
    times_s = panel.groupby(by)["time_s"].mean().unstack("io_class")
    rates = times_s.index.to_numpy()
    width = 0.8 * np.diff(rates).min(initial=8)
    bottom_s = np.zeros(len(rates))
    for io_class in IOClass:
        height_s = times_s[str(io_class)].to_numpy()
        ax.bar(rates, height_s, width, bottom=bottom_s, color=io_class.colour)
        bottom_s = bottom_s + height_s


def _class_handles() -> list[Patch]:
    """Return the legend entries of the I/O classes, top of the stack first."""
    return [
        Patch(color=io_class.colour, label=io_class.label)
        for io_class in reversed(IOClass)
    ]


def _mark_best(ax: Axes, best: pd.Series) -> None:
    """Mark the best cache rate with a dotted line up to its numbers at the top."""
    rate = best["cache_rate_percent"]
    left, right = ax.get_xlim()
    side = np.searchsorted([0.2, 0.8], (rate - left) / (right - left))
    top_s = 0.9 * ax.get_ylim()[1]
    ax.vlines(rate, best["io_time_s"], top_s, color="#222222", lw=1, ls=":")
    ax.annotate(
        f"best: {rate} %, {_seconds(best['io_time_s'])}",
        (rate, 0.915),
        xycoords=("data", "axes fraction"),
        ha=["left", "center", "right"][side],
        va="bottom",
        fontsize=9.5,
    )


@_styled
def plot_improvement(
    improved: pd.DataFrame,
    epoch: int,
    *,
    provenance: str,
    dataset_titles: Mapping[str, str] | None = None,
) -> Figure:
    """Draw the breakdown of the slowest process after improvements (Fig. 3).

    Parameters
    ----------
    improved : DataFrame
        One scenario's breakdown after each improvement and without any, as made by
        `tierscope.whatif.break_down_improved`; a panel for each improvement in the
        order of the rows.
    epoch : int
        The epoch to draw, counted from 0.
    provenance, dataset_titles
        As for `plot_times`.

    Returns
    -------
    Figure
        Stacked bars: breakdown of the process that is slowest after the
        improvement; grey line: I/O time without it; diamonds: the best points. All
        panels have the same y range. With repetitions all are means.
    """
    improved = select_epoch(improved, epoch)
    scenario = scenario_titles(improved, dataset_titles)["title"].iloc[0]
    totals = _totals(improved)
    points, best = mean_over_repetitions(totals), best_point(totals)
    changed = improved[IMPROVEMENTS].drop_duplicates()
    changed = changed[(changed > 0).any(axis=1)]
    title = f"Estimated I/O time of the {epoch_words(epoch)} after an improvement"
    figure, axes = _new_figure(
        len(changed), _titled(f"{title}: {scenario}", improved), provenance, True
    )
    before, best_before = _with(points), _with(best).iloc[0]
    marks = {"marker": "D", "markersize": 8, "markeredgecolor": "white"}
    for ax, percents in zip(axes, changed.to_dict("records"), strict=True):
        _stack_classes(ax, _with(improved, percents))
        best_after = _with(best, percents).iloc[0]
        ax.plot("cache_rate_percent", "io_time_s", data=before, **_MEASURED)
        for point, colour in ((best_before, "#777777"), (best_after, "#222222")):
            at = point["cache_rate_percent"], point["io_time_s"]
            ax.plot(*at, color=colour, **marks)
        _set_cache_rate_axis(ax, points["cache_rate_percent"])
        ax.set_title(
            f"{_improvement_words(percents)}\n{_cut_words(best_before, best_after)}"
        )
        ax.set_ylabel(SLOWEST_LABEL)
    axes[0].set_ylim(top=1.08 * points["io_time_s"].max() or 1)
    figure.legend(
        handles=[
            Line2D([], [], **_MEASURED, label="before the\nimprovement"),
            Line2D([], [], color="#777777", ls="", **marks, label="best before"),
            Line2D([], [], color="#222222", ls="", **marks, label="best after"),
            *_class_handles(),
        ],
        loc="outside right center",
    )
    return figure


def _with(
    table: pd.DataFrame, percents: Mapping[str, int] | None = None
) -> pd.DataFrame:
    """Return the rows of one improvement, by default of none at all."""
    wanted = pd.Series(percents or dict.fromkeys(IMPROVEMENTS, 0))
    return table[(table[IMPROVEMENTS] == wanted).all(axis=1)]


def _improvement_words(percents: Mapping[str, int]) -> str:
    """Return an improvement in words, such as ``GFS-META +50 %``."""
    return ", ".join(
        f"{io_class.label} +{percents[column]} %"
        for io_class, column in zip(IOClass, IMPROVEMENTS, strict=True)
        if percents[column]
    )


def _cut_words(before: pd.Series, after: pd.Series) -> str:
    """Return how the best point moves, such as ``best 65 % → 60 %, ...``."""
    rates = [point["cache_rate_percent"] for point in (before, after)]
    cut = after["io_time_s"] / before["io_time_s"] - 1 if before["io_time_s"] else 0
    moved = f"{rates[0]} % → {rates[1]} %" if rates[0] != rates[1] else f"{rates[0]} %"
    return (
        f"best at {moved}: {_seconds(before['io_time_s'])} → "
        f"{_seconds(after['io_time_s'])} ({100 * cut:+.1f} %)".replace(
            "-", "\N{MINUS SIGN}"
        )
    )


@_styled
def plot_sufficient(
    combinations: pd.DataFrame,
    goal_s: float,
    *,
    provenance: str,
    classes: Sequence[str] = (IOClass.GFS_META, IOClass.LFS_READ),
    goal_words: str = "",
    dataset_titles: Mapping[str, str] | None = None,
) -> Figure:
    """Draw which improvements of two I/O classes meet a goal (Fig. 4).

    Parameters
    ----------
    combinations : DataFrame
        What `tierscope.whatif.sufficient_combinations` returns for one scenario
        and epoch, where only the two classes are improved.
    goal_s : float
        The goal: I/O time of an epoch in seconds.
    provenance, dataset_titles
        As for `plot_times`.
    classes : pair of str
        The I/O classes on the x and the y axis.
    goal_words : str
        Where the goal comes from, added to the title.

    Returns
    -------
    Figure
        A dot for each sufficient combination, coloured by the least cache rate
        that meets the goal, and a small grey mark for each insufficient one. If
        none meets the goal, a text says so.
    """
    x, y = (IOClass(io_class) for io_class in classes)
    columns = {axis: f"{axis}_improvement_percent" for axis in (x, y)}
    scenario = scenario_titles(combinations, dataset_titles)["title"].iloc[0]
    words = epoch_words(combinations["epoch"].iloc[0])
    figure = Figure(figsize=(8, 6), layout="constrained")
    title = f"Improvements that meet the goal of {goal_s:.3g} s of I/O time"
    title = _titled(f"{title}{goal_words and ', '}{goal_words}, {words}", combinations)
    _write_around(figure, title, provenance)
    ax = figure.subplots()
    sufficient = combinations[combinations["sufficient"]]
    insufficient = combinations[~combinations["sufficient"]]
    ax.scatter(
        columns[x],
        columns[y],
        data=insufficient,
        s=5,
        color="#999999",
        label="no cache rate meets the goal",
    )
    if sufficient.empty:
        ax.text(
            0.5,
            0.5,
            f"No combination on this grid meets the goal of {goal_s:.3g} s.",
            transform=ax.transAxes,
            ha="center",
            va="center",
            fontsize=11,
            bbox={"facecolor": "white", "edgecolor": "#888888", "pad": 8},
        )
    else:
        _colour_by_cache_rate(ax, sufficient, columns[x], columns[y])
    ax.set_title(scenario, loc="left")
    ax.legend(loc="lower right", bbox_to_anchor=(1, 0.99), handletextpad=0)
    ax.set_xlabel(f"{x.label} improvement (% more throughput)")
    ax.set_ylabel(f"{y.label} improvement (% more throughput)")
    ax.set_xticks(_some(combinations[columns[x]]))
    ax.set_yticks(_some(combinations[columns[y]]))
    ax.grid(False)
    return figure


def _some(percents: pd.Series) -> list[int]:
    """Return at most eleven evenly spaced of the values of a grid, for ticks."""
    values = sorted(percents.unique().tolist())
    return values[:: math.ceil(len(values) / 11)]


def _colour_by_cache_rate(ax: Axes, sufficient: pd.DataFrame, x: str, y: str) -> None:
    """Draw a dot for each combination, coloured by its least cache rate."""
    least = sufficient["min_cache_rate_percent"].astype("int64")
    rates = sorted(least.unique())
    colours = ListedColormap(sns.color_palette("viridis", len(rates)))
    norm = BoundaryNorm(np.arange(len(rates) + 1) - 0.5, len(rates))
    position = least.map({rate: number for number, rate in enumerate(rates)})
    ax.scatter(
        sufficient[x],
        sufficient[y],
        s=42,
        c=position,
        cmap=colours,
        norm=norm,
        edgecolor="#444444",
        linewidth=0.4,
    )
    bar = ax.figure.colorbar(
        ScalarMappable(norm, colours),
        ax=ax,
        ticks=range(len(rates)),
        label="least cache rate that meets the goal (%)",
    )
    bar.ax.set_yticklabels([str(rate) for rate in rates])
    bar.ax.tick_params(length=0, which="both")


def save_figure(figure: Figure, paths: Iterable[str | Path]) -> None:
    """Write a figure to SVG, PNG or PDF files; the same figure gives the same bytes.

    Parameters
    ----------
    figure : Figure
        The figure to write.
    paths : iterable of path
        Where to write it; the suffix is the format. Each file is written under a
        temporary name and renamed.
    """
    for path in map(Path, paths):
        if path.suffix not in _METADATA:
            raise ValueError(f"{path}: got {path.suffix}, expected {list(_METADATA)}.")
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with matplotlib.rc_context(_SAVING):
                figure.savefig(
                    temporary,
                    format=path.suffix[1:],
                    dpi=200,
                    metadata=_METADATA[path.suffix],
                )
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
