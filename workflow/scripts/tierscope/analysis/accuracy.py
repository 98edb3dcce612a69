"""Judge whether a shuffle costs accuracy: differences, equivalence, power.

Trainings of one repetition start from the same weights, so arms are compared in pairs.
Finding no difference does not show that there is none. Two one-sided tests (TOST,
Schuirmann 1987) can show it: the arms are equivalent if the difference is shown to lie
above the negative margin and below the positive one.
"""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import pandas as pd
from scipy import optimize, stats

from tierscope.analysis.intervals import interval
from tierscope.core.columns import TABLES

REFERENCE = "global"
ALPHA = 0.05
WANTED_POWER = 0.8
_QUADRATURE_POINTS = 2000


def final_accuracy(accuracy: pd.DataFrame) -> pd.DataFrame:
    """Return the accuracy after the last epoch by repetition and shuffle, in percent.

    Parameters
    ----------
    accuracy : DataFrame
        Rows of table ``accuracy`` of one network.

    Returns
    -------
    DataFrame, shape (n_repetitions, n_shuffles)
    """
    last = accuracy[accuracy["epoch"] == accuracy["epoch"].max()]
    return last.pivot(
        index="repetition", columns="shuffle", values="accuracy_percent"
    ).rename_axis(columns=None)


def compare(
    accuracy: pd.DataFrame, *, margin_points: float, best_possible_percent: float
) -> pd.DataFrame:
    """Compare the final accuracy of each shuffle with that of global shuffle.

    Parameters
    ----------
    accuracy : DataFrame
        Table ``accuracy``, with arm ``global`` and others in every repetition.
    margin_points : float
        Largest difference that does not matter, in percentage points.
    best_possible_percent : float
        Accuracy of the best classifier on the test set.

    Returns
    -------
    DataFrame, shape (n_networks * (n_shuffles - 1), 23)
        Table ``accuracy_tests``; differences are shuffle minus global.

    Raises
    ------
    ValueError
        If a training has no counterpart, or all differences of an arm are equal.
    """
    rows = []
    for network, rows_of_network in accuracy.groupby("network", sort=False):
        final = final_accuracy(rows_of_network)
        if final.isna().any(axis=None) or REFERENCE not in final:
            raise ValueError(
                f"accuracy of network {network}: got trainings without a counterpart, "
                f"expected every repetition with {REFERENCE} and every other shuffle."
            )
        for shuffle in rows_of_network["shuffle"].unique():
            if shuffle == REFERENCE:
                continue
            keys = {"network": network, "shuffle": shuffle}
            keys |= {key: rows_of_network[key].iloc[0] for key in ("source", "n_ranks")}
            percent = {
                "accuracy_percent": final[shuffle].mean(),
                "global_accuracy_percent": final[REFERENCE].mean(),
                "best_possible_percent": best_possible_percent,
                "chance_percent": 100 / rows_of_network["n_classes"].iloc[0],
            }
            difference = (final[shuffle] - final[REFERENCE]).to_numpy()
            rows.append(keys | percent | judge(difference, margin_points))
    return pd.DataFrame(rows)[list(TABLES["accuracy_tests"])]


def judge(difference_points: np.ndarray, margin_points: float) -> Mapping[str, float]:
    """Test whether paired differences are equivalent to 0, and whether they differ.

    Parameters
    ----------
    difference_points : ndarray, shape (n_pairs,)
        Differences in percentage points.
    margin_points : float
        Margin of equivalence.

    Returns
    -------
    mapping
        Columns of table ``accuracy_tests``. `difference_p` is the p value of the paired
        t test, `equivalence_p` the larger one of the two one-sided tests. The arms are
        equivalent at the level of 5 % exactly if the 90 % confidence interval lies
        inside the margin. So its end that is farther from 0, `shown_margin_points`, is
        the smallest margin that these data show. `power_margin_points` is the margin
        that the same number of pairs, with this standard deviation, would show with a
        probability of 80 % if there were no difference; `power_percent` is that
        probability for the given margin.
    """
    n_pairs, sd = len(difference_points), difference_points.std(ddof=1)
    if not sd > 0:
        raise ValueError(
            f"accuracy: got {n_pairs} differences of {difference_points[0]} points, "
            "expected some spread: take more test files or more epochs."
        )
    test = stats.ttest_1samp(difference_points, 0)
    above, below = (
        stats.ttest_1samp(difference_points, bound, alternative=alternative).pvalue
        for bound, alternative in (
            (-margin_points, "greater"),
            (margin_points, "less"),
        )
    )
    narrow = interval(difference_points, 100 * (1 - 2 * ALPHA))
    wide = interval(difference_points)
    equivalence_p = max(above, below)
    return {
        "n_repetitions": n_pairs,
        "difference_points": difference_points.mean(),
        "difference_sd_points": sd,
        "low_90_points": narrow.low,
        "high_90_points": narrow.high,
        "low_95_points": wide.low,
        "high_95_points": wide.high,
        "difference_p": test.pvalue,
        "different": bool(test.pvalue < ALPHA),
        "margin_points": float(margin_points),
        "equivalence_p": equivalence_p,
        "equivalent": bool(equivalence_p < ALPHA),
        "shown_margin_points": max(-narrow.low, narrow.high),
        "power_margin_points": margin_of_power(n_pairs) * sd,
        "power_percent": 100 * power(n_pairs, margin_points / sd),
    }


def power(n_pairs: int, margin_sds: float) -> float:
    """Return the probability that equal arms are shown to be equivalent.

    Parameters
    ----------
    n_pairs : int
        Number of pairs.
    margin_sds : float
        Margin of equivalence in standard deviations of a pair's difference.

    Notes
    -----
    Mean and standard deviation s of normal differences are independent. Given s, the
    mean must lie within margin - t s / sqrt(n); s varies as the root of chi-square.
    """
    freedom, root = n_pairs - 1, np.sqrt(n_pairs)
    half = stats.t.ppf(1 - ALPHA, freedom) * _deviations(freedom)
    return float(np.clip(2 * stats.norm.cdf(root * margin_sds - half) - 1, 0, 1).mean())


@lru_cache
def _deviations(freedom: int) -> np.ndarray:
    """Return equally likely sample standard deviations, in units of the true one."""
    likelihood = (np.arange(_QUADRATURE_POINTS) + 0.5) / _QUADRATURE_POINTS
    return np.sqrt(stats.chi2.ppf(likelihood, freedom) / freedom)


@lru_cache
def margin_of_power(n_pairs: int, wanted: float = WANTED_POWER) -> float:
    """Return the margin shown with a wanted power if arms are equal, in sds of a pair.

    Parameters
    ----------
    n_pairs : int
        Number of pairs, at least 2.
    wanted : float
        The power, between 0 and 1.
    """
    return optimize.brentq(lambda sds: power(n_pairs, sds) - wanted, 1e-6, 1e3)
