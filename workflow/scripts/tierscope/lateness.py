"""How late emulated devices were: what of the waiting is the machine's, not theirs."""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from tierscope.tables import NUMBER, RUN_KEYS, run_keys

# As config/config.yaml limits it: a run above it counts only if its user lifts that.
LIMIT_PERCENT = 15
LATE_WORDS = (
    "late: how much longer emulated devices kept callers waiting than they should, in "
    "percent, at most, in the worst repetition; that share is the machine's."
)


def lateness_percent(run: Mapping[str, Any]) -> float | None:
    """Return how late a run's emulated devices were (`run.json`), None for others.

    Devices in virtual time are never late.
    """
    return (run.get("emulation") or {}).get("lateness_percent")


def lateness_table(runs: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return how late the emulated devices of each run were.

    Parameters
    ----------
    runs : iterable of mapping
        The runs' `run.json`.

    Returns
    -------
    DataFrame, shape (n_runs, 9)
        The keys of a run and ``lateness_percent``, missing where no device waited in
        real time.
    """
    rows = [run_keys(run) | {"lateness_percent": lateness_percent(run)} for run in runs]
    columns = RUN_KEYS | {"lateness_percent": NUMBER}
    return pd.DataFrame(rows, columns=list(columns)).astype(columns)


def late_cell(percent: float) -> str:
    """Return a lateness for a column of text, marked if it is above the limit."""
    if pd.isna(percent):
        return ""
    return f"{percent:.1f}{'!' if percent > LIMIT_PERCENT else ' '}"


def late_warnings(percent: pd.Series) -> list[str]:
    """Return what the mark of `late_cell` means, if any lateness has it."""
    if not (percent > LIMIT_PERCENT).any():
        return []
    return [f"!: {_warning()}"]


def lateness_notes(percent: pd.Series) -> list[str]:
    """Return what a figure says of lateness, if anything was emulated.

    Parameters
    ----------
    percent : Series
        Lateness; index: what to call those that were late.
    """
    known = percent.dropna()
    if known.empty:
        return []
    largest = known.max()
    note = f"Emulated devices were late by up to {largest:.1f} % ({known.idxmax()})"
    return [f"{note}: {_warning()}" if largest > LIMIT_PERCENT else f"{note}."]


def _warning() -> str:
    """Return what is wrong with runs above the limit."""
    return (
        f"above {LIMIT_PERCENT} %, the default limit, too much of the time is the "
        "machine's to rank such runs."
    )
