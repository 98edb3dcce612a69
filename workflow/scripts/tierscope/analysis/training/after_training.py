"""How long programs go on after their training, beside its epochs."""

from typing import Any

import pandas as pd

from tierscope.analysis.training.stalls import LEAST_PERCENT
from tierscope.core.columns import AFTER_TRAINING, RUN_EPOCH, SCENARIO

_POINT = [*SCENARIO, "cache_rate_percent"]


def is_worth_telling(time_s: Any, epoch_s: Any, n_opens: Any = 0) -> Any:
    """Return whether so much time after an epoch, or reads of the dataset, matter."""
    return (time_s >= epoch_s * LEAST_PERCENT / 100) | (n_opens > 0)


def times_after_training(epochs: pd.DataFrame) -> pd.Series:
    """Return how long programs go on after their last loop, where that matters.

    Parameters
    ----------
    epochs : DataFrame
        Table ``epochs`` with its rows after training.

    Returns
    -------
    Series, index: the scenario and ``cache_rate_percent``
        Seconds of the longest process, mean over the repetitions. Points are left out
        where neither this, beside the last epoch, nor the files that are opened matter.
    """
    runs = epochs.groupby(RUN_EPOCH).agg(
        time_s=("execution_time_s", "max"), samples=("samples", "sum")
    )
    points = runs.groupby([*_POINT, "epoch"]).mean()
    is_after = points.index.get_level_values("epoch") == AFTER_TRAINING
    after = points[is_after].droplevel("epoch")
    last_s = points.loc[~is_after, "time_s"].groupby(_POINT).last()
    epoch_s = last_s.reindex(after.index)
    is_shown = is_worth_telling(after["time_s"], epoch_s, after["samples"])
    return after.loc[is_shown, "time_s"]
