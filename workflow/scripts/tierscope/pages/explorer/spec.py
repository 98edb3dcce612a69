"""Make the explorer's Vega specification: views, inputs and computation, joined."""

import math
from collections.abc import Iterable, Mapping, Sequence
from string import Template
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import vl_convert
from altair.utils.schemapi import debug_mode

from tierscope.analysis.whatif import Goal
from tierscope.core.columns import CLASSES, IMPROVEMENTS, MODEL, RULE, SCENARIO
from tierscope.core.validation import parse_fast
from tierscope.pages.explorer.data import (
    PARTS,
    ModelAnswers,
    Start,
    scenario_numbers,
)
from tierscope.pages.explorer.views import (
    BAR_EDGES,
    cell_edges,
    line_names,
    map_chart,
    page_views,
)

GOAL_LIMITS_PERCENT = 1, 150  # of the best I/O time without improvement
_FOREIGN = ("values", "bind")
_METHODS = ["paper's rule: waiting stays", "model: waiting moves"]


def specification(
    points: Sequence[Mapping[str, Any]],
    scenarios: pd.DataFrame,
    best: pd.Series,
    start: Start,
    computation: str,
    answers: ModelAnswers | None = None,
) -> dict[str, Any]:
    """Return the page's Vega specification: compiled views, inputs and computation.

    Parameters
    ----------
    points, scenarios
        As in `tierscope.pages.explorer.data.embedded_points`.
    best : Series
        The best point of the scenario and epoch shown first.
    start : Start
        What the page shows first.
    computation : str
        The template `workflow/templates/explorer.vega.yaml`.
    answers : ModelAnswers, optional
        The model's answers in the points; by default none, so there is only the rule.
    """
    has_model = answers is not None
    # Altair's checks of every part take longer than everything else, and the compiler
    # checks the whole.
    with debug_mode(False):
        inputs = _inputs(points, scenarios, best, start, has_model)
        spec = _compiled(page_views(start, has_model=has_model), inputs)
    names = _names(points, start, answers or ModelAnswers())
    advice = map(start.advice, scenarios.to_dict("records"))
    names["recommended"] = str([one.is_given for one in advice]).lower()
    computed = parse_fast(Template(computation).substitute(names))
    (table,) = (table for table in computed["data"] if table["name"] == "sweep")
    table["values"] = list(points)
    (labels,) = (one for one in computed["signals"] if one["name"] == "labels")
    labels["value"] = dict(start.labels)
    named = {table["name"] for table in computed["data"]}
    spec["data"] = [
        *computed["data"],
        *(table for table in spec["data"] if table["name"] not in named),
    ]
    sizes = [s for s in spec["signals"] if s["name"].endswith(("width", "Width"))]
    for signal in sizes:
        signal["update"] = "view_width"
    inputs = [_with_clicks(s) for s in spec["signals"] if s not in sizes]
    spec["signals"] = [*inputs, *computed["signals"], *sizes]
    spec["layout"]["columns"] = {"signal": "n_columns"}
    return _with_signals(spec)


def _compiled(
    views: Mapping[str, Any], inputs: Sequence[alt.Parameter]
) -> dict[str, Any]:
    """Return the Vega specification of Altair's views and inputs."""
    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    spec = {**views, "params": [one.param.to_dict() for one in inputs]}
    return vl_convert.vegalite_to_vega(spec, vl_version=version)


def _names(
    points: Sequence[Mapping[str, Any]], start: Start, answers: ModelAnswers
) -> dict[str, str]:
    """Return the values of the dollar names of the computation."""
    common = _common_names(points, start, answers)
    if start.is_utilisation:
        return common
    n_repetitions, n_processes = np.shape(points[0][CLASSES[0]])
    # @ is replaced by the number of a repetition, # by that of a process.
    slowest = " + ".join(f"datum.{c}[@][#] * datum.{c}_factor" for c in CLASSES)
    slowest = f"max({_each(n_processes, '#', slowest)})"
    sums = {
        "today_sums": " + ".join(f"datum.{c}[#]" for c in CLASSES),
        "improved_sums": " + ".join(f"datum.{c}[#] * {c}_factor" for c in CLASSES),
    }
    sums = {name: _each(n_processes, "#", term) for name, term in sums.items()}
    sums["map_maxima"] = _each(n_repetitions, "@", slowest, " + ")
    return (
        common
        | sums
        | {
            "one_job": str(start.is_job).lower(),
            "bar_edges": str(list(BAR_EDGES)),
            "breakdown_fields": f"[{', '.join(_breakdown_fields(start))}]",
            "model_scenes": str(list(answers.scenes)),
            "model_parts": _each(
                len(CLASSES),
                "#",
                f"datum.model_s * datum.model[pair].parts[#][model_cell] / {PARTS}",
            ),
            "half_width": str(0.4 * float(np.diff(_rates(points)).min(initial=10))),
        }
    )


def _common_names(
    points: Sequence[Mapping[str, Any]], start: Start, answers: ModelAnswers
) -> dict[str, str]:
    """Return the values of the dollar names of both computations."""
    rates = _rates(points)
    costs = {str(key): value for key, value in start.cost_per_percent.items()}
    lines = line_names(start, has_model=bool(answers.pairs))
    return {
        "map_chart": map_chart(start),
        "limits": "has most I/O time" if start.is_hidden else "limits",
        "line_names": str([*lines, ""][:3]),
        "n_lines": str(len(lines)),
        "model_pairs": str([" ".join(map(str, pair)) for pair in answers.pairs]),
        **{f"{c}_snapped": _snapped(c) for c in CLASSES},
        "rate_limits": str([rates[0] - 4, rates[-1] + 4]),
        "class_list": str(CLASSES),
        "cost": str(costs),
        "now": ", ".join(f"{c}: {c}_now" for c in CLASSES),
        "n_grid": str(len(start.grid)),
        "grid": str(start.grid),
        "grid_step": str(start.grid_step_percent),
        "grid_end": str(start.grid[-1]),
        "grid_edges": str(cell_edges(start.grid)),
    }


def _rates(points: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the cache rates of the embedded points, ascending."""
    return sorted({point["cache_rate_percent"] for point in points})


def _breakdown_fields(start: Start) -> list[str]:
    """Return the times that are bars: with the improvements, of a job today's, too."""
    return [
        f"{when}{io_class}_s"
        for when in (["today_", ""] if start.is_job else [""])
        for io_class in CLASSES
    ]


def _each(n: int, mark: str, term: str, joint: str = ", ") -> str:
    """Write a term n times, with its number in place of the mark."""
    return joint.join(term.replace(mark, str(number)) for number in range(n))


def _with_clicks(signal: dict[str, Any]) -> dict[str, Any]:
    """Return an input's signal, which a click on a mark also sets.

    The sliders of the classes also move to positions for which the model has an answer.
    """
    name = signal["name"]
    if name == "cache_rate_percent":
        marks = "@breakdown_layer_0_marks:click, @times_layer_1_marks:click"
        return signal | {
            "on": [{"events": marks, "update": "datum.cache_rate_percent"}]
        }
    if name not in IMPROVEMENTS:
        return signal
    io_class = CLASSES[IMPROVEMENTS.index(name)]
    click = (
        f"x_class == '{io_class}' ? datum.x_percent : "
        f"y_class == '{io_class}' ? datum.y_percent : {name}"
    )
    move = f"by_model ? {_snapped(io_class)} : {name}"
    on = [
        {"events": "@cells_layer_0_marks:click", "update": click},
        {"events": {"signal": "model_axes"}, "update": move},
    ]
    # Without force, Vega compares with the last update, not with the slider.
    return signal | {"on": [update | {"force": True} for update in on]}


def _snapped(io_class: str) -> str:
    """Return the expression of a slider's nearest position with a model answer."""
    name = IMPROVEMENTS[CLASSES.index(io_class)]
    return (
        f"(x_class == '{io_class}' || y_class == '{io_class}' ? {name} >= grid_end ? "
        f"grid_end : min(round({name} / grid_step) * grid_step, grid_end) : 0)"
    )


def _with_signals(value: Any) -> Any:
    """Replace texts such as ``=goal_s`` by signals, as Vega-Lite cannot for titles.

    Texts that may come from configurations and logs stay: tables, and lists of inputs.
    """
    if isinstance(value, dict):
        return {
            key: item if key in _FOREIGN else _with_signals(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_with_signals(item) for item in value]
    if isinstance(value, str) and value.startswith("="):
        return {"signal": value[1:]}
    return value


def _inputs(
    points: Sequence[Mapping[str, Any]],
    scenarios: pd.DataFrame,
    best: pd.Series,
    start: Start,
    has_model: bool,
) -> list[alt.Parameter]:
    """Return the page's inputs: native sliders and lists, bound to parameters."""
    numbers = scenario_numbers(scenarios)
    epochs = sorted({point["epoch"] for point in points})
    rates = _rates(points)
    labels = [start.labels[io_class] for io_class in CLASSES]
    scenario, rate = numbers[tuple(best[SCENARIO])], int(best["cache_rate_percent"])
    shown = [
        _choice("scenario", "Scenario", scenario, numbers.values(), scenarios.title),
        _choice(
            "epoch", "Epoch", start.epoch, epochs, map(start.origin.epoch_words, epochs)
        ),
        _slider(
            "cache_rate_percent",
            "Cache rate to look at",
            rate,
            (rates[0], rates[-1]),
            step=math.gcd(*(rate - rates[0] for rate in rates)) or 1,
        ),
    ]
    if start.is_job or start.is_utilisation:  # there is no choice
        shown[0] = alt.param(name="scenario", value=scenario)
    if start.is_utilisation:
        shown[1] = alt.param(name="epoch", value=start.epoch)
    if start.is_job:
        shown[2] = alt.param(name="cache_rate_percent", value=rate)
        if len(epochs) == 1:
            shown[1] = alt.param(name="epoch", value=start.epoch)
    return [
        *shown,
        *(
            _slider(name, label, 0, (0, start.max_improvement_percent))
            for name, label in zip(IMPROVEMENTS, labels, strict=True)
        ),
        _goal_slider(best, start),
        _choice("x_class", "Across", str(start.pair[0]), CLASSES, labels),
        _choice("y_class", "Upwards", str(start.pair[1]), CLASSES, labels),
        _choice("method", "By the", start.method, [RULE, MODEL], _METHODS)
        if has_model and not start.is_utilisation
        else alt.param(name="method", value=start.method if has_model else RULE),
    ]


def _goal_slider(best: pd.Series, start: Start) -> alt.Parameter:
    """Return the slider of the goal."""
    if start.is_utilisation:
        value, limits = round(start.goal.percent, 1), (1, 100)
        return _slider("goal_percent", "At least", value, limits, step=0.1)
    label = "Of today's time" if start.is_job else "Of today's best time"
    value = nearest_goal_percent(start.goal, float(best["io_time_s"]))
    return _slider("goal_percent", label, value, GOAL_LIMITS_PERCENT, step=0.1)


def nearest_goal_percent(goal: Goal, best_s: float) -> float:
    """Return the position of the goal's slider that is nearest to a goal.

    Parameters
    ----------
    goal : Goal
        The goal.
    best_s : float
        The best I/O time without improvement, which is 100 %.
    """
    least, most = GOAL_LIMITS_PERCENT
    percent = 100 * goal.io_time_s / best_s if best_s else most
    return min(max(round(percent, 1), least), most)


def _choice(
    name: str, label: str, value: Any, options: Iterable, labels: Iterable[str]
) -> alt.Parameter:
    """Return a parameter with a list, placed in the page's element of that name."""
    bind = alt.binding_select(
        options=list(options), labels=list(labels), name=label, element=f"#{name}"
    )
    return alt.param(name=name, value=value, bind=bind)


def _slider(
    name: str, label: str, value: float, limits: tuple[int, int], step: float = 1
) -> alt.Parameter:
    """Return a parameter with a slider, placed in the page's element of that name."""
    bind = alt.binding_range(
        min=limits[0], max=limits[1], step=step, name=label, element=f"#{name}"
    )
    return alt.param(name=name, value=value, bind=bind)
