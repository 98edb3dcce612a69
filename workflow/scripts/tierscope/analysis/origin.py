"""Where the numbers of a figure or page come from, with what spoils them.

Notes say where reads of real tiers came from and at which points the machine drifted;
the title says so if not all bytes came from devices.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from tierscope.analysis.drift import drift_words
from tierscope.analysis.page_cache import verdict_mark, verdict_words
from tierscope.core.columns import SCENARIO
from tierscope.core.provenance import Origin
from tierscope.core.tables import read_table


def origin_of(snakemake: Any) -> Origin:
    """Return where the numbers of a script come from.

    Parameters
    ----------
    snakemake : object
        The script's object: parameter ``provenance``; input ``observations`` with the
        tables ``verdicts`` and ``drift``, if tiers are real; parameters ``epoch`` and
        ``scenario``, if the script shows only these.
    """
    words, given = snakemake.params.provenance, snakemake.params
    if not (paths := snakemake.input.get("observations")):
        return Origin(words)
    wanted = given.get("scenario") or {}
    tables = {Path(path).stem: path for path in paths}
    verdicts, drift = (
        _select(read_table(tables[name], name), wanted)
        for name in ("verdicts", "drift")
    )
    if (epoch := given.get("epoch")) is not None:
        verdicts = verdicts[verdicts["epoch"] == epoch]
    observed = (*verdict_words(verdicts), *drift_words(drift))
    mark = [verdict_mark(verdicts), "drifted" if drift["flagged"].any() else ""]
    points = drift[drift["flagged"]][[*SCENARIO, "cache_rate_percent"]]
    drifted = tuple(points.drop_duplicates().itertuples(index=False, name=None))
    return Origin(words, observed, ", ".join(filter(None, mark)), drifted)


def _select(table: pd.DataFrame, wanted: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows with these values of some columns."""
    for key, value in wanted.items():
        table = table[table[key] == value]
    return table
