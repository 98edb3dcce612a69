"""Parts that all figures share: style, panels, notes, marks, files.

Figures draw tidy tables; `breakdown` and `whatif` compute. Every figure names the
source of its numbers twice: the title marks emulated and simulated numbers,
and a line at the bottom says where they come from. Bands and bars are intervals of
means over the repetitions; hollow marks are undecided. The spread over the repetitions
appears twice, too: marks where it is above the limit, and a line that says how much.
"""

import functools
import io
import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib import colormaps, style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MultipleLocator

from tierscope.analysis.intervals import (
    LEVEL_PERCENT,
    NO_INTERVAL,
    BestRates,
    interval,
    mean_intervals,
    unit_words,
)
from tierscope.core.columns import SCENARIO, TOGETHER
from tierscope.core.files import written_whole
from tierscope.core.io_class import ALL_CLASSES, NET_READ, IOClass
from tierscope.core.provenance import Origin
from tierscope.core.words import scenario_titles

SLOWEST_LABEL = "I/O time of the slowest process (s)"

_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.parse_math": False,  # a dollar sign in a name stays a dollar sign
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
_TITLE_WIDTH = 44  # characters, of a panel
_USUAL_LINES = 4  # of notes
_LINE_HEIGHT = 0.15  # inches, of a line of notes
_TITLE_LINE_HEIGHT, _LEGEND_LINE_HEIGHT, _ENTRY_GAP = 0.25, 0.17, 0.1  # inches
GOAL_LINE = {"color": "#117733", "linestyle": (0, (6, 3)), "linewidth": 1.6}
BAND = {"alpha": 0.15, "linewidth": 0}
EDGE = {"markeredgecolor": "white", "markeredgewidth": 0.75}
ERROR_BARS = {"capsize": 2.5, "elinewidth": 1.1}
_ERROR_BAR_MARK = {"color": "#222222", "marker": "|", "markersize": 13, "ls": ""}
TOGETHER_COLOUR = "#CC79A7"  # of stall that goes only with several classes
MODEL_HATCH = {"hatch": "////", "edgecolor": "white", "linewidth": 0}
_FLAG = {
    "color": "#000000",
    "marker": "o",
    "markersize": 10,
    "markerfacecolor": "none",
    "markeredgewidth": 1.3,
    "linestyle": "",
}
_DRIFT = _FLAG | {"marker": "s", "color": "#CC79A7", "markersize": 13}
_FLAGS_IN_WORDS = 4


def styled(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    """Make a function draw in the project's style, whatever the user's settings."""

    @functools.wraps(draw)
    def styled(*args, **kwargs) -> Figure:
        with style.context(["default", _STYLE]):
            return draw(*args, **kwargs)

    return styled


def titled(title: str, table: pd.DataFrame, provenance: Origin) -> str:
    """Return a title that names sources other than measurement of devices."""
    sources = sorted(set(table["source"].unique()) - {"measured"})
    marks = [*sources, provenance.mark] if provenance.mark else sources
    return f"{title} ({', '.join(marks)})" if marks else title


def shades(n: int) -> list[tuple[float, ...]]:
    """Return n colours, evenly spaced from dark to light."""
    return [tuple(c) for c in colormaps["viridis"](np.linspace(0, 1, n + 2)[1:-1])]


def new_figure(
    n_panels: int,
    title: str,
    notes: Sequence[str],
    *,
    row_height: float = 3.5,
    share_y: bool = False,
    n_columns: int | None = None,
) -> tuple[Figure, list[Axes]]:
    """Return a figure of up to three panels a row, with title and notes."""
    n_columns = n_columns or (2 if n_panels == 4 else min(n_panels, 3))
    n_rows = math.ceil(n_panels / n_columns)
    width = {1: 7.4, 2: 10.2, 3: 13.6}[n_columns]
    figure = Figure(figsize=(width, 0.9 + row_height * n_rows), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, squeeze=False, sharey=share_y).ravel()
    for unused in axes[n_panels:]:
        unused.remove()
    write_around(figure, title, notes)
    return figure, list(axes[:n_panels])


def write_around(figure: Figure, title: str, notes: Sequence[str]) -> None:
    """Write the title above and the notes below the panels, left-aligned.

    Many notes make the figure higher, so that panels and legend keep their room.
    """
    width = figure.get_figwidth()
    written = "\n".join(textwrap.fill(note, int(14.5 * width)) for note in notes)
    more = max(0, written.count("\n") + 1 - _USUAL_LINES)
    figure.set_figheight(figure.get_figheight() + _LINE_HEIGHT * more)
    figure.suptitle(
        textwrap.fill(title, int(9.5 * width)),
        x=0.01,
        ha="left",
        fontsize=12.5,
        fontweight="bold",
    )
    figure.supxlabel(
        written,
        x=0.01,
        ha="left",
        fontsize=8.5,
        color="#444444",
    )


def draw_legend(figure: Figure, handles: Sequence[Artist]) -> None:
    """Draw a legend to the right of the panels.

    It stands in the middle of the figure, which gets higher if it would meet the notes.
    """
    notes_in = _LINE_HEIGHT * (figure.get_supxlabel().count("\n") + 1)
    title_in = _TITLE_LINE_HEIGHT * (figure.get_suptitle().count("\n") + 1)
    n_lines = sum(handle.get_label().count("\n") + 1 for handle in handles)
    legend_in = _LEGEND_LINE_HEIGHT * n_lines + _ENTRY_GAP * (len(handles) + 1)
    least_in = legend_in + 2 * max(notes_in, title_in)
    figure.set_figheight(max(figure.get_figheight(), least_in))
    figure.legend(handles=handles, loc="outside right center")


def write_first(figure: Figure, words: str) -> None:
    """Write words below the title of a figure, which so gets higher; none if empty."""
    if not words:
        return
    title = figure.get_suptitle()
    written = textwrap.fill(words, int(9.5 * figure.get_figwidth()))
    more = written.count("\n") + 1
    figure.set_figheight(figure.get_figheight() + _TITLE_LINE_HEIGHT * more)
    figure.suptitle(
        f"{title}\n{written}", x=0.01, ha="left", fontsize=12.5, fontweight="bold"
    )


def named_in_sweep(
    table: pd.DataFrame,
    spread: pd.DataFrame,
    dataset_titles: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Return `scenario_titles` of a table, which tell it from others of the sweep.

    `spread` has all scenarios of the sweep.
    """
    shown = table[SCENARIO].drop_duplicates()
    scenarios = pd.concat([shown, spread[SCENARIO]])
    return shown.merge(scenario_titles(scenarios, dataset_titles), on=SCENARIO)


def source_notes(
    provenance: Origin, spread: pd.DataFrame, scenarios: pd.DataFrame
) -> list[str]:
    """Return the notes below a figure: the source, the repetitions, the flags.

    `spread` has the rows that concern the figure.
    """
    least, most = spread["n_repetitions"].min(), spread["n_repetitions"].max()
    repetitions = f"{most} repetitions"
    if most == 1:
        repetitions = NO_INTERVAL
    elif least < most:
        repetitions = f"{least} to {most} repetitions of a point"
        repetitions += "; a point run once has no interval" if least == 1 else ""
    if most > 1:
        units = unit_words(spread["source"])
        repetitions += f"; intervals by Student's t, of independent {units}"
    notes = [f"Source: {provenance}; {repetitions}"]
    flagged = spread[spread["flagged"]].merge(scenarios, on=SCENARIO)
    if flagged.empty:
        return notes
    flagged = flagged.sort_values("cv", ascending=False, kind="stable")
    words = [
        f"{row['title']}, {provenance.epoch_words(row['epoch'])}, {row['quantity']} at "
        f"a cache rate of {row['cache_rate_percent']} %: {100 * row['cv']:.0f} %"
        for row in flagged.head(_FLAGS_IN_WORDS).to_dict("records")
    ]
    if len(flagged) > len(words):
        words.append(f"{len(flagged) - len(words)} more in table spread")
    limit = flagged["max_spread_percent"].iloc[0]
    return [*notes, f"\N{WARNING SIGN} Spread above {limit} %: {'; '.join(words)}."]


def mark_flagged(ax: Axes, spread: pd.DataFrame, provenance: Origin) -> None:
    """Put a ring around the means of the points whose spread is above the limit.

    Points at which the machine drifted get a square.
    """
    flagged = spread[spread["flagged"]]
    if len(flagged):
        ax.plot("cache_rate_percent", "mean_s", data=flagged, **_FLAG)
    drifted = _drifted(spread, provenance)
    if len(drifted):
        ax.plot("cache_rate_percent", "mean_s", data=drifted, **_DRIFT)


def _drifted(spread: pd.DataFrame, provenance: Origin) -> pd.DataFrame:
    """Return the rows of the points at which the machine drifted."""
    keys = spread[[*SCENARIO, "cache_rate_percent"]].itertuples(index=False, name=None)
    return spread[[key in set(provenance.drifted) for key in keys]]


def draw_mean(ax: Axes, points: pd.DataFrame, time: str, **line: Any) -> None:
    """Draw the mean over the repetitions as a line, with its interval.

    The interval is a band; at a single cache rate it is a bar. One repetition has none.
    `time` is the column of the time in seconds, beside ``cache_rate_percent``.
    """
    import seaborn as sns  # large: only figures with lines of means load it

    spread = {"err_style": "band", "err_kws": BAND}
    if has_one_rate(points):
        spread = {"err_style": "bars", "err_kws": ERROR_BARS}
    sns.lineplot(
        points,
        x="cache_rate_percent",
        y=time,
        errorbar=lambda times_s: interval(times_s)[1:3],
        ax=ax,
        **EDGE | spread | line,
    )


def over_repetitions(
    points: pd.DataFrame, time: str
) -> tuple[pd.Series, pd.Series, pd.Series]:
    """Return the mean time by cache rate, and the ends of its interval.

    The ends are missing where there is only one repetition.
    """
    found = mean_intervals(points, ["cache_rate_percent"], time)
    return found["mean"], found["low"], found["high"]


def has_one_rate(points: pd.DataFrame) -> bool:
    """Return whether all points have the same cache rate, so a line has no width."""
    return points["cache_rate_percent"].nunique() == 1


def draw_error_bars(ax: Axes, sums: pd.DataFrame) -> None:
    """Draw the intervals of the means as bars where there are several repetitions.

    They hold the error of the model that estimated the times as well, if it is known.
    """
    means_s, low_s, _ = over_repetitions(sums, "io_time_s")
    ends_s = means_s - low_s
    if "model_error_percent" in sums:
        errors = sums.groupby("cache_rate_percent")["model_error_percent"].mean() / 100
        is_known = ends_s.notna() | (errors > 0)  # neither of a point run once, by rule
        ends_s = np.hypot(ends_s.fillna(0.0), means_s * errors).where(is_known)
    if (ends_s > 0).any():
        line = {"color": "#222222", "ls": ""} | ERROR_BARS
        ax.errorbar(means_s.index, means_s, ends_s, **line)


def distances(
    means: pd.Series, low: pd.Series, high: pd.Series
) -> tuple[pd.Series, pd.Series]:
    """Return how far the ends of intervals are from the means, for error bars.

    Equal repetitions may have ends that differ from their mean by rounding, to the
    wrong side.
    """
    return (means - low).clip(lower=0), (high - means).clip(lower=0)


def undecided(mark: Mapping[str, Any], best: BestRates) -> dict[str, Any]:
    """Return the mark of a best point, hollow if other rates may be as good."""
    if best.is_decided:
        return dict(mark)
    hollow = {"markerfacecolor": "white", "markeredgecolor": mark["color"]}
    return {**mark, **hollow, "markeredgewidth": 1.6}


def spread_handles(
    spread: pd.DataFrame, provenance: Origin, *, bars: bool, band: bool
) -> list[Line2D | Patch]:
    """Return the legend entries of bars, band and marks, if there are any.

    Where there are both, the band is that of the line.
    """
    handles = []
    if spread["n_repetitions"].max() > 1:
        what = "interval (lines: band)" if bars and band else "interval of the mean"
        label = f"{LEVEL_PERCENT} % confidence\n{what}"
        if bars:
            handles.append(Line2D([], [], **_ERROR_BAR_MARK, label=label))
        else:
            handles.append(Patch(color="#222222", alpha=BAND["alpha"], label=label))
    if spread["flagged"].any():
        limit = spread["max_spread_percent"].iloc[0]
        label = f"spread above {limit} %\n(sd / mean)"
        handles.append(Line2D([], [], **_FLAG, label=label))
    if len(_drifted(spread, provenance)):
        handles.append(Line2D([], [], **_DRIFT, label="the machine drifted"))
    return handles


def set_cache_rate_axis(
    ax: Axes, cache_rates_percent: Sequence[int], provenance: Origin
) -> None:
    """Label the x axis and leave room for the outermost cache rates."""
    lowest, highest = min(cache_rates_percent), max(cache_rates_percent)
    ax.set_xlabel(provenance.cache_rate_label)
    ax.set_xlim(lowest - 4, highest + 4)
    if highest - lowest >= 40:
        ax.xaxis.set_major_locator(MultipleLocator(20))
    ax.set_ylim(bottom=0)


def panels(
    table: pd.DataFrame, scenarios: pd.DataFrame
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the title, broken to fit, and the rows of each scenario, in their order."""
    for row in range(len(scenarios)):
        scenario = scenarios.iloc[[row]]
        title = textwrap.fill(
            scenario["title"].iloc[0], _TITLE_WIDTH, break_on_hyphens=False
        )
        yield title, table.merge(scenario[SCENARIO], on=SCENARIO)


def stack_classes(
    ax: Axes, panel: pd.DataFrame, place: float = 0.0, width: float = 1.0, **look: Any
) -> None:
    """Draw the mean time of each I/O class as stacked bars at the cache rates.

    The stall of several classes together is on top, if the panel has it. `place` and
    `width` are parts of the room of a bar, for bars side by side; `look` is that of all
    bars.
    """
    by = ["cache_rate_percent", "io_class"]
    times_s = panel.groupby(by)["time_s"].mean().unstack("io_class")
    rates = times_s.index.to_numpy()
    room = bar_width(rates)
    bottom_s = np.zeros(len(rates))
    classes = ALL_CLASSES if NET_READ in times_s else IOClass
    colours = {str(io_class): io_class.colour for io_class in classes}
    if TOGETHER in times_s:
        colours[TOGETHER] = TOGETHER_COLOUR
    for part, colour in colours.items():
        height_s = times_s[part].fillna(0).to_numpy()
        ax.bar(
            rates + place * room,
            height_s,
            width * room,
            bottom=bottom_s,
            **{"color": colour} | look,
        )
        bottom_s = bottom_s + height_s


def bar_width(rates_percent: np.ndarray) -> float:
    """Return the width of bars at some cache rates, in points of the cache rate."""
    return 0.8 * np.diff(rates_percent).min(initial=8)


def class_handles(has_peers: bool = False) -> list[Patch]:
    """Return the legend entries of the I/O classes, top of the stack first."""
    return [
        Patch(color=io_class.colour, label=io_class.label)
        for io_class in reversed(ALL_CLASSES if has_peers else list(IOClass))
    ]


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
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # laid out once for all formats
    for path in map(Path, paths):
        if path.suffix not in _METADATA:
            raise ValueError(f"{path}: got {path.suffix}, expected {list(_METADATA)}.")
        drawn = io.BytesIO()  # matplotlib may not tell why it cannot write a file
        with matplotlib.rc_context(_SAVING):
            figure.savefig(
                drawn,
                format=path.suffix[1:],
                dpi=200,
                metadata=_METADATA[path.suffix],
            )
        with written_whole(path) as temporary:
            temporary.write_bytes(drawn.getbuffer())


def wrapped(words: str, width: int) -> str:
    """Wrap words of `improvement_words` so that each class stays with its percent."""
    for apart in (" +", " %", " the ", " rule", " model"):
        words = words.replace(apart, apart.replace(" ", "\N{NO-BREAK SPACE}"))
    return textwrap.fill(
        words,
        width,
        break_on_hyphens=False,
    ).replace("\N{NO-BREAK SPACE}", " ")
