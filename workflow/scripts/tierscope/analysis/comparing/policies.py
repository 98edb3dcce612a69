"""Compare policies and loaders: time, GFS operations, and when staging pays off.

The reference of a run is the run of the same loader and repetition, so with the same
file order, with nothing on the LFS (cache rate 0).
"""

import numpy as np
import pandas as pd

from tierscope.analysis.breakdown import break_down
from tierscope.analysis.comparing.savings import PAIR_KEYS, RUN, VARIANT, mean_cuts
from tierscope.analysis.comparing.staging import (
    ESTIMATED,
    estimated_seconds,
    staging_as_run,
    staging_kinds,
    staging_of_copies,
    with_staging,
)
from tierscope.core.columns import RUN_EPOCH, TABLES
from tierscope.core.io_class import ALL_CLASSES, IOClass
from tierscope.core.scenario import PROGRAM_LOADER
from tierscope.policies import POLICIES

_CLASSES = {str(io_class): f"{io_class}_s" for io_class in ALL_CLASSES}
_OPERATIONS = {
    IOClass.GFS_META: "gfs_opens",
    IOClass.GFS_READ: "gfs_reads",
    IOClass.LFS_META: "lfs_opens",
}
_BACKGROUND = {
    "gfs_opens": "background_gfs_opens",
    "gfs_reads": "background_gfs_reads",
    "lfs_bytes": "background_bytes",
    "placed_files": "placed_files",
    "evicted_files": "evicted_files",
    "failed_files": "failed_files",
}


class ComparisonError(ValueError):
    """Runs cannot be compared."""


def compare_epochs(
    io_time: pd.DataFrame, epochs: pd.DataFrame, background: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Return the times of each epoch of each run, and its GFS operations.

    Parameters
    ----------
    io_time, epochs : DataFrame
        Tables ``io_time`` and ``epochs`` of the same runs.
    background : DataFrame, optional
        Table ``background`` of the runs that have copies.

    Returns
    -------
    DataFrame, shape (n_runs * n_epochs, 25)
        Table ``policy_epochs``. ``io_time_s`` and its classes are the slowest
        process's; ``execution_time_s`` is the largest of the ranks, without
        ``drain_time_s``, the longest any node waited for its copies after the epoch.
        Opens and reads are sums over the processes; those of copies stand apart.
    """
    times_s = break_down(io_time).pivot(
        index=RUN_EPOCH, columns="io_class", values="time_s"
    )
    times_s = times_s.reindex(columns=list(_CLASSES)).fillna(0.0)
    table = times_s.rename(columns=_CLASSES)
    table.insert(0, "io_time_s", table.sum(axis="columns"))
    table["execution_time_s"] = epochs.groupby(RUN_EPOCH)["execution_time_s"].max()
    operations = io_time.groupby([*RUN_EPOCH, "io_class"])["operations"].sum()
    operations = operations.unstack(fill_value=0)  # not all runs have all classes
    for io_class, name in _OPERATIONS.items():
        table[name] = operations[io_class]
    copies = {name: 0 for name in _BACKGROUND.values()} | {"drain_time_s": 0.0}
    table = table.assign(**copies)
    if background is not None:
        nodes = background.groupby(RUN_EPOCH)
        for old, new in _BACKGROUND.items():
            table.update(nodes[old].sum().rename(new))
        table.update(nodes["drain_time_s"].max())
        table = table.astype({name: "int64" for name in _BACKGROUND.values()})
    return table.reset_index()[list(TABLES["policy_epochs"])]


def add_up(
    policy_epochs: pd.DataFrame,
    epochs: pd.DataFrame,
    stage_in: pd.DataFrame | None = None,
    fills: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return the times of each run up to each of its epochs, and of its reference.

    A fixed part of the dataset must be staged to the LFS first. The benchmark generates
    it there, like the paper's, so staging is estimated: every node reads its part from
    the GFS with the opens, reads and processes of an epoch of the reference. The
    estimate leaves out writing to the LFS. If runs stage files themselves, really or
    simulated, their own staging counts. For a program files are copied before it
    starts, so the rate of these copies counts (`staging_of_copies`).

    Parameters
    ----------
    policy_epochs : DataFrame
        Table ``policy_epochs``.
    epochs : DataFrame
        Table ``epochs`` of the same runs.
    stage_in : DataFrame, optional
        Table ``stage_in`` of the runs that have one.
    fills : DataFrame, optional
        What the LFS of a program's runs were filled with, as `fills_of` returns it.

    Returns
    -------
    DataFrame, shape (n_runs * n_epochs, 22)
        Table ``policy_totals``. ``time_s`` is staging, execution and drains; of these
        no further epoch has ``once_time_s``. Operations are opens and reads on the
        GFS; those of staging are only in their own column.

    Raises
    ------
    ComparisonError
        If a run has no reference.
    """
    table = policy_epochs.sort_values(RUN_EPOCH, ignore_index=True)
    table["operations"] = table["gfs_opens"] + table["gfs_reads"]
    table["background"] = table["background_gfs_opens"] + table["background_gfs_reads"]
    table["time_s"] = table["execution_time_s"] + table["drain_time_s"]
    table["once_time_s"] = table["drain_time_s"].where(~_drains_again(table), 0.0)
    sums = ["time_s", "io_time_s", "operations", "background", "background_bytes"]
    sums.append("once_time_s")
    epoch_mean = table.groupby(RUN, sort=False)[sums[:3]].mean()
    table[sums] = table.groupby(RUN, sort=False)[sums].cumsum()
    reference = _reference(table, epoch_mean)
    table = table.merge(reference, how="left", on=[*PAIR_KEYS, "epoch"])
    if (lacking := table["reference_time_s"].isna()).any():
        run = table[lacking].iloc[0]
        raise ComparisonError(
            f"policy {run['policy']}, loader {run['loader']}, repetition "
            f"{run['repetition']}: no run at cache rate 0 to compare with"
        )
    n_nodes = epochs.groupby(RUN)["node"].nunique().rename("n_nodes")
    table = table.join(n_nodes, on=RUN)
    table["staging"] = staging_kinds(table)
    is_staged = table["staging"] == ESTIMATED
    parts = (table["n_nodes"] * table["cache_rate_percent"] / 100).where(is_staged, 0)
    table["staging_time_s"] = parts * estimated_seconds(table)
    operations = (parts * table["reference_epoch_operations"]).round()
    table["staging_gfs_operations"] = operations.astype("int64")
    if stage_in is not None:
        table = with_staging(table, staging_as_run(stage_in))
    if fills is not None:
        table = with_staging(table, staging_of_copies(fills))
    for name in ("time_s", "once_time_s"):
        table[name] += table["staging_time_s"]
    table["n_epochs"] = table["epoch"] + 1
    names = {"operations": "gfs_operations", "background": "background_gfs_operations"}
    return table.rename(columns=names)[list(TABLES["policy_totals"])]


def _drains_again(table: pd.DataFrame) -> pd.Series:
    """Return of each row whether its drain comes again in further epochs."""
    # Our loaders wait after each epoch; a program is waited for when it has ended.
    evicting = [name for name, policy in POLICIES.items() if policy.evicts]
    return table["policy"].isin(evicting) & (table["loader"] != PROGRAM_LOADER)


def is_reference(table: pd.DataFrame) -> pd.Series:
    """Return which rows of a table belong to reference runs.

    All runs at cache rate 0 read from the GFS. The reference is policy none if it ran,
    otherwise pinning, otherwise the first policy by name.

    Parameters
    ----------
    table : DataFrame
        A table with the keys of a run.
    """
    ranks = table["policy"].map({"none": "0", "pinning": "1"}).fillna("2")
    names = (ranks + table["policy"]).where(table["cache_rate_percent"] == 0)
    first = names.groupby([table[key] for key in PAIR_KEYS]).transform("min")
    return names == first


def _reference(table: pd.DataFrame, epoch_mean: pd.DataFrame) -> pd.DataFrame:
    """Return the runs to compare with: sums up to each epoch, and epoch means."""
    reference = table[is_reference(table)]
    reference = reference.join(epoch_mean.add_prefix("mean_"), on=RUN)
    names = {
        "time_s": "reference_time_s",
        "io_time_s": "reference_io_time_s",
        "operations": "reference_gfs_operations",
        "mean_time_s": "reference_epoch_s",
        "mean_io_time_s": "reference_epoch_io_s",
        "mean_operations": "reference_epoch_operations",
    }
    return reference.rename(columns=names)[[*PAIR_KEYS, "epoch", *names.values()]]


def summarise(totals: pd.DataFrame) -> pd.DataFrame:
    """Return the savings of each variant over all its epochs, and when they begin.

    Parameters
    ----------
    totals : DataFrame
        Table ``policy_totals``.

    Returns
    -------
    DataFrame, shape (n_variants, 20)
        Table ``policy_summary``, in percent of the reference. Cuts of the time (with
        staging) and of the I/O time are `mean_cuts`; everything else is computed from
        means over the repetitions, ``gfs_operations_cut_percent`` with staging and
        copies. ``pays_after_epochs`` is the number of epochs from which on the time is
        shorter than that of the reference, if all further epochs are like the last one,
        without what was waited for once.
        It is missing if the time is never shorter, or not for ever, because the last
        epoch takes longer than that of the reference.
    """
    operations = ["gfs_operations", "background_gfs_operations"]
    totals = totals.assign(
        all_operations=totals[[*operations, "staging_gfs_operations"]].sum(axis=1)
    )
    by = [*VARIANT, "n_epochs"]
    means = totals.groupby([*by, "staging"], sort=False).mean(numeric_only=True)
    means = means.reset_index().join(mean_cuts(totals, by), on=by)
    rows = [
        _summary(part.sort_values("n_epochs"))
        for _, part in means.groupby(VARIANT, sort=False)
    ]
    return pd.DataFrame(rows)[list(TABLES["policy_summary"])]


def _summary(part: pd.DataFrame) -> dict:
    """Return the summary of a variant from its means by number of epochs."""
    last = part.iloc[-1]
    time_s, once_s, reference_s = (
        part[name].to_numpy() for name in ("time_s", "once_time_s", "reference_time_s")
    )
    calls, reference_calls = last[["all_operations", "reference_gfs_operations"]]
    last_s, reference_last_s = (
        np.diff(sums, prepend=0)[-1] for sums in (time_s - once_s, reference_s)
    )
    return {
        **last[[name for name in TABLES["policy_summary"] if name in last]],
        "last_epoch_time_s": last_s,
        "reference_last_epoch_time_s": reference_last_s,
        "gfs_operations_cut_percent": 100 * (1 - calls / reference_calls),
        "pays_after_epochs": _pays_after(
            time_s, reference_s, round(reference_last_s - last_s, 9)
        ),
    }


def _pays_after(time_s: np.ndarray, reference_s: np.ndarray, gain_s: float) -> float:
    """Return after how many epochs it pays, if each further one saves `gain_s`."""
    ahead = time_s < reference_s
    if gain_s < 0 or (gain_s == 0 and not ahead[-1]):
        return np.nan  # each further epoch takes longer than that of the reference
    if ahead[-1]:
        behind = np.flatnonzero(~ahead)
        return float(behind[-1] + 2 if len(behind) else 1)
    return float(len(time_s) + np.floor((time_s[-1] - reference_s[-1]) / gain_s) + 1)


def warming_policies(background: pd.DataFrame | None, epoch: int) -> list[str]:
    """Return the policies that still fill the LFS in an epoch, while they run.

    Those are the policies with a run whose LFS holds more files, or fewer, when the
    last epoch begins than when this one does.

    Parameters
    ----------
    background : DataFrame or None
        Table ``background`` of the runs that have copies.
    epoch : int
        The epoch, counted from 0.
    """
    if background is None:
        return []
    last = background.groupby(RUN)["epoch"].transform("max")
    later = background[(background["epoch"] >= epoch) & (background["epoch"] < last)]
    changes = later["placed_files"] - later["evicted_files"]
    held = changes.groupby([later[key] for key in RUN]).sum()
    return sorted(set(held[held != 0].index.get_level_values("policy")))
