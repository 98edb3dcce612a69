"""Count the claims that hold, and group those that lack the same data."""

from collections.abc import Iterator

import pandas as pd

from tierscope.analysis.intervals import neighbours_words
from tierscope.core.verdict import FAILS, HOLDS, UNDECIDED, UNMEASURABLE


def scorecard_title(claims: pd.DataFrame) -> str:
    """Return the scorecard's title: how many claims hold or not, and the data's source.

    Claims that are undecided or not measurable are counted apart. Where devices were
    fitted to claims, it says how many of the measurable ones hold that they were not
    fitted to.

    Parameters
    ----------
    claims : DataFrame, shape (n_claims, 20)
        Table ``claims``.
    """
    measurable = claims[claims["status"] != UNMEASURABLE]
    n_missing = len(claims) - len(measurable)
    n_holding = (measurable["status"] == HOLDS).sum()
    kind = "measurable claims" if n_missing else "claims"
    text = f"{n_holding} of {len(measurable)} {kind} of the paper {_hold(n_holding)}"
    if n_failing := (claims["status"] == FAILS).sum():
        text += f", {n_failing} {'does' if n_failing == 1 else 'do'} not"
    if n_undecided := (claims["status"] == UNDECIDED).sum():
        text += f", {n_undecided} {'is' if n_undecided == 1 else 'are'} undecided"
    if n_missing:
        text += f"; {n_missing} of {len(claims)} not measurable here"
    if not (sources := sorted(set(claims["source"]) - {"measured"})):
        return text
    fits = evidence(claims)
    return f"{text} ({', '.join(sources)} data{fits and f'; {fits}'})"


def evidence(claims: pd.DataFrame) -> str:
    """Return how many claims hold of those that were not fitted; empty if no fit."""
    fitted = claims["fitted"] != "no"
    if not fitted.any():
        return ""
    others = claims[~fitted & (claims["status"] != UNMEASURABLE)]
    if others.empty:
        return "all fitted"
    n_holding = (others["status"] == HOLDS).sum()
    return f"{n_holding} of the {len(others)} not fitted {_hold(n_holding)}"


def _hold(n_claims: int) -> str:
    """Return the verb for a number of claims."""
    return "holds" if n_claims == 1 else "hold"


def unmeasurable_groups(
    claims: pd.DataFrame,
) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield groups of claims that are not measurable because they lack the same data.

    Parameters
    ----------
    claims : DataFrame, shape (n_claims, 20)
        Table ``claims``.

    Yields
    ------
    names : str
        Their names, such as ``C9 to C11, C22``.
    reason : str
        The reason; without the details in brackets if these differ.
    group : DataFrame
        Their rows.
    """
    numbered = claims.reset_index(drop=True)
    unmeasurable = numbered[numbered["status"] == UNMEASURABLE]
    lacking = unmeasurable["reason"].str.split(" (", regex=False).str[0]
    for words, group in unmeasurable.groupby(lacking, sort=False):
        reasons = group["reason"].unique()
        reason = reasons[0] if len(reasons) == 1 else words
        yield _names(group["claim"]), reason, group


def _names(claims: pd.Series) -> str:
    """Return names of claims; consecutive ones as the first ``to`` the last."""
    return ", ".join(neighbours_words(claims, claims.index))
