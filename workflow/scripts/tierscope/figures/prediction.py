"""Draw predicted and measured I/O time, the errors, and the shares of the classes."""

import textwrap
from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tierscope.analysis.intervals import LEVEL_PERCENT
from tierscope.analysis.predicted_epochs import worst_words
from tierscope.analysis.prediction import (
    SCALING,
    compare_points,
    held_words,
    study_words,
)
from tierscope.core.columns import SCENARIO
from tierscope.core.io_class import IOClass
from tierscope.core.output.declared import Declared
from tierscope.core.provenance import Origin
from tierscope.core.studies import AS_WRITTEN
from tierscope.core.words import scenario_titles
from tierscope.figures.given_runs import Given
from tierscope.figures.style import (
    class_handles,
    distances,
    draw_legend,
    set_cache_rate_axis,
    styled,
    titled,
    write_around,
)

FIGURE = Declared(
    file="prediction",
    title="Predicted and measured I/O time",
    folder="predict",
    tables=("predictions", "prediction_errors"),
    in_report="on request",
)

_STUDY = [*SCENARIO, "calibration"]
_LABELS = {
    "bounds": "bounds",
    "mva": "MVA",
    "order-statistics": "order statistics",
    "simulation": "simulation",
    SCALING: "scaling",
}
# None is the colour of an I/O class; the dashes distinguish the lines without colour.
_LINES = {
    "bounds": {"color": "#999999", "linestyle": ":"},
    "mva": {"color": "#555555", "linestyle": (0, (6, 2, 1, 2))},
    "order-statistics": {"color": "#CC79A7", "linestyle": (0, (5, 2))},
    "simulation": {"color": "#009E73", "linestyle": "-"},
    SCALING: {"color": "#882255", "linestyle": (0, (1, 1.5))},
}
_MEASURED = {"color": "#222222", "marker": "o", "markersize": 4.5, "linestyle": ""}
_CALIBRATED = {
    "color": "#222222",
    "marker": "s",
    "markersize": 10,
    "markerfacecolor": "none",
    "markeredgewidth": 1.3,
    "linestyle": "",
}
_INTERVAL = {"color": "#009E73", "alpha": 0.15, "linewidth": 0}
_SPREAD = {"color": "#222222", "alpha": 0.12, "linewidth": 0}
_SHARES = {"color": "#000000", "marker": "_", "markeredgewidth": 1.8, "linestyle": ""}
_NO_BREAK = "\N{NO-BREAK SPACE}"
_PANEL_CHARACTERS = 48  # that fit above a panel
_LEAST_ERROR_PERCENT = 10  # of the axis of errors, to each side


def draw(given: Given) -> Figure:
    """Draw the predictions of all models."""
    return plot_prediction(*map(given.table, FIGURE.tables), **given.words)


@styled
def plot_prediction(
    predictions: pd.DataFrame,
    errors: pd.DataFrame,
    *,
    provenance: Origin,
    dataset_titles: Mapping[str, str] | None = None,
) -> Figure:
    """Draw the predictions of models beside the measurements.

    Parameters
    ----------
    predictions, errors : DataFrame
        Tables ``predictions`` and ``prediction_errors``; a panel for each scenario
        and calibration in the order of the rows of ``errors``.
    provenance : Origin
        Where the measurements come from, written below the panels.
    dataset_titles : mapping of str to str, optional
        What to call each dataset.

    Returns
    -------
    Figure
        Points: measured I/O time of the slowest process, mean over repetitions and
        epochs, with the interval of the mean as error bars, and squares
        around those that the calibration was fitted to; lines: predictions, except for
        Schweitzer's and exact MVA, which the tables hold. The title names the errors at
        the other cache rates. Below: the error of each model over that
        interval as a band, cut off where the error of simple scaling is
        larger than that of all models; and bars of the measured shares of the I/O
        classes, with marks at the borders that the finest model predicts. Each panel
        has its own y range.
    """
    titles = scenario_titles(errors, dataset_titles).set_index(SCENARIO)["title"]
    studies = list(errors.groupby(_STUDY, sort=False))
    models = [model for model in _LINES if model in set(errors["model"])]
    finest = [model for model in models if model != SCALING][-1]
    n_columns = 2 if len(studies) in (2, 4) else min(len(studies), 3)
    n_rows = -(-len(studies) // n_columns)
    width = {1: 7.4, 2: 10.2, 3: 13.6}[n_columns]
    figure = Figure(figsize=(width, 0.9 + 5.9 * n_rows), layout="constrained")
    axes = figure.subplots(
        3 * n_rows, n_columns, height_ratios=[3, 1.4, 1.2] * n_rows, squeeze=False
    )
    axes = axes.reshape(n_rows, 3, n_columns).swapaxes(1, 2).reshape(-1, 3)
    for unused in axes[len(studies) :].ravel():
        unused.remove()
    truth = "simulated" if (errors["source"] == "simulated").all() else "measured"
    title = f"Predicted and {truth} I/O time of the slowest process"
    notes = [
        f"Source of the {truth} times: {provenance}; means over repetitions and epochs",
        "MAPE: mean absolute percentage error over the cache rates that were not used "
        "for the fit.",
    ]
    write_around(figure, titled(title, errors, provenance), notes)
    for (upper, middle, lower), (keys, study) in zip(axes, studies, strict=False):
        panel = predictions.merge(study[_STUDY].drop_duplicates(), on=_STUDY)
        points = compare_points(panel)
        _draw_times(upper, points, models)
        _draw_shares(lower, panel[panel["model"] == finest])
        for ax in (upper, middle, lower):
            set_cache_rate_axis(ax, panel["cache_rate_percent"], provenance)
        for ax in (upper, middle):
            ax.set_xlabel("")
            ax.tick_params(labelbottom=False)
        _draw_errors(middle, points, models)
        upper.set_ylabel("I/O time of the\nslowest process (s)")
        lower.set(ylabel="Share (%)", ylim=(0, 100))
        lower.set_yticks([0, 50, 100])
        words = _study_title(titles.loc[keys[: len(SCENARIO)]], study)
        upper.set_title(words, loc="left", fontsize=8.5, linespacing=1.3)
    borders = Line2D(
        [], [], **_SHARES, markersize=13, label=f"borders by\n{_LABELS[finest]}"
    )
    draw_legend(
        figure, [*_time_handles(predictions, models, truth), *class_handles(), borders]
    )
    return figure


def _draw_times(ax: Axes, points: pd.DataFrame, models: list[str]) -> None:
    """Draw measured I/O times and the line of each model."""
    for model in models:
        line = points[points["model"] == model]
        ax.plot("cache_rate_percent", "predicted_s", data=line, lw=1.7, **_LINES[model])
        if line["predicted_low_s"].notna().any():
            ends_s = line["predicted_low_s"], line["predicted_high_s"]
            ax.fill_between(line["cache_rate_percent"], *ends_s, **_INTERVAL)
    measured = points.drop_duplicates("cache_rate_percent")
    rates = measured["cache_rate_percent"]
    mean_s = measured["measured_s"]
    ends_s = [mean_s - measured["measured_low_s"], measured["measured_high_s"] - mean_s]
    low_s, high_s = measured["measured_low_s"], measured["measured_high_s"]
    ends_s = distances(mean_s, low_s, high_s)
    ax.errorbar(rates, mean_s, ends_s, **_MEASURED, capsize=2.5, elinewidth=1.1)
    calibrated = measured[~measured["held_out"]]
    ax.plot("cache_rate_percent", "measured_s", data=calibrated, **_CALIBRATED)
    ax.set_ylim(bottom=0)


def _draw_errors(ax: Axes, points: pd.DataFrame, models: list[str]) -> None:
    """Draw the error of each model over the interval of the measurements."""
    measured = points.drop_duplicates("cache_rate_percent")
    rates = measured["cache_rate_percent"]
    low, high = (
        100 * (measured[f"measured_{end}_s"] / measured["measured_s"] - 1)
        for end in ("low", "high")
    )
    ax.fill_between(rates, low.fillna(0), high.fillna(0), **_SPREAD)
    ax.axhline(0, color="#222222", linewidth=0.8)
    for model in models:
        line = points[points["model"] == model]
        ax.plot(
            "cache_rate_percent", "error_percent", data=line, lw=1.4, **_LINES[model]
        )
    errors = points.loc[points["model"] != SCALING, "error_percent"].abs()
    limit = 1.1 * max(_LEAST_ERROR_PERCENT, errors.max())
    ax.set(ylim=(-limit, limit), ylabel="Error (%)")


def _draw_shares(ax: Axes, predictions: pd.DataFrame) -> None:
    """Draw bars of the measured shares, and marks at the borders by a model."""
    rates = predictions["cache_rate_percent"].unique()
    width = 0.8 * np.diff(rates).min(initial=8)
    measured, predicted = (
        _shares_percent(predictions, column) for column in ("measured_s", "predicted_s")
    )
    bottom = np.zeros(len(rates))
    for column, io_class in enumerate(IOClass):
        share = measured[:, column]
        ax.bar(rates, share, width, bottom=bottom, color=io_class.colour)
        bottom = bottom + share
    borders = predicted.cumsum(axis=1)[:, :-1]
    x = np.repeat(rates, borders.shape[1])
    size = 1.4 * width * 72 * 2.6 / 108  # of points: a panel is some 2.6 inches wide
    ax.plot(x, borders.ravel(), markersize=size, clip_on=False, **_SHARES)


def _shares_percent(predictions: pd.DataFrame, column: str) -> np.ndarray:
    """Return the shares of the classes, shape (n_cache_rates, 4), in percent."""
    times_s = predictions[column].to_numpy().reshape(-1, len(IOClass))
    return 100 * times_s / times_s.sum(axis=1, keepdims=True)


def _study_title(scenario: str, study: pd.DataFrame) -> str:
    """Return the title of a panel: scenario, calibration and errors."""
    first = study.iloc[0]
    calibration = first["calibration"]
    origin = f"calibration {calibration}"
    if calibration == AS_WRITTEN:
        origin = "parameters as written"
    errors = ", ".join(
        f"{_LABELS[row['model']]} {row['mape_percent']:.1f} %"
        for row in study.iloc[::-1].to_dict("records")
    )
    sentences = [f"MAPE: {errors}", _capitalised(study_words(first))]
    modelled = study[study["model"] != SCALING]
    if len(modelled) and (worst := worst_words(modelled.iloc[-1])):
        sentences.append(_capitalised(worst))
    sentences += filter(None, map(held_words, study.to_dict("records")))
    lines = [f"{scenario}, {origin}"]
    for words in sentences:
        words = words.replace(" %", f"{_NO_BREAK}%")
        lines += textwrap.wrap(words, _PANEL_CHARACTERS, break_on_hyphens=False)
    return "\n".join(lines)


def _capitalised(words: str) -> str:
    """Return words with a capital first letter; `str.capitalize` lowers the rest."""
    return words[0].upper() + words[1:]


def _time_handles(
    predictions: pd.DataFrame, models: list[str], truth: str
) -> list[Line2D | Patch]:
    """Return the legend entries of measured points, fitted ones and models."""
    label = f"{truth}, with {LEVEL_PERCENT} %\nconfidence interval"
    handles = [Line2D([], [], **_MEASURED, label=label)]
    if not predictions["held_out"].all():
        handles.append(Line2D([], [], **_CALIBRATED, label="calibrated on"))
    for model in models:
        style = _LINES[model]
        handles.append(Line2D([], [], lw=1.7, label=_LABELS[model], **style))
    if predictions["predicted_low_s"].notna().any():
        words = f"{LEVEL_PERCENT} % interval of\nthe simulation's mean"
        handles.append(Patch(**_INTERVAL, label=words))
    spread = f"interval of what is\n{truth}, at the errors"
    return [*handles, Patch(**_SPREAD, label=spread)]
