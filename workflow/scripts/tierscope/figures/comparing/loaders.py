"""Draw how loaders of files and of one LMDB file compare: I/O time and GFS calls."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter, StrMethodFormatter

from tierscope.analysis.breakdown import select_scenarios
from tierscope.core.io_class import IOClass
from tierscope.core.lmdb_loaders import LOADERS
from tierscope.core.lmdb_loaders import LOADERS as DATABASES
from tierscope.core.output.declared import Declared
from tierscope.core.provenance import Origin
from tierscope.core.words import scenario_titles
from tierscope.figures.given_runs import Given
from tierscope.figures.style import (
    class_handles,
    draw_legend,
    styled,
    titled,
    write_around,
)

FIGURE = Declared(
    file="loaders",
    title="Files and one LMDB file compared",
    folder="policies",
    tables=("policy_epochs",),
    settings=("files_and_databases", "policy"),
    in_report="loaders",
)

_OPENS = {"color": IOClass.GFS_META.colour, "marker": "o", "ms": 8, "ls": ""}
_SPREAD = {"color": "#222222", "lw": 1.2}
_LASTS = {"color": "#222222", "marker": "|", "ms": 14, "mew": 2, "ls": ""}
_READS = {"color": IOClass.GFS_READ.colour, "marker": "s", "ms": 8, "ls": ""}


def draw(given: Given) -> Figure:
    """Draw the loaders at the cache rates that databases have."""
    settings = given.settings
    table = given.table("policy_epochs")
    table = select_scenarios(table, [settings.files_and_databases])
    table = table[table["policy"].isin([settings.policy, "none"])]
    databases = table[table["loader"].isin(LOADERS)]
    rates = databases["cache_rate_percent"].unique()
    shown = table[table["cache_rate_percent"].isin(rates)]
    return plot_loaders(shown, **given.words)


@styled
def plot_loaders(
    policy_epochs: pd.DataFrame,
    *,
    provenance: Origin,
    dataset_titles: Mapping[str, str] | None = None,
) -> Figure:
    """Draw each loader's time and GFS calls in an epoch; one row per cache rate.

    Parameters
    ----------
    policy_epochs : DataFrame
        Table ``policy_epochs`` of one dataset and OST count, each loader once at a
        cache rate.
    provenance, dataset_titles
        As for `tierscope.figures.execution_and_io_time.plot_execution_and_io_time`.

    Returns
    -------
    Figure
        Left: the I/O time of the slowest process, stacked by class, mean over epochs
        and repetitions, which lie between the ends of the line, and the mean time of
        the whole epoch. Right: opens and reads on the GFS in an epoch, all processes
        together.
    """
    rates = sorted(set(policy_epochs["cache_rate_percent"]))
    figure = Figure(figsize=(13.6, 1.6 + 3.2 * len(rates)), layout="constrained")
    axes = figure.subplots(
        len(rates), 2, squeeze=False, sharex="col", width_ratios=(1.5, 1)
    )
    scene = policy_epochs.assign(policy="", loader="")
    words = scenario_titles(scene, dataset_titles)["title"].iloc[0]
    n_repetitions = policy_epochs["repetition"].nunique()
    notes = [
        f"Source: {provenance}; {n_repetitions} "
        f"repetition{'s' if n_repetitions > 1 else ''}",
        "LMDB: one file holds all samples; the reads of loaders that map it are page "
        "faults. On emulated or simulated tiers, each is charged like a read of the "
        "device, and the kernel's page cache has no queue. So the contention of "
        "processes that share a map, which LMDBIO removes, is absent, and neither page "
        "faults of the machine nor context switches are reported. In the part of an "
        "epoch beyond the bar, processes wait for their reader or turn, or compute. In "
        "order blocks, only whole blocks are distributed, so the slowest process may "
        "read more records of the LMDB file than files.",
    ]
    write_around(
        figure,
        titled(f"Files and one LMDB file compared: {words}", scene, provenance),
        notes,
    )
    for row, rate in zip(axes, rates, strict=True):
        part = policy_epochs[policy_epochs["cache_rate_percent"] == rate]
        loaders = in_order(part["loader"])
        _draw_times(row[0], part, loaders)
        _draw_calls(row[1], part, loaders)
        row[0].set_ylabel(f"Cache rate {rate} %")
    axes[0][0].set_title("I/O time of the slowest process, and whole epochs")
    axes[0][1].set_title("GFS calls in an epoch")
    axes[-1][0].set_xlabel("Time of an epoch (s)")
    axes[-1][1].set_xlabel("Calls of all processes")
    spread = Line2D(
        [], [], **_SPREAD, label="least to largest I/O time\nof epochs and repetitions"
    )
    marks = [mark for ax in axes[0] for mark in ax.get_legend_handles_labels()[0]]
    handles = [*class_handles(), spread, *marks]
    draw_legend(figure, handles)
    return figure


def in_order(loaders: pd.Series) -> list[str]:
    """Return loader names: loaders of files first, LMDBIO's in its authors' order."""
    databases = [name for name in DATABASES if name in set(loaders)]
    return [*sorted(set(loaders) - set(databases)), *databases]


def _draw_times(ax: Axes, part: pd.DataFrame, loaders: list[str]) -> None:
    """Draw each loader's mean I/O time by class."""
    by_loader = part.groupby("loader")
    left_s = np.zeros(len(loaders))
    for io_class in IOClass:
        width_s = by_loader[f"{io_class}_s"].mean()[loaders].to_numpy()
        ax.barh(loaders, width_s, left=left_s, color=io_class.colour)
        left_s += width_s
    times_s = by_loader["io_time_s"]
    least, most = (times_s.agg(name)[loaders] for name in ("min", "max"))
    ax.hlines(range(len(loaders)), least, most, **_SPREAD)
    lasts_s = by_loader["execution_time_s"].mean()[loaders]
    ax.plot(lasts_s, range(len(loaders)), label="whole epoch", **_LASTS)
    _along_x(ax, len(loaders))


def _draw_calls(ax: Axes, part: pd.DataFrame, loaders: list[str]) -> None:
    """Draw each loader's mean opens and reads on the GFS; zero is left out."""
    by_loader = part.groupby("loader")
    for column, label, look in (
        ("gfs_opens", "GFS opens", _OPENS),
        ("gfs_reads", "GFS reads", _READS),
    ):
        calls = by_loader[column].mean()[loaders].to_numpy()
        here = calls > 0
        ax.plot(calls[here], np.flatnonzero(here), label=label, **look)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_yticks(range(len(loaders)), [""] * len(loaders))
    _along_x(ax, len(loaders))


def _along_x(ax: Axes, n_rows: int) -> None:
    """Arrange n rows from top to bottom, with values that grow to the right."""
    ax.set_ylim(n_rows - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.grid(True, axis="x")
    ax.grid(False, axis="y")
