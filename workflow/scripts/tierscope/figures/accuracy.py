"""Draw and describe the effect of partitioning on accuracy."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from tierscope.analysis.accuracy import REFERENCE, WANTED_POWER, final_accuracy
from tierscope.core.output.declared import Declared
from tierscope.core.provenance import source_note
from tierscope.figures.given import Given
from tierscope.figures.style import draw_legend, new_figure, styled

FIGURE = Declared(
    file="accuracy",
    title="Does partitioning cost accuracy?",
    folder="accuracy",
    tables=("accuracy", "accuracy_tests"),
    settings=("study",),
    in_report="on request",
    has_text=True,
    source="trained",
)

_MINUS = "\N{MINUS SIGN}"
SHUFFLES = {
    "global": "global shuffle",
    "local": "fixed partition,\nunbiased",
    "biased": "fixed partition,\nbiased (by class)",
}
NETWORKS = {
    "plain": "without batch normalisation",
    "batch-norm": "with batch normalisation, per process",
    "sync-batch-norm": "with batch normalisation, synchronised",
}
_COLOURS = {"global": "#000000", "local": "#009E73", "biased": "#D55E00"}
# Means lie upon each other: earlier lines are visible through the gaps of later ones.
_DASHES = {"global": "-", "local": (0, (5, 2)), "biased": (0, (1, 1))}
_LIMIT = {"color": "#888888", "linewidth": 1, "linestyle": (0, (4, 3))}
_MARGIN = {"color": "#56B4E9", "alpha": 0.25, "linewidth": 0}
_TICKS = (5, 20, 50, 100)


def draw(given: Given) -> Figure:
    """Draw the effect of partitioning on accuracy."""
    training = training_words(given.settings.study)
    return plot_accuracy(*map(given.table, FIGURE.tables), training=training)


def describe(given: Given) -> str:
    """Say the same in words."""
    training = training_words(given.settings.study)
    return summary_text(given.table("accuracy_tests"), training=training)


@styled
def plot_accuracy(
    accuracy: pd.DataFrame, tests: pd.DataFrame, *, training: str
) -> Figure:
    """Draw accuracy over the epochs, and the differences against the margin.

    Parameters
    ----------
    accuracy, tests : DataFrame
        Tables ``accuracy`` and ``accuracy_tests``.
    training : str
        What was trained and how, in words.

    Returns
    -------
    Figure
        A column for each network. Above: thin lines are trainings, thick ones the
        means of a shuffle, the dashed line is the accuracy of the best classifier.
        Below: differences to global shuffle of the same repetition after the last epoch
        (dots), their mean with its 90 % confidence interval (bar), and the margin
        (band), on a scale that is linear up to twice the margin and logarithmic beyond.
    """
    networks = list(accuracy["network"].unique())
    title = (
        "Does partitioning cost accuracy? A small network, really trained, on "
        "generated data"
    )
    notes = [source_note(tests["source"].iloc[0]) + f" {training}", _how_judged(tests)]
    figure, axes = new_figure(
        2 * len(networks), title, notes, n_columns=len(networks), row_height=3.2
    )
    for column, network in enumerate(networks):
        of_network = tests[tests["network"] == network]
        trainings = accuracy[accuracy["network"] == network]
        above, below = axes[column], axes[column + len(networks)]
        _draw_epochs(above, trainings, of_network)
        above.set_title(NETWORKS[network])
        _draw_differences(below, trainings, of_network)
    limits = [ax.dataLim for ax in axes[: len(networks)]]
    lowest, highest = min(box.y0 for box in limits), max(box.y1 for box in limits)
    room = 0.04 * (highest - lowest)
    for ax in axes[: len(networks)]:
        ax.set_ylim(lowest - room, highest + room)
    axes[0].set_ylabel("Accuracy on the test set (%)")
    least, most = difference_range(accuracy)
    margin = tests["margin_points"].iloc[0]
    for ax in axes[len(networks) :]:
        ax.set_xlim(1.6 * min(least, -margin), 1.6 * max(most, margin))
    draw_legend(figure, _handles(accuracy))
    return figure


def _draw_epochs(ax: Axes, accuracy: pd.DataFrame, tests: pd.DataFrame) -> None:
    """Draw the accuracy of one network's trainings over the epochs."""
    for shuffle, rows in accuracy.groupby("shuffle", sort=False):
        of_epoch = rows.pivot(
            index="epoch", columns="repetition", values="accuracy_percent"
        )
        epochs, colour = of_epoch.index + 1, _COLOURS[shuffle]
        ax.plot(epochs, of_epoch, color=colour, linewidth=0.6, alpha=0.35)
        mean = of_epoch.mean(axis=1)
        style = {"linewidth": 2, "linestyle": _DASHES[shuffle]}
        ax.plot(epochs, mean, color=colour, **style)
    ax.plot(
        epochs[[0, -1]], [tests["best_possible_percent"].iloc[0]] * 2, **_LIMIT
    )  # a line that counts for the limits of the axes
    ax.set_xlabel("Epochs trained")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def _draw_differences(ax: Axes, accuracy: pd.DataFrame, tests: pd.DataFrame) -> None:
    """Draw one network's differences to global shuffle, and the margin."""
    final = final_accuracy(accuracy)
    margin = tests["margin_points"].iloc[0]
    ax.axvspan(-margin, margin, **_MARGIN)
    ax.axvline(0, color="#888888", linewidth=0.8)
    for place, row in enumerate(tests.to_dict("records")):
        differences = final[row["shuffle"]] - final[REFERENCE]
        colour = _COLOURS[row["shuffle"]]
        ax.plot(
            differences,
            [place - 0.14] * len(differences),
            "o",
            color=colour,
            markersize=4,
            alpha=0.5,
            markeredgewidth=0,
        )
        low, high = row["low_90_points"], row["high_90_points"]
        ax.plot([low, high], [place + 0.1] * 2, color=colour, linewidth=3)
        ax.plot(row["difference_points"], place + 0.1, "D", color=colour, markersize=6)
        ax.text(
            0.01,
            place + 0.2,
            _verdict(row),
            transform=ax.get_yaxis_transform(),
            fontsize=9,
            va="top",
        )
    linear = 2 * margin
    ax.set_xscale("symlog", linthresh=linear, linscale=2)
    shown = [margin, *(tick for tick in _TICKS if tick > linear)]
    ax.xaxis.set_major_locator(FixedLocator([*(-t for t in shown), 0, *shown]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(_signed))
    ax.set_yticks([])
    ax.set_ylim(len(tests) - 0.4, -0.45)
    ax.grid(visible=False, axis="y")
    ax.set_xlabel(f"Accuracy minus that of global shuffle\n{_scale_words(linear)}")


def difference_range(accuracy: pd.DataFrame) -> tuple[float, float]:
    """Return the least and the largest difference to global shuffle, in points."""
    finals = [
        final_accuracy(rows) for _, rows in accuracy.groupby("network", sort=False)
    ]
    differences = pd.concat(
        [final.sub(final[REFERENCE], axis=0) for final in finals], axis=0
    )
    return differences.min(axis=None), differences.max(axis=None)


def _scale_words(linear: float) -> str:
    """Return the unit, and the value beyond which the scale is not linear."""
    return f"(percentage points; logarithmic beyond \N{PLUS-MINUS SIGN}{linear:g})"


def _signed(value: float, _: int | None = None) -> str:
    """Return a number with its sign: +0.5, 0."""
    return f"{value:+g}".replace("-", _MINUS) if value else "0"


def _points(value: float) -> str:
    """Return a difference with its sign and enough digits."""
    return f"{value:+.{2 if abs(value) < 10 else 1}f}".replace("-", _MINUS)


def _verdict(row: Mapping) -> str:
    """Return a difference with its interval, and the finding of the tests."""
    low, high = (_points(row[f"{end}_90_points"]) for end in ("low", "high"))
    return f"{_points(row['difference_points'])} ({low} to {high})\n{_finding(row)}"


def _points_words(number: float) -> str:
    """Return a number of percentage points: 1 point, 0.5 points."""
    return f"{number:g} point{'' if number == 1 else 's'}"


def _finding(row: Mapping) -> str:
    """Return the finding of equivalence and difference tests in words."""
    margin = f"within \N{PLUS-MINUS SIGN}{_points_words(row['margin_points'])}"
    if row["equivalent"]:
        also = ", but not 0" if row["different"] else ""
        return f"equivalent {margin}{also}"
    if row["different"]:
        word = "worse" if row["difference_points"] < 0 else "better"
        return f"{word}, not equivalent"
    return f"neither different nor shown to be {margin}"


def _how_judged(tests: pd.DataFrame) -> str:
    """Return how differences were judged, and the margin that could be shown."""
    row = tests.iloc[0]
    margins = (
        f"\N{PLUS-MINUS SIGN}{one['power_margin_points']:.2f} "
        f"{NETWORKS[one['network']]}"
        for one in tests[tests["shuffle"] == "local"].to_dict("records")
    )
    return (
        f"{row['n_repetitions']} repetitions (seeds); those of the same weights and "
        "seeds are paired. Dots: pairs; bars: 90 % confidence interval of the mean; "
        f"band: margin of \N{PLUS-MINUS SIGN}{_points_words(row['margin_points'])}. "
        "Equivalent: two one-sided t tests, 5 %. With the spread found, and if the "
        "unbiased partition makes no difference, this number of repetitions shows "
        f"with {WANTED_POWER * 100:.0f} % power a margin of {'; '.join(margins)}."
    )


def _handles(accuracy: pd.DataFrame) -> list[Line2D | Patch]:
    """Return the legend's entries."""
    lines = [
        Line2D(
            [],
            [],
            color=_COLOURS[shuffle],
            linewidth=2,
            linestyle=_DASHES[shuffle],
            label=SHUFFLES[shuffle],
        )
        for shuffle in accuracy["shuffle"].unique()
    ]
    return [
        *lines,
        Line2D([], [], **_LIMIT, label="best possible"),
        Patch(**_MARGIN, label="margin"),
    ]


def summary_text(tests: pd.DataFrame, *, training: str) -> str:
    """Return the answer in words and numbers, to be read on a terminal.

    Parameters
    ----------
    tests : DataFrame
        Table ``accuracy_tests``.
    training : str
        What was trained and how, in words.
    """
    first = tests.iloc[0]
    lines = [
        "Does partitioning cost accuracy?",
        f"{source_note(first['source'])} {training}",
        f"Test accuracy after the last epoch, mean of {first['n_repetitions']} "
        f"repetitions; chance is {first['chance_percent']:g} %, the best classifier "
        f"reaches {first['best_possible_percent']:.1f} %.",
    ]
    for network, rows in tests.groupby("network", sort=False):
        lines += [
            "",
            f"{NETWORKS[network].capitalize()}: global shuffle reaches "
            f"{rows['global_accuracy_percent'].iloc[0]:.2f} %.",
            *(_line(row) for row in rows.to_dict("records")),
        ]
    return "\n".join(lines) + "\n"


def _line(row: Mapping) -> str:
    """Return the sentences about one test, with margins unless accuracy differs."""
    name = SHUFFLES[row["shuffle"]].replace("\n", " ").capitalize()
    text = (
        f"  {name}: {row['accuracy_percent']:.2f} %, {row['difference_points']:+.2f} "
        f"points from global shuffle (90 % CI {row['low_90_points']:+.2f} to "
        f"{row['high_90_points']:+.2f}, 95 % CI {row['low_95_points']:+.2f} to "
        f"{row['high_95_points']:+.2f}; sd of a pair "
        f"{row['difference_sd_points']:.2f}).\n    It is {_finding(row)} (two "
        "one-sided tests: p = "
        f"{row['equivalence_p']:.2g}; test for a difference: p = "
        f"{row['difference_p']:.2g})."
    )
    if row["different"] and not row["equivalent"]:
        return text
    return (
        f"{text}\n    The smallest margin shown is {row['shown_margin_points']:.2f} "
        "points. If there is no difference, this many repetitions show a margin of "
        f"{row['power_margin_points']:.2f} points with {WANTED_POWER * 100:.0f} % "
        f"power, and one of {_points_words(row['margin_points'])} with "
        f"{row['power_percent']:.0f} %."
    )


def training_words(study: Mapping) -> str:
    """Return what was trained and how, from the study's settings."""
    return (
        f"{study['n_train_files']} training and {study['n_test_files']} test files of "
        f"one sample, {study['n_classes']} classes; {study['n_processes']} processes "
        f"with batches of {study['batch_size']}, synchronous steps with averaged "
        f"gradients, {study['epochs']} epochs. One process computes the gradients of "
        "all (real MPI ranks give the same bits)."
    )
