"""Make the page of designs: what to buy, with prices that a reader can change.

Python embeds what was simulated and all words; `workflow/templates/designs.js` chooses
as `tierscope.analysis.designs.choice` does, and `designs_page.js` draws.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tierscope.analysis.designs.answer import PIECES, SENTENCES, Answer, measure_words
from tierscope.analysis.designs.choice import BY_HARDWARE, HARDWARE, NULL_MODELS, ROOM
from tierscope.analysis.designs.summary import (
    BY_WORDS,
    NULL_WORDS,
    asked_inputs,
    cost_units,
    gib_words,
    statements,
    workload_lines,
)
from tierscope.pages.document import TEMPLATES, render
from tierscope.pages.web_page import content_policy, script_json

_SCRIPTS = ("designs.js", "svg.js", "designs_page.js")
_OF_DESIGN = ["n_accelerators", ROOM, "fits", "is_simulated", "verdict", "margin"]
_OF_DESIGN += ["useful", *NULL_MODELS]


def build_designs(
    answer: Answer, title: str, sources: Mapping[str, str], provenance: str
) -> str:
    """Build the page, which needs no network and no other file.

    Parameters
    ----------
    answer : Answer
        The study.
    title : str
        What the page is called.
    sources : mapping of str to str
        Where the numbers of each workload come from.
    provenance : str
        Source and system, in words.

    Returns
    -------
    str
        HTML; the same arguments give the same text.
    """
    script = "".join((TEMPLATES / name).read_text("utf-8") for name in _SCRIPTS)
    told, numbers = embedded(answer), answer.designs["n_accelerators"].unique().tolist()
    context = {
        "policy": content_policy([script]),
        "title": title,
        "lead": f"Source: {provenance}. {statements(answer)}",
        "told": told,
        "needs": sorted(numbers) if len(numbers) > 1 else [],
        "cost": answer.cost,
        "limits": answer.limits,
        "sections": dict(_sections(answer, sources)),
        "footer": f"{provenance}.",
        "data": script_json(told),
        "script": script,
    }
    return render("designs.html.j2", context)


def embedded(answer: Answer) -> dict[str, Any]:
    """Return what the page computes with."""
    values, goal, axis = answer.reached
    rows = answer.designs[[*_OF_DESIGN, *HARDWARE]].join(values)
    rows = rows.join(answer.choice.costs[BY_HARDWARE]).reset_index()
    known = rows.astype(object).where(rows.notna(), None).to_dict("records")
    return {
        "designs": [one | answer.pieces(one["design"]) for one in known],
        "goal": float(goal),
        "axis": axis,
        "kinds": HARDWARE,
        "pieces": PIECES,
        "by_words": BY_WORDS,
        "cost_units": cost_units(answer),
        "unit": answer.cost.unit,
        "sentences": SENTENCES,
        "null_words": NULL_WORDS,
        "configured": answer.choice.chosen,
        "measure": measure_words(answer.inputs),
    }


def _sections(
    answer: Answer, sources: Mapping[str, str]
) -> Iterator[tuple[str, list[str]]]:
    """Yield the heading and the lines of what does not depend on prices."""
    asked = [*asked_inputs(answer), gib_words(answer)]
    yield "With the configuration's prices", [measure_words(answer.inputs), *asked]
    for name, rows in answer.table.groupby("workload", sort=False):
        yield f"Workload {name}", list(workload_lines(answer, rows, sources[name]))
