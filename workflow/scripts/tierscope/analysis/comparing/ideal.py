"""What storage costs: runs compared with ideal ones, whose storage costs nothing.

Repetition r of a run is compared with repetition r of the ideal run, which has the same
loader and reads the same files in the same order. So intervals are those of pairs.
"""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from tierscope.analysis.breakdown import select_epoch
from tierscope.analysis.intervals import (
    NO_INTERVAL,
    leaves_sign_open,
    mean_intervals,
)
from tierscope.core.columns import RUN_EPOCH, SCENARIO, TABLES
from tierscope.core.provenance import NO_ORIGIN, Origin
from tierscope.core.words import scenario_titles

_POINT = [*SCENARIO, "cache_rate_percent", "epoch"]
# Keys that a run and its ideal run share.
_PAIR = ["source", "dataset", "n_osts", "loader", "repetition", "epoch"]
_DIGITS = 3  # of a sentence's longest time
_ROUNDING = 1e-9  # s: a difference below is none


def storage_time(epochs: pd.DataFrame, ideal_epochs: pd.DataFrame) -> pd.DataFrame:
    """Return which part of the time of each epoch is storage.

    Parameters
    ----------
    epochs, ideal_epochs : DataFrame
        Tables ``epochs`` of the runs, and of their ideal runs.

    Returns
    -------
    DataFrame, shape (n_scenarios * n_cache_rates * n_epochs, 16)
        Table ``storage_time``. The execution time of a run is that of its longest
        process; compute time and utilisation are means over the processes. All are
        means over the repetitions that have an ideal run with this epoch.

    Raises
    ------
    ValueError
        If no run has an ideal one.
    """
    ideal = _runs_epochs(ideal_epochs).groupby(_PAIR)
    ideal = ideal[["execution_time_s", "utilisation_percent"]].first()
    ideal = ideal.set_axis(["ideal_time_s", "ideal_utilisation_percent"], axis=1)
    pairs = _runs_epochs(epochs).join(ideal, on=_PAIR)
    pairs = pairs[pairs["ideal_time_s"].notna()]
    if pairs.empty:
        raise ValueError(
            f"pairs: got repetitions {_repetitions(epochs)} and ideal ones "
            f"{_repetitions(ideal_epochs)}, expected some in common."
        )
    pairs["storage_s"] = pairs["execution_time_s"] - pairs["ideal_time_s"]
    groups = pairs.groupby(_POINT)
    means = groups[["execution_time_s", "compute_time_s", *ideal.columns]].mean()
    table = means.assign(n_repetitions=groups.size())
    for value, half in (
        ("storage_s", "storage_interval_s"),
        ("utilisation_percent", "utilisation_interval_percent"),
    ):
        found = mean_intervals(pairs, _POINT, value)
        table[value], table[half] = found["mean"], (found["high"] - found["low"]) / 2
    return table.reset_index()[list(TABLES["storage_time"])]


def _runs_epochs(epochs: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each epoch of each run, from those of its processes."""
    ranks = epochs.groupby(RUN_EPOCH)
    table = ranks[["compute_time_s", "utilisation_percent"]].mean()
    return table.assign(execution_time_s=ranks["execution_time_s"].max()).reset_index()


def _repetitions(epochs: pd.DataFrame) -> list[int]:
    """Return the repetitions of runs."""
    return sorted(epochs["repetition"].unique().tolist())


def storage_sentence(row: Mapping[str, Any], origin: Origin = NO_ORIGIN) -> str:
    """Return what storage costs at a point in words: one sentence, or two.

    Parameters
    ----------
    row : mapping
        A row of table ``storage_time``. The rest of the time is the processor's where
        the training computes nothing, else computation and the processor.
    origin : Origin, optional
        Where the numbers come from: it says whether a program marks no epochs.
    """
    phase, a_phase = ("run", "a run") if origin.is_whole_run else ("epoch", "an epoch")
    whole_s, ideal_s, half_s = (
        row[name] for name in ("execution_time_s", "ideal_time_s", "storage_interval_s")
    )
    decimals = _decimals(max(whole_s, ideal_s))
    decimals = max(decimals, min(_decimals(half_s, digits=1), _DIGITS))
    whole, ideal, storage = (
        f"{time_s:z.{decimals}f}" for time_s in (whole_s, ideal_s, row["storage_s"])
    )
    of = f"{whole} s {a_phase} at cache rate {row['cache_rate_percent']} %"
    source = "" if row["source"] == "measured" else f" ({row['source']})"
    others = "the processor's"
    if row["compute_time_s"] != 0:  # or not known
        others = "computation and the processor"
    if is_nothing(row):
        return f"Nothing of {of} is storage: the time is {others}{source}."
    interval = f" s ({NO_INTERVAL})"
    if not math.isnan(half_s):
        interval = f" ± {half_s:.{decimals}f} s"
    start = f"Of {of}, {storage}{interval} are storage"
    if is_untold(row):
        least_s = max(0.0, whole_s - row["storage_s"] - half_s)
        rest = f"at least {least_s:.{decimals}f} s are {others}"
        if float(f"{least_s:.{decimals}f}") == 0:
            rest = "more repetitions, longer epochs or an idle machine tell more"
        return f"{start}, which cannot be told from 0; {rest}{source}."
    words = (
        f"{start}; no storage, however fast, makes {a_phase} shorter than {ideal} "
        f"s{source}."
    )
    if 2 * ideal_s > whole_s:
        words += f" Most of the {phase} is {others}."
    return words + _utilisation_words(row)


def _utilisation_words(row: Mapping[str, Any]) -> str:
    """Return the AU and what it is at most, if the training computes."""
    now, ideal = row["utilisation_percent"], row["ideal_utilisation_percent"]
    if not now > 0:  # or not known
        return ""
    return (
        f" The accelerators are used {now:.3g} % of the time (AU), with storage that "
        f"costs nothing {ideal:.3g} %."
    )


def is_untold(row: Mapping[str, Any]) -> bool:
    """Return whether the interval of storage's part contains 0; not without one."""
    half_s = row["storage_interval_s"]
    ends = row["storage_s"] - half_s, row["storage_s"] + half_s
    return not math.isnan(half_s) and leaves_sign_open(*ends)


def is_nothing(row: Mapping[str, Any]) -> bool:
    """Return whether storage takes no time: none is saved if it costs nothing."""
    return row["storage_s"] < _ROUNDING and not is_untold(row)


def _decimals(time_s: float, digits: int = _DIGITS) -> int:
    """Return the decimals with which a time has so many digits."""
    if not time_s > 0:  # or not known
        return 1
    return max(0, digits - 1 - math.floor(math.log10(time_s)))


def storage_sentences(
    table: pd.DataFrame | None,
    epoch: int,
    origin: Origin = NO_ORIGIN,
    dataset_titles: Mapping[str, str] | None = None,
) -> list[str]:
    """Return what storage costs in an epoch: lines for each scenario.

    They are of the lowest cache rate, and of that with the shortest epoch.

    Parameters
    ----------
    table : DataFrame or None
        Table ``storage_time``; None if there are no ideal runs, and so no lines.
    epoch : int
        The epoch, counted from 0.
    origin : Origin, optional
        As for `storage_sentence`.
    dataset_titles : mapping of str to str, optional
        What to call each dataset.
    """
    if table is None:
        return []
    table = select_epoch(table, epoch)
    titles = scenario_titles(table[SCENARIO].drop_duplicates(), dataset_titles or {})
    lines = []
    for scenario in titles.to_dict("records"):
        keys = pd.Series({key: scenario[key] for key in SCENARIO})
        rows = table[(table[SCENARIO] == keys).all(axis=1)]
        shown = dict.fromkeys(
            (rows["cache_rate_percent"].idxmin(), rows["execution_time_s"].idxmin())
        )
        head = f"{scenario['title']}: " if len(titles) > 1 else ""
        lines += [head + storage_sentence(rows.loc[one], origin) for one in shown]
    return lines
