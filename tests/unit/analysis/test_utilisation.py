"""Goals of utilisation: which cache rate meets them, and which is the best."""

import numpy as np
import pandas as pd
import pytest
from tierscope.analysis.utilisation import (
    UtilisationGoal,
    best_utilised,
    mean_utilisation,
)
from tierscope.core.columns import CLASS_TIMES, IMPROVEMENTS

KEYS = {
    "source": "simulated",
    "system": "laptop",
    "dataset": "tiny",
    "n_osts": 1,
    "policy": "pinning",
    "loader": "posix",
    "epoch": 1,
    "method": "model",
}


def estimates_of(percents, improvement=0):
    """Return estimates from {cache rate: [AU of each repetition]}."""
    rows = [
        KEYS
        | dict.fromkeys([*IMPROVEMENTS, *CLASS_TIMES, "io_time_s"], 0)
        | {"cache_rate_percent": rate, "repetition": number, "gfs_read_s": 1.0}
        | {IMPROVEMENTS[1]: improvement, "utilisation_percent": float(one)}
        for rate, runs in percents.items()
        for number, one in enumerate(runs)
    ]
    return pd.DataFrame(rows)


TODAY = estimates_of({0: [60, 70], 50: [80, 90], 100: [85, 85]})
THEN = estimates_of({0: [89, 91], 50: [95, 95], 100: [90, 99]}, improvement=50)


def test_the_mean_of_the_repetitions_meets_the_goal_at_the_least_cache_rate():
    found = UtilisationGoal(85).sufficient(pd.concat([TODAY, THEN]))
    assert found[IMPROVEMENTS[1]].tolist() == [0, 50]
    assert found["min_cache_rate_percent"].tolist() == [50, 0]
    assert found["in_every_repetition"].tolist() == [False, True]
    more = UtilisationGoal(85.1).sufficient(TODAY).iloc[0]
    assert not more["sufficient"]
    assert pd.isna(more["min_cache_rate_percent"])


def test_of_equally_good_cache_rates_the_lowest_is_the_best():
    best = best_utilised(mean_utilisation(pd.concat([TODAY, THEN])))
    assert best["cache_rate_percent"].tolist() == [50, 50]
    assert best["utilisation_percent"].tolist() == [85, 95]


@pytest.mark.parametrize("percent", [0, -1, 100.1, np.nan])
def test_a_goal_outside_its_range_is_refused(percent):
    with pytest.raises(ValueError, match="more than 0 % and at most 100 %"):
        UtilisationGoal(percent)


def test_an_unknown_utilisation_meets_no_goal():
    assert not UtilisationGoal(1).is_met(np.nan)
