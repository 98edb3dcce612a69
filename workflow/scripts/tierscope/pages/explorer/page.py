"""Make the explorer: one HTML page in which a reader tries improvements.

Python embeds what was measured and what the model answers, and writes what does not
change. `workflow/templates/explorer.js` computes the rule of
`tierscope.analysis.whatif` from it, and `explorer_page.js` draws.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tierscope.core.columns import CLASSES, IMPROVEMENTS
from tierscope.core.io_class import IOClass
from tierscope.core.provenance import source_note
from tierscope.core.words import scenario_titles
from tierscope.pages.document import TEMPLATES, render
from tierscope.pages.explorer.subjects import Input, Sweep
from tierscope.pages.web_page import content_policy, script_json

_SCRIPTS = ("explorer.js", "svg.js", "explorer_page.js")
_MARGIN_PERCENT = 4  # beside the first and last cache rate
_MOST_WIDTH = 10  # between the middles of bars


def build_explorer(
    subject: Sweep,
    title: str,
    note: str = "",
    dataset_titles: Mapping[str, str] | None = None,
) -> str:
    """Build the explorer, a page that needs no network and no other file.

    Parameters
    ----------
    subject : Sweep
        What the page is about, and what it shows first.
    title : str
        What the page is called.
    note : str, optional
        What a reader must know before all else, besides the advice.
    dataset_titles : mapping of str to str, optional
        What to call each dataset.

    Returns
    -------
    str
        HTML; the same arguments give the same text.

    Raises
    ------
    ValueError
        If the table is empty or lacks the scenario or the epoch to start with, or
        the estimates lack a cell of a map.
    """
    if subject.io_time.empty:
        raise ValueError("explorer: got an empty table io_time, expected some runs.")
    scenarios = scenario_titles(subject.listed, dataset_titles)
    points = subject.points(scenarios)
    advice = list(map(subject.advice, scenarios.to_dict("records")))
    advice_words = _advice_words(scenarios["title"], [one.words for one in advice])
    is_advised = any(one.is_given for one in advice)
    question = subject.question if is_advised else advice_words or subject.question
    known = (one for one in points if "answers" in one)
    scenes = list(dict.fromkeys((one["scenario"], one["epoch"]) for one in known))
    sources = sorted(subject.listed["source"].unique())
    unmeasured = [source for source in sources if source != "measured"]
    script = "".join((TEMPLATES / name).read_text("utf-8") for name in _SCRIPTS)
    ways = {name: f"With the improvements{way}" for name, way in subject.ways.items()}
    embedded = _embedded(subject, points) | {
        "scenes": [" ".join(map(str, scene)) for scene in scenes],
        "recommended": [one.is_given for one in advice],
        "points": points,
    }
    context = {
        "policy": content_policy([script]),
        "title": f"{title} ({', '.join(unmeasured)})" if unmeasured else title,
        "question": f"{question} {subject.views}",
        "note": " ".join(filter(None, [advice_words * is_advised, note])),
        "inputs": _inputs(subject, points, scenarios),
        "rows": subject.rows,
        "columns": {"today": "Today", **ways},
        "grid_words": _grid_words(subject),
        "provenance": subject.origin,
        "source_words": " ".join(map(source_note, sources)),
        "model_words": subject.model_words(),
        "known_words": _known_words(subject, scenes, scenarios),
        "reading_words": subject.reading_words(points),
        "cost_words": _cost_words(subject),
        "glossary": subject.glossary,
        "data": script_json(embedded),
        "script": script,
    }
    return render("explorer.html.j2", context)


def _embedded(subject: Sweep, points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the page computes with, but for points and advice."""
    rates = sorted({point["cache_rate_percent"] for point in points})
    grid = subject.grid
    middles = [(low + high) / 2 for low, high in itertools.pairwise(grid)]
    lines = {
        name: f"improved{way}" if way else "with the improvements"
        for name, way in subject.ways.items()
    }
    classes = [(name, subject.labels[name], IOClass(name).colour) for name in CLASSES]
    return {
        "subject": subject.name,
        "lines": {"today": "today", **lines},
        "classes": [
            dict(zip(("name", "label", "colour"), one, strict=True)) for one in classes
        ],
        "cost": {str(key): cost for key, cost in subject.cost_per_percent.items()},
        "grid": grid,
        "grid_step": subject.grid_step_percent,
        "grid_edges": [2 * grid[0] - middles[0], *middles, 2 * grid[-1] - middles[-1]],
        "pairs": [list(map(str, pair)) for pair in subject.pairs],
        "limits": subject.limit_words[1],
        "map_chart": subject.map_chart,
        "cache_rate_label": subject.origin.cache_rate_label,
        "rate_limits": [rates[0] - _MARGIN_PERCENT, rates[-1] + _MARGIN_PERCENT],
        "half_width": 0.4 * float(np.diff(rates).min(initial=_MOST_WIDTH)),
    }


def _inputs(
    subject: Sweep, points: Sequence[Mapping[str, Any]], scenarios: pd.DataFrame
) -> list[tuple[str, list[Input], str]]:
    """Return the groups of inputs: heading, inputs, and words below them."""
    labels = {name: subject.labels[name] for name in CLASSES}
    sliders = [
        Input(
            name,
            0,
            labels[io_class],
            most=subject.max_improvement_percent,
            colour=IOClass(io_class).colour,
        )
        for name, io_class in zip(IMPROVEMENTS, CLASSES, strict=True)
    ]
    least, most = subject.goal_limits
    percent = subject.goal_percent
    goal = Input("goal_percent", percent, subject.goal_label, {}, least, most, 0.1)
    axes = [
        Input(name, str(io_class), label, labels)
        for name, io_class, label in zip(
            ("x_class", "y_class"), subject.pair, ("Across", "Upwards"), strict=True
        )
    ]
    groups = [
        ("Show", subject.choices(points, scenarios), ""),
        ("Estimate", [subject.method_input()], ""),
        ("More throughput of", sliders, ""),
        ("Goal", [goal], subject.goal_words()),
        (f"{subject.map_chart.capitalize()}: improve two classes", axes, ""),
    ]
    return [
        (heading * any(one.label for one in inputs), inputs, words)
        for heading, inputs, words in groups
    ]


def _advice_words(titles: Sequence[str], advice: Sequence[str]) -> str:
    """Return what to say of the scenarios: once what is said of several."""
    said: dict[str, list[str]] = {}
    for title, words in zip(titles, advice, strict=True):
        said.setdefault(words, []).append(title)
    return " ".join(
        f"{'; '.join(of)}: {words}" if len(said) > 1 else words
        for words, of in said.items()
        if words
    )


def _known_words(
    subject: Sweep, scenes: Sequence[tuple[int, int]], scenarios: pd.DataFrame
) -> str:
    """Return in words for what the page has answers of the model."""
    shown = [
        f"{scenarios['title'].iloc[scenario]} ({subject.origin.epoch_words(epoch)})"
        for scenario, epoch in scenes
    ]
    pairs = [" and ".join(IOClass(one).label for one in pair) for pair in subject.pairs]
    return (
        f"{', or of '.join(pairs)} in steps of {subject.grid_step_percent} %, with the "
        f"other classes as they are; in {'; '.join(shown)}"
    )


def _cost_words(subject: Sweep) -> str:
    """Return the costs of the classes, such as ``1 for GFS-READ, ...``."""
    return ", ".join(
        f"{subject.cost_per_percent[name]:g} for {subject.labels[name]}"
        for name in CLASSES
    )


def _grid_words(subject: Sweep) -> str:
    """Return that the map is coarser than the experiment's grid, if it is."""
    if subject.grid_step_percent == subject.step_percent:
        return ""
    return (
        f"{subject.map_chart.capitalize()} has steps of {subject.grid_step_percent} %, "
        f"a coarser grid than the {subject.step_percent} % of Fig. 4 and of the "
        "search, so its cheapest combination can differ."
    )
