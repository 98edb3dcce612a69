"""Show the table of claims as Markdown and as a page of HTML.

If the numbers were not measured, the title says so. It also says how many of the claims
hold that the devices were not fitted to; only these are evidence. Fitted claims are
marked. A status is a word and a shape, not only a colour.
"""

from collections.abc import Iterator
from html import escape
from typing import Any

import pandas as pd

from tierscope.analysis.intervals import METHOD, NO_INTERVAL
from tierscope.analysis.scorecard import evidence, scorecard_title, unmeasurable_groups
from tierscope.core.verdict import (
    FAILS,
    FITTED,
    HOLDS,
    LOOKS,
    UNDECIDED,
    UNMEASURABLE,
)
from tierscope.core.words import count_words
from tierscope.pages.content import Cell, Table
from tierscope.pages.document import render
from tierscope.pages.web_page import content_policy

_COLUMNS = ("claim", "status", "statement", "paper", "here", "holds for")
_LABELLED = ("paper", "here", "holds for")
_CLASSES = {
    HOLDS: "holds",
    FAILS: "fails",
    UNDECIDED: "undecided",
    UNMEASURABLE: "unmeasurable",
}


def notes(
    claims: pd.DataFrame, paper: str, provenance: str, needs: str = ""
) -> list[str]:
    """Return what to know about the scorecard, a paragraph each.

    Parameters
    ----------
    claims : DataFrame, shape (n_claims, 20)
        Table ``claims``.
    paper : str
        The paper, as it is cited.
    provenance : str
        Where the numbers come from.
    needs : str, optional
        What `tierscope.claims.paper.needed_sweep` returns.
    """
    counts = claims["status"].value_counts()
    counted = ", ".join(
        count_words(counts.get(status, 0), one, more)
        for status, one, more in (
            (HOLDS, "holds", "hold"),
            (FAILS, "does not hold", "do not hold"),
            (UNDECIDED, "is undecided", "are undecided"),
            (UNMEASURABLE, "is not measurable here", "are not measurable here"),
        )
        if status != UNDECIDED or status in counts
    )
    paragraphs = [
        f"Paper: {paper}.",
        f"Data: {provenance}. Of {len(claims)} claims {counted}.",
    ]
    if needs:
        paragraphs[-1] += f" {needs}"
    paragraphs += _interval_notes(claims)
    if set(claims["source"]) != {"measured"}:
        paragraphs.append(
            "These numbers were not measured on real storage devices. They only say "
            "whether the model of the machine agrees with the paper."
        )
    targets, by_hand, derived = (
        ", ".join(claims.loc[claims["fitted"] == kind, "claim"]) or "none"
        for kind in ("target", "by hand", "derived")
    )
    if kept := evidence(claims):
        paragraphs.append(
            "The model's devices were themselves fitted to the paper: "
            f"{FITTED['target']} are the claims that were targets of the fit "
            f"({targets}), {FITTED['by hand']} those for which a parameter was chosen "
            f"({by_hand}), {FITTED['derived']} those that follow, or nearly follow, "
            f"from them ({derived}). For all these claims this is a check of "
            f"consistency, not a validation; only the other claims are evidence "
            f"({kept})."
        )
    return paragraphs


def _interval_notes(claims: pd.DataFrame) -> list[str]:
    """Return how intervals decide, and what is said without one."""
    is_alone = claims["interval"] == NO_INTERVAL
    has_some = claims["interval"].ne("") & ~is_alone
    notes = []
    if has_some.any():
        notes.append(
            f"The number of each claim has its {METHOD} (Student's t), whose unit is "
            "the claim's number in a repetition. A claim holds if all of the interval "
            "lies within the bounds, does not hold if nothing of it does, and is "
            "undecided otherwise."
        )
    if is_alone.any():
        names = "All claims" if is_alone.all() else ", ".join(claims["claim"][is_alone])
        notes.append(
            f"{NO_INTERVAL.capitalize()}: {names}. The number alone is judged on "
            "emulated and simulated systems, where it may change with the seed. On "
            "real storage the claim is undecided. More repetitions make it firm."
        )
    return notes


def _rows(claims: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the texts of each claim; claims that lack the same data share one row."""
    is_measurable = claims["status"] != UNMEASURABLE
    for claim in claims[is_measurable].to_dict("records"):
        sign = LOOKS[claim["status"]].sign
        yield {
            "name": claim["claim"],
            "section": f"Sec. {claim['section']}",
            "status": f"{sign} {claim['status']}",
            "mark": FITTED[claim["fitted"]],
            "statement": claim["statement"],
            "paper": claim["expected"],
            "here": claim["measured"],
            "details": "; ".join(filter(None, [claim["details"], _sure(claim)])),
            "why": claim["reason"],
            "scenarios": claim["scenarios"],
            "accepted": claim["accepted"],
            "tolerance": claim["tolerance"],
            "class": _CLASSES[claim["status"]],
        }
    empty = ("mark", "paper", "here", "why", "scenarios", "accepted", "tolerance")
    for names, reason, group in unmeasurable_groups(claims):
        yield dict.fromkeys(empty, "") | {
            "name": names,
            "section": f"{len(group)} claims" if len(group) > 1 else "1 claim",
            "status": f"{LOOKS[UNMEASURABLE].sign} {UNMEASURABLE}",
            "statement": "; ".join(group["title"]),
            "details": reason,
            "class": _CLASSES[UNMEASURABLE],
        }


def _sure(claim: dict[str, Any]) -> str:
    """Return the interval of a claim's number in words; nothing for exact counts."""
    words = claim["interval"]
    return words if words in ("", NO_INTERVAL) else f"interval {words}"


def markdown(claims: pd.DataFrame, paper: str, provenance: str, needs: str = "") -> str:
    """Return the scorecard in Markdown; arguments as for `notes`."""
    lines = [_COLUMNS, tuple("---" for _ in _COLUMNS)]
    for row in _rows(claims):
        status = f"**{row['status']}**" + (row["mark"] and f" ({row['mark']})")
        here = f"{row['here']} ({row['details']})" if row["here"] else row["details"]
        lines.append(
            (
                f"{row['name']}, {row['section']}",
                status,
                _cell(row["statement"]),
                _cell(row["paper"]),
                _cell(here),
                _cell(row["accepted"]),
            )
        )
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    bounds, misses = (
        [f"- {row['name']}: {_cell(row[key])}" for row in _rows(claims) if row[key]]
        for key in ("tolerance", "why")
    )
    parts = {"Why some do not hold": misses, "Why these bounds": bounds}
    lists = [
        f"## {heading}\n\n" + "\n".join(items)
        for heading, items in parts.items()
        if items
    ]
    paragraphs = "\n\n".join(
        _cell(note) for note in notes(claims, paper, provenance, needs)
    )
    return (
        "\n\n".join([f"# {scorecard_title(claims)}", paragraphs, table, *lists]) + "\n"
    )


def _cell(text: str) -> str:
    """Return a text without characters that would end a table cell or start a tag."""
    return escape(" ".join(text.split()), quote=False).replace("|", "\\|")


def claims_table(claims: pd.DataFrame) -> Table:
    """Return the scorecard as a table of a page.

    Parameters
    ----------
    claims : DataFrame, shape (n_claims, 20)
        Table ``claims``.
    """
    rows = [
        {key: _unbroken(text) for key, text in row.items()} for row in _rows(claims)
    ]
    cells = [
        (
            Cell(row["name"], [row["section"]], "strong"),
            Cell(row["status"], [row["mark"]], "status"),
            Cell(row["statement"], [row["scenarios"]]),
            Cell(row["paper"]),
            Cell(row["here"], [row["details"], row["why"]]),
            Cell(row["accepted"], [row["tolerance"]]),
        )
        for row in rows
    ]
    return Table(
        "Scorecard",
        pd.DataFrame(cells, columns=_COLUMNS),
        style="scorecard",
        row_styles=[row["class"] for row in rows],
        labelled=_LABELLED,
    )


def _unbroken(text: str) -> str:
    """Return a text whose percent signs stay beside their numbers."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def html(claims: pd.DataFrame, paper: str, provenance: str, needs: str = "") -> str:
    """Return the scorecard as a page that needs no other file; arguments as `notes`."""
    context = {
        "policy": content_policy(),
        "title": scorecard_title(claims),
        "notes": notes(claims, paper, provenance, needs),
        "table_of_claims": claims_table(claims),
    }
    return render("scorecard.html.j2", context)
