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
from tierscope.analysis.training.other_io import (
    LEAST_PERCENT,
    other_words,
    slowest_loops,
)
from tierscope.core.columns import RUN_EPOCH, SCENARIO, TABLES
from tierscope.core.provenance import NO_ORIGIN, Origin
from tierscope.core.words import scenario_titles

_POINT = [*SCENARIO, "cache_rate_percent", "epoch"]
# Keys that a run and its ideal run share, and those of all that share an ideal run.
_SHARED = ["source", "dataset", "n_osts", "loader", "epoch"]
_PAIR = [*_SHARED, "repetition"]
_DIGITS = 3  # of a sentence's longest time
_ROUNDING = 1e-9  # s: a difference below is none


def storage_time(
    epochs: pd.DataFrame,
    ideal_epochs: pd.DataFrame,
    other: pd.DataFrame | None = None,
    ideal_other: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return which part of the time of each epoch is storage.

    Parameters
    ----------
    epochs, ideal_epochs : DataFrame
        Tables ``epochs`` of the runs, and of their ideal runs.
    other, ideal_other : DataFrame, optional
        Tables ``other_time`` of both, if a program was run. Without one the loops made
        no calls on files of no tier.

    Returns
    -------
    DataFrame, shape (n_scenarios * n_cache_rates * n_epochs, 19)
        Table ``storage_time``. The execution time of a run is that of its longest
        process; compute time and utilisation are means over the processes. All are
        means over the repetitions that have an ideal run with this epoch.

    Raises
    ------
    ValueError
        If no run has an ideal one.
    """
    ideal = _runs_epochs(ideal_epochs, ideal_other).groupby(_PAIR)
    ideal = ideal[["execution_time_s", "other_s", "utilisation_percent"]].first()
    names = ["ideal_time_s", "ideal_other_s", "ideal_utilisation_percent"]
    ideal = ideal.set_axis(names, axis=1)
    pairs = _runs_epochs(epochs, other).join(ideal, on=_PAIR)
    pairs = pairs[pairs["ideal_time_s"].notna()]
    if pairs.empty:
        raise ValueError(
            f"pairs: got repetitions {_repetitions(epochs)} and ideal ones "
            f"{_repetitions(ideal_epochs)}, expected some in common."
        )
    # Writes vary from run to run, and the dataset has no part in that.
    more_s = (pairs["other_s"] - pairs["ideal_other_s"]).fillna(0.0)
    pairs["storage_s"] = pairs["execution_time_s"] - pairs["ideal_time_s"] - more_s
    groups = pairs.groupby(_POINT)
    means = groups[
        ["execution_time_s", "compute_time_s", "other_s", *ideal.columns]
    ].mean()
    unknown = groups[["other_s", "ideal_other_s"]].count().lt(groups.size(), axis=0)
    means[unknown.columns] = means[unknown.columns].mask(unknown)
    table = means.assign(n_repetitions=groups.size(), other_io="")
    for value, half in (
        ("storage_s", "storage_interval_s"),
        ("utilisation_percent", "utilisation_interval_percent"),
    ):
        found = mean_intervals(pairs, _POINT, value)
        table[value], table[half] = found["mean"], (found["high"] - found["low"]) / 2
    if other is not None:
        table["other_io"] = _other_io(other, pairs).reindex(table.index, fill_value="")
    return table.reset_index()[list(TABLES["storage_time"])]


def _runs_epochs(epochs: pd.DataFrame, other: pd.DataFrame | None) -> pd.DataFrame:
    """Return a row for each epoch of each run, from those of its processes."""
    ranks = epochs.groupby(RUN_EPOCH)
    table = ranks[["compute_time_s", "utilisation_percent"]].mean()
    table = table.assign(execution_time_s=ranks["execution_time_s"].max(), other_s=0.0)
    if other is not None:
        loops = slowest_loops(other).groupby(RUN_EPOCH)["time_s"]
        sums_s = loops.sum(min_count=1)
        known = sums_s.reindex(table.index, fill_value=0.0)
        table["other_s"] = known.clip(upper=table["execution_time_s"])
    return table.reset_index()


def _other_io(other: pd.DataFrame, pairs: pd.DataFrame) -> pd.Series:
    """Return what the calls of the slowest loops are in words, by point."""
    rows = slowest_loops(other).merge(pairs[RUN_EPOCH])
    words = {
        point: other_words(of_point, of_point["repetition"].nunique())
        for point, of_point in rows[rows["time_s"] > 0].groupby(_POINT)
    }
    index = pd.MultiIndex.from_tuples(words, names=_POINT) if words else None
    return pd.Series(list(words.values()), index, "str")


def _repetitions(epochs: pd.DataFrame) -> list[int]:
    """Return the repetitions of runs."""
    return sorted(epochs["repetition"].unique().tolist())


def storage_sentence(row: Mapping[str, Any], origin: Origin = NO_ORIGIN) -> str:
    """Return what storage costs at a point in words: some sentences.

    Parameters
    ----------
    row : mapping
        A row of table ``storage_time``. The rest of the time is the processor's where
        the training computes nothing, else computation and the processor. If it has
        ``fastest_s``, an epoch with the same ideal run has taken no longer than that.
    origin : Origin, optional
        Where the numbers come from: it says whether a program marks no epochs.
    """
    words = _Words(row, "run" if origin.is_whole_run else "epoch")
    return " ".join(filter(None, (words.storage(), words.other(), words.rest())))


class _Words:
    """Sentences on a row of table ``storage_time``; a phase is an epoch or a run."""

    def __init__(self, row: Mapping[str, Any], phase: str):
        self._row, self._phase = row, phase
        self._a_phase = f"{'an' if phase == 'epoch' else 'a'} {phase}"
        self._whole_s, self._half_s = row["execution_time_s"], row["storage_interval_s"]
        other_s, ideal_other_s = row["other_s"], row["ideal_other_s"]
        self._is_seen = not math.isnan(other_s + ideal_other_s)
        self._has_other = other_s >= self._whole_s * LEAST_PERCENT / 100
        # What an epoch takes if no storage costs anything.
        self._least_s = row["ideal_time_s"] - (ideal_other_s if self._is_seen else 0.0)
        decimals = _decimals(max(self._whole_s, row["ideal_time_s"]))
        self._n = max(decimals, min(_decimals(self._half_s, digits=1), _DIGITS))
        # As the words for a part of all, and for all of it.
        self._others = "the processor's"
        if row["compute_time_s"] != 0:  # or not known
            self._others = "computation and the processor"
        self._source = "" if row["source"] == "measured" else f" ({row['source']})"

    def _number(self, time_s: float) -> str:
        return f"{time_s:z.{self._n}f}"

    @property
    def _interval(self) -> str:
        """Return half of the interval of what storage costs, or that there is none."""
        if math.isnan(self._half_s):
            return f" s ({NO_INTERVAL})"
        return f" ± {self._half_s:.{self._n}f} s"

    @property
    def _is_told(self) -> bool:
        return not (is_untold(self._row) or self._row["storage_s"] < _ROUNDING)

    def storage(self) -> str:
        """Return the sentence on the dataset's storage."""
        of = (
            f"{self._number(self._whole_s)} s {self._a_phase} at cache rate "
            f"{self._row['cache_rate_percent']} %"
        )
        dataset = "the dataset's storage" if self._has_other else "storage"
        storage_s = self._row["storage_s"]
        if abs(storage_s) < _ROUNDING and not is_untold(self._row):
            end = "" if self._has_other else f": {self._all_words()}"
            return f"Nothing of {of} is {dataset}{end}{self._source}."
        if not is_untold(self._row) and storage_s < 0:
            return (
                f"Of {of}, what is {dataset} cannot be told from 0: the ideal run "
                f"takes {self._number(-storage_s)}{self._interval} longer"
                f"{self._source}."
            )
        start = f"Of {of}, {self._number(storage_s)}{self._interval} are {dataset}"
        if is_untold(self._row):
            end = "" if self._has_other else f"; {self._rest_words()}"
            return f"{start}, which cannot be told from 0{end}{self._source}."
        end = "" if self._has_other else f"; {self._limit_words()}"
        return f"{start}{end}{self._source}."

    def _all_words(self) -> str:
        """Return what all of the time is where storage costs nothing."""
        unseen = "" if self._is_seen else ", and other storage I/O that is not measured"
        return f"the time is {self._others}{unseen}"

    def _rest_words(self) -> str:
        """Return what computation and processor take, if storage cannot be told."""
        least_s = max(0.0, self._least_s - self._half_s)
        if float(f"{least_s:.{self._n}f}") == 0:
            return "more repetitions, longer epochs or an idle machine tell more"
        unseen = "" if self._is_seen else ", and other storage I/O that is not measured"
        return f"at least {self._number(least_s)} s are {self._others}{unseen}"

    def _limit_words(self) -> str:
        """Return what no storage makes shorter, as far as that was seen."""
        least = self._number(self._least_s)
        if not self._is_seen:
            return (
                f"if it costs nothing, {self._a_phase} takes {least} s, and how much "
                "of that is other storage I/O is not measured"
            )
        # The ideal run may have been slower than another one by chance.
        if math.isnan(self._half_s) or self._least_s > self._fastest_s:
            return f"if it costs nothing, {self._a_phase} takes {least} s"
        return (
            f"no storage, however fast, makes {self._a_phase} shorter than {least} s"
        )

    @property
    def _fastest_s(self) -> float:
        return min(self._row.get("fastest_s", self._whole_s), self._whole_s)

    def other(self) -> str:
        """Return the sentences on calls on files outside of the dataset, if any."""
        if not self._has_other:
            return ""
        return (
            f"{self._number(self._row['other_s'])} s are other storage I/O, which the "
            f"ideal run does not take away: {self._row['other_io']}. Faster storage "
            "there saves at most this."
        )

    def rest(self) -> str:
        """Return the sentences on what is left, if storage's part can be told."""
        words = []
        if self._has_other:
            limit = self._limit_words() if self._is_told else self._least_words()
            words.append(f"{limit[0].upper()}{limit[1:]}{self._source}.")
        if self._is_told and self._least_s <= self._whole_s < 2 * self._least_s:
            words.append(f"Most of the {self._phase} is {self._others}.")
        if self._is_told:
            words.append(_utilisation_words(self._row))
        return " ".join(filter(None, words))

    def _least_words(self) -> str:
        """Return what is left of the ideal run without other storage I/O."""
        of = "" if math.isnan(self._half_s) else "about "
        return f"the rest of the ideal run, {of}{self._number(self._least_s)} s, is {self._others}"


def _utilisation_words(row: Mapping[str, Any]) -> str:
    """Return the AU and what it is at most, if the training computes."""
    now, ideal = row["utilisation_percent"], row["ideal_utilisation_percent"]
    if not now > 0:  # or not known
        return ""
    words = f"The accelerators are used {now:.3g} % of the time (AU)"
    if ideal > now:
        return f"{words}, with storage that costs nothing {ideal:.3g} %."
    return f"{words}; the ideal run is too noisy to say how much of the rest is storage."


def is_untold(row: Mapping[str, Any]) -> bool:
    """Return whether the interval of storage's part contains 0; not without one."""
    half_s = row["storage_interval_s"]
    ends = row["storage_s"] - half_s, row["storage_s"] + half_s
    return not math.isnan(half_s) and leaves_sign_open(*ends)


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
    fastest_s = table.groupby(_SHARED)["execution_time_s"].transform("min")
    table = table.assign(fastest_s=fastest_s)
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
