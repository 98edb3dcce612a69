"""Draw and describe how policies compare: I/O time, GFS operations, time saved."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, MaxNLocator

from tierscope.analysis.breakdown import select_scenarios
from tierscope.analysis.comparing.policies import is_reference
from tierscope.analysis.comparing.savings import RUN, is_undecided
from tierscope.analysis.comparing.staging import BY_COPIES, ESTIMATED
from tierscope.analysis.intervals import (
    LEVEL_PERCENT,
    METHOD,
    NO_INTERVAL,
    mean_intervals,
    paired_difference,
)
from tierscope.core.io_class import ALL_CLASSES, NET_READ, IOClass
from tierscope.core.output.declared import Declared
from tierscope.core.provenance import Origin
from tierscope.core.scenario import PROGRAM_LOADER
from tierscope.core.words import scenario_titles, seconds_words, size_words
from tierscope.figures.given_runs import Given
from tierscope.figures.style import (
    class_handles,
    draw_legend,
    styled,
    titled,
    write_around,
)

FIGURE = Declared(
    file="policies",
    title="Policies compared",
    folder="policies",
    tables=("policy_epochs", "policy_totals", "policy_summary"),
    settings=("scene",),
    in_report="policies",
    caption_of_program="policies_of_program",
)

# Of Paul Tol's colour-blind-safe palette, none of an I/O class.
_POLICIES = {
    "none": ("#000000", "o"),
    "pinning": ("#117733", "s"),
    "stratified-pinning": ("#DDCC77", "D"),
    "lru": ("#999933", "v"),
    "monarch": ("#AA4499", "^"),
    "clairvoyant": ("#332288", "P"),
    "adhoc": ("#CC6677", "X"),
}
_AT_ZERO = " at 0 %"
_OTHER = ("#666666", "*")
_FOREGROUND = {"gfs_opens": IOClass.GFS_META, "gfs_reads": IOClass.GFS_READ}
_REST = {"facecolor": "#eeeeee", "edgecolor": "#999999", "lw": 0.5}
_SPREAD = {"color": "#222222", "lw": 1}
_BACKGROUND = {"facecolor": "#999999", "hatch": "///", "edgecolor": "white"}
_STAGING = {"facecolor": "white", "edgecolor": "#444444", "hatch": "...", "ls": "--"}
_ROOM = 1.3  # length of an axis over the longest bar that is not estimated
_SWAMPS = 3  # times the range of other lines: beyond it, estimated staging is cut off
_GENERATED = "The benchmark generates pinned files on the LFS, like the paper's."
_COPIED = "Pinned files are copied to the LFS before the program starts."
_BY_RATE = (
    "The time of their staging is measured: from the rate of the copies that were made."
)
_AS_IF_READ = (
    "Their staging is estimated: every node reads its part from the GFS like an epoch "
    "without LFS; writing to the LFS is left out."
)
_AS_IF_READ_ONLY = (
    "Their staging is estimated: every node reads its part from the GFS in the I/O "
    "time of an epoch without LFS; writing to the LFS is left out."
)
_LETTERS = 44  # of small ones, in a line of a panel of savings
_SMALL = {"fontsize": 7, "color": "#444444"}
_TITLES = (
    "I/O time of the slowest process and whole\nepochs, the first on the left",
    "GFS opens and reads\nof all epochs",
    "Time saved against none,\nstaging and drains included",
)


def draw(given: Given) -> Figure:
    """Draw the policies of the figures' loader."""
    tables = map(given.table, FIGURE.tables)
    of_scene = (select_scenarios(one, [given.settings.scene]) for one in tables)
    return plot_policies(*of_scene, **given.words)


@styled
def plot_policies(
    policy_epochs: pd.DataFrame,
    totals: pd.DataFrame,
    summary: pd.DataFrame,
    *,
    provenance: Origin,
    dataset_titles: Mapping[str, str] | None = None,
) -> Figure:
    """Draw each policy's times, GFS operations and savings; one row per cache rate.

    Parameters
    ----------
    policy_epochs, totals, summary : DataFrame
        Tables ``policy_epochs``, ``policy_totals`` and ``policy_summary`` of one
        dataset, OST count and loader.
    provenance, dataset_titles
        As for `tierscope.figures.execution_and_io_time.plot_execution_and_io_time`.

    Returns
    -------
    Figure
        Left: bars of each epoch stacked by I/O class, with the interval of their sum as
        a line, which may leave the panel; the pale part above is the rest of the epoch.
        Middle: opens and reads on the GFS of all epochs, copies hatched, staging
        dotted, and the bytes of copies; if a bar is cut, the number stands beside it.
        Right: the time saved up to each epoch compared with no LFS, solid for epochs
        that were run, dashed for further epochs like the last, without what was waited
        for once; a large marker where it first exceeds 0; hollow markers where the
        savings are undecided. A text names estimated staging far below the other lines.
    """
    rates = sorted(set(totals["cache_rate_percent"]) - {0})
    n_repetitions = summary["n_repetitions"].max()
    figure = Figure(figsize=(15.5, 1.9 + 3.6 * len(rates)), layout="constrained")
    axes = figure.subplots(len(rates), 3, squeeze=False, width_ratios=(2.4, 1.2, 1.5))
    for row in axes[1:]:  # rows share the axes of times and operations, not of savings
        row[0].sharey(axes[0][0])
        row[1].sharex(axes[0][1])
    scene = scenario_titles(summary.assign(policy=""), dataset_titles)["title"].iloc[0]
    title = titled(f"Policies compared: {scene}", summary, provenance)
    notes = [*_notes(provenance, summary, n_repetitions), *cautions(policy_epochs)]
    write_around(figure, title, notes)
    operations = []
    for row, rate in zip(axes, rates, strict=True):
        epochs, sums = (_of_row(part, rate) for part in (policy_epochs, totals))
        saved = summary[summary["cache_rate_percent"] == rate]
        names = in_order(sums["policy"])
        _draw_times(row[0], epochs, names)
        operations.append(_draw_operations(row[1], epochs, sums, names))
        _draw_savings(row[2], sums, saved)
        longest_s = policy_epochs[["io_time_s", "execution_time_s"]].max(axis=None)
        row[0].set_ylim(0, 1.05 * longest_s or 1)
        row[0].set_ylabel(f"Cache rate {rate} %\nTime of an epoch (s)")
    _limit_operations(axes[:, 1], *zip(*operations, strict=True))
    for ax, words in zip(axes[0], _TITLES, strict=True):
        ax.set_title(words)
    axes[-1][1].set_xlabel("Opens and reads")
    axes[-1][2].set_xlabel("Number of epochs")
    has_peers = (policy_epochs[f"{NET_READ}_s"] > 0).any()
    draw_legend(figure, _handles(totals, has_peers))
    return figure


def _of_row(table: pd.DataFrame, rate: int) -> pd.DataFrame:
    """Return the rows at a cache rate, and the reference: none, or a policy at 0 %."""
    references = is_reference(table)
    names = table["policy"].where(
        ~references | (table["policy"] == "none"), table["policy"] + _AT_ZERO
    )
    shown = references | (table["cache_rate_percent"] == rate)
    return table.assign(policy=names)[shown]


def in_order(policies: pd.Series) -> list[str]:
    """Return the names of policies in the order of the figure."""
    known = [name for name in _POLICIES if name in set(policies)]
    others = sorted(set(policies) - set(known))
    references = [name for name in others if name.endswith(_AT_ZERO)]
    return references + known + sorted(set(others) - set(references))


def _draw_times(ax: Axes, epochs: pd.DataFrame, names: Sequence[str]) -> None:
    """Draw each policy's epochs: I/O time stacked by class, then the rest."""
    n_epochs = epochs["epoch"].nunique()
    width = 0.84 / n_epochs
    for place, name in enumerate(names):
        by_epoch = epochs[epochs["policy"] == name].groupby("epoch")
        left = place - 0.42 + width * (np.arange(n_epochs) + 0.5)
        bottom_s = np.zeros(n_epochs)
        for io_class in ALL_CLASSES:
            height_s = by_epoch[f"{io_class}_s"].mean().to_numpy()
            ax.bar(left, height_s, 0.9 * width, bottom=bottom_s, color=io_class.colour)
            bottom_s += height_s
        rest_s = by_epoch["execution_time_s"].mean().to_numpy() - bottom_s
        ax.bar(left, rest_s.clip(0), 0.9 * width, bottom=bottom_s, **_REST)
        of_policy = epochs[epochs["policy"] == name]
        times_s = mean_intervals(of_policy, ["epoch"], "io_time_s")
        ax.vlines(left, times_s["low"], times_s["high"], **_SPREAD)
    turned = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
    ax.set_xticks(range(len(names)), names, **turned)
    ax.tick_params(axis="x", length=0)


def _draw_operations(
    ax: Axes, epochs: pd.DataFrame, sums: pd.DataFrame, names: Sequence[str]
) -> tuple[float, np.ndarray]:
    """Draw operations on the GFS; return the longest known bar, and estimated ones."""
    n_repetitions = epochs.groupby("policy")["repetition"].nunique()[names].to_numpy()
    bottom = np.zeros(len(names))

    def stack(totals: pd.Series, **look) -> None:
        heights = totals.reindex(names, fill_value=0).to_numpy() / n_repetitions
        here = heights > 0
        ax.barh(np.flatnonzero(here), heights[here], left=bottom[here], **look)
        bottom[:] += heights

    by_policy = epochs.groupby("policy")
    for column, io_class in _FOREGROUND.items():
        stack(by_policy[column].sum(), color=io_class.colour)
    copies = ["background_gfs_opens", "background_gfs_reads"]
    stack(by_policy[copies].sum().sum(axis=1), **_BACKGROUND)
    first = sums[sums["n_epochs"] == 1]
    estimated = first["staging"] == ESTIMATED
    run, not_run = (
        first[chosen].groupby("policy")["staging_gfs_operations"].sum()
        for chosen in (~estimated, estimated)
    )
    stack(run, **_STAGING)
    known = bottom.copy()
    stack(not_run, **_STAGING)
    copied = sums[sums["n_epochs"] == sums["n_epochs"].max()].groupby("policy")
    n_bytes = copied["background_bytes"].mean().reindex(names, fill_value=0)
    labels = [
        f"{name}\n{size_words(some)} copied" if some else name
        for name, some in n_bytes.items()
    ]
    ax.set_yticks(range(len(names)), labels)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.grid(True, axis="x")
    ax.grid(False, axis="y")
    return known.max(), bottom - known


def _limit_operations(
    axes: Sequence[Axes], longest: Sequence[float], staging: Sequence[np.ndarray]
) -> None:
    """Cut bars of estimated staging far longer than others; write their numbers."""
    k_or_m = EngFormatter(sep="")
    axes[0].xaxis.set_major_locator(MaxNLocator(3))
    axes[0].xaxis.set_major_formatter(k_or_m)
    limit = _ROOM * max(longest)
    if axes[0].get_xlim()[1] <= limit or not limit:
        return
    axes[0].set_xlim(0, limit)
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    for ax, counts in zip(axes, staging, strict=True):
        for place, count in enumerate(counts):
            bars = [bar for bar in ax.patches if round(bar.get_y() + 0.4) == place]
            if count and max(bar.get_x() + bar.get_width() for bar in bars) > limit:
                words = f"{EngFormatter(places=0, sep='')(count)} of staging "
                words += "\N{RIGHTWARDS ARROW}"
                at = {"ha": "right", "va": "center", "bbox": box}
                ax.text(0.99 * limit, place, words, **at, **_SMALL)


def _draw_savings(ax: Axes, sums: pd.DataFrame, summary: pd.DataFrame) -> None:
    """Draw the time that each policy has saved after each number of epochs."""
    n_epochs = int(sums["n_epochs"].max())
    ax.axhline(0, color=_POLICIES["none"][0], lw=1)
    ax.axvline(n_epochs, color="#bbbbbb", lw=0.8, ls=":")
    starts, others = {}, []
    for row in summary.to_dict("records"):
        mine = sums[sums["policy"] == row["policy"]].groupby("n_epochs")
        saved_s = (mine["reference_time_s"].mean() - mine["time_s"].mean()).to_numpy()
        saved_s = np.concatenate([[-row["staging_time_s"]], saved_s])
        gain_s = row["reference_last_epoch_time_s"] - row["last_epoch_time_s"]
        further = np.arange(n_epochs, 2 * n_epochs + 1)
        further_s = saved_s[-1] + gain_s * (further - n_epochs)
        colour, marker = _POLICIES.get(row["policy"], _OTHER)
        is_wide = row["policy"] == "pinning"  # stratified-pinning lies upon it
        line = {"color": colour, "lw": 3.5 if is_wide else 1.6}
        size = 7 if is_wide else 4
        hollow = {"mfc": "white"} if is_undecided(row) else {}
        ax.plot(range(n_epochs + 1), saved_s, marker=marker, ms=size, **hollow, **line)
        ax.plot(further, further_s, ls=(0, (3, 2)), **line)
        all_s = np.concatenate([saved_s, further_s[1:]])
        if (pays := row["pays_after_epochs"]) <= further[-1]:
            large = {"ms": 10, "mec": "black", "color": colour} | hollow
            ax.plot(pays, all_s[int(pays)], marker, **large)
        if row["staging"] == ESTIMATED:
            starts[_staging_words(row)] = saved_s[0]
        else:
            others.append(all_s)
    _limit_savings(ax, starts, others)
    _draw_savings_intervals(ax, sums[sums["n_epochs"] == n_epochs], summary)
    ax.set_ylabel("Seconds saved")
    ax.set_xlim(-0.3, 2 * n_epochs + 0.3)


def _staging_words(row: Mapping[str, Any]) -> str:
    """Return how long staging takes and when it pays off, of a row of the summary."""
    pays, doubt = row["pays_after_epochs"], " (undecided)" * is_undecided(row)
    words = "never pays off" if np.isnan(pays) else f"pays off after {pays:.0f} epochs"
    staging = f"{seconds_words(row['staging_time_s'])} s of staging"
    return f"{row['policy']}: {staging}, {words}{doubt}"


def _draw_savings_intervals(
    ax: Axes, sums: pd.DataFrame, summary: pd.DataFrame
) -> None:
    """Draw each policy's saved time with its interval, which may leave the panel."""
    limits = ax.get_ylim()
    for name in summary["policy"]:
        mine = sums[sums["policy"] == name].set_index("repetition")
        saved = paired_difference(mine["reference_time_s"], mine["time_s"])
        if saved.is_known:
            colour, _ = _POLICIES.get(name, _OTHER)
            ends = [[saved.mean - saved.low], [saved.high - saved.mean]]
            at = mine["n_epochs"].iloc[0]
            ax.errorbar(at, saved.mean, ends, color=colour, capsize=2.5, lw=1)
    ax.set_ylim(limits)


def _limit_savings(
    ax: Axes, starts: Mapping[str, float], others: Sequence[np.ndarray]
) -> None:
    """Leave out lines that estimated staging puts far below the others; name them."""
    values = np.concatenate([[0.0], *others])
    low, span = values.min(), np.ptp(values)
    if not span or min(starts.values(), default=low) >= low - _SWAMPS * span:
        return
    margin = (_ROOM - 1) / 2 * span
    outside = [words for words, start_s in starts.items() if start_s < low - margin]
    wrapped = [line for words in outside for line in textwrap.wrap(words, _LETTERS)]
    lines = ["Below:", *wrapped]
    text_s = 0.05 * (len(lines) + 1) * (span + 2 * margin)
    ax.set_ylim(low - margin - text_s, values.max() + margin)
    at = {"transform": ax.transAxes, "ha": "right", "va": "bottom"}
    ax.text(0.99, 0.02, "\n".join(lines), **at, **_SMALL)


def _handles(totals: pd.DataFrame, has_peers: bool) -> list[Patch | Line2D]:
    """Return the entries of the legend."""
    policies = [
        Line2D([], [], color=colour, marker=marker, label=name)
        for name in in_order(totals["policy"])
        if name != "none"
        for colour, marker in [_POLICIES.get(name, _OTHER)]
    ]
    spread = Line2D([], [], ls="", marker="|", ms=13, **_SPREAD)
    spread.set_label(f"{LEVEL_PERCENT} % confidence\ninterval of the mean")
    return [
        Patch(**_REST, label="rest of the epoch,\nno I/O"),
        *class_handles(has_peers),
        *([spread] if totals["repetition"].nunique() > 1 else []),
        Patch(**_BACKGROUND, label="GFS opens and reads\nof copies"),
        Patch(**_STAGING, label="of staging"),
        *policies,
        Line2D([], [], color="#444444", ls=(0, (3, 2)), label="epochs like the last"),
        Line2D(
            [],
            [],
            color="#dddddd",
            marker="o",
            ms=10,
            mec="black",
            ls="",
            label="pays off from here",
        ),
    ]


def _notes(provenance: Origin, summary: pd.DataFrame, n_repetitions: int) -> list[str]:
    """Return the notes below the figure."""
    repetitions = f"{n_repetitions} repetitions" if n_repetitions > 1 else NO_INTERVAL
    notes = [f"Source: {provenance}; {repetitions}"]
    compared = summary[summary["cache_rate_percent"] > 0].to_dict("records")
    if n_undecided := sum(map(is_undecided, compared)):
        notes.append(
            f"Hollow: undecided whether time is saved or lost ({n_undecided} of "
            f"{len(compared)}), because the {METHOD} (Student's t, of pairs that share "
            "seeds) holds 0, or there is none."
        )
    notes += _staging_notes(summary)
    return notes


def _staging_notes(summary: pd.DataFrame) -> list[str]:
    """Return a note on where the staging time of pinned files is from, if any is."""
    if (summary["staging"] == BY_COPIES).any():
        return [f"{_COPIED} {_BY_RATE}"]
    if not (summary["staging"] == ESTIMATED).any():
        return []
    if (summary["loader"] == PROGRAM_LOADER).all():
        return [f"{_COPIED} {_AS_IF_READ_ONLY}"]
    return [f"{_GENERATED} {_AS_IF_READ}"]


def network_notes(policy_epochs: pd.DataFrame) -> list[str]:
    """Return a note on reads from other nodes on emulated tiers, if there are any."""
    is_emulated = policy_epochs["source"] == "emulated"
    if not (policy_epochs.loc[is_emulated, f"{NET_READ}_s"] > 0).any():
        return []
    return [
        "Reads from other nodes (net-read) wait for the owner's emulated LFS and pass "
        "an emulated network. It models the hardware, without the software of a file "
        "system."
    ]


def failure_notes(policy_epochs: pd.DataFrame) -> list[str]:
    """Return a note on failed copies, if any failed, from table ``policy_epochs``."""
    failed = policy_epochs.groupby("policy")["failed_files"].sum()
    failed = failed[failed > 0]
    if failed.empty:
        return []
    words = ", ".join(f"{n} of {policy}" for policy, n in failed.items())
    return [
        f"Copies failed: {words}. Those runs read more from the GFS than they should."
    ]


def filling_notes(policy_epochs: pd.DataFrame) -> list[str]:
    """Return a note on policies that still filled the LFS in the last epoch.

    A policy that evicts may go on like that.
    """
    last = policy_epochs["epoch"] == policy_epochs.groupby(RUN)["epoch"].transform(
        "max"
    )
    is_filling = last & (policy_epochs["placed_files"] > policy_epochs["evicted_files"])
    if not (names := sorted(set(policy_epochs.loc[is_filling, "policy"]))):
        return []
    return [
        f"The last epoch still filled the LFS: {', '.join(names)}. Further epochs read "
        "more from the LFS, so they save more than is said of them (dashed, ~, never)."
    ]


def cautions(policy_epochs: pd.DataFrame) -> list[str]:
    """Return the cautions that figure and summary add to the numbers of the runs.

    Parameters
    ----------
    policy_epochs : DataFrame
        Table ``policy_epochs``.
    """
    return [
        *network_notes(policy_epochs),
        *failure_notes(policy_epochs),
        *filling_notes(policy_epochs),
    ]


def terminal_lines(texts: Sequence[str]) -> list[str]:
    """Wrap texts into lines of at most 80 characters; an empty text has no line."""
    return [line for text in texts for line in textwrap.wrap(text, 80)]
