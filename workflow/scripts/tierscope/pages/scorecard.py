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
from tierscope.pages.web_page import content_policy

_COLUMNS = ("claim", "status", "statement", "paper", "here", "holds for")
# For `html_table`, also where it is part of a larger page.
STYLE = """\
.scorecard { border-collapse: collapse; width: 100%; }
.scorecard th, .scorecard td { padding: 0.45em 0.6em; text-align: left;
  vertical-align: top; border-bottom: 1px solid #ddd; }
.scorecard thead th { border-bottom: 2px solid #444; }
.scorecard small { display: block; color: #555; }
.scorecard td:first-child { min-width: 6.5em; }
.scorecard .status { white-space: nowrap; font-weight: bold; }
.scorecard .unmeasurable .status { white-space: normal; }
.scorecard .holds .status { color: #117733; }
.scorecard .fails .status { color: #882255; }
.scorecard .undecided .status { color: #997700; }
.scorecard .unmeasurable .status { color: #666; }
.scorecard .holds td:first-child { border-left: 6px solid #117733; }
.scorecard .fails td:first-child { border-left: 6px double #882255; }
.scorecard .undecided td:first-child { border-left: 6px dashed #997700; }
.scorecard .unmeasurable td:first-child { border-left: 6px dotted #666; }
@media screen and (max-width: 46em) {
  .scorecard thead { display: none; }
  .scorecard tr { display: block; margin-bottom: 1em; border: 1px solid #ccc; }
  .scorecard td { display: block; border-bottom: none; padding: 0.2em 0.6em; }
  .scorecard td[data-label]::before { content: attr(data-label) ": "; color: #555; }
}
@media print { .scorecard tr { break-inside: avoid; } }
"""
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 15px/1.45 system-ui, sans-serif; color: #222; margin: 1.5em auto;
  max-width: 78em; padding: 0 1em; }}
h1 {{ font-size: 1.5em; line-height: 1.25; }}
@media print {{ body {{ font-size: 9pt; }} }}
{style}</style>
</head>
<body>
<h1>{title}</h1>
{notes}
{table}
</body>
</html>
"""
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


def html_table(claims: pd.DataFrame) -> str:
    """Return the scorecard as an HTML table, to be styled by `STYLE`.

    Parameters
    ----------
    claims : DataFrame, shape (n_claims, 20)
        Table ``claims``.
    """
    header = "".join(f'<th scope="col">{name}</th>' for name in _COLUMNS)
    lines = [
        '<table class="scorecard">',
        f"<thead><tr>{header}</tr></thead>",
        "<tbody>",
    ]
    for row in _rows(claims):
        row = {key: _escaped(text) for key, text in row.items()}
        cells = [
            f"<td><strong>{row['name']}</strong><small>{row['section']}</small></td>",
            f'<td><span class="status">{row["status"]}</span>'
            f"{_small(row['mark'])}</td>",
            f"<td>{row['statement']}{_small(row['scenarios'])}</td>",
            f'<td data-label="paper">{row["paper"]}</td>',
            f'<td data-label="here">{row["here"]}{_small(row["details"])}'
            f"{_small(row['why'])}</td>",
            f'<td data-label="holds for">{row["accepted"]}'
            f"{_small(row['tolerance'])}</td>",
        ]
        lines.append(f'<tr class="{row["class"]}">{"".join(cells)}</tr>')
    return "\n".join([*lines, "</tbody>", "</table>"])


def _escaped(text: str) -> str:
    """Return a text for HTML, with percent signs that stay beside their numbers."""
    return escape(text).replace(" %", "\N{NO-BREAK SPACE}%")


def _small(text: str) -> str:
    """Return a text in small print, nothing if it is empty."""
    return f"<small>{text}</small>" if text else ""


def html(claims: pd.DataFrame, paper: str, provenance: str, needs: str = "") -> str:
    """Return the scorecard as a page that needs no other file; arguments as `notes`."""
    paragraphs = [
        f"<p>{escape(note)}</p>" for note in notes(claims, paper, provenance, needs)
    ]
    return _PAGE.format(
        policy=escape(content_policy()),
        title=escape(scorecard_title(claims)),
        style=STYLE,
        notes="\n".join(paragraphs),
        table=html_table(claims),
    )
