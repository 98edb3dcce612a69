"""Goals of accelerator utilisation (AU): which estimates by the model meet them.

The paper's rule has no part in this. It makes I/O times shorter, and does not know
which of them the training waits for and which are hidden behind its computation.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from tierscope.analysis.breakdown import group_numbers
from tierscope.analysis.whatif import (
    Goal,
    least_sufficient_rates,
    mean_over_repetitions,
    point_keys,
)
from tierscope.core.words import is_utilisation

UTILISATION = "utilisation"


@dataclass(frozen=True)
class UtilisationGoal:
    """A goal for the accelerator utilisation in an epoch.

    Parameters
    ----------
    percent : float
        The least AU that meets the goal, above 0 and at most 100; the mean over the
        processes and repetitions.
    """

    percent: float
    of: ClassVar[str] = UTILISATION
    difference_s: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        """Refuse an invalid goal."""
        if not 0 < self.percent <= 100:
            raise ValueError(
                f"goal: got {self.percent} % utilisation, expected more than 0 % and "
                "at most 100 %."
            )

    def is_met(self, utilisation_percent: float | np.ndarray) -> bool | np.ndarray:
        """Return whether an AU in percent meets the goal; a missing one does not."""
        return utilisation_percent >= self.percent

    @property
    def columns(self) -> dict[str, str | float]:
        """Return the goal as columns of tables."""
        return {"goal_of": self.of, "goal_s": np.nan, "goal_percent": self.percent}

    def sufficient(self, estimates: pd.DataFrame) -> pd.DataFrame:
        """Return the least cache rate with which each combination meets the goal.

        `estimates` is table ``estimates`` by the model. The result is as from
        `tierscope.analysis.whatif.Goal.sufficient`.
        """
        points = mean_utilisation(estimates)
        points["sufficient"] = self.is_met(points["utilisation_percent"])
        points["in_every_repetition"] = self.is_met(points["least_percent"])
        return least_sufficient_rates(points)

    def best(self, estimates: pd.DataFrame) -> pd.DataFrame:
        """Return the best points of estimates (`best_utilised`), with their times."""
        best = best_utilised(mean_utilisation(estimates))
        return best.merge(mean_over_repetitions(estimates))


def mean_utilisation(estimates: pd.DataFrame) -> pd.DataFrame:
    """Return mean and least AU over the repetitions of each point.

    Parameters
    ----------
    estimates : DataFrame, shape (n_estimates, 22)
        Table ``estimates`` by the model.

    Returns
    -------
    DataFrame
        Scenario, epoch, method, improvements, ``cache_rate_percent``,
        ``utilisation_percent`` (the mean) and ``least_percent``; sorted.
    """
    by = [*point_keys(estimates), "cache_rate_percent"]
    point = group_numbers(estimates, by)
    first = np.unique(point, return_index=True)[1]
    groups = estimates["utilisation_percent"].groupby(point)
    points = estimates[by].iloc[first].reset_index(drop=True)
    return points.assign(utilisation_percent=groups.mean(), least_percent=groups.min())


def best_utilised(points: pd.DataFrame) -> pd.DataFrame:
    """Return the cache rate of the highest AU for each combination of improvements.

    Parameters
    ----------
    points : DataFrame
        What `mean_utilisation` returns.

    Returns
    -------
    DataFrame
        Its rows; the lowest cache rate if several are equal.
    """
    ordered = points.sort_values(
        ["utilisation_percent", "cache_rate_percent"],
        ascending=[False, True],
        kind="stable",
    )
    by = point_keys(points)
    return ordered.drop_duplicates(by).sort_values(by, ignore_index=True)


def goal_of(row: pd.Series) -> Goal | UtilisationGoal:
    """Return the goal of a row of table ``goals``."""
    if is_utilisation(row):
        return UtilisationGoal(row["goal_percent"])
    return Goal(row["goal_of"], row["goal_s"], row["difference_s"])
