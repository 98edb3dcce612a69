"""Draw the table of claims, with a row for each measurable claim."""

import textwrap
from collections.abc import Mapping

import pandas as pd
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tierscope.analysis.intervals import METHOD, NO_INTERVAL
from tierscope.analysis.scorecard import scorecard_title, unmeasurable_groups
from tierscope.core.verdict import FITTED, LOOKS, UNMEASURABLE, ends_words

_STYLE = {"font.family": "DejaVu Sans", "font.size": 9.5, "text.parse_math": False}
_COLUMNS = {
    "status": 0.025,
    "fitted": 0.115,
    "claim": 0.18,
    "title": 0.213,
    "paper": 0.452,
    "here": 0.6,
    "interval": 0.735,
    "holds for": 0.845,
}
_GROUP_WIDTH = 140  # characters, from the second column on


def plot_scorecard(claims: pd.DataFrame, provenance: str, needs: str = "") -> Figure:
    """Draw a row for each claim: status, the paper's statement, the value found.

    Parameters
    ----------
    claims : DataFrame, shape (n_claims, 20)
        Table ``claims``.
    provenance : str
        Where the numbers come from, written below the rows.
    needs : str, optional
        What `tierscope.claims.paper.needed_sweep` returns, written there, too.

    Returns
    -------
    Figure
        A filled circle where a claim holds, a cross where it does not, a hollow square
        where it is undecided, with the word beside it; one hollow diamond for all
        claims that lack the same data.
    """
    with style.context(["default", _STYLE]):
        return _draw(claims, provenance, needs)


def _draw(claims: pd.DataFrame, provenance: str, needs: str) -> Figure:
    """Draw the scorecard in the present style."""
    measurable = claims[claims["status"] != UNMEASURABLE].to_dict("records")
    groups = list(unmeasurable_groups(claims))
    n_rows = len(measurable) + len(groups)
    figure = Figure(figsize=(14.4, 1.6 + 0.3 * n_rows), layout="constrained")
    figure.suptitle(
        scorecard_title(claims), x=0.01, ha="left", fontsize=12.5, fontweight="bold"
    )
    intervals = f"Interval: {METHOD} (Student's t)"
    lines = filter(None, [_source_line(claims, provenance), intervals, needs])
    figure.supxlabel(
        "\n".join(textwrap.fill(line, 176) for line in lines),
        x=0.01,
        ha="left",
        fontsize=8.5,
        color="#555555",
    )
    ax = figure.subplots()
    ax.set(xlim=(0, 1), ylim=(n_rows - 0.4, -1.6))
    ax.axis("off")
    for name in ("status", "claim", "paper", "here", "interval", "holds for"):
        ax.text(_COLUMNS[name], -0.9, name, va="center", fontweight="bold")
    ax.axhline(-0.5, color="#444444", linewidth=0.8)
    for y, claim in enumerate(measurable):
        texts = {
            "fitted": FITTED[claim["fitted"]],
            "claim": claim["claim"],
            "title": claim["title"],
            "paper": claim["expected"],
            "here": claim["measured"],
            "interval": _interval_words(claim),
            "holds for": claim["accepted"],
        }
        _draw_row(ax, y, claim["status"], texts)
    for y, (names, reason, _) in enumerate(groups, start=len(measurable)):
        words = f"{names}: {reason}"
        texts = {"claim": textwrap.shorten(words, _GROUP_WIDTH, placeholder=" ...")}
        _draw_row(ax, y, UNMEASURABLE, texts)
    return figure


def _interval_words(claim: Mapping) -> str:
    """Return the interval of a claim's number, without its unit."""
    if claim["interval"] == NO_INTERVAL:
        return "none, n = 1"
    return ends_words((claim["low"], claim["high"]), "")


def _source_line(claims: pd.DataFrame, provenance: str) -> str:
    """Return where the numbers come from, and what a fit means."""
    source = f"Source: {provenance}"
    if (claims["fitted"] == "no").all():
        return source
    return (
        f"{source}. {', '.join(filter(None, FITTED.values()))}: the devices were "
        "fitted to the paper here, or the claim follows from such a fit: a check of "
        "consistency, not a validation"
    )


def _draw_row(ax: Axes, y: int, status: str, texts: Mapping[str, str]) -> None:
    """Draw the mark and the texts of a row, by column."""
    if y % 2:
        ax.axhspan(y - 0.5, y + 0.5, color="#f3f3f3", linewidth=0)
    look = LOOKS[status]
    ax.scatter(
        0.011,
        y,
        s=70,
        marker=look.marker,
        edgecolor=look.colour,
        facecolor=look.colour if look.filled else "white",
    )
    for name, text in {"status": status, **texts}.items():
        colour = {"status": look.colour, "fitted": "#555555"}.get(name, "#222222")
        ax.text(_COLUMNS[name], y, text, va="center", color=colour)
