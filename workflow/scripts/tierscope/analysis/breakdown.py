"""Break the I/O time of the slowest process down into the I/O classes.

There are the paper's four classes; if a run reads from other nodes, `NET_READ` is a
fifth. The slowest process of an epoch is the one with the largest sum over the
classes; its breakdown says which class is the bottleneck (Fukai et al., Sec. 4.3). A
breakdown is not the maximum of each class: those belong to different processes.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from tierscope.analysis.intervals import mean_intervals
from tierscope.core.columns import CLASSES, POINT, RUN_EPOCH, RUN_KEYS, SCENARIO, TABLES
from tierscope.core.io_class import ALL_CLASSES, NET_READ, IOClass, NetClass, total_s
from tierscope.core.scenario import Point

_ALL_CLASSES = [str(io_class) for io_class in ALL_CLASSES]
TIERS = sorted({io_class.tier for io_class in IOClass})


def points_of(table: pd.DataFrame) -> list[Point]:
    """Return the points that a table has rows of, in the table's order."""
    rows = table[POINT].drop_duplicates().itertuples(index=False, name=None)
    return [Point(int(rate), int(repetition)) for rate, repetition in rows]


def sum_io_time(
    file_records: pd.DataFrame,
    ranks: Iterable[int],
    epochs: Iterable[int],
    run: Mapping[str, str | int],
    classes: Sequence[IOClass | NetClass] = tuple(IOClass),
) -> pd.DataFrame:
    """Sum the file records of a run by epoch, rank and I/O class.

    Parameters
    ----------
    file_records : DataFrame, shape (n_records, 9)
        Table ``file_records`` of the run.
    ranks, epochs : iterable of int
        All ranks and epochs of the run, including those that read nothing.
    run : mapping of str to str or int
        The keys of the run (`RUN_KEYS`), copied to every row.
    classes : sequence of IOClass or NetClass
        The classes of each rank; `ALL_CLASSES` where the run may read from other
        nodes, which are the records of tier ``net``.

    Returns
    -------
    DataFrame, shape (n_epochs * n_ranks * 4 or 5, 14)
        Table ``io_time``, sorted by epoch, rank and class: ``time_s`` in seconds,
        ``bytes`` in bytes (0 in metadata classes). Operations are the reads in a
        read class and the opens in a metadata class, where an open and its close
        count as one. A rank that used no file of a tier has zeros.

    Notes
    -----
    Metadata time is Darshan's ``POSIX_F_META_TIME``, which includes stat and seek
    besides open and close.
    """
    if set(run) != set(RUN_KEYS):
        raise ValueError(f"run keys: got {sorted(run)}, expected {sorted(RUN_KEYS)}.")
    by = ["epoch", "rank", "tier"]
    counters = ["opens", "reads", "bytes_read", "read_time_s", "meta_time_s"]
    sums = file_records.groupby(by)[counters].sum()
    epochs, ranks = sorted(set(epochs)), sorted(set(ranks))
    tiers = TIERS + [one.tier for one in classes if one.tier not in TIERS]
    expected = pd.MultiIndex.from_product([epochs, ranks, tiers], names=by)
    if len(foreign := sums.index.difference(expected)):
        epoch, rank, tier = foreign[0]
        raise ValueError(
            f"file records: got epoch {epoch}, rank {rank}, tier {tier}; expected "
            f"epochs {epochs}, {len(ranks)} ranks {ranks[:1]} to {ranks[-1:]}, "
            f"tiers {tiers}."
        )
    sums = sums.reindex(expected, fill_value=0).reset_index()
    parts = [_class_rows(sums, io_class) for io_class in classes]
    rows = pd.concat(parts).sort_values(["epoch", "rank"], kind="stable")
    return rows.assign(**run)[list(TABLES["io_time"])].reset_index(drop=True)


def _class_rows(sums: pd.DataFrame, io_class: IOClass | NetClass) -> pd.DataFrame:
    """Return the epoch, rank, time, operations and bytes of one I/O class."""
    tier = sums[sums["tier"] == io_class.tier]
    reads = io_class in (IOClass.GFS_READ, IOClass.LFS_READ, NET_READ)
    return pd.DataFrame(
        {
            "epoch": tier["epoch"],
            "rank": tier["rank"],
            "io_class": str(io_class),
            "time_s": tier["read_time_s" if reads else "meta_time_s"],
            "operations": tier["reads" if reads else "opens"],
            "bytes": tier["bytes_read"] if reads else 0,
        }
    )


def without_peers(io_time: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of runs that have only the paper's four classes.

    Improvements are defined for these classes only, not for the network.
    """
    is_net = (io_time["io_class"] == NET_READ).to_numpy()
    if not is_net.any():
        return io_time
    run = group_numbers(io_time, RUN_KEYS)
    return io_time[~np.isin(run, run[is_net])]


def group_numbers(table: pd.DataFrame, keys: Iterable[str]) -> np.ndarray:
    """Return the number of each row's group, counted from 0 in the order of the keys.

    The same as ``groupby(keys, sort=True).ngroup()``, several times as fast: most keys
    of our tables have one value only.
    """
    numbers = np.zeros(len(table), dtype=np.int64)
    for key in keys:
        column = table[key]
        if len(column) and not (column == column.iloc[0]).all():
            codes, values = pd.factorize(column, sort=True)
            numbers = numbers * len(values) + codes
    return np.unique(numbers, return_inverse=True)[1]


def process_times(io_time: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
    """Turn the I/O time table into one row per process and epoch, one column per class.

    Parameters
    ----------
    io_time : DataFrame, shape (n_processes * 4, 14)
        Table ``io_time`` of any number of runs and epochs, in any order.

    Returns
    -------
    processes : DataFrame, shape (n_processes, 10)
        The run, ``epoch`` and ``rank`` of each row, sorted by them.
    times_s : ndarray, shape (n_processes, 4)
        I/O time in seconds; columns in the order of `IOClass`. If a run of the table
        reads from other nodes, `NET_READ` is a fifth one, 0 in the other runs.

    Raises
    ------
    ValueError
        If a process lacks an I/O class or has one twice.
    """
    is_net = (io_time["io_class"] == NET_READ).to_numpy()
    if is_net.any():
        processes, times_s = process_times(io_time[~is_net])
        return processes, np.column_stack([times_s, _net_times(processes, io_time)])
    run_epoch = group_numbers(io_time, RUN_EPOCH)
    rank = io_time["rank"].to_numpy()
    code = pd.Index(CLASSES).get_indexer(io_time["io_class"])
    order = np.lexsort((code, rank, run_epoch))
    whole = len(order) % 4 == 0
    if whole:
        same = [key[order].reshape(-1, 4) for key in (run_epoch, rank)]
        whole = all((key == key[:, :1]).all() for key in same)
        whole = whole and (code[order].reshape(-1, 4) == np.arange(4)).all()
    if not whole:
        raise ValueError(
            f"I/O time: got {len(io_time)} rows in which a process of an epoch lacks "
            f"an I/O class or has it twice, expected one row for each of {CLASSES}."
        )
    processes = io_time[[*RUN_EPOCH, "rank"]].iloc[order[::4]].reset_index(drop=True)
    return processes, io_time["time_s"].to_numpy(float)[order].reshape(-1, 4)


def _net_times(processes: pd.DataFrame, io_time: pd.DataFrame) -> np.ndarray:
    """Return each process's time of reads from other nodes, 0 in runs without them."""
    keys = [*RUN_EPOCH, "rank"]
    net = io_time[io_time["io_class"] == NET_READ].set_index(keys)["time_s"]
    index = pd.MultiIndex.from_frame(processes[keys])
    of_runs = net.index.droplevel(["epoch", "rank"]).unique()
    wanted = index.droplevel(["epoch", "rank"]).isin(of_runs).sum()
    if not net.index.is_unique or not net.index.isin(index).all() or len(net) != wanted:
        raise ValueError(
            f"I/O time: got {len(net)} rows of {NET_READ}, expected {wanted}: one for "
            "each process and epoch of the runs that have this class."
        )
    return net.reindex(index, fill_value=0.0).to_numpy()


def slowest_process(io_time: pd.DataFrame) -> pd.DataFrame:
    """Return the process with the largest I/O time in each epoch of each run.

    Parameters
    ----------
    io_time : DataFrame, shape (n_processes * 4, 14)
        Table ``io_time``.

    Returns
    -------
    DataFrame, shape (n_runs * n_epochs, 11)
        The run, ``epoch``, ``slowest_rank`` (of equally slow processes the lowest
        rank) and ``io_time_s``, its sum over the classes in seconds; sorted.
    """
    processes, times_s = process_times(io_time)
    slowest = _slowest_rows(processes, times_s)
    rows = processes.iloc[slowest].rename(columns={"rank": "slowest_rank"})
    return rows.assign(io_time_s=total_s(times_s[slowest])).reset_index(drop=True)


def _slowest_rows(processes: pd.DataFrame, times_s: np.ndarray) -> np.ndarray:
    """Return the row of the slowest process of each run and epoch."""
    run_epoch = group_numbers(processes, RUN_EPOCH)
    order = np.lexsort((processes["rank"], -total_s(times_s), run_epoch))
    return order[np.unique(run_epoch[order], return_index=True)[1]]


def break_down(io_time: pd.DataFrame) -> pd.DataFrame:
    """Break down the I/O time of the slowest process of each epoch by class.

    Parameters
    ----------
    io_time : DataFrame, shape (n_processes * 4, 14)
        Table ``io_time`` of any number of runs and epochs.

    Returns
    -------
    DataFrame, shape (n_runs * n_epochs * 4 or 5, 13)
        Table ``breakdown``, sorted by run, epoch and class: ``time_s`` in seconds
        and ``share``, the class's part of the slowest process's I/O time (0 to 1;
        0 if that process did no I/O).
    """
    processes, times_s = process_times(io_time)
    slowest = _slowest_rows(processes, times_s)
    times_s = times_s[slowest]
    io_time_s = total_s(times_s)[:, np.newaxis]
    shares = np.divide(
        times_s, io_time_s, out=np.zeros_like(times_s), where=io_time_s > 0
    )
    classes = _ALL_CLASSES[: times_s.shape[1]]
    rows = processes.iloc[slowest.repeat(len(classes))].reset_index(drop=True)
    rows = rows.rename(columns={"rank": "slowest_rank"}).assign(
        io_class=np.tile(classes, len(slowest)),
        time_s=times_s.ravel(),
        share=shares.ravel(),
    )
    if len(classes) > len(CLASSES):  # only for runs that have the class
        rows = _drop_foreign_class(rows, io_time)
    return rows[list(TABLES["breakdown"])]


def _drop_foreign_class(rows: pd.DataFrame, io_time: pd.DataFrame) -> pd.DataFrame:
    """Return a breakdown without `NET_READ` of runs that do not have it."""
    keys = list(RUN_KEYS)
    runs = pd.MultiIndex.from_frame(io_time.loc[io_time["io_class"] == NET_READ, keys])
    has_class = pd.MultiIndex.from_frame(rows[keys]).isin(runs.unique())
    kept = (rows["io_class"] != NET_READ).to_numpy() | has_class
    return rows[kept].reset_index(drop=True)


def bottleneck(breakdown: pd.DataFrame) -> pd.DataFrame:
    """Return the class with the largest share in each epoch of each run.

    Parameters
    ----------
    breakdown : DataFrame, shape (n_runs * n_epochs * 4, 13)
        Table ``breakdown``.

    Returns
    -------
    DataFrame, shape (n_runs * n_epochs, 13)
        Its rows of the bottleneck; of equal shares the first in the order of
        `IOClass` (also where the slowest process did no I/O at all).
    """
    code = pd.Index(_ALL_CLASSES).get_indexer(breakdown["io_class"])
    run_epoch = group_numbers(breakdown, RUN_EPOCH)
    order = np.lexsort((code, -breakdown["share"], run_epoch))
    first = order[np.unique(run_epoch[order], return_index=True)[1]]
    return breakdown.iloc[first].reset_index(drop=True)


def epoch_times(epochs: pd.DataFrame, io_time: pd.DataFrame) -> pd.DataFrame:
    """Put execution time and I/O time of every epoch into one tidy table (Fig. 1).

    Parameters
    ----------
    epochs : DataFrame, shape (n_runs * n_epochs * n_ranks, 17)
        Table ``epochs``; may lack runs, such as simulated ones.
    io_time : DataFrame, shape (n_processes * 4, 14)
        Table ``io_time``.

    Returns
    -------
    DataFrame, shape (up to 2 * n_runs * n_epochs, 11)
        The run, ``epoch``, ``quantity`` and ``time_s`` in seconds. The quantity
        ``execution time`` is the largest over the ranks, ``I/O time`` that of the
        slowest process.
    """
    execution = epochs.groupby(RUN_EPOCH, sort=True)["execution_time_s"].max()
    execution = execution.rename("time_s").reset_index()
    slowest = slowest_process(io_time).rename(columns={"io_time_s": "time_s"})
    parts = {"execution time": execution, "I/O time": slowest}
    rows = [part.assign(quantity=quantity) for quantity, part in parts.items()]
    columns = [*RUN_EPOCH, "quantity", "time_s"]
    return pd.concat(rows, ignore_index=True)[columns]


def spread_over_repetitions(
    times: pd.DataFrame, max_spread_percent: int
) -> pd.DataFrame:
    """Return how much the repetitions of each point and epoch differ.

    Parameters
    ----------
    times : DataFrame, shape (n_rows, 11)
        What `epoch_times` returns.
    max_spread_percent : int
        Points whose standard deviation is above this percentage of their mean are
        flagged.

    Returns
    -------
    DataFrame, shape (n_points * n_epochs * n_quantities, 17)
        Table ``spread``: ``mean_s`` over the repetitions, ``sd_s``, their standard
        deviation (n - 1 in the denominator), and ``low_s`` to ``high_s``, the interval
        of the mean (`tierscope.analysis.intervals`), in seconds; ``cv`` = sd / mean,
        and ``flagged``. With one repetition the spread is unknown: missing and not
        flagged.
    """
    by = [*SCENARIO, "cache_rate_percent", "epoch", "quantity"]
    times = times.sort_values([*by, "repetition"], kind="stable")
    spread = mean_intervals(times, by, "time_s").add_suffix("_s").reset_index()
    spread = spread.rename(columns={"n_s": "n_repetitions"})
    # The spread of equal times is 0, even if their mean is 0.
    cv = (spread["sd_s"] / spread["mean_s"]).where(spread["sd_s"] != 0, 0.0)
    spread = spread.assign(cv=cv, max_spread_percent=max_spread_percent)
    spread["flagged"] = 100 * cv > max_spread_percent
    return spread[list(TABLES["spread"])]


def select_scenarios(
    table: pd.DataFrame, scenarios: Iterable[Mapping[str, str | int]]
) -> pd.DataFrame:
    """Return the rows of some scenarios, in the order in which those are given.

    Parameters
    ----------
    table : DataFrame
        Any table with the keys of a scenario.
    scenarios : iterable of mappings of str to str or int
        Scenario keys and values, such as ``{"dataset": "small", "n_osts": 60}``;
        keys that are left out may take any value.

    Raises
    ------
    ValueError
        If a scenario has an unknown key or is not in the table.
    """
    parts = [_rows_of_scenario(table, scenario) for scenario in scenarios]
    return pd.concat(parts, ignore_index=True)


def select_scenario(
    table: pd.DataFrame, scenario: Mapping[str, str | int]
) -> pd.DataFrame:
    """Return the rows of the one scenario that the keys describe.

    Raises a ValueError if the keys fit no scenario of the table or several.
    """
    rows = _rows_of_scenario(table, scenario)
    if len(present := _scenarios(rows)) > 1:
        raise ValueError(
            f"scenario {dict(scenario)}: {len(present)} scenarios have these keys, "
            f"expected exactly one: {present}."
        )
    return rows


def shown_epoch(table: pd.DataFrame, wanted: int) -> int:
    """Return the wanted epoch if a table has it, else its last one.

    A program of the user decides how many epochs there are.
    """
    present = set(table["epoch"])
    return wanted if wanted in present else int(max(present))


def select_epoch(table: pd.DataFrame, epoch: int) -> pd.DataFrame:
    """Return the rows of an epoch (from 0); a ValueError if there are none."""
    rows = table[table["epoch"] == epoch]
    if rows.empty:
        present = sorted(table["epoch"].unique().tolist())
        raise ValueError(f"epoch: got {epoch}, expected one of {present}.")
    return rows.reset_index(drop=True)


def _rows_of_scenario(
    table: pd.DataFrame, scenario: Mapping[str, str | int]
) -> pd.DataFrame:
    """Return the rows whose scenario keys have the given values."""
    if unknown := sorted(set(scenario) - set(SCENARIO)):
        raise ValueError(f"scenario keys: got {unknown}, expected some of {SCENARIO}.")
    fits = np.ones(len(table), dtype=bool)
    for key, value in scenario.items():
        fits &= (table[key] == value).to_numpy(bool)
    if not fits.any():
        raise ValueError(
            f"scenario {dict(scenario)}: not in the table, "
            f"expected one of {_scenarios(table)}."
        )
    return table[fits].reset_index(drop=True)


def _scenarios(table: pd.DataFrame) -> list[dict[str, str | int]]:
    """Return the scenarios of a table, as mappings that can be printed."""
    return table[SCENARIO].drop_duplicates().to_dict("records")


def io_time_spread(spread: pd.DataFrame, epoch: int) -> pd.DataFrame:
    """Return the rows of table ``spread`` about the I/O time of an epoch."""
    return select_epoch(spread[spread["quantity"] == "I/O time"], epoch)


def sums_of_classes(breakdown: pd.DataFrame) -> pd.DataFrame:
    """Return the I/O time of the slowest process of each run of a breakdown."""
    keys = [column for column in breakdown if column not in ("io_class", "share")]
    keys.remove("time_s")
    sums = breakdown.groupby(keys, sort=True)["time_s"].sum()
    return sums.rename("io_time_s").reset_index()
