"""Say how sure a number is: intervals over independent repetitions.

The unit is the repetition: on real tiers a launch of its own, on emulated and simulated
ones a seed. Epochs of a repetition share its state, so they are averaged first. All
intervals are 95 % confidence intervals of a mean (Student's t). Where repetitions are
shared, the interval is that of the differences of pairs. One repetition has no
interval.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import stdtrit

LEVEL_PERCENT = 95
METHOD = f"{LEVEL_PERCENT} % confidence interval of the mean over the repetitions"
NO_INTERVAL = "one repetition, no interval"
BEST_METHOD = (
    "Best cache rates: all that cannot be told from the best. A rate is left out if "
    "another one takes less time by paired t tests over the repetitions, at a level of "
    f"{100 - LEVEL_PERCENT} % for all rates together"
)
MOST_REPETITIONS = 1000  # that are counted
_ALPHA = 1 - LEVEL_PERCENT / 100
_DIGITS = 9
_ROUNDING = 1e-9  # of a time: differences below are none


class Interval(NamedTuple):
    """A mean over n repetitions with its interval, missing (nan) if n is 1."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def is_known(self) -> bool:
        """Return whether there is an interval."""
        return not np.isnan(self.low)


class BestRates(NamedTuple):
    """The best cache rate, and those that cannot be told from it.

    Parameters
    ----------
    best : int
        The cache rate with the least mean time, in percent.
    time_s : float
        That time in seconds.
    rates : tuple of int
        The rates that cannot be told from the best, and the best itself; ascending.
    n : int
        Number of repetitions of the best rate.
    once : tuple of int
        Rates that were run once, which cannot be compared.
    swept : tuple of int
        All rates, ascending.
    """

    best: int
    time_s: float
    rates: tuple[int, ...]
    n: int
    once: tuple[int, ...]
    swept: tuple[int, ...]

    @property
    def is_decided(self) -> bool:
        """Return whether one rate is shown to be the best of those compared."""
        return self.n > 1 and len(self.rates) == 1

    @property
    def words(self) -> str:
        """Return the set in words, such as ``65 to 75 %``."""
        return f"{rates_words(self.rates, self.swept)} %"

    @property
    def reason(self) -> str:
        """Return why it is a set, such as ``75 cannot be told from 70 at n = 5``."""
        if self.n == 1:
            return NO_INTERVAL
        words = f"n = {self.n}"
        others = [rate for rate in self.rates if rate != self.best]
        if others:
            names = rates_words(others, self.swept)
            words = f"{names} cannot be told from {self.best} at {words}"
        once = f"; {rates_words(self.once, self.swept)} run once" if self.once else ""
        return f"{words}{once}"


def interval(values: Sequence[float], level_percent: float = LEVEL_PERCENT) -> Interval:
    """Return the mean of the repetitions' values with its confidence interval.

    Parameters
    ----------
    values : sequence of float
        One value of each repetition.
    level_percent : float, optional
        The level.
    """
    values = np.asarray(values, dtype=float)
    n, mean = len(values), float(values.mean())
    if n == 1:
        return Interval(mean, np.nan, np.nan, 1)
    half = float(_half_width(n, values.std(ddof=1), level_percent))
    return Interval(mean, mean - half, mean + half, n)


def mean_intervals(table: pd.DataFrame, by: Sequence[str], column: str) -> pd.DataFrame:
    """Return the mean of a column, and its interval, for each group of repetitions.

    Parameters
    ----------
    table : DataFrame
        A row for each repetition of each group.
    by : sequence of str
        The keys of a group.
    column : str
        The column.

    Returns
    -------
    DataFrame, shape (n_groups, 5); index: `by`
        ``n``, ``mean``, ``sd`` (n - 1 in the denominator), ``low`` and ``high``; the
        last three are missing where n is 1.
    """
    groups = table.groupby(list(by), sort=True)[column]
    found = groups.agg(n="count", mean="mean", sd="std")
    half = _half_width(found["n"], found["sd"], LEVEL_PERCENT)
    return found.assign(low=found["mean"] - half, high=found["mean"] + half)


def _half_width(n: Any, sd: Any, level_percent: float) -> Any:
    """Return half the width of intervals of means; missing where the sd is."""
    t = stdtrit(np.maximum(n - 1, 1), 0.5 + level_percent / 200)
    return t * sd / np.sqrt(n)


def repetitions_for(wanted: float, half: float, n: int) -> int | None:
    """Return how many repetitions make an interval narrow enough, by its spread.

    Parameters
    ----------
    wanted, half : float
        Half the width that the interval has to fall below, and that it has.
    n : int
        Number of repetitions that it has.

    Returns
    -------
    int or None
        The least number if their spread stays; None above `MOST_REPETITIONS`.
    """
    sd = half / _half_width(n, 1.0, LEVEL_PERCENT)
    numbers = np.arange(n + 1, MOST_REPETITIONS + 1)
    enough = numbers[_half_width(numbers, sd, LEVEL_PERCENT) < wanted]
    return int(enough[0]) if len(enough) else None


def leaves_sign_open(low: float, high: float) -> bool:
    """Return whether an interval holds 0 and other numbers, or is missing."""
    low, high = round(low, _DIGITS), round(high, _DIGITS)  # 0 but for rounding is 0
    return not (low > 0 or high < 0 or low == high == 0)


def paired_difference(
    first: pd.Series, second: pd.Series, level_percent: float = LEVEL_PERCENT
) -> Interval:
    """Return the mean of first minus second over the repetitions that both have.

    Parameters
    ----------
    first, second : Series
        A value of each repetition; index: repetition.
    level_percent : float, optional
        The level.

    Raises
    ------
    ValueError
        If they share no repetition.
    """
    differences = (first - second).dropna()
    if differences.empty:
        raise ValueError(
            f"pairs: got repetitions {list(first.index)} and {list(second.index)}, "
            "expected some in common."
        )
    return interval(differences, level_percent)


def best_rates(times: pd.DataFrame, time: str = "io_time_s") -> BestRates:
    """Return the cache rates that cannot be told from the best.

    Parameters
    ----------
    times : DataFrame
        ``cache_rate_percent``, ``repetition`` and a time, one row for each run.
    time : str, optional
        The column of the time, in seconds.

    Notes
    -----
    A rate is left out if some other rate takes less time by a one-sided t test on the
    pairs of repetitions, at the level of 5 % divided by the number of other rates
    (Bonferroni). So the set holds the best rate with a probability of at least 95 %,
    whatever the dependence between rates: that one would have to lose against a rate
    that is not better. This is the subset selection of Gupta (Technometrics 7, 1965)
    for unequal variances and common random numbers, as in Nelson et al. (Operations
    Research 49, 2001), and the screening half of Hsu's comparisons with the best
    (Annals of Statistics 12, 1984). Rates with fewer than two shared repetitions cannot
    be compared.
    """
    keys = ["repetition", "cache_rate_percent"]
    runs_s = times.set_index(keys)[time].unstack("cache_rate_percent").sort_index()
    counts, means_s = runs_s.count(), runs_s.mean()
    best = means_s.idxmin()
    compared = runs_s[counts.index[counts > 1]]
    loses = _loses(compared.to_numpy())
    kept = {best, *compared.columns[~loses]} if counts[best] > 1 else {best}
    return BestRates(
        best=int(best),
        time_s=float(means_s[best]),
        rates=tuple(map(int, sorted(kept))),
        n=int(counts[best]),
        once=tuple(map(int, counts.index[counts == 1])),
        swept=tuple(map(int, counts.index)),
    )


def _loses(runs_s: np.ndarray) -> np.ndarray:
    """Return which columns of (repetition, rate) take longer than some other column."""
    n_rates = runs_s.shape[1]
    if n_rates < 2:
        return np.zeros(n_rates, dtype=bool)
    longer_s = runs_s[:, :, np.newaxis] - runs_s[:, np.newaxis, :]
    is_pair = ~np.isnan(longer_s)
    n = is_pair.sum(axis=0)
    longer_s = np.where(is_pair, longer_s, 0.0)
    mean_s = longer_s.sum(axis=0) / np.maximum(n, 1)
    squares = (np.where(is_pair, longer_s - mean_s, 0.0) ** 2).sum(axis=0)
    error_s = np.sqrt(squares / np.maximum(n - 1, 1) / np.maximum(n, 1))
    limit = stdtrit(np.where(n > 1, n - 1, 1), 1 - _ALPHA / (n_rates - 1))
    is_real = mean_s > _ROUNDING * np.nanmax(np.abs(runs_s))
    return ((n > 1) & is_real & (mean_s > limit * error_s)).any(axis=1)


def rates_words(rates: Sequence[int], swept: Sequence[int]) -> str:
    """Return cache rates in words: ``60``, ``60 and 70``, ``60 to 70 and 90``.

    Parameters
    ----------
    rates, swept : sequence of int
        The rates, and all rates of the sweep; both ascending.
    """
    places = np.flatnonzero(np.isin(swept, rates))
    words = neighbours_words(np.asarray(swept)[places], places)
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def neighbours_words(names: Sequence[Any], places: Sequence[int]) -> list[str]:
    """Return names in words: of more than two neighbours the first ``to`` the last."""
    words = []
    for run in np.split(np.asarray(names), 1 + np.flatnonzero(np.diff(places) > 1)):
        words += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run)
    return words


def n_words(n_repetitions: pd.Series) -> str:
    """Return numbers of repetitions in words: ``n = 5``, ``n = 2 to 5``."""
    least, most = n_repetitions.min(), n_repetitions.max()
    if most == 1:
        return NO_INTERVAL
    several = n_repetitions[n_repetitions > 1].min()
    words = f"n = {several}" if several == most else f"n = {several} to {most}"
    return f"{words}; where n = 1 no interval" if least == 1 else words


def unit_words(sources: Any) -> str:
    """Return what a repetition is on some sources: ``launches`` or ``seeds``."""
    units = {"launches" if one == "measured" else "seeds" for one in set(sources)}
    return " and ".join(sorted(units))
