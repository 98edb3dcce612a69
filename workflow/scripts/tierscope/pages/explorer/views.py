"""Draw the explorer's three views with Altair; the page computes their tables.

Altair draws each mark. The marks are joined here, because `alt.layer` and its like copy
all that they join: half of the processor time of a page of two scenarios.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from tierscope.core.io_class import IOClass
from tierscope.pages.explorer.data import Start

TODAY, IMPROVED = "today", "with the improvements"
BY_THE_RULE, BY_THE_MODEL = "improved, by the rule", "improved, by the model"

_FONT = 'system-ui, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif'
_GOAL_COLOUR, _TODAY_COLOUR, _IMPROVED_COLOUR = "#9A2A7B", "#777777", "#222222"
_MODEL_COLOUR, _MET_COLOUR = "#0B7A3B", "#31688E"
BAR_EDGES = -0.85, -0.1, 0.1, 0.85  # of the two bars of a job
# Of the fields of view a, if the goal is one of utilisation.
_PERCENTAGES = {"time_s": "utilisation_percent", "goal_s": "goal_percent"}
_HALO = {"stroke": "white", "strokeWidth": 4, "strokeJoin": "round"}
_STAR = (
    "M0,-1L0.225,-0.309L0.951,-0.309L0.363,0.118L0.588,0.809L0,0.382"
    "L-0.588,0.809L-0.363,0.118L-0.951,-0.309L-0.225,-0.309Z"
)


def map_chart(start: Start) -> str:
    """Return what the map is called; most pages have two charts before it."""
    return "chart b" if start.is_job or start.is_utilisation else "chart c"


def page_views(start: Start, *, has_model: bool) -> dict[str, Any]:
    """Return the Vega-Lite specification of the views, which lacks their tables.

    There are three views. The page of a job lacks the first, I/O time over the cache
    rate. With a goal of utilisation, that is its view, and there is no breakdown.
    """
    first = [] if start.is_job else [_times_view(has_model, start)]
    second = [] if start.is_utilisation else [_breakdown_view(start)]
    own_colours = {"scale": {"color": "independent"}}
    return {
        "config": {
            "font": _FONT,
            "axis": {
                "labelFontSize": 12,
                "titleFontSize": 12,
                "titleFontWeight": "normal",
                "gridColor": "#e6e6e6",
                "domainColor": "#888",
                "tickColor": "#888",
            },
            "legend": {
                "labelFontSize": 12,
                "titleFontSize": 12,
                "titleFontWeight": "normal",
            },
            "title": {
                "anchor": "start",
                "frame": "bounds",
                "fontSize": 14,
                "subtitleFontSize": 12,
                "subtitleColor": "#555",
                "offset": 8,
            },
            "view": {"stroke": None},
        },
        "hconcat": [
            {
                "vconcat": [*first, *second],
                "resolve": own_colours,
                "spacing": 16,
            },
            _map_view(start),
        ],
        "resolve": {"scale": own_colours["scale"] | {"shape": "independent"}},
        "spacing": 30,
    }


def _layer(*marks: alt.Chart, **properties: Any) -> dict[str, Any]:
    """Return the specification of a view with these marks, one above the other."""
    one = {"top_level": False}
    return {"layer": [mark.to_dict(context=one) for mark in marks], **properties}


def _cache_rate_axis(field: str, start: Start) -> alt.X:
    """Return the x axis of the first two views."""
    return alt.X(
        f"{field}:Q",
        title=start.origin.cache_rate_label,
        scale=alt.Scale(domain=alt.ExprRef("rate_limits"), nice=False, zero=False),
        axis=alt.Axis(grid=False),
    )


def _job_axis() -> alt.X:
    """Return the x axis of the two bars of a job: today, and with the improvements."""
    left, right = (math.fsum(edges) / 2 for edges in (BAR_EDGES[:2], BAR_EDGES[2:]))
    return alt.X(
        "left:Q",
        title=None,
        scale=alt.Scale(domain=[-1, 1], nice=False, zero=False),
        axis=alt.Axis(
            values=[left, right],
            labelExpr=f"datum.value < 0 ? '{TODAY}' : '{IMPROVED}'",
            grid=False,
            ticks=False,
        ),
    )


def _value_axis(field: str, start: Start) -> alt.Y:
    """Return the y axis of the first two views, which have the same range.

    `field` is a time; with a goal of utilisation it is a percentage instead.
    """
    title, domain, ticks = "I/O time (s)", "[0, top_s]", {"tickCount": 6}
    if start.is_utilisation:
        field = _PERCENTAGES[field]
        title, domain = "Accelerator utilisation (%)", "[0, 125]"  # room for labels
        ticks = {"values": list(range(0, 101, 20))}
    return alt.Y(
        f"{field}:Q",
        title=title,
        scale=alt.Scale(domain=alt.ExprRef(domain), nice=False),
        axis=alt.Axis(**ticks, minExtent=34),
    )


def _looked_at_rule(start: Start) -> alt.Chart:
    """Return the dotted line at the cache rate that is looked at."""
    return (
        alt.Chart(alt.NamedData("looked_at"))
        .mark_rule(strokeDash=[2, 3], stroke="#444")
        .encode(x=_cache_rate_axis("cache_rate_percent", start))
    )


def line_names(start: Start, *, has_model: bool) -> list[str]:
    """Return what view a calls its lines: today and each estimate."""
    if start.is_utilisation:
        return [TODAY, BY_THE_MODEL]
    return [TODAY, *([BY_THE_RULE, BY_THE_MODEL] if has_model else [IMPROVED])]


def _times_view(has_model: bool, start: Start) -> dict[str, Any]:
    """Return view a: I/O time over the cache rate, goal and best points."""
    names = line_names(start, has_model=has_model)
    colours = [_TODAY_COLOUR, _IMPROVED_COLOUR, _MODEL_COLOUR]
    title, height = "a  I/O time of the slowest process", 220
    if start.is_utilisation:
        del colours[1]
        title, height = "a  Accelerator utilisation", 410
    colour = alt.Color(
        "when:N",
        title=None,
        scale=alt.Scale(domain=names, range=colours[: len(names)]),
        legend=alt.Legend(
            orient="top",
            symbolType="stroke",
            symbolStrokeWidth=3,
            columns=alt.ExprRef(f"view_width < 400 ? 1 : {len(names)}"),
        ),
    )
    return _layer(
        *_lines(names, colour, start),
        _looked_at_rule(start),
        *_goal_marks(start),
        *_best_marks(len(names), colour, start),
        name="times",
        width=450,
        height=height,
        title=title,
    )


def _lines(names: Sequence[str], colour: alt.Color, start: Start) -> list[alt.Chart]:
    """Return the I/O time over the cache rate: today, improved, by the model."""
    lines = alt.Chart(alt.NamedData("lines")).encode(
        x=_cache_rate_axis("cache_rate_percent", start),
        y=_value_axis("time_s", start),
        color=colour,
    )
    dashes = alt.Scale(domain=names, range=[[1, 0], [1, 0], [6, 3]][: len(names)])
    errors = [_error_bars(lines, start)] if BY_THE_MODEL in names[2:] else []
    return [
        lines.mark_line(strokeWidth=2).encode(
            strokeDash=alt.StrokeDash("when:N", legend=None, scale=dashes)
        ),
        lines.mark_point(
            filled=True,
            size=45,
            opacity=1,
            cursor="pointer",
            description=alt.ExprRef("datum.words"),
        ).encode(tooltip=alt.Tooltip("words:N")),
        *errors,
    ]


def _error_bars(lines: alt.Chart, start: Start) -> alt.Chart:
    """Return the intervals of what the model estimates; the other lines have none."""
    ends = {"y": _value_axis("low_s", start), "y2": "high_s:Q"}
    return lines.mark_rule(strokeWidth=1.5, opacity=0.6).encode(**ends)


def _goal_marks(start: Start) -> list[alt.Chart]:
    """Return the line of the goal and its label."""
    goal = alt.Chart(alt.NamedData("goal")).encode(y=_value_axis("goal_s", start))
    label = {
        "text": alt.ExprRef("'goal ' + goal_text"),
        "x": alt.ExprRef("goal_side == 'left' ? 4 : view_width - 4"),
        "align": alt.ExprRef("goal_side"),
        "dy": -8,
        "fontSize": 12,
    }
    return [
        goal.mark_rule(stroke=_GOAL_COLOUR, strokeDash=[7, 4], strokeWidth=1.5),
        goal.mark_text(**label, **_HALO),
        goal.mark_text(**label, fill=_GOAL_COLOUR),
    ]


def _best_marks(n_lines: int, colour: alt.Color, start: Start) -> list[alt.Chart]:
    """Return the best point of each line, with its label above the plot."""
    time_s = _value_axis("time_s", start)
    best = alt.Chart(alt.NamedData("best_marks")).encode(
        x=_cache_rate_axis("cache_rate_percent", start)
    )
    label = {
        "text": alt.ExprRef("datum.label"),
        "y": alt.ExprRef("8 + 17 * datum.line"),
        "align": alt.ExprRef(
            "datum.cache_rate_percent < rate_limits[0] + 15 ? 'left' : "
            "datum.cache_rate_percent > rate_limits[1] - 15 ? 'right' : 'center'"
        ),
        "fontSize": 13,
        "fontWeight": "bold",
    }
    below_labels = alt.value(15 + 17 * (n_lines - 1))
    return [
        best.mark_rule(opacity=0.5).encode(y=time_s, y2=below_labels, color=colour),
        best.mark_point(
            shape="diamond", size=150, filled=True, opacity=1, stroke="white"
        ).encode(y=time_s, color=colour),
        best.mark_text(**label, **_HALO),
        best.mark_text(**label).encode(color=colour),
    ]


def _breakdown_view(start: Start) -> dict[str, Any]:
    """Return view b: the slowest process after the improvements, by class.

    A job has two bars, one of them as it ran, and the goal.
    """
    labels = [start.labels[io_class] for io_class in IOClass]
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
        .mark_rect(
            cursor="default" if start.is_job else "pointer",
            description=alt.ExprRef("datum.words"),
        )
        .encode(
            x=_job_axis() if start.is_job else _cache_rate_axis("left", start),
            x2="right:Q",
            y=_value_axis("bottom_s", start),
            y2="end_s:Q",
            color=colour,
            tooltip=alt.Tooltip("words:N"),
        )
    )
    marks = _goal_marks(start) if start.is_job else [_looked_at_rule(start)]
    return _layer(
        bars,
        *marks,
        name="breakdown",
        width=450,
        height=300 if start.is_job else 220,
        title="=breakdown_title",
    )


def _map_view(start: Start) -> dict[str, Any]:
    """Return view c: the combinations of two improvements that meet the goal."""
    edges = cell_edges(start.grid)
    scale = alt.Scale(domain=[edges[0], edges[-1]], nice=False, zero=False)
    x = {"title": "=x_title", "scale": scale, "axis": alt.Axis(grid=False)}
    y = {
        "title": "=y_title",
        "scale": scale,
        "axis": alt.Axis(grid=False, minExtent=34),
    }
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
    texts = [rates.mark_text(**rate, **halo), rates.mark_text(**rate)]
    return _layer(
        _cells(x, y, start),
        *([] if start.is_job else texts),
        cheapest,
        sliders,
        name="cells",
        width=450,
        height=410,
        title={"text": "=map_title", "subtitle": "=map_subtitle"},
    )


def _cells(x: Mapping[str, Any], y: Mapping[str, Any], start: Start) -> alt.Chart:
    """Return the cells of the map: the least cache rate that meets the goal.

    Of a job, all cells that meet it have one colour.
    """
    rate = alt.Color(
        "min_cache_rate_percent:Q",
        title="least cache rate that meets the goal (%)",
        scale=alt.Scale(scheme="viridis", domain=alt.ExprRef("colour_limits")),
        legend=alt.Legend(
            orient="bottom",
            titleLimit=400,
            gradientLength=alt.ExprRef("view_width"),
        ),
    )
    met = alt.value(_MET_COLOUR) if start.is_job else rate
    return (
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
            color=alt.condition("datum.sufficient", met, alt.value("#dedede")),
        )
    )


def cell_edges(grid: Sequence[int]) -> list[float]:
    """Return where the cells around the values of a grid begin and end."""
    middles = [(low + high) / 2 for low, high in itertools.pairwise(grid)]
    return [2 * grid[0] - middles[0], *middles, 2 * grid[-1] - middles[-1]]
