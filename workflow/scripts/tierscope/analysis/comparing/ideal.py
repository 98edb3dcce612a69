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
from tierscope.analysis.training.limit import besides_storage, decide, limit_sentence
from tierscope.analysis.training.other_io import other_words, slowest_rows
from tierscope.analysis.training.stalls import (
    LEAST_PERCENT,
    has_other_loop,
    least_notes,
)
from tierscope.core.columns import RUN_EPOCH, SCENARIO, TABLES
from tierscope.core.provenance import NO_ORIGIN, Origin
from tierscope.core.words import capitalised, scenario_titles

_POINT = [*SCENARIO, "cache_rate_percent", "epoch"]
# Keys that a run and its ideal run share, and those of all that share an ideal run.
_SHARED = ["source", "dataset", "n_osts", "loader", "epoch"]
_PAIR = [*_SHARED, "repetition"]
_DIGITS = 3  # of a sentence's longest time
_ROUNDING = 1e-9  # s: a difference below is none
_UNSEEN = "Other storage I/O, such as that of checkpoints, is not measured."
_UTILISATION = "utilisation_percent"
# Calls on files of no tier, by their columns: whether the loop made them.
_OTHERS = {"other": True, "beside": False}
# What tables of epochs have of each process, of which points have the mean.
_OF_PROCESSES = ["compute_time_s", "warmup_s", "loader_end_s"]
_OF_PROCESSES += [_UTILISATION, "loop_utilisation_percent"]
_IDEAL = {
    "execution_time_s": "ideal_time_s",
    "warmup_s": "ideal_warmup_s",
    "other_s": "ideal_other_s",
    _UTILISATION: "ideal_utilisation_percent",
    "least_because": "ideal_least_because",
}


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
    DataFrame, shape (n_scenarios * n_cache_rates * n_epochs, 27)
        Table ``storage_time``. The execution time of a run is that of its longest
        process; compute time and utilisation are means over the processes. All are
        means over the repetitions that have an ideal run with this epoch.

    Raises
    ------
    ValueError
        If no run has an ideal one.
    """
    ideal = _runs_epochs(ideal_epochs, ideal_other).groupby(_PAIR)[list(_IDEAL)].first()
    pairs = _runs_epochs(epochs, other).join(ideal.rename(columns=_IDEAL), on=_PAIR)
    pairs = pairs[pairs["ideal_time_s"].notna()]
    if pairs.empty:
        raise ValueError(
            f"pairs: got repetitions {_repetitions(epochs)} and ideal ones "
            f"{_repetitions(ideal_epochs)}, expected some in common."
        )
    pairs["storage_s"] = pairs["execution_time_s"] - pairs["ideal_time_s"]
    # Writes and warm-up vary from run to run, and the dataset has no part in that.
    for part in ("other_s", "warmup_s"):
        pairs["storage_s"] -= (pairs[part] - pairs[f"ideal_{part}"]).fillna(0.0)
    groups = pairs.groupby(_POINT)
    table = groups.mean(numeric_only=True).assign(n_repetitions=groups.size())
    reasons = groups[["least_because", "ideal_least_because"]].max()
    table["least_because"] = reasons.max(axis=1)
    for value, half in (
        ("storage_s", "storage_interval_s"),
        (_UTILISATION, "utilisation_interval_percent"),
    ):
        found = mean_intervals(pairs, _POINT, value)
        table[value], table[half] = found["mean"], (found["high"] - found["low"]) / 2
    for name, in_loop in _OTHERS.items():
        table[f"{name}_io"] = _words_of_calls(other, in_loop, pairs, table.index)
    return table.reset_index()[list(TABLES["storage_time"])]


def _runs_epochs(epochs: pd.DataFrame, other: pd.DataFrame | None) -> pd.DataFrame:
    """Return a row for each epoch of each run, from those of its processes."""
    ranks = epochs.groupby(RUN_EPOCH)
    table = (
        ranks[_OF_PROCESSES]
        .mean()
        .assign(
            execution_time_s=ranks["execution_time_s"].max(),
            least_because=ranks["least_because"].max(),  # "" is the least
        )
    )
    for name, in_loop in _OTHERS.items():
        table[f"{name}_s"] = 0.0
        if other is not None:
            times_s = slowest_rows(other, in_loop).groupby(RUN_EPOCH)["time_s"]
            sums_s = times_s.sum(min_count=1)
            table[f"{name}_s"] = sums_s.reindex(table.index, fill_value=0.0)
    return table.reset_index()


def _words_of_calls(
    other: pd.DataFrame | None,
    in_loop: bool,
    pairs: pd.DataFrame,
    points: pd.MultiIndex,
) -> list[str]:
    """Return what the calls on files of no tier are at some points."""
    if other is None:
        return [""] * len(points)
    rows = slowest_rows(other, in_loop).merge(pairs[RUN_EPOCH])
    rows = {point: of_point for point, of_point in rows.groupby(_POINT)}
    n_runs = pairs.groupby(_POINT).size()
    return [
        other_words(rows[one], n_runs[one]) if one in rows else "" for one in points
    ]


def _repetitions(epochs: pd.DataFrame) -> list[int]:
    """Return the repetitions of runs."""
    return sorted(epochs["repetition"].unique().tolist())


def storage_sentence(
    row: Mapping[str, Any], may_hide: bool, origin: Origin = NO_ORIGIN
) -> str:
    """Return what storage costs at a point in words: some sentences.

    Parameters
    ----------
    row : mapping
        A row of table ``storage_time``. If it has ``fastest_s``, an epoch with the same
        ideal run was as short as that.
    may_hide : bool
        As for `decide`. If not, the rest of the time is the processor's alone.
    origin : Origin, optional
        Where the numbers come from: it says whether a program marks no epochs.
    """
    return _Sentences(row, may_hide, origin.phase).words()


class _Sentences:
    """What storage costs in a phase, which is an epoch or a run."""

    def __init__(self, row: Mapping[str, Any], may_hide: bool, phase: str):
        self._row, self._phase = row, phase
        self._a_phase = f"{'an' if phase == 'epoch' else 'a'} {phase}"
        self._whole_s, self._half_s = row["execution_time_s"], row["storage_interval_s"]
        decimals = _decimals(max(self._whole_s, row["ideal_time_s"]))
        self._n = max(decimals, min(_decimals(self._half_s, digits=1), _DIGITS))
        self._is_seen = not math.isnan(row["other_s"] + row["ideal_other_s"])
        self._others = self._of_others() if self._is_seen else [_UNSEEN]
        # What no storage takes away; what a program does beside its loop may be in it.
        ideal_other_s = row["ideal_other_s"] if self._is_seen else 0.0
        longer_s = row["warmup_s"] - row["ideal_warmup_s"]  # not the ideal run's own
        left_s = row["ideal_time_s"] - ideal_other_s
        self._left_s = max(0.0, left_s + (0.0 if math.isnan(longer_s) else longer_s))
        self._is_exact = self._is_seen and not self._is_much(row["beside_s"])
        self._rest = "computation and the processor" if may_hide else "the processor's"

    def words(self) -> str:
        """Return all sentences; the first holds the last if nothing stands between."""
        first, mark, last = self._first_and_last()
        source = self._row["source"]
        end = "." if source == "measured" else f" ({source})."
        sentences = [f"{first}{mark}{last}{end}" if last else f"{first}{end}"]
        if self._others:
            final = [f"{capitalised(last)}."] if last else []
            sentences = [f"{first}{end}", *self._others, *final]
        return " ".join([*sentences, *self._of_steps(), *self._further()])

    def _first_and_last(self) -> tuple[str, str, str]:
        """Return what the dataset's storage costs, and what is left; no full stops."""
        row, storage_s = self._row, self._row["storage_s"]
        whole = f"{self._number(self._whole_s)} s {self._a_phase} at cache rate "
        whole += f"{row['cache_rate_percent']} %"
        storage = "the dataset's storage" if self._others else "storage"
        time = f"Of {whole}, {self._number(storage_s)}{self._interval} are {storage}"
        least = self._least_words() if is_untold(row) else ""
        if storage_s <= -_ROUNDING:
            time = f"Of {whole}, what is {storage} cannot be told from 0: the ideal "
            time += f"run takes {self._number(-storage_s)}{self._interval} longer"
            if max(row["other_s"], row["ideal_other_s"]) > 0:
                time += " apart from other storage I/O"
            return time, "; ", least
        if is_untold(row):
            return f"{time}, which cannot be told from 0", "; ", least
        if storage_s < _ROUNDING:
            rest = f"the {'rest' if self._others else 'time'} is {self._rest}"
            return f"Nothing of {whole} is {storage}", ": ", rest * self._is_exact
        return time, "; ", self._limit_words()

    def _number(self, time_s: float) -> str:
        return f"{time_s:z.{self._n}f}"

    def _is_much(self, time_s: float) -> bool:
        return time_s >= self._whole_s * LEAST_PERCENT / 100

    @property
    def _interval(self) -> str:
        """Return half of the interval of what storage costs, or that there is none."""
        if math.isnan(self._half_s):
            return f" s ({NO_INTERVAL})"
        return f" ± {self._half_s:.{self._n}f} s"

    def _of_others(self) -> list[str]:
        """Return sentences on calls on files outside of the dataset, if they count."""
        row, words = self._row, []
        if self._is_much(row["other_s"]):
            words.append(
                f"Other storage I/O takes {self._number(row['other_s'])} s, which the "
                f"ideal run does not take away: {row['other_io']}. Faster storage "
                "there saves at most this."
            )
        if self._is_much(row["beside_s"]):
            words.append(
                "Threads and processes beside the loop spend "
                f"{self._number(row['beside_s'])} s in such calls: {row['beside_io']}. "
                "How long the loop waits for them is not known."
            )
        return words

    def _of_steps(self) -> list[str]:
        """Return sentences on warm-up and the end of the loader, if they count."""
        words = []
        if self._is_much(warmup_s := self._row["warmup_s"]):
            words.append(
                f"Warm-up takes {self._number(warmup_s)} s: so much longer does the "
                "first step compute than others."
            )
        if self._is_much(end_s := self._row["loader_end_s"]):
            words.append(f"The end of the loader takes {self._number(end_s)} s.")
        return words

    def _least_words(self) -> str:
        """Return what the rest takes at least, where storage cannot be told from 0."""
        if not self._is_exact:
            return ""
        least = self._number(max(0.0, self._left_s - self._half_s))
        if float(least) == 0:
            return "more repetitions, longer epochs or an idle machine tell more"
        return f"at least {least} s are {self._rest}"

    def _limit_words(self) -> str:
        """Return what an epoch takes at least, as far as that was seen."""
        if not self._is_exact:
            without = self._number(self._whole_s - self._row["storage_s"])
            return (
                f"if the dataset's storage costs nothing, {self._a_phase} takes "
                f"{without} s"
            )
        left = self._number(self._left_s)
        # An epoch may have been shorter than the ideal one by chance.
        fastest_s = min(self._whole_s, self._row.get("fastest_s", self._whole_s))
        if math.isnan(self._half_s) or self._left_s > fastest_s:
            return f"if storage costs nothing, {self._a_phase} takes {left} s"
        return f"no storage, however fast, makes {self._a_phase} shorter than {left} s"

    def _further(self) -> list[str]:
        """Return sentences on the rest, and on AU."""
        is_told = not is_untold(self._row) and self._row["storage_s"] >= _ROUNDING
        words = _utilisation_words(self._row, is_told)
        is_most = self._is_exact and self._left_s <= self._whole_s < 2 * self._left_s
        if is_told and is_most:
            words.insert(0, f"Most of the {self._phase} is {self._rest}.")
        return words


def _utilisation_words(row: Mapping[str, Any], is_told: bool) -> list[str]:
    """Return the AU if known, and if storage's part can be told, what it is at most."""
    now, ideal = row["utilisation_percent"], row["ideal_utilisation_percent"]
    if not now > 0:  # or not known
        return []
    if row["least_because"]:
        return [f"The accelerators are used at least {now:.3g} % of the time (AU)."]
    loop = ""
    if has_other_loop(row):
        loop = f"; as the loop sees it {row['loop_utilisation_percent']:.3g} %"
    words = f"The accelerators are used {now:.3g} % of the time (AU{loop})"
    if not is_told:
        return [f"{words}."]
    if ideal > now:
        return [f"{words}, with storage that costs nothing {ideal:.3g} %."]
    return [f"{words}; the ideal runs do not tell how much more is possible."]


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
    may_hide: bool,
    origin: Origin = NO_ORIGIN,
    dataset_titles: Mapping[str, str] | None = None,
) -> list[str]:
    """Return what storage costs in an epoch: lines for each scenario.

    The first says what limits where the epoch is the shortest, unless storage does. The
    others are of the lowest cache rate, and of that with the shortest epoch. The last
    ones say why AU is only a least.

    Parameters
    ----------
    table : DataFrame or None
        Table ``storage_time``; None if there are no ideal runs, and so no lines.
    epoch : int
        The epoch, counted from 0.
    may_hide : bool
        As for `decide`.
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
    table = table.assign(besides=besides_storage(table, may_hide))
    titles = scenario_titles(table[SCENARIO].drop_duplicates(), dataset_titles or {})
    lines = []
    for scenario in titles.to_dict("records"):
        keys = pd.Series({key: scenario[key] for key in SCENARIO})
        rows = table[(table[SCENARIO] == keys).all(axis=1)]
        shown = dict.fromkeys(
            (rows["cache_rate_percent"].idxmin(), rows["execution_time_s"].idxmin())
        )
        head = f"{scenario['title']}: " if len(titles) > 1 else ""
        fastest = rows.loc[[*shown][-1]]
        limit = {**fastest, **decide(fastest, may_hide)._asdict()}
        words = [limit_sentence(limit, origin.phase)]  # if storage does not, or may not
        words += [storage_sentence(rows.loc[one], may_hide, origin) for one in shown]
        lines += [head + one for one in words if one]
    return lines + least_notes(table)
