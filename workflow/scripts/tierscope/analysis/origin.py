"""Where the numbers of a figure or page come from, with what spoils them.

Notes say where reads of real tiers came from and at which points the machine drifted;
the title says so if not all bytes came from devices.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from tierscope.analysis.breakdown import shown_epoch
from tierscope.analysis.drift import drift_words
from tierscope.analysis.page_cache import verdict_mark, verdict_words
from tierscope.core.certificate import NOT_MEASURED
from tierscope.core.columns import POINT, SCENARIO
from tierscope.core.provenance import Origin
from tierscope.core.tables import read_table

_OWN_PATTERN = {
    "cover": "not all files were opened",
    "once": "some files were opened more than once",
    "whole": "the bytes read are not the sizes of the opened files",
}


def origin_of(snakemake: Any) -> Origin:
    """Return where the numbers of a script come from.

    Parameters
    ----------
    snakemake : object
        The script's object: parameter ``provenance``; input ``observations`` with the
        tables ``verdicts`` and ``drift``, if tiers are real, and ``statements``, if a
        program of the user was run; parameters ``epoch`` and ``scenario``, if the
        script shows only these.
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
    if (epoch := given.get("epoch")) is not None and len(verdicts):
        verdicts = verdicts[verdicts["epoch"] == shown_epoch(verdicts, epoch)]
    observed = (*verdict_words(verdicts), *drift_words(drift))
    marks, is_one_phase = [verdict_mark(verdicts)], False
    if is_program := "statements" in tables:
        said = _select(read_table(tables["statements"], "statements"), wanted)
        observed += program_words(said)
        marks.append("without reads that are not seen" if _is_blind(said) else "")
        is_one_phase = is_whole_run(said)
    marks.append("drifted" if drift["flagged"].any() else "")
    points = drift[drift["flagged"]][[*SCENARIO, "cache_rate_percent"]]
    drifted = tuple(points.drop_duplicates().itertuples(index=False, name=None))
    return Origin(
        words,
        observed,
        ", ".join(filter(None, marks)),
        drifted,
        is_program=is_program,
        is_whole_run=is_one_phase,
    )


def is_whole_run(statements: pd.DataFrame) -> bool:
    """Return whether a program has marked no epochs, so that a run is one phase."""
    epochs = statements[statements["statement"] == "epochs"]
    return bool((epochs["answer"] == "no").any())


def _is_blind(statements: pd.DataFrame) -> bool:
    """Return whether a program has read what no call tells."""
    of_reads = statements[statements["statement"] == "whole"]
    return bool((of_reads["answer"] == NOT_MEASURED).any())


def program_words(statements: pd.DataFrame) -> tuple[str, ...]:
    """Return what table ``statements`` says of a program, for the notes of figures."""
    words = ["I/O times are sums over the workers of a rank"]
    if _is_blind(statements):
        words.append("READ is too small: not all reads are calls that tierscope sees")
    own = []
    for statement, what in _OWN_PATTERN.items():
        of_one = statements[statements["statement"] == statement]
        n_runs, n_other = (
            len(part[[*SCENARIO, *POINT]].drop_duplicates())
            for part in (of_one, of_one[of_one["answer"] == "no"])
        )
        if n_other:
            own.append(f"{what} (in {n_other} of {n_runs} runs)")
    if own:
        words.append(f"the program's own access pattern: {', '.join(own)}")
    return tuple(words)


def _select(table: pd.DataFrame, wanted: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows with these values of some columns."""
    for key, value in wanted.items():
        table = table[table[key] == value]
    return table
