"""Make the explorer: one HTML page in which a reader tries improvements.

Altair draws the views and declares the inputs. The page computes what they show, by the
Vega signals and data of `workflow/templates/explorer.vega.yaml`. Python joins these to
the compiled views, because texts, views and tests need the tables by name and Vega-Lite
does not name its tables. A few lines of JavaScript write the texts.

The page computes the rule of `tierscope.analysis.whatif`. If there are estimates by the
model, the page holds them and shows both.
"""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from string import Template
from typing import Any

import pandas as pd
import vl_convert

from tierscope.analysis.breakdown import select_epoch, select_scenario, slowest_process
from tierscope.analysis.intervals import BEST_METHOD, METHOD
from tierscope.analysis.whatif import best_point
from tierscope.core.columns import CLASSES, IMPROVEMENTS, INTERVAL
from tierscope.core.io_class import IOClass
from tierscope.core.provenance import model_note, source_note, utilisation_note
from tierscope.core.words import UTILISATION_NOTE, in_seconds, scenario_titles
from tierscope.pages.explorer.data import (
    ModelAnswers,
    Start,
    add_limits,
    add_model_answers,
    embedded_points,
    without_last_zeros,
)
from tierscope.pages.explorer.spec import (
    GOAL_LIMITS_PERCENT,
    nearest_goal_percent,
    specification,
)
from tierscope.pages.explorer.utilisation import best_today, utilisation_points
from tierscope.pages.explorer.views import map_chart
from tierscope.pages.web_page import content_policy, script_json

_SCRIPT = re.compile("(?s)<script>(.*?)</script>")
_METHOD_INPUT = '<section><h2>Estimate</h2><div id="method"></div></section>\n'
_QUESTION = (
    "Which storage must become faster, by how much, and how many files should every "
    "node hold on its local file system (LFS)?"
)
_VIEWS = (
    "The sliders make the four I/O classes faster. Table and charts show the I/O time "
    "of the slowest process of an epoch, today and with the improvements."
)
_UTILISATION_QUESTION = (
    "Which storage must become faster, by how much, and how many files should every "
    "node hold on its local file system (LFS), so that accelerators are well fed?"
)
_UTILISATION_VIEWS = (
    "The sliders make two of the four I/O classes faster, by the model. "
    f"{UTILISATION_NOTE}"
)
_INTERVALS = (
    "In parentheses and as bars stands the 95 % interval of its estimate as far as its "
    "calibration knows: parameters, and lack of fit."
)
_JOB_QUESTION = "Which storage must become faster for this job, and by how much?"
_JOB_VIEWS = (
    "The sliders make four of its I/O classes faster. Table and charts show the I/O "
    "time of its slowest process in these classes, today and with the improvements."
)
_GLOSSARY = (
    "GFS: global file system; LFS: local file system of a node; READ: reading data; "
    "META: opening and closing files; cache rate: percent of the {what} that every "
    "node holds on its LFS; I/O time: seconds a process spends reading, opening and "
    "closing."
)
_JOB_GLOSSARY = (
    "READ: reading data; META: opening, closing and looking up files; I/O time: "
    "seconds a process spends in the four classes."
)
_INTERVAL_WORDS = (
    f"In brackets: {METHOD} (Student's t), of today's times. {BEST_METHOD}."
)
_EMBED_OPTIONS = {
    "mode": "vega",
    "renderer": "svg",
    "actions": {"export": True, "source": False, "compiled": False, "editor": False},
}


def build_explorer(
    io_time: pd.DataFrame,
    start: Start,
    *,
    page: str,
    computation: str,
    title: str,
    provenance: str,
    dataset_titles: Mapping[str, str] | None = None,
    estimates: pd.DataFrame | None = None,
    pairs: Sequence[Sequence[str]] = (),
    model: str = "",
    note: str = "",
    stalls: pd.DataFrame | None = None,
) -> str:
    """Build the explorer, a page that needs no network and no other file.

    Parameters
    ----------
    io_time : DataFrame, shape (n_processes * 4, 14)
        Table ``io_time``; the page lists its scenarios in the order of its rows.
    start : Start
        What the page shows first.
    page, computation : str
        The templates `workflow/templates/explorer.html` and ``explorer.vega.yaml``, or
        with a goal of utilisation ``explorer_utilisation.vega.yaml``.
    title, provenance : str
        What the page is about, and where its numbers come from.
    dataset_titles : mapping of str to str, optional
        What to call each dataset.
    estimates : DataFrame, optional
        Table ``estimates`` by the model, of some scenarios and epochs; with a goal of
        utilisation, of the scenario and epoch to start with, and not optional.
    pairs : sequence of pairs of str, optional
        Pairs of I/O classes for which `estimates` holds every cell of the map.
    model : str, optional
        What the model is (`tierscope.core.provenance.model_words`).
    note : str, optional
        What a reader must know before all else, besides the advice.
    stalls : DataFrame, optional
        Table ``class_stalls``, if the training computes and a model tells the stall.

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
    if io_time.empty:
        raise ValueError("explorer: got an empty table io_time, expected some runs.")
    shown = select_epoch(select_scenario(io_time, start.scenario), start.epoch)
    best = best_point(slowest_process(shown)).iloc[0]
    if start.is_utilisation:
        io_time, best = shown, best_today(estimates)
    scenarios = scenario_titles(io_time, dataset_titles)
    points, answers = _points(io_time, start, scenarios, estimates, pairs)
    if start.limits is not None and start.is_hidden:
        add_limits(points, start.limits, stalls, scenarios)
    is_advised, advice_words = _advice(start, scenarios)
    sources = sorted(io_time["source"].unique())
    unmeasured = [source for source in sources if source != "measured"]
    texts = {
        "title": f"{title} ({', '.join(unmeasured)})" if unmeasured else title,
        "provenance": provenance,
        "source_words": " ".join(map(source_note, sources)),
        "repetition_words": _repetition_words(points, start),
        "largest_class": "The class with most I/O time"
        if start.is_hidden
        else "The limiting class",
        "interval_words": ""
        if start.is_job or start.is_utilisation
        else _INTERVAL_WORDS,
        "cost_words": _cost_words(start),
        "question": _question(start, "" if is_advised else advice_words),
        "glossary": _JOB_GLOSSARY
        if start.is_job
        else _GLOSSARY.format(what="bytes" if start.origin.is_program else "files"),
        "map_chart": map_chart(start).capitalize(),
        "goal_words": _goal_words(start, best),
        "grid_words": _grid_words(start),
        "model_words": _model_words(start, model, estimates) if answers else "",
        "known_words": answers.words if answers else "",
        "note": " ".join(filter(None, [advice_words * is_advised, note])),
    }
    spec = specification(points, scenarios, best, start, computation, answers)
    (sweep,) = (table for table in spec["data"] if table["name"] == "sweep")
    sweep["values"] = list(map(without_last_zeros, points))
    values = {name: html.escape(text) for name, text in texts.items()} | {
        "class_styles": _class_styles(),
        "class_inputs": "\n".join(f'<div id="{name}"></div>' for name in IMPROVEMENTS),
        "javascript": vl_convert.javascript_bundle(),
        "spec": script_json(spec),
        "classes": script_json(CLASSES),
        "methods": _methods(start, answers),
        "choices": "" if len({one["epoch"] for one in points}) > 1 else "sweep",
        "method_input": _METHOD_INPUT if answers and not start.is_utilisation else "",
        "options": script_json(_EMBED_OPTIONS),
    }
    scripts = [Template(one).substitute(values) for one in _SCRIPT.findall(page)]
    policy = content_policy(scripts, compiles=True)
    return Template(page).substitute(values, policy=html.escape(policy))


def _points(
    io_time: pd.DataFrame,
    start: Start,
    scenarios: pd.DataFrame,
    estimates: pd.DataFrame | None,
    pairs: Sequence[Sequence[str]],
) -> tuple[list[dict[str, Any]], ModelAnswers | None]:
    """Return the embedded points, and for what they have answers of the model."""
    if start.is_utilisation:
        points = utilisation_points(estimates, pairs, start)
        scenes = [f"0 {start.epoch}"]
    else:
        points = embedded_points(io_time, scenarios, start.max_improvement_percent)
        if estimates is None:
            return points, None
        scenes = add_model_answers(points, estimates, scenarios, pairs, start.grid)
    known = _known_words(scenes, pairs, scenarios, start)
    return points, ModelAnswers(pairs, scenes, known)


def _advice(start: Start, scenarios: pd.DataFrame) -> tuple[bool, str]:
    """Return whether anything may be recommended, and what to say of the scenarios."""
    rows, titles = scenarios.to_dict("records"), {}
    advice = list(map(start.advice, rows))
    for row, one in zip(rows, advice, strict=True):
        titles.setdefault(one.words, []).append(row["title"])
    words = [
        f"{'; '.join(of)}: {said}" if len(titles) > 1 else said
        for said, of in titles.items()
        if said
    ]
    return any(one.is_given for one in advice), " ".join(words)


def _question(start: Start, advice: str) -> str:
    """Return what the page answers, or the advice that nothing is recommended."""
    question, views = _QUESTION, _VIEWS
    if start.is_utilisation:
        question, views = _UTILISATION_QUESTION, _UTILISATION_VIEWS
    elif start.is_job:
        question, views = _JOB_QUESTION, _JOB_VIEWS
    return f"{advice or question} {views}"


def _methods(start: Start, answers: ModelAnswers | None) -> str:
    """Return the page's methods of estimating, and what it is, as classes in HTML."""
    if start.is_utilisation:
        return "model"
    methods = "both" if answers else "rule"
    return f"{methods} job" if start.is_job else methods


def _model_words(start: Start, model: str, estimates: pd.DataFrame) -> str:
    """Return how the model estimates, and what its intervals are."""
    if start.is_utilisation:
        return utilisation_note(model)
    if estimates[INTERVAL].isna().all(axis=None):
        return model_note(model)
    return f"{model_note(model)} {_INTERVALS}"


def _known_words(
    scenes: Sequence[str],
    pairs: Sequence[Sequence[str]],
    scenarios: pd.DataFrame,
    start: Start,
) -> str:
    """Return in words for what the page has answers of the model."""
    numbers = [map(int, scene.split()) for scene in scenes]
    shown = [
        f"{scenarios['title'].iloc[scenario]} ({start.origin.epoch_words(epoch)})"
        for scenario, epoch in numbers
    ]
    improved = [" and ".join(IOClass(name).label for name in pair) for pair in pairs]
    return (
        f"{', or of '.join(improved)} in steps of {start.grid_step_percent} %, with "
        f"the other classes as they are; in {'; '.join(shown)}"
    )


def _repetition_words(points: Iterable[Mapping[str, Any]], start: Start) -> str:
    """Return how the repetitions of the points are summarised, if there are any."""
    numbers = sorted({point["repetitions"] for point in points})
    if numbers == [1]:
        return ""
    words = " to ".join(map(str, dict.fromkeys([numbers[0], numbers[-1]])))
    if start.is_utilisation:
        return f"AU is a mean over the processes and over {words} repetitions."
    return (
        f"Times are means over {words} repetitions; the slowest process is picked in "
        "each of them."
    )


def _cost_words(start: Start) -> str:
    """Return the costs of the classes, such as ``1 for GFS-READ, ...``."""
    return ", ".join(
        f"{start.cost_per_percent[io_class]:g} for {start.labels[io_class]}"
        for io_class in IOClass
    )


def _goal_words(start: Start, best: pd.Series) -> str:
    """Return the experiment's goal, and its position on the slider."""
    goal = start.goal
    if start.is_utilisation:
        return f"The experiment's goal: {goal.percent:g} % accelerator utilisation."
    best_s = float(best["io_time_s"])
    if start.is_job:
        percent = nearest_goal_percent(goal, best_s)
        return f"The slider starts at {percent:g} %: {in_seconds(goal.io_time_s)}."
    words = f"The experiment's goal: {in_seconds(goal.seconds)} of "
    if goal.of == "io_time":
        words += "I/O time"
    else:
        words += (
            f"execution time, less {in_seconds(goal.difference_s)} that are not I/O = "
            f"{in_seconds(goal.io_time_s)} of I/O time"
        )
    words += (
        f" in the {start.origin.epoch_words(start.epoch)} of the scenario shown first"
    )
    least, most = GOAL_LIMITS_PERCENT
    if not least * best_s <= 100 * goal.io_time_s <= most * best_s:
        return f"{words}. It is outside the slider, which starts at its nearest end."
    percent = nearest_goal_percent(goal, best_s)
    return f"{words}, where the slider starts ({percent:g} %, rounded to 0.1 %)."


def _grid_words(start: Start) -> str:
    """Return that the map is coarser than the experiment's grid, if it is."""
    if start.grid_step_percent == start.step_percent:
        return ""
    return (
        f"{map_chart(start).capitalize()} has steps of {start.grid_step_percent} %, a "
        f"coarser grid than the {start.step_percent} % of Fig. 4 and of the search, so "
        "its cheapest combination can differ."
    )


def _class_styles() -> str:
    """Return CSS that gives each class's slider the colour of the class."""
    return "\n".join(
        f"#{name} {{ border-left: 8px solid {io_class.colour}; padding-left: 8px; "
        f"accent-color: {io_class.colour}; }}"
        for name, io_class in zip(IMPROVEMENTS, IOClass, strict=True)
    )
