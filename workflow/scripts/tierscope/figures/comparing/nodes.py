"""Draw and describe how the number of nodes affects Monarch and LMDB."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tierscope.analysis.comparing.savings import cut_words, interval_words
from tierscope.analysis.intervals import METHOD, NO_INTERVAL
from tierscope.analysis.nodes import hit_law, per_record
from tierscope.claims.other_papers import read_policy_claims, stated_numbers
from tierscope.core.output.declared import Declared
from tierscope.core.provenance import Origin
from tierscope.core.words import scenario_titles
from tierscope.figures.comparing.policies import failure_notes, terminal_lines
from tierscope.figures.given_runs import Given
from tierscope.figures.style import distances, new_figure, styled, titled

FIGURE = Declared(
    file="nodes",
    title="The same processes on more nodes",
    folder="nodes",
    tables=("node_epochs", "node_savings", "node_switches", "policy_epochs"),
    inputs=("policy_claims",),
    in_report="nodes",
    has_text=True,
)

# The Monarch paper's number of epochs.
PAPER_EPOCHS = 3

# Light for few nodes, dark for many.
_SHADES = ("#CC99BB", "#AA4499", "#771155", "#440033")
_BARS = ({"color": "#DDCC99"}, {"color": "#997744"})  # some epochs, all
_STATED = {"color": "#444444", "lw": 1.1}
_DASHES = ("--", "-.", (0, (1, 1)), (0, (8, 3)))
_LAW = {"color": "#222222", "ls": ":", "lw": 1.3, "zorder": 1}
_LAW_MARK = {"color": "#222222", "marker": "_", "ms": 22, "mew": 1.6, "ls": ""}
_IO_MARK = {
    "color": "white",
    "marker": "D",
    "ms": 6,
    "markeredgecolor": "#222222",
    "ls": "",
    "zorder": 4,
}
_LOADERS = ("#4477AA", "#EE8866", "#228833", "#AA3377", "#BBBBBB", "#222222")
_KINDS = {
    "voluntary": {"ls": "-", "marker": "o"},
    "involuntary": {"ls": "--", "marker": "s", "markerfacecolor": "white"},
}


def draw(given: Given) -> Figure:
    """Draw the effect of the number of nodes, beside what papers state."""
    epochs, savings, switches, of_policies = map(given.table, FIGURE.tables)
    stated = stated_numbers(read_policy_claims(given.inputs.policy_claims))
    notes = failure_notes(of_policies)
    return plot_nodes(epochs, savings, switches, stated, notes=notes, **given.words)


def describe(given: Given) -> str:
    """Say the same in words."""
    epochs, savings, switches, of_policies = map(given.table, FIGURE.tables)
    notes = failure_notes(of_policies)
    return summary_text(savings, epochs, switches, provenance=given.origin, notes=notes)


@styled
def plot_nodes(
    epochs: pd.DataFrame,
    savings: pd.DataFrame,
    switches: pd.DataFrame,
    stated: Sequence[Mapping],
    *,
    provenance: Origin,
    dataset_titles: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
) -> Figure:
    """Draw what Monarch saves and how often LMDB's readers wait, by number of nodes.

    Parameters
    ----------
    epochs, savings, switches : DataFrame
        Tables ``node_epochs``, ``node_savings`` and ``node_switches``.
    stated : sequence of mapping
        What papers state, as `tierscope.claims.other_papers.stated_numbers` returns it.
    provenance, dataset_titles
        As for `tierscope.figures.execution_and_io_time.plot_execution_and_io_time`.
    notes : sequence of str, optional
        Further notes, such as `tierscope.figures.comparing.policies.failure_notes`.

    Returns
    -------
    Figure
        Upper left: the part of the GFS reads that is saved in each epoch, one point for
        each number of nodes, the law as dotted lines. Upper right: the time saved after
        the Monarch paper's three epochs and after all; diamonds are I/O time alone.
        Lower left: the GFS operations saved. Both panels also show what that paper
        states. Lower right: context switches per record over the processes per node.
    """
    scene = scenario_titles(savings.assign(system=""), dataset_titles)["title"].iloc[0]
    title = titled(f"The same processes on more nodes: {scene}", savings, provenance)
    notes = [*_notes(provenance, savings, switches), *notes]
    figure, axes = new_figure(4, title, notes, row_height=3.9)
    rate = savings["cache_rate_percent"].iloc[0]
    _draw_epochs(axes[0], epochs)
    axes[0].set_title(f"GFS reads that Monarch saves (room for {rate} %)")
    _draw_savings(axes[1], savings, "time_cut_percent")
    _draw_stated(axes[1], [one for one in stated if one["of"] == "time"])
    axes[1].set_title("Time that Monarch saves")
    _draw_savings(axes[2], savings, "gfs_operations_cut_percent")
    _draw_stated(axes[2], [one for one in stated if one["of"] == "gfs_operations"])
    axes[2].set_title("GFS opens and reads that Monarch saves")
    _draw_switches(axes[3], switches)
    axes[3].set_title("Context switches of LMDB's readers while they read")
    return figure


def _draw_epochs(ax: Axes, epochs: pd.DataFrame) -> None:
    """Draw the savings in each epoch, in one shade per number of nodes, and the law."""
    counts = sorted(epochs["n_nodes"].unique())
    fine = np.linspace(0, epochs["epoch"].max(), 101)
    for place, n_nodes in enumerate(counts):
        part = epochs[epochs["n_nodes"] == n_nodes].sort_values("epoch")
        shade = _SHADES[place % len(_SHADES)]
        if n_nodes > 1:
            room = part["cache_rate_percent"].iloc[0] / 100
            ax.plot(1 + fine, 100 * hit_law(n_nodes, fine, room), **_LAW)
        else:  # a step: the node has seen no file before the first epoch, all after it
            ax.plot(part["epoch"] + 1, part["law_percent"], **_LAW)
        low, high = part["saved_low_percent"], part["saved_high_percent"]
        numbers = part["epoch"] + 1
        ax.vlines(numbers, low, high, color=shade, lw=1.2)
        words = f"{n_nodes} node{'s' if n_nodes > 1 else ''}"
        size = max(4, 11 - 2 * place)  # points lie upon each other: all stay visible
        line = {"color": shade, "ls": "", "marker": "o", "ms": size}
        ax.plot(numbers, part["saved_percent"], label=words, **line)
    marks = ax.get_legend_handles_labels()[0]
    label = "law: min(f, 1 \u2212 (1 \u2212 1/n)\u1d49\u207b\u00b9)"
    law = Line2D([], [], **_LAW, label=label)
    ax.set_ylim(top=1.4 * max(1, ax.dataLim.y1))  # with room for the legend
    ax.legend(handles=[*marks, law], loc="upper left", ncols=3, fontsize=8)
    ax.set_xticks(sorted(epochs["epoch"].unique() + 1))
    ax.set_xlabel("Epoch e")
    ax.set_ylabel("GFS reads saved (%)")


def _shown_epochs(savings: pd.DataFrame) -> list[int]:
    """Return after how many epochs savings are drawn: three, if they ran, and all."""
    n_epochs = set(savings["n_epochs"])
    return sorted({PAPER_EPOCHS, max(n_epochs)} & n_epochs)


def _draw_savings(ax: Axes, savings: pd.DataFrame, name: str) -> None:
    """Draw bars of the savings, by number of nodes, after some epochs and all."""
    counts, shown = sorted(savings["n_nodes"].unique()), _shown_epochs(savings)
    width = 0.8 / len(shown)
    is_time = name == "time_cut_percent"
    marked, look = (
        ("io_time_cut_percent", _IO_MARK) if is_time else ("law_percent", _LAW_MARK)
    )
    for place, n_epochs in enumerate(shown):
        part = savings[savings["n_epochs"] == n_epochs].set_index("n_nodes").loc[counts]
        at = np.arange(len(counts)) - 0.4 + width * (place + 0.5)
        label = f"after {n_epochs} epochs"
        ax.bar(at, part[name], 0.9 * width, label=label, **_BARS[place])
        if is_time and part["time_cut_low_percent"].notna().all():
            low, high = part["time_cut_low_percent"], part["time_cut_high_percent"]
            ends = distances(part[name], low, high)
            ax.errorbar(at, part[name], ends, ls="", color="#222222", capsize=2.5)
        words = "I/O time of the slowest process" if is_time else "by the law"
        ax.plot(at, part[marked], label="" if place else words, **look)
    ax.axhline(0, color="#222222", lw=0.8)
    values = [0, *savings.loc[savings["n_epochs"].isin(shown), [name, marked]].stack()]
    room = 0.25 * (max(values) - min(values)) or 1
    ax.set_ylim(min(values) - room * (min(values) < 0), max(values) + room)
    ax.set_xticks(range(len(counts)), counts)
    ax.set_xlabel("Nodes")
    ax.set_ylabel("Saved (%)")
    ax.set_xlim(-0.6, len(counts) - 0.4)


def _draw_stated(ax: Axes, stated: Sequence[Mapping]) -> None:
    """Draw a paper's statements as lines, and the legend with room above everything."""
    for one, dashes in zip(stated, _DASHES, strict=False):
        words = f"Monarch paper, one node of another\nmachine: {one['where']}"
        label = f"{one['percent']} %: {words}"
        ax.axhline(one["percent"], ls=dashes, label=label, **_STATED)
    low, high = ax.get_ylim()
    ax.set_ylim(low, high + (0.45 + 0.15 * len(stated)) * (high - low))
    ax.legend(loc="upper left", fontsize=8)


def _draw_switches(ax: Axes, switches: pd.DataFrame) -> None:
    """Draw context switches per record over the processes per node, by loader."""
    if switches.empty:
        ax.text(0.5, 0.5, "not reported on emulated devices", ha="center", va="center")
        ax.set_axis_off()
        return
    table = per_record(switches)
    for place, (loader, part) in enumerate(table.groupby("loader", sort=False)):
        colour = _LOADERS[place % len(_LOADERS)]
        line = {"color": colour, "ms": max(4, 9 - 3 * place)}  # as in `_draw_epochs`
        for kind, look in _KINDS.items():
            values = part.groupby("processes_per_node")[f"{kind}_switches_per_record"]
            mean = values.mean()
            ax.plot(mean.index, mean, label=f"{loader}, {kind}", **line, **look)
            ax.vlines(mean.index, values.min(), values.max(), color=colour, lw=1.2)
    ax.set_xscale("log", base=2)
    ticks = sorted(table["processes_per_node"].unique())
    ax.set_xticks(ticks, ticks)
    ax.minorticks_off()
    ax.set_yscale("symlog", linthresh=0.01)
    ax.set_ylim(0, 10 * max(0.01, ax.dataLim.y1))  # with room for the legend
    ax.set_xlabel("Processes per node")
    ax.set_ylabel("Context switches per record")
    ax.legend(loc="upper left", ncols=2, fontsize=8)


def _notes(
    provenance: Origin, savings: pd.DataFrame, switches: pd.DataFrame
) -> list[str]:
    """Return the notes below the figure."""
    n = savings["n_repetitions"].max()
    repetitions = f"{n} repetitions" if n > 1 else NO_INTERVAL
    notes = [
        f"Source: {provenance}; {repetitions}. Vertical lines: {METHOD} "
        "(Student's t); they may leave the panel.",
        "The Monarch paper trains on one node of another machine, three epochs, with "
        "room for some 57 % of few large files of hundreds of reads each, so a first "
        "read prefetches the rest of its file. With one sample per file this is not "
        "possible, and one node can save at most f (E \u2212 1) / E of the reads.",
    ]
    return [*notes, switches_note(switches)]


def switches_note(switches: pd.DataFrame) -> str:
    """Return what the context switches show and what they do not show."""
    if switches.empty:
        return (
            "Context switches are not reported: no process waits for pages on emulated "
            "devices, and the switches of this machine are not those of the devices."
        )
    major = switches["major_faults"].sum()
    return (
        f"Context switches: {major} page faults waited for the device in all runs"
        + ("." if major else "; without any, processes do not contend for pages.")
    )


def summary_text(
    savings: pd.DataFrame,
    epochs: pd.DataFrame,
    switches: pd.DataFrame,
    *,
    provenance: Origin,
    notes: Sequence[str] = (),
) -> str:
    """Return the tables in words, to be read on a terminal.

    `provenance` is the first line; `notes` follow.
    """
    scene = scenario_titles(savings.assign(system=""))["title"].iloc[0]
    rate = savings["cache_rate_percent"].iloc[0]
    lines = [
        f"Source: {provenance}",
        *terminal_lines(notes),
        f"{scene}, loader {savings['loader'].iloc[0]}",
        f"Saved by Monarch with room for {rate} %, in percent of the same processes",
        "without LFS. The time includes waiting for copies, the I/O time (slowest",
        "process) does not; the GFS operations include those of copies",
    ]
    shown = savings[savings["n_epochs"].isin(_shown_epochs(savings))]
    lines.append(
        f"{'nodes':>5} {'epochs':>7}  {'time':>13}  {'I/O time':>13}  GFS operations  "
        "by law"
    )
    for row in shown.sort_values(["n_nodes", "n_epochs"]).to_dict("records"):
        cuts = (cut_words(row, name) for name in ("time", "io_time"))
        lines.append(
            f"{row['n_nodes']:>5} {row['n_epochs']:>7}  "
            f"{'  '.join(f'{cut:>13}' for cut in cuts)}  "
            f"{row['gfs_operations_cut_percent']:z14.2f}  {row['law_percent']:6.2f}"
        )
    lines += terminal_lines([interval_words(shown["n_repetitions"])])
    n_epochs = epochs["epoch"].max() + 1
    lines += ["", f"GFS reads saved in epochs 1 to {n_epochs} (by law), %"]
    for n_nodes, part in epochs.groupby("n_nodes"):
        saved = (
            f"{row['saved_percent']:z.2f} ({row['law_percent']:.2f})"
            for row in part.sort_values("epoch").to_dict("records")
        )
        words = f"{n_nodes:>5} node{'s' if n_nodes > 1 else ''}:"
        lines.append(f"{words:<12} {'  '.join(saved)}")
    lines += ["", *_switches_lines(switches)]
    lines += terminal_lines([switches_note(switches)])
    return "\n".join(lines) + "\n"


def _switches_lines(switches: pd.DataFrame) -> list[str]:
    """Return a header and a line for each loader and number of processes per node."""
    if switches.empty:
        return []
    lines = [
        "Context switches per record while a process reads",
        f"{'loader':>30} processes per node  voluntary  involuntary  major faults",
    ]
    by = ["loader", "processes_per_node"]
    sums = switches.groupby(by, sort=False).sum(numeric_only=True).reset_index()
    for row in per_record(sums).sort_values(by).to_dict("records"):
        lines.append(
            f"{row['loader']:>30} {row['processes_per_node']:>18} "
            f"{row['voluntary_switches_per_record']:>10.3f} "
            f"{row['involuntary_switches_per_record']:>12.4f} {row['major_faults']:>13}"
        )
    return lines
