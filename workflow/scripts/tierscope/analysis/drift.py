"""Did the machine change while it measured? The sentinel's reads say so."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from tierscope.core.columns import SCENARIO
from tierscope.core.description import Run, run_keys
from tierscope.core.tables import empty_table

_SAME_READS = ["system", "dataset", "n_osts", "loader", "tier"]
_MOST_NAMED = 6  # points that a note names


def drift_of(runs: Iterable[Run], max_drift_percent: int) -> pd.DataFrame:
    """Return by how much the sentinel's time at each run differed from its median.

    Parameters
    ----------
    runs : iterable of Run
        Runs on real tiers.
    max_drift_percent : int
        The band around the median: runs outside are flagged.

    Returns
    -------
    DataFrame
        Table ``drift``, a row for each run and tier that has a sentinel.
        ``drift_percent`` is that of the reads before or after the epochs, whichever
        differ more from the median over all reads of the same files.
    """
    rows = [
        {
            **run_keys(run, run.point),
            "tier": tier,
            "before_s": before_s,
            "after_s": run.sentinel["after_s"].get(tier, before_s),
        }
        for run in runs
        if run.sentinel
        for tier, before_s in run.sentinel["before_s"].items()
    ]
    if not rows:
        return empty_table("drift")
    table = pd.DataFrame(rows)
    times_s = table.melt(_SAME_READS, ["before_s", "after_s"], value_name="time_s")
    median_s = times_s.groupby(_SAME_READS)["time_s"].median().rename("median_s")
    table = table.merge(median_s, left_on=_SAME_READS, right_index=True, how="left")
    changes = table[["before_s", "after_s"]].div(table["median_s"], axis=0) - 1
    is_after = changes["after_s"].abs() > changes["before_s"].abs()
    worst = np.where(is_after, changes["after_s"], changes["before_s"])
    return table.assign(
        drift_percent=100 * worst,
        max_drift_percent=max_drift_percent,
        flagged=100 * np.abs(worst) > max_drift_percent,
    )


def drift_words(drift: pd.DataFrame) -> list[str]:
    """Return a note that names the points outside the band, none if all are inside."""
    flagged = drift[drift["flagged"]]
    if flagged.empty:
        return []
    worst = flagged.reindex(flagged["drift_percent"].abs().sort_values().index[::-1])
    points = worst.drop_duplicates([*SCENARIO, "cache_rate_percent", "repetition"])
    named = [
        f"{row['cache_rate_percent']} %, repetition {row['repetition']} "
        f"({row['tier'].upper()} {row['drift_percent']:+.0f} %)"
        for row in points.head(_MOST_NAMED).to_dict("records")
    ]
    if len(points) > len(named):
        named.append(f"{len(points) - len(named)} more in table drift")
    limit = flagged["max_drift_percent"].iloc[0]
    return [
        f"\N{WARNING SIGN} the machine drifted by more than {limit} % at cache rate "
        f"{'; '.join(named)}: delete these runs to measure them again"
    ]
