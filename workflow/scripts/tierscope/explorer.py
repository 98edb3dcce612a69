"""Make the explorer: one HTML page in which a reader tries improvements.

Altair draws the views and declares the inputs. What they show is computed in the page,
by the Vega signals and data of `workflow/templates/explorer.vega.yaml`, which Python
joins to the compiled views: the texts, the views and the tests need its tables by name,
and Vega-Lite does not name what it makes. A few lines of JavaScript write the texts.

The rule is that of `tierscope.whatif`. Of every run and epoch the page holds the
processes that some position of the sliders makes the slowest (`slider_envelope`), so it
finds what `tierscope.whatif.estimate` finds among all of them.
"""

import html
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import Template
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import vl_convert
import yaml

from tierscope.breakdown import (
    CLASSES,
    RUN_EPOCH,
    SCENARIO,
    process_times,
    select_epoch,
    select_scenario,
    slowest_process,
)
from tierscope.io_class import IOClass
from tierscope.plot import (
    CACHE_RATE_LABEL,
    epoch_words,
    in_seconds,
    scenario_titles,
)
from tierscope.sources import source_note
from tierscope.whatif import (
    IMPROVEMENTS,
    Goal,
    best_point,
    improve,
    upper_envelope,
)

SIGNIFICANT_DIGITS = 11  # of an embedded time, so it is right within 5e-11 of itself
MAX_GRID_STEPS = 20  # along each axis of the map; more would be slow
GOAL_LIMITS_PERCENT = 1, 150  # of the best I/O time without improvement
TODAY, IMPROVED = "today", "with the improvements"

_FONT = 'system-ui, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif'
_GOAL_COLOUR, _TODAY_COLOUR, _IMPROVED_COLOUR = "#9A2A7B", "#777777", "#222222"
_STAR = (
    "M0,-1L0.225,-0.309L0.951,-0.309L0.363,0.118L0.588,0.809L0,0.382"
    "L-0.588,0.809L-0.363,0.118L-0.951,-0.309L-0.225,-0.309Z"
)
_EMBED_OPTIONS = {
    "mode": "vega",
    "renderer": "svg",
    "actions": {"export": True, "source": False, "compiled": False, "editor": False},
}


@dataclass(frozen=True)
class Start:
    """What the page shows when it is opened, and how far its sliders go.

    Parameters
    ----------
    scenario : mapping of str to str or int
        The keys of the scenario shown first.
    epoch : int
        The epoch shown first, counted from 0.
    goal : Goal
        The experiment's goal of that scenario and epoch.
    pair : pair of str
        The I/O classes on the x and the y axis of the map.
    max_improvement_percent, step_percent : int
        End of the sliders, and step of the experiment's grid; that of the map is a
        multiple of it if the map would have more than `MAX_GRID_STEPS`.
    cost_per_percent : mapping of str to float
        What one percent of improvement of each class costs.
    """

    scenario: Mapping[str, str | int]
    epoch: int
    goal: Goal
    pair: Sequence[str]
    max_improvement_percent: int
    step_percent: int
    cost_per_percent: Mapping[str, float]

    @property
    def grid_step_percent(self) -> int:
        """Return the step of the map in percent."""
        n_steps = self.max_improvement_percent // self.step_percent
        return self.step_percent * max(1, math.ceil(n_steps / MAX_GRID_STEPS))

    @property
    def grid(self) -> list[int]:
        """Return the improvements on each axis of the map, in percent.

        The last step is shorter if the end of the experiment's grid asks for it.
        """
        end = self.max_improvement_percent // self.step_percent * self.step_percent
        return [*range(0, end, self.grid_step_percent), end]


def slider_envelope(times_s: np.ndarray, max_improvement_percent: int) -> np.ndarray:
    """Return the processes that some position of the sliders makes the slowest.

    The sliders multiply a class by a factor between 100 / (100 + maximum) and 1. A
    process of the upper envelope is left out if another one is slower whatever these
    factors are: even where the classes in which the other is slower have the least
    factor, and those in which it is faster have factor 1.

    Parameters
    ----------
    times_s : ndarray, shape (n_processes, 4)
        I/O time in seconds, by class; ordered by rank.
    max_improvement_percent : int
        End of the four sliders.

    Returns
    -------
    ndarray of int
        Rows of the processes that stay, ascending.
    """
    rows = upper_envelope(times_s)
    envelope_s = times_s[rows]
    least_factor = improve(1.0, max_improvement_percent)
    stays = np.empty(len(rows), dtype=bool)
    for number, process_s in enumerate(envelope_s):
        slower_s = envelope_s - process_s
        least_s = np.where(slower_s > 0, least_factor * slower_s, slower_s).sum(axis=1)
        stays[number] = not (least_s > 0).any()
    return rows[stays]


def embedded_points(
    io_time: pd.DataFrame, scenarios: pd.DataFrame, max_improvement_percent: int
) -> list[dict[str, Any]]:
    """Return what the page holds of every point of the sweep.

    Parameters
    ----------
    io_time : DataFrame, shape (n_processes * 4, 14)
        Table ``io_time``.
    scenarios : DataFrame
        Its scenarios, as made by `tierscope.plot.scenario_titles`.
    max_improvement_percent : int
        End of the sliders.

    Returns
    -------
    list of dict
        For each scenario, epoch and cache rate ``scenario`` (a row of the scenarios),
        ``epoch``, ``cache_rate_percent``, ``repetitions`` (their number), and by I/O
        class the seconds of the processes of the slider envelope of each repetition.
        These lists are equally long everywhere: idle processes and repetitions fill
        them up.
    """
    processes, times_s = process_times(io_time)
    numbers = {row: number for number, row in _rows(scenarios[SCENARIO])}
    envelopes: dict[tuple, list[np.ndarray]] = {}
    for keys, rows in processes.groupby(RUN_EPOCH, sort=True).indices.items():
        run = dict(zip(RUN_EPOCH, keys, strict=True))
        envelope = slider_envelope(times_s[rows], max_improvement_percent)
        point = numbers[tuple(run[key] for key in SCENARIO)], run["epoch"]
        point = (*point, run["cache_rate_percent"])
        envelopes.setdefault(point, []).append(times_s[rows][envelope])
    n_repetitions = max(map(len, envelopes.values()))
    n_processes = max(len(run_s) for runs in envelopes.values() for run_s in runs)
    points = []
    for (scenario, epoch, cache_rate_percent), runs in envelopes.items():
        filled_s = np.zeros((len(CLASSES), n_repetitions, n_processes))
        for repetition, run_s in enumerate(runs):
            filled_s[:, repetition, : len(run_s)] = run_s.T
        points.append(
            {
                "scenario": scenario,
                "epoch": int(epoch),
                "cache_rate_percent": int(cache_rate_percent),
                "repetitions": len(runs),
                **{
                    io_class: [[_short(time_s) for time_s in run] for run in class_s]
                    for io_class, class_s in zip(
                        CLASSES, filled_s.tolist(), strict=True
                    )
                },
            }
        )
    return points


def _rows(table: pd.DataFrame) -> Iterable[tuple[int, tuple]]:
    """Return number and values of each row of a table."""
    return enumerate(table.itertuples(index=False, name=None))


def _short(time_s: float) -> float:
    """Return a time without the digits that nobody needs."""
    rounded_s = float(f"{time_s:.{SIGNIFICANT_DIGITS}g}")
    return int(rounded_s) if rounded_s.is_integer() else rounded_s


def build_explorer(
    io_time: pd.DataFrame,
    start: Start,
    *,
    page: str,
    computation: str,
    title: str,
    provenance: str,
    dataset_titles: Mapping[str, str] | None = None,
) -> str:
    """Build the explorer, a page that needs no network and no other file.

    Parameters
    ----------
    io_time : DataFrame, shape (n_processes * 4, 14)
        Table ``io_time``; the page lists its scenarios in the order of its rows.
    start : Start
        What the page shows first.
    page, computation : str
        The templates `workflow/templates/explorer.html` and ``explorer.vega.yaml``.
    title, provenance : str
        What the page is about, and where its numbers come from.
    dataset_titles : mapping of str to str, optional
        What to call each dataset.

    Returns
    -------
    str
        HTML; the same arguments give the same text.

    Raises
    ------
    ValueError
        If the table is empty or lacks the scenario or the epoch to start with.
    """
    if io_time.empty:
        raise ValueError("explorer: got an empty table io_time, expected some runs.")
    shown = select_epoch(select_scenario(io_time, start.scenario), start.epoch)
    best = best_point(slowest_process(shown)).iloc[0]
    scenarios = scenario_titles(io_time, dataset_titles)
    points = embedded_points(io_time, scenarios, start.max_improvement_percent)
    sources = sorted(set(io_time["source"]))
    unmeasured = [source for source in sources if source != "measured"]
    texts = {
        "title": f"{title} ({', '.join(unmeasured)})" if unmeasured else title,
        "provenance": provenance,
        "source_words": " ".join(map(source_note, sources)),
        "repetition_words": _repetition_words(io_time["repetition"].nunique()),
        "cost_words": _cost_words(start.cost_per_percent),
        "goal_words": _goal_words(start, float(best["io_time_s"])),
        "grid_words": _grid_words(start),
    }
    return Template(page).substitute(
        {name: html.escape(text) for name, text in texts.items()},
        class_styles=_class_styles(),
        class_inputs="\n".join(f'<div id="{name}"></div>' for name in IMPROVEMENTS),
        javascript=vl_convert.javascript_bundle(),
        spec=_script_json(_specification(points, scenarios, best, start, computation)),
        options=_script_json(_EMBED_OPTIONS),
    )


def _repetition_words(n_repetitions: int) -> str:
    """Return how repetitions are summarised, if there are any."""
    if n_repetitions == 1:
        return ""
    return (
        f"Times are means over {n_repetitions} repetitions; the slowest process is "
        "picked in each of them."
    )


def _cost_words(cost_per_percent: Mapping[str, float]) -> str:
    """Return what the classes cost, such as ``1 for GFS-READ, ...``."""
    return ", ".join(
        f"{cost_per_percent[io_class]:g} for {io_class.label}" for io_class in IOClass
    )


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


def _goal_words(start: Start, best_s: float) -> str:
    """Return the experiment's goal, and where on the slider it is."""
    goal = start.goal
    words = f"The experiment's goal: {in_seconds(goal.seconds)} of "
    if goal.of == "io_time":
        words += "I/O time"
    else:
        words += (
            f"execution time, less {in_seconds(goal.difference_s)} that are not I/O = "
            f"{in_seconds(goal.io_time_s)} of I/O time"
        )
    words += f" in the {epoch_words(start.epoch)} of the scenario shown first"
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
        f"Chart c has steps of {start.grid_step_percent} %, a coarser grid than the "
        f"{start.step_percent} % of Fig. 4 and of the search, so its cheapest can be "
        "another one."
    )


def _class_styles() -> str:
    """Return CSS that gives each class's slider the colour of the class."""
    return "\n".join(
        f"#{name} {{ border-left: 8px solid {io_class.colour}; padding-left: 8px; "
        f"accent-color: {io_class.colour}; }}"
        for name, io_class in zip(IMPROVEMENTS, IOClass, strict=True)
    )


def _script_json(value: Any) -> str:
    """Return compact JSON that cannot end the script element it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("</", "<\\/")


def _specification(
    points: Sequence[Mapping[str, Any]],
    scenarios: pd.DataFrame,
    best: pd.Series,
    start: Start,
    computation: str,
) -> dict[str, Any]:
    """Return the page's Vega specification: compiled views, inputs and computation."""
    spec = _compiled(_views(start).add_params(*_inputs(points, scenarios, best, start)))
    computed = yaml.safe_load(Template(computation).substitute(_names(points, start)))
    (table,) = (table for table in computed["data"] if table["name"] == "sweep")
    table["values"] = list(points)
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


def _compiled(views: alt.HConcatChart) -> dict[str, Any]:
    """Return the Vega specification of Altair's views."""
    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    return vl_convert.vegalite_to_vega(views.to_dict(), vl_version=version)


def _names(points: Sequence[Mapping[str, Any]], start: Start) -> dict[str, str]:
    """Return the values of the dollar names of the computation."""
    n_repetitions, n_processes = np.shape(points[0][CLASSES[0]])
    rates = sorted({point["cache_rate_percent"] for point in points})
    # A repetition is @, a process is #.
    slowest = " + ".join(f"datum.{c}[@][#] * datum.{c}_factor" for c in CLASSES)
    slowest = f"max({_each(n_processes, '#', slowest)})"
    sums = {
        "today_sums": " + ".join(f"datum.{c}[#]" for c in CLASSES),
        "improved_sums": " + ".join(f"datum.{c}[#] * {c}_factor" for c in CLASSES),
    }
    sums = {name: _each(n_processes, "#", term) for name, term in sums.items()}
    sums["map_maxima"] = _each(n_repetitions, "@", slowest, " + ")
    costs = {str(key): value for key, value in start.cost_per_percent.items()}
    improvements = zip(CLASSES, IMPROVEMENTS, strict=True)
    return sums | {
        "rate_limits": str([rates[0] - 4, rates[-1] + 4]),
        "labels": str({c: IOClass(c).label for c in CLASSES}),
        "class_list": str(CLASSES),
        "cost": str(costs),
        "improvements": ", ".join(f"{c}: {name}" for c, name in improvements),
        "half_width": str(0.4 * float(np.diff(rates).min(initial=10))),
        "n_grid": str(len(start.grid)),
        "grid": str(start.grid),
        "grid_edges": str(_edges(start.grid)),
    }


def _edges(grid: Sequence[int]) -> list[float]:
    """Return where the cells around the values of a grid begin and end."""
    middles = [(low + high) / 2 for low, high in itertools.pairwise(grid)]
    return [2 * grid[0] - middles[0], *middles, 2 * grid[-1] - middles[-1]]


def _each(n: int, mark: str, term: str, joint: str = ", ") -> str:
    """Write a term n times, with its number in place of the mark."""
    return joint.join(term.replace(mark, str(number)) for number in range(n))


def _with_clicks(signal: dict[str, Any]) -> dict[str, Any]:
    """Return an input's signal that a click on a mark sets, too."""
    name, click = signal["name"], None
    if name == "cache_rate_percent":
        marks = "@breakdown_layer_0_marks:click, @times_layer_0_layer_1_marks:click"
        click = {"events": marks, "update": "datum.cache_rate_percent"}
    elif name in IMPROVEMENTS:
        io_class = CLASSES[IMPROVEMENTS.index(name)]
        update = (
            f"x_class == '{io_class}' ? datum.x_percent : "
            f"y_class == '{io_class}' ? datum.y_percent : {name}"
        )
        click = {"events": "@cells_layer_0_marks:click", "update": update}
    return signal | {"on": [click]} if click else signal


def _with_signals(value: Any) -> Any:
    """Replace texts such as ``=goal_s`` by signals: Vega-Lite takes no other title."""
    if isinstance(value, dict):
        return {key: _with_signals(item) for key, item in value.items()}
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
) -> list[alt.Parameter]:
    """Return the page's inputs: native sliders and lists, bound to parameters."""
    numbers = {row: number for number, row in _rows(scenarios[SCENARIO])}
    epochs = sorted({point["epoch"] for point in points})
    rates = sorted({point["cache_rate_percent"] for point in points})
    labels = [io_class.label for io_class in IOClass]
    return [
        _choice(
            "scenario",
            "Scenario",
            numbers[tuple(best[SCENARIO])],
            numbers.values(),
            scenarios.title,
        ),
        _choice("epoch", "Epoch", start.epoch, epochs, map(epoch_words, epochs)),
        _slider(
            "cache_rate_percent",
            "Cache rate to look at",
            int(best["cache_rate_percent"]),
            (rates[0], rates[-1]),
            step=math.gcd(*(rate - rates[0] for rate in rates)) or 1,
        ),
        *(
            _slider(name, label, 0, (0, start.max_improvement_percent))
            for name, label in zip(IMPROVEMENTS, labels, strict=True)
        ),
        _slider(
            "goal_percent",
            "Of today's best time",
            nearest_goal_percent(start.goal, float(best["io_time_s"])),
            GOAL_LIMITS_PERCENT,
            step=0.1,
        ),
        _choice("x_class", "Across", str(start.pair[0]), CLASSES, labels),
        _choice("y_class", "Upwards", str(start.pair[1]), CLASSES, labels),
    ]


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


def _views(start: Start) -> alt.HConcatChart:
    """Return the three views; their tables are those of the computation."""
    return (
        alt.hconcat(
            alt.vconcat(_times_view(), _breakdown_view(), spacing=16).resolve_scale(
                color="independent"
            ),
            _map_view(start),
            spacing=30,
        )
        .resolve_scale(color="independent", shape="independent")
        .configure(
            font=_FONT,
            axis=alt.AxisConfig(
                labelFontSize=12,
                titleFontSize=12,
                titleFontWeight="normal",
                gridColor="#e6e6e6",
                domainColor="#888",
                tickColor="#888",
            ),
            legend=alt.LegendConfig(
                labelFontSize=12, titleFontSize=12, titleFontWeight="normal"
            ),
            title=alt.TitleConfig(
                anchor="start",
                frame="bounds",
                fontSize=14,
                subtitleFontSize=12,
                subtitleColor="#555",
                offset=8,
            ),
            view=alt.ViewConfig(stroke=None),
        )
    )


def _cache_rate_axis(field: str) -> alt.X:
    """Return the x axis of the first two views."""
    return alt.X(
        f"{field}:Q",
        title=CACHE_RATE_LABEL,
        scale=alt.Scale(domain=alt.ExprRef("rate_limits"), nice=False, zero=False),
        axis=alt.Axis(grid=False),
    )


def _seconds_axis(field: str) -> alt.Y:
    """Return the y axis of the first two views; both have the same range."""
    return alt.Y(
        f"{field}:Q",
        title="I/O time (s)",
        scale=alt.Scale(domain=alt.ExprRef("[0, top_s]"), nice=False),
        axis=alt.Axis(tickCount=6, minExtent=34),
    )


def _looked_at_rule() -> alt.Chart:
    """Return the dotted line at the cache rate that is looked at."""
    return (
        alt.Chart(alt.NamedData("looked_at"))
        .mark_rule(strokeDash=[2, 3], stroke="#444")
        .encode(x=_cache_rate_axis("cache_rate_percent"))
    )


def _times_view() -> alt.LayerChart:
    """Return view a: I/O time over the cache rate, goal and best points."""
    colour = alt.Color(
        "when:N",
        title=None,
        scale=alt.Scale(
            domain=[TODAY, IMPROVED], range=[_TODAY_COLOUR, _IMPROVED_COLOUR]
        ),
        legend=alt.Legend(orient="top", symbolType="stroke", symbolStrokeWidth=3),
    )
    rate, time_s = _cache_rate_axis("cache_rate_percent"), _seconds_axis("time_s")
    lines = alt.Chart(alt.NamedData("lines")).encode(x=rate, y=time_s, color=colour)
    goal = alt.Chart(alt.NamedData("goal")).encode(y=_seconds_axis("goal_s"))
    best = alt.Chart(alt.NamedData("best_marks")).encode(x=rate)
    best_label = {
        "text": alt.ExprRef("datum.label"),
        "y": alt.ExprRef(f"datum.when == '{TODAY}' ? 8 : 25"),
        "align": alt.ExprRef(
            "datum.cache_rate_percent < rate_limits[0] + 15 ? 'left' : "
            "datum.cache_rate_percent > rate_limits[1] - 15 ? 'right' : 'center'"
        ),
        "fontSize": 13,
        "fontWeight": "bold",
    }
    goal_label = {
        "text": alt.ExprRef("'goal ' + goal_text"),
        "x": alt.ExprRef("goal_side == 'left' ? 4 : view_width - 4"),
        "align": alt.ExprRef("goal_side"),
        "dy": -8,
        "fontSize": 12,
    }
    halo = {"stroke": "white", "strokeWidth": 4, "strokeJoin": "round"}
    return (
        alt.layer(
            alt.layer(
                lines.mark_line(strokeWidth=2),
                lines.mark_point(
                    filled=True,
                    size=45,
                    opacity=1,
                    cursor="pointer",
                    description=alt.ExprRef("datum.words"),
                ).encode(tooltip=alt.Tooltip("words:N")),
            ),
            _looked_at_rule(),
            goal.mark_rule(stroke=_GOAL_COLOUR, strokeDash=[7, 4], strokeWidth=1.5),
            goal.mark_text(**goal_label, **halo),
            goal.mark_text(**goal_label, fill=_GOAL_COLOUR),
            best.mark_rule(opacity=0.5).encode(
                y=time_s, y2=alt.value(32), color=colour
            ),
            best.mark_point(
                shape="diamond", size=150, filled=True, opacity=1, stroke="white"
            ).encode(y=time_s, color=colour),
            best.mark_text(**best_label, **halo),
            best.mark_text(**best_label).encode(color=colour),
        )
        .resolve_scale(color="shared")
        .properties(
            name="times",
            width=450,
            height=220,
            title=alt.Title("a  I/O time of the slowest process"),
        )
    )


def _breakdown_view() -> alt.LayerChart:
    """Return view b: the slowest process after the improvements, by class."""
    labels = [io_class.label for io_class in IOClass]
    colour = alt.Color(
        "io_class:N",
        title=None,
        scale=alt.Scale(domain=labels, range=[c.colour for c in IOClass]),
        legend=alt.Legend(
            orient="top",
            symbolType="square",
            columns=alt.ExprRef("view_width < 330 ? 2 : 4"),
        ),
    )
    bars = (
        alt.Chart(alt.NamedData("breakdown"))
        .mark_rect(cursor="pointer", description=alt.ExprRef("datum.words"))
        .encode(
            x=_cache_rate_axis("left"),
            x2="right:Q",
            y=_seconds_axis("bottom_s"),
            y2="end_s:Q",
            color=colour,
            tooltip=alt.Tooltip("words:N"),
        )
    )
    return alt.layer(bars, _looked_at_rule()).properties(
        name="breakdown",
        width=450,
        height=220,
        title=alt.Title("b  By class, with the improvements"),
    )


def _map_view(start: Start) -> alt.LayerChart:
    """Return view c: the combinations of two improvements that meet the goal."""
    edges = _edges(start.grid)
    scale = alt.Scale(domain=[edges[0], edges[-1]], nice=False, zero=False)
    x = {"title": "=x_title", "scale": scale, "axis": alt.Axis(grid=False)}
    y = {
        "title": "=y_title",
        "scale": scale,
        "axis": alt.Axis(grid=False, minExtent=34),
    }
    cells = (
        alt.Chart(alt.NamedData("cells"))
        .mark_rect(
            stroke="white",
            strokeWidth=0.5,
            cursor="pointer",
            description=alt.ExprRef("datum.words"),
        )
        .encode(
            x=alt.X("left:Q", **x),
            x2="right:Q",
            y=alt.Y("low:Q", **y),
            y2="high:Q",
            tooltip=alt.Tooltip("words:N"),
            color=alt.condition(
                "datum.sufficient",
                alt.Color(
                    "min_cache_rate_percent:Q",
                    title="least cache rate that meets the goal (%)",
                    scale=alt.Scale(
                        scheme="viridis", domain=alt.ExprRef("colour_limits")
                    ),
                    legend=alt.Legend(
                        orient="bottom",
                        titleLimit=400,
                        gradientLength=alt.ExprRef("view_width"),
                    ),
                ),
                alt.value("#dedede"),
            ),
        )
    )
    position = {"x": alt.X("x_percent:Q", **x), "y": alt.Y("y_percent:Q", **y)}
    cheapest = (
        alt.Chart(alt.NamedData("cheapest"))
        .mark_point(shape=_STAR, size=180, filled=True, opacity=1)
        .encode(**position, color=alt.value("white"), stroke=alt.value("black"))
    )
    sliders = (
        alt.Chart(alt.NamedData("sliders"))
        .mark_point(size=160, strokeWidth=3, opacity=1)
        .encode(**position, color=alt.value("black"))
    )
    rates = alt.Chart(alt.NamedData("rates")).encode(**position)
    rate = {"text": alt.ExprRef("datum.label"), "fontSize": 12, "fontWeight": "bold"}
    halo = {"stroke": "white", "strokeWidth": 3, "strokeJoin": "round"}
    return alt.layer(
        cells,
        rates.mark_text(**rate, **halo),
        rates.mark_text(**rate),
        cheapest,
        sliders,
    ).properties(
        name="cells",
        width=450,
        height=410,
        title=alt.Title(
            "=map_title",
            subtitle=[
                "Grey: no cache rate meets it. Star: cheapest.",
                "Circle: the sliders; click to set them.",
                "Other classes: as set by their sliders.",
            ],
        ),
    )
