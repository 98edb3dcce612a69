"""How long programs go on after their training, beside its epochs."""

import pandas as pd

from tierscope.analysis.training.stalls import LEAST_PERCENT
from tierscope.core.columns import AFTER_TRAINING, RUN_EPOCH, SCENARIO

_POINT = [*SCENARIO, "cache_rate_percent"]


def times_after_training(epochs: pd.DataFrame, epoch: int) -> pd.Series:
    """Return how long programs go on after their last loop, where that counts.

    Parameters
    ----------
    epochs : DataFrame
        Table ``epochs`` with its rows after training.
    epoch : int
        The epoch with which they are compared, counted from 0.

    Returns
    -------
    Series, index: the scenario and ``cache_rate_percent``
        Seconds of the longest process, mean over the repetitions. Points are left out
        where this is below `LEAST_PERCENT` of the epoch and no file of the dataset is
        opened.
    """
    runs = epochs.groupby(RUN_EPOCH).agg(
        time_s=("execution_time_s", "max"), samples=("samples", "sum")
    )
    points = runs.groupby([*_POINT, "epoch"]).mean()
    after, whole = (
        points[points.index.get_level_values("epoch") == one].droplevel("epoch")
        for one in (AFTER_TRAINING, epoch)
    )
    least_s = whole["time_s"].reindex(after.index) * LEAST_PERCENT / 100
    return after.loc[(after["time_s"] >= least_s) | (after["samples"] > 0), "time_s"]
