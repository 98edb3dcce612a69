"""Draw and describe the benefit of faster devices: by rule, by model and measured."""

import math
from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tierscope.analysis.breakdown import slowest_process, spread_over_repetitions
from tierscope.analysis.intervals import (
    LEVEL_PERCENT,
    METHOD,
    NO_INTERVAL,
    leaves_sign_open,
)
from tierscope.analysis.whatif_truth import ESTIMATORS
from tierscope.core.columns import IMPROVEMENTS, SCENARIO
from tierscope.core.output.declared import Declared
from tierscope.core.provenance import Origin
from tierscope.core.verdict import HOLDS, UNDECIDED, judge
from tierscope.core.words import CACHE_RATE_LABEL, improvement_words, scenario_titles
from tierscope.figures.given_runs import Given
from tierscope.figures.style import (
    distances,
    draw_legend,
    new_figure,
    source_notes,
    styled,
    titled,
)

FIGURE = Declared(
    file="whatif_truth",
    title="What faster devices really bring",
    folder="whatif-truth",
    tables=("whatif_truth", "whatif_truth_summary", "io_time"),
    settings=("max_spread_percent",),
    in_report="on request",
    has_text=True,
)

# A model's cut is good enough if it differs by at most this from the measured cut.
GOAL_POINTS = 3

_ROOM = 1.25  # height of a panel over the largest cut
_MINUS = "\N{MINUS SIGN}"
_CUT_LABEL = "Cut of the slowest process's I/O time (%)"
_MEASURED = {
    "color": "#000000",
    "marker": "o",
    "markersize": 5,
    "linewidth": 1.6,
    "capsize": 3,
    "zorder": 4,
}
_LINES = {
    "rule": {
        "color": "#CC79A7",
        "marker": "s",
        "markersize": 5,
        "linestyle": (0, (5, 2)),
    },
    # Around the measured points, which it often covers.
    "model": {
        "color": "#009E73",
        "marker": "^",
        "markersize": 9,
        "markerfacecolor": "none",
        "markeredgewidth": 1.5,
        "linestyle": (0, (1, 1.2)),
        "zorder": 5,
    },
}
_SAID = {"rule": "by the rule", "model": "by the model"}
_LINE = (
    "{cache_rate_percent:8} %  {base_io_time_s:8.3f}  {improved_io_time_s:8.3f}  "
    "{measured_cut_percent:6.1f} +-{half:4.1f}  "
    "{rule_cut_percent:7.1f} ({rule_error_points:+5.1f}){rule_mark} "
    "{model_cut_percent:7.1f} ({model_error_points:+5.1f}){model_mark}"
)
_LARGEST = {"color": "#CC79A7", "linewidth": 5, "alpha": 0.35, "zorder": 1}


def draw(given: Given) -> Figure:
    """Draw the effect of faster devices beside its estimates."""
    table, summary, io_time = map(given.table, FIGURE.tables)
    slowest = slowest_process(io_time).rename(columns={"io_time_s": "time_s"})
    spread = spread_over_repetitions(
        slowest.assign(quantity="I/O time"), given.settings.max_spread_percent
    )
    return plot_whatif_truth(table, summary, spread, **given.words)


def describe(given: Given) -> str:
    """Say the same in words."""
    table, summary, _ = map(given.table, FIGURE.tables)
    return f"{summary_text(table, summary)}\nSource: {given.origin}.\n"


@styled
def plot_whatif_truth(
    table: pd.DataFrame,
    summary: pd.DataFrame,
    spread: pd.DataFrame,
    *,
    provenance: Origin,
    dataset_titles: Mapping[str, str] | None = None,
) -> Figure:
    """Draw the cut that faster devices bring, over the cache rate.

    Parameters
    ----------
    table, summary : DataFrame
        Tables ``whatif_truth`` and ``whatif_truth_summary`` of one scenario.
    spread : DataFrame
        Table ``spread`` of all its runs' I/O time.
    provenance, dataset_titles
        As for `tierscope.figures.execution_and_io_time.plot_execution_and_io_time`.

    Returns
    -------
    Figure
        A panel for each improvement, all with the same y range. Black: measured, with
        its interval, which may leave the panel; squares: by the paper's rule;
        triangles: by the model; a thick bar marks the rule's largest error, which the
        title names.
    """
    scenarios = scenario_titles(spread, dataset_titles)
    title = titled(
        "What faster devices really bring: "
        f"{scenario_titles(table, dataset_titles)['title'].iloc[0]}",
        table,
        provenance,
    )
    notes = [*source_notes(provenance, spread, scenarios), _method_note(summary)]
    figure, axes = new_figure(len(summary), title, notes, row_height=4.1, share_y=True)
    for ax, row in zip(axes, summary.to_dict("records"), strict=True):
        points = _of_improvement(table, row)
        _draw_cuts(ax, points, row)
        words = (_improvement_lines(row), _rule_words(points, row), _model_words(row))
        ax.set_title("\n".join([*words, _best_words(row)]), fontsize=10)
    cuts = table[[f"{name}_cut_percent" for name in ESTIMATORS]].stack()
    lowest, highest = min(0, cuts.min()), max(1, cuts.max())
    room = (_ROOM - 1) * (highest - lowest)
    axes[0].set_ylim(lowest - room / 2, highest + room)
    *promised, truth = axes[0].get_legend_handles_labels()[0]
    draw_legend(figure, [truth, *promised])
    return figure


def _draw_cuts(ax: Axes, points: pd.DataFrame, row: Mapping) -> None:
    """Draw one improvement's cuts over the cache rate."""
    rates = points["cache_rate_percent"]
    cuts = points["measured_cut_percent"]
    low, high = (points[f"measured_cut_{end}_percent"] for end in ("low", "high"))
    ax.errorbar(
        rates,
        cuts,
        distances(cuts, low, high),
        label=f"{_truth_word(row)}, with {LEVEL_PERCENT} %\nconfidence interval",
        **_MEASURED,
    )
    labels = {"rule": "by the paper's rule", "model": f"by the model\n({_model(row)})"}
    for estimator, line in _LINES.items():
        cuts = points[f"{estimator}_cut_percent"]
        ax.plot(rates, cuts, label=labels[estimator], linewidth=1.6, **line)
    worst = _worst(points, row)
    ax.vlines(
        worst["cache_rate_percent"],
        *sorted([worst["rule_cut_percent"], worst["measured_cut_percent"]]),
        label="the rule's largest error",
        **_LARGEST,
    )
    ax.axhline(0, color="#888888", linewidth=0.8)
    ax.set_xlabel(CACHE_RATE_LABEL)
    ax.set_ylabel(_CUT_LABEL if ax.get_subplotspec().is_first_col() else "")


def _of_improvement(table: pd.DataFrame, row: Mapping) -> pd.DataFrame:
    """Return the rows of a summary's improvement, by cache rate."""
    same = (table[IMPROVEMENTS] == pd.Series(row)[IMPROVEMENTS]).all(axis=1)
    return table[same].sort_values("cache_rate_percent", ignore_index=True)


def _worst(points: pd.DataFrame, row: Mapping) -> pd.Series:
    """Return the point of the rule's largest error."""
    rate = row["rule_largest_error_cache_rate_percent"]
    return points[points["cache_rate_percent"] == rate].iloc[0]


def _model(row: Mapping) -> str:
    """Return model and parameters in words, such as ``simulation, all-osts``."""
    return f"{row['model']}, {row['calibration']}"


def _truth_word(row: Mapping) -> str:
    """Return how the truth was obtained."""
    return "simulated" if row["source"] == "simulated" else "measured"


def _improvement_lines(row: Mapping) -> str:
    """Return an improvement in words, two classes a line."""
    words = improvement_words(row).split(", ")
    lines = [", ".join(words[start : start + 2]) for start in range(0, len(words), 2)]
    return ",\n".join(lines)


def _rule_words(points: pd.DataFrame, row: Mapping) -> str:
    """Return the rule's largest error in words: both cuts and where."""
    worst = _worst(points, row)
    open_words = " (undecided)" if _is_undecided(worst, "rule") else ""
    return (
        f"the rule promises {worst['rule_cut_percent']:.0f} %, "
        f"{worst['measured_cut_percent']:.0f} % was found at "
        f"{worst['cache_rate_percent']} %{open_words}"
    ).replace("-", _MINUS)


def _is_undecided(point: Mapping, estimator: str) -> bool:
    """Return whether the interval of an error holds 0, or there is none."""
    ends = (point[f"{estimator}_error_{end}_points"] for end in ("low", "high"))
    return leaves_sign_open(*ends)


def _model_words(row: Mapping) -> str:
    """Return the model's largest error in words."""
    error = abs(row["model_largest_error_points"])
    return f"the model errs by {error:.1f} points at most"


def _best_words(row: Mapping) -> str:
    """Return in words where the best point moves."""
    rates = [
        f"{row[f'{name}_best_set_percent']} %"
        for name in ("base", "measured", "rule", "model")
    ]
    arrow = "\N{RIGHTWARDS ARROW}"
    return "best at {} {arrow} {} (rule {}, model {})".format(*rates, arrow=arrow)


def _method_note(summary: pd.DataFrame) -> str:
    """Return how truth, rule and model were obtained."""
    first = summary.iloc[0]
    note = (
        f"{_truth_word(first).capitalize()}: every run again on faster devices, "
        "compared with the run of the same shuffle. Interval: of the mean over "
        f"{first['n_repetitions']} repetitions (Student's t, of pairs). "
        "Rule: a class that is N % faster takes "
        "100/(100 + N) of its time (paper, Sec. 4.4); waiting stays where it was. "
        f"Model: {first['model']}, parameters {first['calibration']}."
    )
    if first["source"] == "simulated" and first["model"] == "simulation":
        note += " The same model made the runs, so it cannot err."
    return note


def summary_text(table: pd.DataFrame, summary: pd.DataFrame) -> str:
    """Return the comparison in words and numbers, to be read on a terminal.

    Parameters
    ----------
    table, summary : DataFrame
        Tables ``whatif_truth`` and ``whatif_truth_summary`` of one scenario.
    """
    first = summary.iloc[0]
    keys = ", ".join(f"{key} {first[key]}" for key in SCENARIO)
    blocks = [f"What faster devices really bring ({keys})\n{_method_note(summary)}"]
    for row in summary.to_dict("records"):
        blocks.append(_improvement_text(_of_improvement(table, row), row))
    return "\n\n".join(blocks) + "\n"


def _improvement_text(points: pd.DataFrame, row: Mapping) -> str:
    """Return the lines about one improvement."""
    lines = [
        f"{improvement_words(row)}: cut of the slowest process's I/O time in percent",
        f"cache rate  before s   after s  {_truth_word(row):>13}      rule (error)"
        "     model (error)",
    ]
    lines += map(_line, points.to_dict("records"))
    lines += [
        f"{estimator}: mean error {row[f'{estimator}_mean_error_points']:.1f} points, "
        f"largest {row[f'{estimator}_largest_error_points']:+.1f} at "
        f"{row[f'{estimator}_largest_error_cache_rate_percent']} %"
        for estimator in ("rule", "model")
    ]
    best = [
        f"{words} {row[f'{estimator}_best_set_percent']} % "
        f"({row[f'{estimator}_best_cut_percent']:.1f} % less I/O time)"
        for estimator, words in (("measured", _truth_word(row)), *_SAID.items())
    ]
    lines.append(
        f"best cache rate {row['base_best_set_percent']} % before, then "
        + ", ".join(best)
    )
    verdicts = [_goal_verdict(point) for point in points.to_dict("records")]
    lines.append(
        f"model within {GOAL_POINTS} points at {verdicts.count(HOLDS)} of "
        f"{len(verdicts)} cache rates, {UNDECIDED} at {verdicts.count(UNDECIDED)}"
    )
    if row["n_repetitions"] == 1:
        lines.append(NO_INTERVAL)
    else:
        lines.append(
            f"+-: {METHOD}, n = {row['n_repetitions']}; ?: {UNDECIDED} whether the "
            "promise errs"
        )
    return "\n".join(lines)


def _line(point: Mapping) -> str:
    """Return the line of a cache rate."""
    width = point["measured_cut_high_percent"] - point["measured_cut_low_percent"]
    marks = {
        f"{name}_mark": "?" if _is_undecided(point, name) else " "
        for name in ("rule", "model")
    }
    return _LINE.format(**point, half=width / 2, **marks).rstrip()


def _goal_verdict(point: Mapping) -> str:
    """Return whether the model's error is within the goal at a cache rate."""
    ends = tuple(point[f"model_error_{end}_points"] for end in ("low", "high"))
    if math.isnan(ends[0]):
        return UNDECIDED
    accept = {"at_least": -GOAL_POINTS, "at_most": GOAL_POINTS}
    return judge(accept, point["model_error_points"], ends)
