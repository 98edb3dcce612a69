import functools
import itertools
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from tierscope.analysis.breakdown import (
    break_down,
    epoch_times,
    select_epoch,
    spread_over_repetitions,
)
from tierscope.analysis.search import Search, cheapest_combination, search_combinations
from tierscope.analysis.training.limit import decide_limits
from tierscope.analysis.whatif import (
    Goal,
    estimate,
    estimated_breakdown,
    improvement_grid,
)
from tierscope.core import columns
from tierscope.core.columns import CLASS_TIMES, IMPROVEMENTS
from tierscope.core.imports import imported_modules
from tierscope.core.io_class import NET_READ, IOClass
from tierscope.core.output.declared import declared_figures
from tierscope.core.provenance import Origin
from tierscope.core.tables import check_table, write_table
from tierscope.core.words import epoch_words, scenario_titles
from tierscope.figures import cheapest_combination as cheapest_combination_module
from tierscope.figures import (
    sufficient_combinations as sufficient_combinations_module,
)
from tierscope.figures.before_after import no_improvement
from tierscope.figures.breakdown import plot_breakdown
from tierscope.figures.cheapest_combination import (
    plot_cheapest_combination,
    plot_cheapest_utilisation,
)
from tierscope.figures.execution_and_io_time import plot_execution_and_io_time
from tierscope.figures.given_runs import Given
from tierscope.figures.improvement import plot_improved_utilisation, plot_improvement
from tierscope.figures.style import distances, save_figure, write_first
from tierscope.figures.sufficient_combinations import plot_sufficient_combinations

SCRIPTS = Path(__file__).parents[3] / "workflow" / "scripts"
PROVENANCE = "emulated · system scale-model · 2 processes"
TITLES = {"small": "128 KiB files", "large": "12 MiB files"}
SCENARIO = {
    "source": "emulated",
    "system": "scale-model",
    "dataset": "small",
    "n_osts": 60,
    "policy": "pinning",
    "loader": "posix",
}
GOAL = Goal("io_time", 4.5)
SEARCH = Search(200, 100, dict.fromkeys(map(str, IOClass), 1), 100 << 30)
SECONDS = {0: (1, 8, 0, 0), 50: (1, 3, 2, 0), 60: (1, 1, 5, 1), 100: (0, 0, 9, 1)}
COSTS = "costs 100 by whatif.search.cost_per_percent"


def io_time_of(repetitions=1, **keys):
    """Return three epochs of a rank with SECONDS, a second more each repetition.

    Rank 1 does nothing; sums are 9, 6, 8, 10 s at cache rates of 0, 50, 60, 100 %.
    """
    rows = [
        {
            "cache_rate_percent": rate,
            "repetition": repetition,
            "epoch": epoch,
            "rank": rank,
            "io_class": str(io_class),
            "time_s": float(time_s + repetition * (io_class == "gfs_read"))
            * (1 - rank),
        }
        for rate, times_s in SECONDS.items()
        for repetition in range(repetitions)
        for epoch in range(3)
        for rank in range(2)
        for io_class, time_s in zip(IOClass, times_s, strict=True)
    ]
    frame = pd.DataFrame(rows).assign(**(SCENARIO | keys), operations=1, bytes=0)
    return check_table(frame, "io_time")


def epochs_of(io_time):
    """Return an epochs table in which every epoch takes 12 s."""
    keys = [*SCENARIO, "cache_rate_percent", "repetition", "epoch", "rank"]
    others = ["node", "samples", "bytes", "lfs_files", "gfs_files"]
    frame = io_time[keys].drop_duplicates().assign(**dict.fromkeys(others, 0))
    return check_table(
        frame.assign(execution_time_s=12.0, lfs_fill_time_s=0.0), "epochs"
    )


@pytest.fixture
def three_scenarios():
    parts = [
        io_time_of(dataset=dataset, n_osts=n_osts)
        for dataset, n_osts in (("small", 60), ("small", 1), ("large", 60))
    ]
    return pd.concat(parts, ignore_index=True)


def spread_of(io_time, max_spread_percent=10):
    times = epoch_times(epochs_of(io_time), io_time)
    return spread_over_repetitions(times, max_spread_percent)


HALF_S = 2.4841377  # half an interval of three times that are 1 s apart
ARGUMENTS = {"provenance": Origin(PROVENANCE), "dataset_titles": TITLES}


def draw_times(io_time):
    return plot_execution_and_io_time(
        epochs_of(io_time), io_time, spread_of(io_time), **ARGUMENTS
    )


def draw_breakdown(io_time, epoch=1, stalls=None, **changes):
    breakdown = break_down(io_time)
    limits = decide_limits(breakdown, None, stalls, epoch, stalls is not None)
    words = ARGUMENTS | {"limits": limits, "stalls": stalls} | changes
    return plot_breakdown(breakdown, spread_of(io_time), epoch, **words)


MODEL_WORDS = "a network of queues, made up"


def estimates_of(io_time, improvements, methods=("rule",)):
    """Return estimates; the model's are a tenth longer where anything is improved."""
    by_rule = estimate(io_time, improvements, epochs=[1])
    factor = 1 + 0.1 * (by_rule[IMPROVEMENTS] > 0).any(axis=1)
    by_model = by_rule.assign(method="model")
    for column in ("io_time_s", *CLASS_TIMES):
        by_model[column] *= factor
    parts = {"rule": by_rule, "model": by_model}
    return pd.concat([parts[method] for method in methods], ignore_index=True)


def improved(io_time, improvements, methods=("rule",)):
    improvements = [{}, *improvements]
    return estimated_breakdown(
        estimates_of(io_time, improvements, methods), improvements
    )


def draw_improvement(io_time, methods=("rule",)):
    return plot_improvement(
        improved(io_time, [{"gfs_meta": 50}, {"lfs_read": 100}], methods),
        spread_of(io_time),
        model=MODEL_WORDS,
        **ARGUMENTS,
    )


def draw_improvement_by_both(io_time):
    return draw_improvement(io_time, ("rule", "model"))


def search(io_time, goal):
    """Return the row of table goals and the cheapest combination in steps of 100 %."""
    goals, combinations = search_combinations(
        select_epoch(io_time, 1),
        goal,
        SEARCH,
    )
    return goals.iloc[0], cheapest_combination(combinations, goals.iloc[0])


def draw_sufficient(
    io_time, goal=GOAL, classes=("gfs_meta", "lfs_read"), methods=("rule",), cost=1
):
    estimates = estimates_of(io_time, improvement_grid(classes, 200, 100), methods)
    return plot_sufficient_combinations(
        goal.sufficient(estimates).sort_values(
            "method", ascending=False, kind="stable"
        ),
        search(io_time, goal)[0],
        spread_of(io_time),
        classes=classes,
        cost_per_percent=dict.fromkeys(map(str, IOClass), cost),
        model=MODEL_WORDS,
        **ARGUMENTS,
    )


def draw_sufficient_by_both(io_time):
    return draw_sufficient(io_time, methods=("rule", "model"))


def draw_cheapest(io_time, goal=GOAL):
    row, cheapest = search(io_time, goal)
    after = improved(io_time, [{"lfs_read": 100, "gfs_meta": 100}])
    return plot_cheapest_combination(
        after, row, cheapest, spread_of(io_time), **ARGUMENTS
    )


DRAW = {
    "times": draw_times,
    "breakdown": draw_breakdown,
    "improvement": draw_improvement,
    "improvement by both": draw_improvement_by_both,
    "sufficient": draw_sufficient,
    "sufficient by both": draw_sufficient_by_both,
    "cheapest": draw_cheapest,
}


@functools.cache
def drawn(name, repetitions):
    """Return a figure for tests that only look at it."""
    return DRAW[name](io_time_of(repetitions=repetitions))


@pytest.fixture(params=itertools.product(DRAW, [1, 3]), ids=str)
def figure(request):
    return drawn(*request.param)


def points_of(line):
    return list(zip(line.get_xdata(), line.get_ydata(), strict=True))


def segments_of(ax):
    """Return both ends of every error bar."""
    bars = [c for c in ax.collections if isinstance(c, LineCollection)]
    return [segment.tolist() for bar in bars for segment in bar.get_segments()]


def lines_with(ax, marker):
    return [line for line in ax.lines if line.get_marker() == marker]


def bar_around(rate, mean_s):
    """Return the error bar of three times that are 1 s apart."""
    return [[rate, pytest.approx(mean_s + sign * HALF_S)] for sign in (-1, 1)]


def notes_of(figure):
    return figure.get_supxlabel().replace("\n", " ")


def test_every_figure_says_where_its_numbers_come_from(figure):
    assert notes_of(figure).startswith(f"Source: {PROVENANCE}; ")
    assert "emulated)" in figure.get_suptitle().replace("\n", " ")


@pytest.mark.parametrize("name", DRAW)
def test_one_repetition_is_said_to_hide_the_spread(name):
    figure = drawn(name, 1)
    assert "one repetition, no interval" in notes_of(figure)
    assert "Spread above" not in notes_of(figure)


@pytest.mark.parametrize("name", DRAW)
def test_a_spread_above_the_limit_is_flagged_with_scenario_rate_and_amount(name):
    """I/O time at 50 % is 6, 7 and 8 s: mean 7, standard deviation 1 s, 14 %."""
    figure = drawn(name, 3)
    assert "3 repetitions; intervals by Student's t, of independent seeds" in notes_of(
        figure
    )
    words = "second epoch, I/O time at a cache rate of 50 %: 14 %"
    assert f"Spread above 10 %: 128 KiB files, 60 OSTs, {words}" in notes_of(
        figure
    ).replace("first", "second")


def test_flagged_points_have_rings_and_the_legend_says_what_they_are():
    """Standard deviation 1 s: 10 % of 10 s at 0 %, 14 % of 7, 11 % of 9, 9 % of 11."""
    figure = draw_breakdown(io_time_of(repetitions=3))
    (ax,) = figure.axes
    (ring,) = (
        line for line in lines_with(ax, "o") if line.get_markerfacecolor() == "none"
    )
    assert points_of(ring) == [(50, 7), (60, 9)]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "spread above 10 %\n(sd / mean)" in labels
    assert "95 % confidence\ninterval of the mean" in labels


def stalls_of(rates, parts):
    """Return table `class_stalls` of the second epoch; `parts` are seconds."""
    rows = [
        SCENARIO | {"cache_rate_percent": rate, "part": part, "stall_s": float(one)}
        for rate in rates
        for part, one in zip([*columns.CLASSES, columns.TOGETHER], parts, strict=True)
    ]
    times = {"epoch": 1, "execution_time_s": 50.0, "first_wait_s": 0.0}
    return pd.DataFrame(rows).assign(**times)


@pytest.mark.parametrize("together_s", [15, 0])
def test_stall_of_several_classes_together_stands_on_that_of_the_classes(together_s):
    """I/O time is at most 10 s, the stall of the classes 3 s."""
    table = io_time_of()
    stalls = stalls_of(SECONDS, (1, 2, 0, 0, together_s))
    figure = draw_breakdown(table, stalls=stalls)
    (ax,) = figure.axes
    hatched = [bar for bar in ax.patches if bar.get_hatch() and bar.get_height()]
    tops = [bar for bar in hatched if to_hex(bar.get_facecolor()) == "#cc79a7"]
    shown = [(bar.get_y(), bar.get_height()) for bar in tops]
    assert shown == [(3, together_s)] * len(SECONDS) * (together_s > 0)
    assert len(hatched) - len(tops) == 2 * len(SECONDS)
    assert ax.get_ylim()[1] > 3 + together_s
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "stall of the class\n(model)" in labels
    has_entry = "stall of several classes\ntogether (model)" in labels
    assert has_entry == (together_s > 0)


def limits_of_second_epoch(table, **changes):
    found = decide_limits(break_down(table), None, None, 1, may_hide=True)
    return found.assign(**changes)


def test_a_breakdown_says_where_it_is_open_what_limits():
    table = io_time_of()
    figure = draw_breakdown(table, limits=limits_of_second_epoch(table))
    notes = " ".join(figure.get_supxlabel().split())
    assert "Computation may hide I/O time. Storage limits where" in notes
    assert (
        "128 KiB files, 60 OSTs: undecided at 0 to 50 % (GFS-META if storage" in notes
    )
    plain = " ".join(draw_breakdown(table).get_supxlabel().split())
    assert "limits" not in plain


def test_where_storage_does_not_limit_a_figure_has_words_in_place_of_improvements():
    table = io_time_of()
    known = {"storage": "does not limit", "why": "", "most_s": 0.5, "most_percent": 4.0}
    limits = limits_of_second_epoch(table, **known)
    figure = no_improvement(limits, spread_of(table), **ARGUMENTS)
    assert " ".join(figure.get_suptitle().split()) == (
        "Storage does not limit: 128 KiB files, 60 OSTs, second epoch (emulated)"
    )
    (text,) = figure.axes[0].texts
    words = " ".join(text.get_text().split())
    assert words.startswith("Computation and processor limit at cache rate 0 %: no")
    assert words.endswith("So no improvement of storage is recommended.")
    assert not figure.axes[0].patches


def test_words_stand_below_the_title_of_a_figure_that_gets_higher():
    figure = draw_breakdown(io_time_of())
    title, height = figure.get_suptitle(), figure.get_figheight()
    write_first(figure, "")
    assert (figure.get_suptitle(), figure.get_figheight()) == (title, height)
    write_first(figure, "It is undecided.")
    assert figure.get_suptitle() == f"{title}\nIt is undecided."
    assert figure.get_figheight() > height


def test_points_at_which_the_machine_drifted_have_squares():
    table = io_time_of(repetitions=3)
    scenario = tuple(table[columns.SCENARIO].iloc[0])
    origin = Origin(PROVENANCE, drifted=[(*scenario, 50)])
    figure = draw_breakdown(table, provenance=origin)
    (ax,) = figure.axes
    (square,) = lines_with(ax, "s")
    assert points_of(square) == [(50, 7)]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "the machine drifted" in labels


@pytest.mark.parametrize("name", ["improvement", "sufficient", "cheapest"])
def test_estimates_say_that_they_follow_the_papers_rule(name):
    notes = notes_of(drawn(name, 1))
    assert "Estimated by the paper's rule" in notes
    assert "and too little where all processes wait for it" in " ".join(notes.split())


@pytest.mark.parametrize("name", ["improvement by both", "sufficient by both"])
def test_estimates_by_both_say_how_each_is_made_and_the_others_name_no_model(name):
    notes = notes_of(drawn(name, 1))
    assert "Estimated by the paper's rule" in notes
    assert f"Estimated by the model ({MODEL_WORDS}): the devices of a class" in notes
    assert "by the model" not in notes_of(drawn(name.removesuffix(" by both"), 1))


def test_rule_and_model_stand_side_by_side_with_the_cut_by_each():
    """GFS-META +50 %: 5 s by the rule, a tenth more by the model."""
    axes = drawn("improvement by both", 1).axes
    titles = [ax.get_title() for ax in axes]
    cut = "best at 50 %:\n6.00 s → {} s (\N{MINUS SIGN}{} %)"
    assert titles[:2] == [
        "GFS-META +50 %, by the rule\n" + cut.format("5.00", "16.7"),
        "GFS-META +50 %, by the model\n" + cut.format("5.50", "8.3"),
    ]
    assert [ax.get_subplotspec().is_first_col() for ax in axes] == [True, False] * 2
    assert len({ax.get_ylim() for ax in axes}) == 1


def test_maps_by_rule_and_model_have_the_same_colours():
    """META +100 % takes 4.5 s by the rule, 4.95 s by the model."""
    rule, model, bar = drawn("sufficient by both", 1).axes
    assert rule.get_title(loc="left").splitlines() == [
        "By the rule: 7 of 9 meet the goal",
        "cheapest of these: GFS-META +100 %, cache rate 50 %",
    ]
    words = " ".join(model.get_title(loc="left").split())
    assert "cheapest of these: GFS-META +200 %, cache rate 0 %" in words
    (star,) = lines_with(model, "*")
    assert points_of(star) == [(200, 0)]
    colours = [
        dict(zip(map(tuple, c.get_offsets().tolist()), c.get_facecolors(), strict=True))
        for c in (rule.collections[0], model.collections[0])
    ]
    assert colours[0][100, 100].tolist() == colours[1][100, 100].tolist()
    assert bar.get_ylabel() == "least cache rate that meets the goal (%)"


def test_estimated_bars_have_intervals_as_error_bars():
    """GFS-META +50 %: at 50 % 5, 6 and 7 s."""
    ax = draw_improvement(io_time_of(repetitions=3)).axes[0]
    bars = [c for c in ax.collections if isinstance(c, LineCollection)]
    assert bars[0].get_segments()[1].tolist() == bar_around(50, 6)


def test_estimated_bar_of_a_point_that_was_run_once_has_no_error_bar():
    """The rule's estimates have no error of a model either."""
    io_time = io_time_of(repetitions=3)
    is_once = io_time["cache_rate_percent"].eq(0) & io_time["repetition"].gt(0)
    ax = draw_improvement(io_time[~is_once]).axes[0]
    bars = [c for c in ax.collections if isinstance(c, LineCollection)]
    drawn = [one.tolist() for one in bars[0].get_segments() if len(one)]
    assert 0 not in [x for (x, _), _ in drawn]
    assert bar_around(50, 6) in drawn


def test_every_axis_has_a_unit(figure):
    for ax in figure.axes:
        labels = [ax.get_xlabel(), ax.get_ylabel()]
        for label in filter(None, labels):
            assert "(s)" in label or "%" in label
        assert any(labels)


def test_nothing_is_drawn_outside_the_figure(figure):
    figure.draw_without_rendering()
    box = figure.get_tightbbox()
    assert box.x0 >= 0
    assert box.y0 >= 0
    assert box.x1 <= figure.get_figwidth()
    assert box.y1 <= figure.get_figheight()


def test_measured_numbers_carry_no_other_source_in_the_title():
    figure = draw_breakdown(io_time_of(source="measured"))
    assert "emulated" not in figure.get_suptitle()


def test_each_scenario_has_a_panel_in_the_order_of_the_table(three_scenarios):
    titles = [ax.get_title() for ax in draw_times(three_scenarios).axes]
    assert titles == [
        "128 KiB files, 60 OSTs",
        "128 KiB files, 1 OST",
        "12 MiB files, 60 OSTs",
    ]


def test_titles_name_whatever_else_tells_scenarios_apart():
    table = pd.DataFrame([SCENARIO | {"policy": policy} for policy in ("lru", "pin")])
    assert scenario_titles(table, TITLES)["title"].tolist() == [
        "128 KiB files, 60 OSTs, lru",
        "128 KiB files, 60 OSTs, pin",
    ]
    plain = scenario_titles(table.assign(n_osts=0, policy="lru"))
    assert plain["title"].tolist() == ["small dataset"]


@pytest.mark.parametrize(
    "draw",
    [draw_improvement, draw_sufficient, draw_cheapest],
    ids=lambda one: one.__name__,
)
def test_figures_of_one_scenario_say_which_of_the_sweep_it_is(draw, monkeypatch):
    io_time = io_time_of()
    assert "pinning" not in draw(io_time).get_suptitle()
    sweep = spread_of(pd.concat([io_time, io_time_of(policy="none")]))
    monkeypatch.setitem(globals(), "spread_of", lambda shown: sweep)
    title = draw(io_time).get_suptitle()
    assert ", pinning" in title
    assert "none" not in title


def test_epochs_are_counted_from_one_in_words():
    assert epoch_words(1) == "second epoch"
    assert epoch_words(6) == "epoch number 7"
    assert "second epoch" in draw_breakdown(io_time_of()).get_suptitle()


def test_times_have_round_and_triangular_markers_for_every_epoch():
    (ax,) = draw_times(io_time_of()).axes
    execution, io = lines_with(ax, "o"), lines_with(ax, "^")
    assert len(execution) == len(io) == 3
    assert points_of(execution[0]) == [(0, 12), (50, 12), (60, 12), (100, 12)]
    assert points_of(io[0]) == [(0, 9), (50, 6), (60, 8), (100, 10)]


def test_repetitions_become_their_mean_and_a_band_of_its_interval():
    (ax,) = draw_times(io_time_of(repetitions=3)).axes
    assert points_of(lines_with(ax, "^")[0])[:2] == [(0, 10), (50, 7)]
    bands = [band.get_paths()[0].vertices for band in ax.collections]
    band = next(band for band in bands if band[:, 1].min() == pytest.approx(7 - HALF_S))
    at_zero = band[band[:, 0] == 0][:, 1]
    assert (at_zero.min(), at_zero.max()) == pytest.approx((10 - HALF_S, 10 + HALF_S))


def test_single_repetitions_among_several_have_no_spread():
    io_time = io_time_of(repetitions=3)
    alone = (io_time["cache_rate_percent"] == 100) & (io_time["repetition"] > 0)
    io_time = io_time[~alone]
    figure = draw_breakdown(io_time)
    assert (
        "1 to 3 repetitions of a point; a point run once has no interval"
        in notes_of(figure)
    )
    ends = [end for bar in segments_of(figure.axes[0]) for end in bar]
    assert {rate for rate, time_s in ends if time_s == time_s} == {0, 50, 60}
    (ax,) = draw_times(io_time).axes
    paths = (path for band in ax.collections for path in band.get_paths())
    assert {rate for path in paths for rate in path.vertices[:, 0]} == {0, 50, 60}


def test_bars_stand_at_their_cache_rate_and_stack_to_the_io_time():
    (ax,) = draw_breakdown(io_time_of()).axes
    centres = [bar.get_x() + bar.get_width() / 2 for bar in ax.patches[:4]]
    assert centres == pytest.approx([0, 50, 60, 100])
    tops = [bar.get_y() + bar.get_height() for bar in ax.patches[-4:]]
    assert tops == pytest.approx([9, 6, 8, 10])
    colours = [to_hex(bar.get_facecolor()).upper() for bar in ax.patches[::4]]
    assert colours == [io_class.colour for io_class in IOClass]


def test_reads_from_peers_are_a_fifth_bar_where_a_run_makes_them():
    five = io_time_of(policy="adhoc")
    net = five[five["io_class"] == "gfs_read"].assign(io_class="net_read", time_s=2.0)
    both = pd.concat([io_time_of(), five, net], ignore_index=True)
    four, (first, second) = draw_breakdown(io_time_of()), draw_breakdown(both).axes
    adhoc, pinning = sorted([first, second], key=lambda ax: -len(ax.patches))
    assert (len(adhoc.patches), len(pinning.patches)) == (20, 16)
    assert to_hex(adhoc.patches[-1].get_facecolor()).upper() == NET_READ.colour
    tops = [bar.get_y() + bar.get_height() for bar in adhoc.patches[-4:]]
    assert tops == pytest.approx([11, 8, 10, 12])
    labels = [text.get_text() for text in adhoc.figure.legends[0].get_texts()]
    assert labels[:2] == ["sum of the five", "NET-READ"]
    labels = [text.get_text() for text in four.legends[0].get_texts()]
    assert labels[:2] == ["sum of the four", "LFS-META"]


def test_the_best_cache_rate_is_marked():
    (ax,) = draw_breakdown(io_time_of()).axes
    assert [text.get_text() for text in ax.texts] == [
        "best: 50 %, 6.00 s\n(one repetition, no interval)"
    ]
    assert [points_of(mark) for mark in lines_with(ax, "D")] == [[(50, 6)]]
    assert lines_with(ax, "D")[0].get_markerfacecolor() == "white"


def test_rates_that_cannot_be_told_from_the_best_are_marked():
    """6, 7, 8 s at 50 %; 8.1, 7.2, 7.5 s at 60 %; at 100 % always 4 s longer."""
    io_time = io_time_of(repetitions=3)
    near = io_time["cache_rate_percent"] == 60
    factor = io_time["repetition"].map({0: 8.1 / 8, 1: 7.2 / 9, 2: 7.5 / 10})
    io_time["time_s"] = io_time["time_s"].where(~near, io_time["time_s"] * factor)
    figure = draw_breakdown(io_time)
    (ax,) = figure.axes
    (words,) = (text.get_text().replace("\N{NO-BREAK SPACE}", " ") for text in ax.texts)
    assert words.splitlines() == [
        "best: 50 and 60 %, 7.00 s",
        "(60 cannot be told from 50 at n = 3)",
    ]
    (marks,) = lines_with(ax, "D")
    assert marks.get_markerfacecolor() == "white"
    assert points_of(marks) == [(50, 7), (60, pytest.approx(7.6))]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "best, undecided: these\nrates cannot be told\nfrom the best" in labels
    assert "best cache rate" not in labels
    assert "paired t tests over the repetitions" in notes_of(figure)


def test_a_best_rate_that_is_decided_is_filled():
    (ax,) = draw_breakdown(io_time_of(repetitions=3)).axes
    (mark,) = lines_with(ax, "D")
    assert mark.get_markerfacecolor() == "#222222"
    (words,) = (text.get_text().replace("\N{NO-BREAK SPACE}", " ") for text in ax.texts)
    assert words == "best: 50 %, 7.00 s\n(n = 3)"


def test_the_words_of_the_best_rates_stay_in_their_panel():
    io_time = io_time_of(repetitions=3)
    (ax,) = draw_breakdown(io_time).axes
    ax.figure.draw_without_rendering()
    (words,) = (text.get_window_extent() for text in ax.texts)
    assert not words.overlaps(ax.title.get_window_extent())
    assert ax.get_window_extent().x0 <= words.x0
    assert words.x1 <= ax.get_window_extent().x1


def test_an_epoch_that_is_absent_is_named():
    with pytest.raises(ValueError, match=r"got 7, expected one of \[0, 1, 2\]"):
        draw_breakdown(io_time_of(), epoch=7)


def test_each_improvement_has_a_panel_with_the_cut_of_the_best_time():
    """GFS-META +50 %: 5 s at 50 %; LFS-READ +100 %: 5 s at 50 %."""
    titles = [ax.get_title() for ax in draw_improvement(io_time_of()).axes]
    assert titles == [
        "GFS-META +50 %\nbest at 50 %:\n6.00 s → 5.00 s (\N{MINUS SIGN}16.7 %)",
        "LFS-READ +100 %\nbest at 50 %:\n6.00 s → 5.00 s (\N{MINUS SIGN}16.7 %)",
    ]


def test_a_best_point_that_moves_is_named_with_both_cache_rates():
    """LFS-READ +300 %: 6 to 4.5 s at 50 %, 8 to 4.25 s at 60 %, 10 to 3.25 s."""
    spread = spread_of(io_time_of())
    table = improved(io_time_of(), [{"lfs_read": 300}])
    (ax,) = plot_improvement(table, spread, provenance=Origin(PROVENANCE)).axes
    assert "best at 50 % → 100 %:\n6.00 s → 3.25 s" in ax.get_title()
    best = {points_of(line)[0] for line in lines_with(ax, "D")}
    assert best == {(50, 6), (100, 3.25)}
    assert points_of(lines_with(ax, "o")[0])[0] == (0, 9)


def test_sufficient_combinations_are_dots_coloured_by_the_least_cache_rate():
    """With META +100 % and READ +100 % 50 % takes 1 + 1.5 + 1 = 3.5 s."""
    ax, bar = draw_sufficient(io_time_of()).axes
    (dots,) = ax.collections
    (insufficient,) = lines_with(ax, ".")
    assert (0, 0) in points_of(insufficient)
    assert [100, 100] in dots.get_offsets().tolist()
    labels = [label.get_text() for label in bar.get_yticklabels()]
    assert labels == ["0", "50", "100"]
    assert bar.get_ylabel() == "least cache rate that meets the goal (%)"


def test_combinations_that_only_the_mean_meets_are_white_inside():
    """META and READ +100 %: 3.5, 4.5 and 5.5 s at 50 %, where the goal is 4.5 s."""
    ax, *_ = draw_sufficient(io_time_of(repetitions=3)).axes
    (unsure,) = lines_with(ax, "o")
    assert (100, 100) in points_of(unsure)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "met by the mean, not by every repetition" in labels


def test_any_two_classes_can_be_the_axes():
    figure = draw_sufficient(io_time_of(), classes=("lfs_meta", "gfs_read"))
    ax = figure.axes[0]
    assert ax.get_xlabel() == "LFS-META improvement (% more throughput)"
    assert ax.get_ylabel() == "GFS-READ improvement (% more throughput)"


def test_an_impossible_goal_is_said_to_be_so():
    impossible = Goal("io_time", 0.6)
    (ax,) = draw_sufficient(io_time_of(), impossible).axes
    (text,) = (text.get_text() for text in ax.texts)
    assert text.startswith("No combination on this grid meets\nthe goal of 0.600 s")
    figure = draw_cheapest(io_time_of(), impossible)
    assert figure.get_suptitle().startswith("No improvements of the grid meet the goal")
    assert figure.axes[1].get_title().startswith("even after GFS-")


def test_the_goal_and_its_share_of_the_best_time_are_in_the_title():
    title = draw_sufficient(io_time_of()).get_suptitle().replace("\n", " ")
    assert "the goal of 4.50 s of I/O time (75 % of the best" in title


def test_a_goal_of_execution_time_says_how_it_is_compared():
    goal = Goal("execution_time", 6.5, difference_s=2.0)
    figure = draw_cheapest(io_time_of(), goal)
    assert "6.50 s of execution time" in figure.get_suptitle().replace("\n", " ")
    assert "mean difference, 2.00 s, so the goal leaves 4.50 s" in notes_of(figure)
    lines = [line for line in figure.axes[0].lines if line.get_linestyle() == "--"]
    assert [line.get_ydata()[0] for line in lines] == [4.5]


def test_the_cheapest_combination_is_drawn_before_and_after():
    """GFS-META +100 % meets 4.5 s at 50 %: 1 + 3 / 2 + 2 s."""
    row, cheapest = search(io_time_of(), GOAL)
    figure = plot_cheapest_combination(
        improved(io_time_of(), [{"gfs_meta": 100}]),
        row,
        cheapest,
        spread_of(io_time_of()),
        **ARGUMENTS,
    )
    before, after = figure.axes
    assert before.get_title() == "before\nbest at 50 %: 6.00 s"
    assert after.get_title().splitlines() == [
        "after GFS-META +100 %",
        "best at 50 %:",
        "6.00 s → 4.50 s (\N{MINUS SIGN}25.0 %)",
    ]
    needs = f"Cheapest improvement: {COSTS}; needs 50 % on the LFS: 50 GiB per node."
    assert needs in notes_of(figure)
    assert points_of(lines_with(after, "v")[0]) == [(50, 4.5)]
    assert before.get_ylim() == after.get_ylim()


@pytest.mark.parametrize(
    ("n_others", "words"),
    [
        (0, f"{COSTS}; needs"),
        (1, f"{COSTS}; 1 other minimal one costs as much; needs"),
        (2, f"{COSTS}; 2 other minimal ones cost as much; needs"),
    ],
)
def test_combinations_as_cheap_as_the_cheapest_are_counted(n_others, words):
    row, cheapest = search(io_time_of(), GOAL)
    cheapest["n_as_cheap"] = n_others
    figure = plot_cheapest_combination(
        improved(io_time_of(), [{"gfs_meta": 100}]),
        row,
        cheapest,
        spread_of(io_time_of()),
        **ARGUMENTS,
    )
    assert f"Cheapest improvement: {words}" in notes_of(figure)


def test_a_map_counts_the_combinations_as_cheap_as_its_cheapest():
    figure = draw_sufficient(io_time_of(), cost=0)
    title = figure.axes[0].get_title(loc="left")
    assert title.splitlines()[0] == "By the rule: 7 of 9 meet the goal"
    assert " ".join(title.split()).endswith("; 6 others cost as much")


def test_a_goal_that_is_met_already_is_said_to_need_no_improvement():
    row, cheapest = search(io_time_of(), Goal("io_time", 6.0))
    figure = plot_cheapest_combination(
        improved(io_time_of(), []), row, cheapest, spread_of(io_time_of()), **ARGUMENTS
    )
    assert figure.axes[1].get_title().splitlines() == [
        "goal is met without improvement",
        "best at 50 %: 6.00 s",
    ]
    assert "improvement: needs 50 % on the LFS: 50 GiB per node." in notes_of(figure)


def test_a_cheapest_combination_that_only_the_mean_meets_is_said_to_be_so():
    """META and READ +100 % at 50 %: 3.5, 4.5 and 5.5 s; once it is 3.5 s."""
    words = "met by the mean, not by every repetition"
    assert f"50 GiB per node; {words}." in notes_of(drawn("cheapest", 3))
    assert words not in notes_of(drawn("cheapest", 1))


def test_bars_of_another_process_than_before_are_marked():
    """Rank 1 reads its LFS for 5.5 s; GFS-META +100 % takes rank 0 from 6 to 4.5 s."""
    io_time = io_time_of()
    busy = (io_time["rank"] == 1) & (io_time["io_class"] == "lfs_read")
    busy &= io_time["cache_rate_percent"] == 50
    table = improved(
        io_time.assign(time_s=io_time["time_s"].mask(busy, 5.5)),
        [{"gfs_meta": 100}],
        ("rule", "model"),
    )
    table.loc[table["method"] == "model", "slowest_rank"] = -1
    figure = plot_improvement(table, spread_of(io_time), model=MODEL_WORDS, **ARGUMENTS)
    rule, model = figure.axes
    assert lines_with(rule, "s")[0].get_xdata().tolist() == [50]
    assert [len(mark.get_xdata()) for mark in lines_with(model, "s")] == [0]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    words = "another process\nis the slowest now"
    assert words in labels
    same = drawn("improvement", 1).legends[0].get_texts()
    assert words not in [text.get_text() for text in same]


def test_a_map_of_one_cache_rate_names_it_in_the_legend_and_has_no_colour_bar():
    io_time = io_time_of()
    figure = draw_sufficient(io_time[io_time["cache_rate_percent"] == 50])
    (ax,) = figure.axes
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "least cache rate that meets the goal: 50 %" in labels
    met = draw_sufficient(io_time, Goal("io_time", 50.0)).axes[0].get_legend()
    assert "no cache rate meets the goal" not in [t.get_text() for t in met.get_texts()]


def test_subtitles_of_maps_do_not_touch():
    figure = draw_sufficient(
        io_time_of(), Goal("io_time", 3.5), methods=("rule", "model")
    )
    figure.draw_without_rendering()
    left, right = (ax._left_title.get_window_extent() for ax in figure.axes[:2])
    assert len(figure.axes[0].get_title(loc="left").splitlines()) > 2
    assert not left.overlaps(right)


def test_a_goal_below_the_difference_has_no_line_and_a_note_that_says_why():
    goal = Goal("execution_time", 1.5, difference_s=2.0)
    figure = draw_cheapest(io_time_of(), goal)
    words = "The difference alone, 2.00 s, exceeds the goal: no I/O improvement can"
    assert words in notes_of(figure)
    assert words in notes_of(draw_sufficient(io_time_of(), goal))
    assert not [line for ax in figure.axes for line in lines_with(ax, "None")]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "goal (I/O time)" not in labels


@pytest.mark.parametrize("n_panels", [1, 2, 3, 4])
def test_titles_of_improvements_of_all_classes_do_not_touch(n_panels):
    improvements = [
        dict.fromkeys(map(str, IOClass), 150 + panel) for panel in range(n_panels)
    ]
    table = improved(io_time_of(), improvements)
    figure = plot_improvement(table, spread_of(io_time_of()), **ARGUMENTS)
    figure.draw_without_rendering()
    boxes = [ax.title.get_window_extent() for ax in figure.axes]
    boxes += [legend.get_window_extent() for legend in figure.legends]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    assert "GFS-READ +150 %, GFS-META +150 %,\n" in figure.axes[0].get_title()


def test_the_breakdown_has_intervals_as_error_bars():
    """At 50 % 6, 7 and 8 s: 4.303 / sqrt(3) s to each side of 7 s."""
    (ax,) = draw_breakdown(io_time_of(repetitions=3)).axes
    assert bar_around(50, 7) in segments_of(ax)


@pytest.mark.parametrize("name", ["times", "improvement", "cheapest"])
def test_at_a_single_cache_rate_the_spread_is_an_error_bar(name):
    """Before any improvement 6, 7 and 8 s."""
    io_time = io_time_of(repetitions=3)
    one = io_time[io_time["cache_rate_percent"] == 50]
    figure = DRAW[name](one)
    assert bar_around(50, 7) in segments_of(figure.axes[-1])
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "95 % confidence\ninterval of the mean" in labels


@pytest.mark.parametrize("name", ["improvement", "cheapest"])
def test_the_legend_has_the_mark_of_the_bars_and_names_the_band_of_the_line(name):
    figure = DRAW[name](io_time_of(repetitions=3))
    (legend,) = figure.legends
    labels = [text.get_text() for text in legend.get_texts()]
    place = labels.index("95 % confidence\ninterval (lines: band)")
    assert isinstance(legend.legend_handles[place], Line2D)


def test_the_same_table_gives_the_same_bytes(tmp_path):
    suffixes = ("svg", "png", "pdf")
    written = [[tmp_path / f"{name}.{suffix}" for suffix in suffixes] for name in "ab"]
    for paths in written:
        save_figure(draw_breakdown(io_time_of()), paths)
    for first, second in zip(*written, strict=True):
        assert first.read_bytes() == second.read_bytes()
    assert {path for path in tmp_path.iterdir()} == {*written[0], *written[1]}


def test_one_figure_is_written_in_all_formats(tmp_path):
    paths = [tmp_path / "new" / f"figure.{suffix}" for suffix in ("svg", "png", "pdf")]
    save_figure(draw_breakdown(io_time_of()), paths)
    starts = [path.read_bytes()[:5] for path in paths]
    assert starts == [b"<?xml", b"\x89PNG\r", b"%PDF-"]
    assert b"<dc:date>" not in paths[0].read_bytes()


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_file_that_a_full_disk_does_not_take_is_named(tmp_path, monkeypatch, suffix):
    full = Mock(side_effect=OSError(28, "No space left on device"))
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match=f"No space left on device: .*/figure.{suffix}"):
        save_figure(Figure(figsize=(1, 1)), [tmp_path / f"figure.{suffix}"])
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_format_is_rejected(tmp_path):
    with pytest.raises(ValueError, match=r"got \.gif, expected"):
        save_figure(Figure(), [tmp_path / "figure.gif"])


def test_zero_time_still_draws():
    figure = draw_breakdown(io_time_of().assign(time_s=0.0))
    assert np.isfinite(figure.axes[0].get_ylim()).all()


@pytest.mark.parametrize("draw", [draw_times, draw_breakdown])
def test_panels_share_the_cache_rates_and_long_titles_are_broken(draw):
    everything = io_time_of(loader="lmdbio-lmm-dio-prov-coal-stag")
    nothing = io_time_of(loader="tensorflow").query("cache_rate_percent == 0")
    figure = draw(pd.concat([everything, nothing], ignore_index=True))
    wide, narrow = figure.axes
    assert wide.get_xlim() == narrow.get_xlim()
    assert "lmdbio-lmm-dio-prov-coal-stag" in wide.get_title()
    assert max(map(len, wide.get_title().splitlines())) <= 44


def utilisation_estimates():
    """Return estimates of AU over four cache rates: before, and with two improvements.

    Before it is 50, 60, 70, 60 %; GFS-META +50 % brings 85 % at most, both 95 %.
    """
    by_improvement = {
        (0, 0): (50, 60, 70, 60),
        (50, 0): (80, 85, 75, 60),
        (50, 50): (80, 91, 95, 90),
    }
    parts = []
    for (meta, read), percents in by_improvement.items():
        rows = estimates_of(io_time_of(), [{}], ("model",))
        rows["utilisation_percent"] = [float(one) for one in percents]
        rows["gfs_meta_improvement_percent"] = meta
        parts.append(rows.assign(lfs_read_improvement_percent=read))
    return pd.concat(parts, ignore_index=True)


UTILISATION_GOAL = pd.Series(
    {
        "goal_of": "utilisation",
        "goal_percent": 90.0,
        "goal_s": np.nan,
        "difference_s": 0.0,
        "best_utilisation_percent": 70.0,
        "grid_step_percent": 50.0,
    }
)
BOTH = {"gfs_meta": 50, "lfs_read": 50}


def test_utilisation_after_improvements_has_its_goal_and_the_least_cache_rate():
    figure = plot_improved_utilisation(
        utilisation_estimates(),
        [BOTH, {"gfs_meta": 50}],
        UTILISATION_GOAL,
        spread_of(io_time_of()),
        model=MODEL_WORDS,
        **ARGUMENTS,
    )
    met, missed = figure.axes
    assert met.get_title() == (
        "GFS-META +50 %, LFS-READ +50 %\nbest at 60 %:\nAU 70.0 → 95.0 %"
    )
    assert missed.get_title().endswith("best at 60 % → 50 %:\nAU 70.0 → 85.0 %")
    before, after, goal, triangle = met.lines
    assert before.get_ydata().tolist() == [50, 60, 70, 60]
    assert after.get_ydata().tolist() == [80, 91, 95, 90]
    assert set(goal.get_ydata()) == {90}
    assert (triangle.get_xdata()[0], triangle.get_ydata()[0]) == (50, 91)
    assert len(missed.lines) == 3
    words = figure.get_supxlabel()
    assert "The paper's rule does not tell it" in words
    assert "(70 % at best without improvement)" in figure.get_suptitle()


def test_cheapest_improvement_for_a_utilisation_says_cost_and_steps():
    cheapest = pd.Series(
        {
            "cost": 100.0,
            "n_as_cheap": 0,
            "min_cache_rate_percent": 50,
            "lfs_gib_per_node": 2.0,
            "in_every_repetition": True,
        }
    )
    rows = utilisation_estimates()
    shown = rows[rows["lfs_read_improvement_percent"] == rows[IMPROVEMENTS[1]]]
    draw = functools.partial(
        plot_cheapest_utilisation, spread=spread_of(io_time_of()), **ARGUMENTS
    )
    found = draw(shown, UTILISATION_GOAL, cheapest)
    assert found.get_suptitle().startswith("Cheapest improvements that meet")
    assert "Searched in steps of 50 % of each class." in found.get_supxlabel()
    assert COSTS in found.get_supxlabel()
    assert found.axes[0].get_title().startswith("after GFS-META +50 %")
    none = draw(shown, UTILISATION_GOAL, None)
    assert none.get_suptitle().startswith("No improvements of the grid")
    assert none.axes[0].get_title().startswith("even after")


def test_equal_repetitions_whose_ends_differ_by_rounding_have_no_negative_bar():
    mean = pd.Series([0.1 + 0.2, 1.0])
    below, above = distances(mean, pd.Series([0.3, 0.5]), pd.Series([0.3, 2.0]))
    assert below.tolist() == [pytest.approx(0, abs=1e-15), 0.5]
    assert above.tolist() == [0.0, 1.0]


# ---- What rules give


class Named(dict):
    """Inputs or parameters of a rule, as Snakemake has them."""

    __getattr__ = dict.__getitem__


@pytest.fixture
def given_of(tmp_path):
    """Return a function that gives tables as files, and settings."""

    def give(tables, **settings):
        files = Named(observations=[])
        for name, frame in tables.items():
            path = tmp_path / f"{name}.parquet"
            write_table(frame, path, name)
            files[name] = str(path)
        known = {"provenance": PROVENANCE, "dataset_titles": TITLES}
        known |= {"epoch": 1, "scenario": SCENARIO}
        return Given(SimpleNamespace(input=files, params=Named(known | settings)))

    return give


def searched_tables(seconds=4.5, **limits):
    """Return what figures 4 and 5 are drawn from."""
    io_time = io_time_of()
    goals, combinations = search_combinations(
        select_epoch(io_time, 1),
        Goal("io_time", seconds),
        SEARCH,
    )
    grid = improvement_grid(("gfs_meta", "lfs_read"), 200, 100)
    return {
        "io_time": io_time,
        "goals": goals,
        "combinations": combinations,
        "spread": spread_of(io_time),
        "limits": limits_of_second_epoch(io_time, **limits),
        "estimates": estimates_of(io_time, grid, ("model", "rule")),
    }


OF_GRID = {
    "classes": ("gfs_meta", "lfs_read"),
    "grid": {"max_improvement_percent": 200, "step_percent": 100},
    "cost_per_percent": dict.fromkeys(map(str, IOClass), 1),
    "model": MODEL_WORDS,
    "max_improvement_percent": 200,
}


def test_a_table_is_read_once_for_a_figure_and_its_words(given_of):
    given = given_of({"io_time": io_time_of()})
    first = given.table("io_time")
    Path(given.inputs.io_time).unlink()
    assert given.table("io_time") is first
    assert given_of({}).table("estimates", "observations") is None


def test_tables_of_several_files_are_joined(given_of):
    given = given_of({"io_time": io_time_of()})
    given.inputs["both"] = [given.inputs.io_time] * 2
    assert len(given.table("io_time", "both")) == 2 * len(given.table("io_time"))


def test_shown_is_the_scenario_and_epoch_drawn_the_scenarios_in_order(
    given_of, three_scenarios
):
    others = [SCENARIO | {"dataset": "large"}, SCENARIO]
    given = given_of({"io_time": three_scenarios}, scenarios=others)
    shown = given.shown("io_time")
    assert set(shown["epoch"]) == {1}
    assert set(shown["dataset"]) == {"small"}
    assert list(given.drawn("io_time")["dataset"].unique()) == ["large", "small"]


def test_the_log_of_figure_4_says_the_goal_and_how_many_meet_it(given_of):
    text = sufficient_combinations_module.describe(
        given_of(searched_tables(), **OF_GRID)
    )
    goal, _, *counts = text.splitlines()
    assert goal.startswith("the goal of 4.50 s of I/O time")
    assert goal.endswith("; sufficient:")
    assert [one.split() for one in counts[:2]] == [["model", "6"], ["rule", "7"]]


@pytest.mark.parametrize(
    ("seconds", "words"), [(4.5, "gfs_meta"), (0.1, "no combination meets the goal")]
)
def test_the_log_of_figure_5_says_the_cheapest_combination(given_of, seconds, words):
    given = given_of(searched_tables(seconds), **OF_GRID)
    goal, found = cheapest_combination_module.describe(given).split("difference_s", 1)
    assert "goal_s" in goal
    assert words in found


def test_figure_4_shows_methods_in_the_order_of_the_tables(given_of):
    figure = sufficient_combinations_module.draw(given_of(searched_tables(), **OF_GRID))
    titles = [ax.get_title(loc="left").partition(":")[0] for ax in figure.axes[:2]]
    assert titles == ["By the model", "By the rule"]


@pytest.mark.parametrize("module", ["sufficient", "cheapest"])
@pytest.mark.parametrize("storage", ["does not limit", "undecided"])
def test_improvements_are_drawn_unless_storage_does_not_limit(
    given_of, module, storage
):
    known = {"storage": storage, "why": "", "most_s": 0.5, "most_percent": 4.0}
    given = given_of(searched_tables(**known), **OF_GRID)
    draw = {
        "sufficient": sufficient_combinations_module.draw,
        "cheapest": cheapest_combination_module.draw,
    }[module]
    words = " ".join(draw(given).get_suptitle().split())
    assert words.startswith("Storage does not limit") == (storage == "does not limit")


def test_figures_of_logs_and_designs_depend_on_no_code_of_runs():
    """A figure is drawn again if what it imports has changed."""
    for subject in ("logs", "designs"):
        for one in declared_figures(subject):
            names = {path.stem for path in imported_modules(one.path, SCRIPTS)}
            assert "given" in names
            assert not names & {"given_runs", "origin", "search"}
