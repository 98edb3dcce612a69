"""Figure 6 on hand-made tables."""

import math

import numpy as np
import pandas as pd
import pytest
from descriptions import SCENARIO
from matplotlib.colors import to_hex
from tierscope.core.columns import CLASSES, TOGETHER
from tierscope.core.io_class import IOClass
from tierscope.core.provenance import Origin
from tierscope.figures.training.stalls import plot_stalls


def storage_time(
    storage_s=(4.0, 2.0), compute_s=5.0, interval_s=0.5, other_s=0.0, **keys
):
    """Return points whose ideal run takes 6 s."""
    rows = [
        SCENARIO
        | keys
        | {
            "cache_rate_percent": rate,
            "epoch": 1,
            "n_repetitions": 3,
            "execution_time_s": 6 + one,
            "compute_time_s": compute_s,
            "ideal_time_s": 6.0,
            "other_s": other_s,
            "ideal_other_s": other_s,
            "storage_s": one,
            "storage_interval_s": interval_s,
            "utilisation_percent": 100 * compute_s / (6 + one),
            "utilisation_interval_percent": 1.0,
            "warmup_s": math.nan,
            "ideal_warmup_s": math.nan,
            "loader_end_s": math.nan,
            "loop_utilisation_percent": math.nan,
            "least_because": "",
        }
        for rate, one in zip((0, 50), storage_s, strict=True)
    ]
    return pd.DataFrame(rows)


def class_stalls(parts=(1, 3, 0, 0, 4), **keys):
    """Return what the model says of both points: an eighth, three, none, none, half."""
    rows = [
        SCENARIO
        | keys
        | {"cache_rate_percent": rate, "epoch": 1, "part": part, "stall_s": float(one)}
        for rate in (0, 50)
        for part, one in zip([*CLASSES, TOGETHER], parts, strict=True)
    ]
    return pd.DataFrame(rows).assign(execution_time_s=20.0, first_wait_s=0.0)


def after(*times_s):
    """Return what follows training at both points."""
    points = pd.DataFrame([SCENARIO | {"cache_rate_percent": r} for r in (0, 50)])
    index = pd.MultiIndex.from_frame(points)
    return pd.Series(times_s, index[: len(times_s)], name="time_s")


def draw(table=None, stalls=None, **options):
    table = storage_time() if table is None else table
    return plot_stalls(table, stalls, 1, provenance=Origin("made up"), **options)


def bars(ax, rate):
    """Return bottom, height, colour and hatch of the bars of a cache rate."""
    return [
        (bar.get_y(), bar.get_height(), to_hex(bar.get_facecolor()), bar.get_hatch())
        for bar in ax.patches
        if bar.get_x() + bar.get_width() / 2 == pytest.approx(rate) and bar.get_height()
    ]


def legend(figure):
    return [
        text.get_text().replace("\n", " ") for text in figure.legends[0].get_texts()
    ]


def notes(figure):
    return " ".join(figure.get_supxlabel().split())


def test_a_bar_is_computation_processor_and_the_stall_as_the_model_divides_it():
    figure = draw(stalls=class_stalls())
    grey, dark, read, meta, together = bars(figure.axes[0], 0)
    assert (grey[:2], grey[3]) == ((0, 5), None)
    assert (dark[:2], dark[3]) == ((5, 1), None)
    assert read[:3] == (6, 0.5, IOClass.GFS_READ.colour.lower())
    assert meta[:3] == (6.5, 1.5, IOClass.GFS_META.colour.lower())
    assert together[:2] == (8, 2)
    assert all(one[3] for one in (read, meta, together))
    assert bars(figure.axes[0], 50)[-1][:2] == (7, 1)
    assert "divide it by the model: what would go" in notes(figure)
    assert legend(figure)[:3] == [
        "stall of several classes together (model)",
        "stall of GFS-META (model)",
        "stall of GFS-READ (model)",
    ]


def test_without_a_model_the_stall_is_one_piece_that_is_not_hatched():
    figure = draw()
    assert [one[1] for one in bars(figure.axes[0], 0)] == [5, 1, 4]
    assert bars(figure.axes[0], 0)[-1][3] is None
    assert legend(figure)[0] == "stall (not divided)"
    assert "the model" not in notes(figure)


def test_where_the_model_has_no_stall_what_was_measured_is_one_piece():
    figure = draw(stalls=class_stalls((0, 0, 0, 0, 0)))
    assert [one[1] for one in bars(figure.axes[0], 50)] == [5, 1, 2]


def test_a_scenario_that_the_model_does_not_know_is_one_piece_beside_others():
    table = pd.concat([storage_time(), storage_time(policy="none")])
    figure = draw(table, class_stalls())
    assert len(bars(figure.axes[0], 0)) == 5
    assert [one[1] for one in bars(figure.axes[1], 0)] == [5, 1, 4]


def test_programs_have_one_part_for_the_processor_and_no_utilisation():
    table = storage_time(compute_s=math.nan, loader="program")
    figure = draw(table.assign(utilisation_percent=np.nan))
    (ax,) = figure.axes
    assert [one[:2] for one in bars(ax, 0)] == [(0, 6), (6, 4)]
    assert legend(figure) == ["stall (not divided)", "computation and processor"]


def test_other_storage_is_a_part_of_its_own_between_processor_and_stall():
    figure = draw(storage_time(compute_s=3.0, other_s=2.0))
    assert [one[:2] for one in bars(figure.axes[0], 0)] == [
        (0, 3),
        (3, 1),
        (4, 2),
        (6, 4),
    ]
    assert legend(figure)[:2] == [
        "stall (not divided)",
        "other storage I/O, such as checkpoints",
    ]
    unknown = draw(storage_time(other_s=math.nan))
    assert [one[1] for one in bars(unknown.axes[0], 0)] == [5, 1, 4]
    half = storage_time(other_s=2.0).assign(ideal_other_s=math.nan)
    assert [one[1] for one in bars(draw(half).axes[0], 0)] == [5, 1, 4]


def test_what_a_loop_writes_while_it_computes_is_no_computation():
    figure = draw(storage_time(compute_s=5.0, other_s=2.0))
    assert [one[1] for one in bars(figure.axes[0], 0)] == [4, 2, 4]
    assert "below 0" not in notes(figure)


def test_warm_up_and_the_end_of_the_loader_are_parts_and_all_add_up_to_the_epoch():
    steps = {"warmup_s": 2.0, "ideal_warmup_s": 1.0, "loader_end_s": 0.5}
    table = storage_time(compute_s=3.0).assign(**steps)
    # Of 10 s, warm-up differs by one: storage is 4 s, and 0.5 s are the processor's.
    figure = draw(table)
    tops = [(0, 3), (3, 2), (5, 0.5), (5.5, 0.5), (6, 4)]
    assert [one[:2] for one in bars(figure.axes[0], 0)] == tops
    assert [one.split(":")[0] for one in legend(figure)[:4]] == [
        "stall (not divided)",
        "end of the loader, such as that of its workers",
        "processor, and waits for other processes",
        "warm-up",
    ]
    little = {"warmup_s": 0.05, "ideal_warmup_s": 0.05, "loader_end_s": 0.02}
    shown = legend(draw(table.assign(**little)))
    assert not [one for one in shown if one.startswith(("warm-up", "end of the"))]
    unknown = draw(table.assign(ideal_warmup_s=math.nan))  # so storage holds it
    assert [one[1] for one in bars(unknown.axes[0], 0)] == [3, 2.5, 0.5, 4]


def test_beside_computation_that_is_a_least_nothing_is_called_the_processors():
    figure = draw(storage_time().assign(least_because="never behind"))
    below = bars(figure.axes[0], 0)
    assert [one[1] for one in below] == [5, 1, 4]
    assert below[1][3] == "...."
    assert legend(figure) == [
        "stall (not divided)",
        "computation or processor: not known apart",
        "computation; at least this where the rest is dotted",
        "AU is at least this",
    ]
    exact, least = figure.axes[1].lines
    assert np.isnan(exact.get_ydata()).all()
    assert least.get_ydata().tolist() == pytest.approx([50, 62.5])
    assert least.get_linestyle() == "None"
    assert list(figure.axes[1].collections) == []  # no interval of a least


@pytest.mark.parametrize("n_notes", [2, 30])
def test_the_legend_stands_above_the_notes(n_notes):
    table = storage_time().assign(warmup_s=1, ideal_warmup_s=1, loader_end_s=0.2)
    table.loc[1, "least_because"] = "never behind"
    figure = draw(table, class_stalls(), sentences=["A line of a note."] * n_notes)
    figure.draw_without_rendering()
    below = figure._supxlabel.get_window_extent()
    assert figure.legends[0].get_window_extent().y0 > below.y1


def test_the_utilisation_that_the_loop_saw_stands_beside_that_of_the_device():
    table = storage_time()
    seen = table.assign(loop_utilisation_percent=table["utilisation_percent"] - 20)
    figure = draw(seen)
    assert figure.axes[1].lines[-1].get_ydata().tolist() == pytest.approx([30, 42.5])
    assert legend(figure)[-1] == "AU as the loop sees it"
    same = table.assign(loop_utilisation_percent=table["utilisation_percent"])
    assert legend(draw(same))[-1] == "accelerator utilisation (AU)"


@pytest.mark.parametrize(
    ("changes", "heights"),
    [({"storage_s": (-0.1, 2.0)}, [5, 1]), ({"compute_s": 6.5}, [6.5, 4])],
)
def test_parts_below_0_are_drawn_as_0_and_the_note_says_so(changes, heights):
    figure = draw(storage_time(**changes))
    assert [one[1] for one in bars(figure.axes[0], 0)] == heights
    assert "below 0 are drawn as 0" in notes(figure)
    assert "below 0" not in notes(draw())


def test_computation_that_is_cut_to_the_ideal_epoch_has_a_note():
    figure = draw(storage_time(compute_s=6.5, other_s=1.0))
    assert bars(figure.axes[0], 0)[0][1] == 5
    assert "Computation is drawn up to what an epoch takes" in notes(figure)
    assert "is drawn up to" not in notes(draw())


def test_whiskers_are_the_interval_of_what_storage_costs():
    (line,) = draw().axes[0].collections
    ends = [segment[:, 1].tolist() for segment in line.get_segments()]
    assert ends == [[9.5, 10.5], [7.5, 8.5]]
    once = storage_time(interval_s=math.nan)
    assert list(draw(once).axes[0].collections) == []


def test_utilisation_is_below_with_the_goals_line():
    figure = draw(goal_percent=90)
    below = figure.axes[1]
    assert below.get_ylabel() == "AU (%)"
    used, goal = below.lines[0], below.lines[-1]
    assert used.get_ydata().tolist() == pytest.approx([50, 62.5])
    assert set(goal.get_ydata()) == {90}
    assert legend(figure)[-1] == "goal: 90 % AU"
    assert "goal" not in legend(draw())[-1]


@pytest.mark.parametrize("n_scenarios", [1, 2, 3, 4, 5])
def test_each_scenario_has_a_panel_with_its_utilisation_below(n_scenarios):
    tables = [storage_time(n_osts=10 + one) for one in range(n_scenarios)]
    figure = draw(pd.concat(tables))
    assert len(figure.axes) == 2 * n_scenarios
    titles = [ax.get_title() for ax in figure.axes if ax.get_title()]
    expected = [f"small dataset, {10 + one} OSTs" for one in range(n_scenarios)]
    assert sorted(titles) == expected


def test_title_names_the_source_and_the_notes_hold_the_sentence():
    figure = draw(sentences=["Of 10 s an epoch, 4 s are storage."])
    assert figure.get_suptitle().endswith("second epoch (simulated)")
    assert "Of 10 s an epoch, 4 s are storage." in notes(figure)


def test_what_follows_training_is_beside_the_epoch_with_its_time():
    figure = draw(after_s=after(1.5, 100.0))
    axes = figure.axes[0]
    assert {"1.50 s", "100 s"} <= {one.get_text().strip() for one in axes.texts}
    heights = [
        one.get_height() for one in axes.patches if to_hex(one.get_fc()) == "#ffffff"
    ]
    assert heights[0] == 1.5
    assert 10 <= heights[1] < axes.get_ylim()[1]
    labels = [one.get_text() for one in figure.legends[0].get_texts()]
    assert labels[0] == "after training,\nin no epoch"
    assert "After training" in words_of(figure)


def test_figure_says_nothing_of_what_follows_training_where_nothing_does():
    assert "After training" not in words_of(draw())


def words_of(figure):
    """Return the words around the panels of a figure."""
    return " ".join(one.get_text().replace("\n", " ") for one in figure.texts)
