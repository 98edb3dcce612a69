"""Draw the table of claims, a row for each."""

import textwrap

import pandas as pd
from matplotlib import style
from matplotlib.figure import Figure

from tierscope.claim_status import UNMEASURABLE
from tierscope.scorecard import FITTED, LOOKS, title

_STYLE = {"font.family": "DejaVu Sans", "font.size": 9.5}


def plot_scorecard(claims: pd.DataFrame, provenance: str) -> Figure:
    """Draw a row for each claim: status, what the paper says, what was found.

    Parameters
    ----------
    claims : DataFrame, shape (n_claims, 17)
        Table ``claims``.
    provenance : str
        Where the numbers come from, written below the rows.

    Returns
    -------
    Figure
        A filled circle where a claim holds, a cross where it does not, a hollow
        diamond where it is not measurable, with the word beside it.
    """
    with style.context(["default", _STYLE]):
        return _draw(claims, provenance)


def _draw(claims: pd.DataFrame, provenance: str) -> Figure:
    """Draw the scorecard in the present style."""
    figure = Figure(figsize=(13.6, 1.5 + 0.3 * len(claims)), layout="constrained")
    figure.suptitle(title(claims), x=0.01, ha="left", fontsize=12.5, fontweight="bold")
    source = f"Source: {provenance}"
    if (claims["fitted"] != "no").any():
        source += (
            f". {', '.join(filter(None, FITTED.values()))}: the devices were made to "
            "agree with the paper here, or it follows from where they were: a check of "
            "consistency, not a validation"
        )
    figure.supxlabel(
        textwrap.fill(source, 176), x=0.01, ha="left", fontsize=8.5, color="#555555"
    )
    ax = figure.subplots()
    ax.set(xlim=(0, 1), ylim=(len(claims) - 0.4, -1.6))
    ax.axis("off")
    columns = {
        "status": 0.025,
        "fitted": 0.13,
        "claim": 0.2,
        "title": 0.235,
        "paper": 0.5,
        "here": 0.65,
        "holds for": 0.82,
    }
    for name in ("status", "claim", "paper", "here", "holds for"):
        ax.text(columns[name], -0.9, name, va="center", fontweight="bold")
    ax.axhline(-0.5, color="#444444", linewidth=0.8)
    for y, claim in enumerate(claims.to_dict("records")):
        if y % 2:
            ax.axhspan(y - 0.5, y + 0.5, color="#f3f3f3", linewidth=0)
        look = LOOKS[claim["status"]]
        ax.scatter(
            0.011,
            y,
            s=70,
            marker=look.marker,
            edgecolor=look.colour,
            facecolor=look.colour if look.filled else "white",
        )
        texts = {
            "status": claim["status"],
            "fitted": FITTED[claim["fitted"]],
            "claim": claim["claim"],
            "title": claim["title"],
            "paper": claim["expected"],
            "here": claim["measured"],
            "holds for": claim["accepted"],
        }
        if claim["status"] == UNMEASURABLE:
            reason = claim["reason"].split(" (")[0]
            texts["here"] = textwrap.shorten(reason, 60, placeholder=" ...")
            texts["holds for"] = ""
        for name, text in texts.items():
            colour = {"status": look.colour, "fitted": "#555555"}.get(name, "#222222")
            ax.text(columns[name], y, text, va="center", color=colour)
    return figure
