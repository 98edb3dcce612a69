import re

import numpy as np
import pandas as pd
import pytest
from build_explorer import write_text
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pages import embedded
from tierscope.analysis.breakdown import break_down
from tierscope.analysis.slowest.improved import improve
from tierscope.analysis.slowest.times import upper_envelope
from tierscope.analysis.training.limit import decide_limits
from tierscope.analysis.utilisation import UtilisationGoal
from tierscope.analysis.whatif import (
    Goal,
    estimate,
    improvement_grid,
)
from tierscope.core.columns import CLASS_TIMES, CLASSES, IMPROVEMENTS, TOGETHER
from tierscope.core.io_class import IOClass, total_s
from tierscope.core.provenance import Origin
from tierscope.core.tables import check_table
from tierscope.core.words import scenario_titles
from tierscope.pages.explorer.data import (
    add_model_answers,
    embedded_points,
    slider_envelope,
)
from tierscope.pages.explorer.page import build_explorer
from tierscope.pages.explorer.subjects import (
    Sweep,
    UtilisationSweep,
    nearest_goal_percent,
)

SCENARIO = {
    "source": "emulated",
    "system": "scale-model",
    "dataset": "small",
    "n_osts": 60,
    "policy": "pinning",
    "loader": "posix",
}
START = {
    "scenario": {"dataset": "small"},
    "epoch": 1,
    "goal": Goal("io_time", 3.0),
    "pair": ("gfs_meta", "lfs_read"),
    "max_improvement_percent": 200,
    "step_percent": 10,
    "cost_per_percent": dict.fromkeys(CLASSES, 1),
    "origin": Origin("scale-model, 2 ranks"),
}


def io_time_of(times_s, cache_rate_percent=50, repetition=0, epoch=1, **keys):
    """Return an I/O time table of one run from rows of four times a process."""
    rows = [
        {"rank": rank, "io_class": str(io_class), "time_s": float(time_s)}
        for rank, process_s in enumerate(times_s)
        for io_class, time_s in zip(IOClass, process_s, strict=True)
    ]
    run = {
        "cache_rate_percent": cache_rate_percent,
        "repetition": repetition,
        "epoch": epoch,
    }
    frame = pd.DataFrame(rows).assign(**(SCENARIO | keys | run), operations=1, bytes=0)
    return check_table(frame, "io_time")


@pytest.fixture(scope="module")
def io_time():
    """Return two cache rates of two processes; the best is 5 s at 50 %."""
    return pd.concat(
        [
            io_time_of([(1, 8, 0, 0), (1, 7, 0, 0)], cache_rate_percent=0),
            io_time_of([(1, 3, 1, 0), (1, 1, 3, 0)]),
        ],
        ignore_index=True,
    )


def build(io_time, kind=Sweep, title="What-if explorer: test", titles=None, **changes):
    subject = kind(io_time=io_time, **(START | changes))
    return build_explorer(subject, title, dataset_titles=titles)


@pytest.fixture(scope="module")
def html(io_time):
    return build(io_time)


def points_of(io_time, max_improvement_percent=200):
    scenarios = scenario_titles(io_time)
    return embedded_points(io_time, scenarios, max_improvement_percent)


def test_a_process_that_no_slider_makes_the_slowest_is_left_out():
    """Rank 1 is slower in LFS-READ only: 8/f + 1 against 1/f + 5 with f up to 3."""
    times_s = np.array([(0, 8, 1, 0), (0, 1, 5, 0), (0, 7, 1, 0)], dtype=float)
    assert slider_envelope(times_s, 50).tolist() == [0]
    assert slider_envelope(times_s, 200).tolist() == [0, 1]
    assert upper_envelope(times_s).tolist() == [0, 1]


@given(
    arrays(float, (8, 4), elements=st.floats(0, 10, width=32)),
    arrays(int, 4, elements=st.integers(0, 200)),
)
def test_the_slowest_time_is_that_of_all_processes(times_s, percents):
    kept = slider_envelope(times_s, 200)
    improved_s = total_s(improve(times_s, percents))
    assert improved_s[kept].max() == pytest.approx(improved_s.max(), rel=1e-12)


def test_processes_of_equal_times_are_embedded_once():
    assert slider_envelope(np.ones((3, 4)), 200).tolist() == [0]


def test_points_hold_the_seconds_of_each_repetition_process_and_class():
    io_time = pd.concat(
        [
            io_time_of([(1, 3, 1, 0), (1, 1, 3, 0)]),
            io_time_of([(1, 4, 1, 0), (1, 3, 1, 0)], repetition=1),
            io_time_of([(0, 0, 9, 1)], cache_rate_percent=100),
        ]
    )
    half, whole = points_of(io_time)
    assert half["runs_s"] == [[[1, 3, 1, 0], [1, 1, 3, 0]], [[1, 4, 1, 0]]]
    assert whole["runs_s"] == [[[0, 0, 9, 1]]]
    # 5 and 6 s: half a second to each side, times t of one degree of freedom, 12.7.
    assert half["interval"] == "-0.853 to 11.9 s at n = 2"
    assert whole["interval"] == "one repetition, no interval"
    assert half["best_set"] == whole["best_set"] == "50 % (n = 2; 100 run once)"
    assert (whole["scenario"], whole["epoch"]) == (0, 1)
    assert whole["cache_rate_percent"] == 100


PAIRS = [("gfs_meta", "lfs_read")]


@pytest.fixture(scope="module")
def by_model(io_time):
    """Return estimates for every cell of the map, a tenth above those of the rule."""
    estimates = estimate(io_time, improvement_grid(PAIRS[0], 200, 10), epochs=[1])
    for column in ("io_time_s", *CLASS_TIMES):
        estimates[column] *= 1.1
    return estimates.assign(method="model", slowest_rank=-1)


@pytest.fixture(scope="module")
def both(io_time, by_model):
    return build(io_time, estimates=by_model, pairs=PAIRS, model="a made-up network")


def test_the_models_answers_stand_in_rows_of_the_first_class(io_time, by_model):
    """Without improvement 1.1 times 9 s; LFS-READ +10 % changes nothing at 0 %."""
    points = points_of(io_time)
    grid = [0, 100, 200]
    add_model_answers(points, by_model, scenario_titles(io_time), PAIRS, grid)
    (answers,) = points[0]["answers"]
    assert answers["values"] == pytest.approx(
        [1.1 * s for s in (9, 9, 9, 5, 5, 5, 1 + 8 / 3, 1 + 8 / 3, 1 + 8 / 3)],
        rel=1e-10,
    )
    parts = np.array(answers["parts"])
    assert (parts.sum(axis=0) == 100_000).all()
    assert parts[1, :4].tolist() == [88889, 88889, 88889, 80000]


def test_the_mean_of_the_repetitions_is_embedded(io_time, by_model):
    again = by_model.assign(repetition=1, io_time_s=by_model["io_time_s"] + 1)
    points = points_of(pd.concat([io_time, io_time.assign(repetition=1)]))
    table = pd.concat([by_model, again])
    add_model_answers(points, table, scenario_titles(io_time), PAIRS, [0, 10])
    assert points[0]["answers"][0]["values"][0] == pytest.approx(9.9 + 0.5)


def test_a_map_with_a_hole_is_refused(io_time, by_model):
    with pytest.raises(ValueError, match="expected every cell of the map of gfs_meta"):
        build(io_time, estimates=by_model.iloc[:-1], pairs=PAIRS)


def test_a_page_with_both_has_a_choice_and_says_how_the_model_estimates(html, both):
    assert '<select name="method">' in both
    assert "Estimated by the model (a made-up network)" in both
    assert "GFS-META and LFS-READ in steps of 10 %, with the other classes" in both
    assert "60 OSTs (second epoch)" in both
    assert embedded(both)["scenes"] == ["0 1"]
    assert '<input type="hidden" name="method" value="rule">' in html
    assert "made-up" not in html


def test_embedded_times_are_short_and_within_5e_11_of_the_table():
    time_s = 0.123456789012345
    (point,) = points_of(io_time_of([(time_s, 2 / 3, 0, 0)]))
    ((process_s,),) = point["runs_s"]
    assert process_s[0] == 0.12345678901
    assert process_s[1] == pytest.approx(2 / 3, rel=5e-11)


def test_the_same_table_gives_the_same_page(io_time, html):
    assert build(io_time.sample(frac=1, random_state=1)) == html


def test_the_page_needs_nothing_from_elsewhere(html):
    without_scripts = re.sub(r"(?s)<script>.*?</script>", "", html)
    assert not re.findall(r"src=|url\(|@import|https?:", without_scripts)
    assert "<script src" not in html
    assert "Save as SVG" in html
    assert len(html) < 60_000


def test_the_page_says_where_its_numbers_come_from(io_time, html):
    assert "<h1>What-if explorer: test (emulated)</h1>" in html
    assert "scale-model, 2 ranks. Emulated: real processes" in html
    assert "fitted to statements of the paper, not measured on the machine" in html
    assert "and too little where all processes wait for it" in html
    measured = build(io_time.assign(source="measured"))
    assert "<h1>What-if explorer: test</h1>" in measured
    assert "fitted to statements" not in measured


def test_texts_are_escaped(io_time):
    html = build(io_time, title="a<b", titles={"small": "</script><b>128 KiB"})
    assert "<h1>a&lt;b (emulated)</h1>" in html
    assert "</script><b>" not in html


def test_repetitions_are_explained_where_there_are_some(io_time, html):
    assert "Times are means over" not in html
    repeated = pd.concat([io_time, io_time.assign(repetition=1)])
    assert "Times are means over 2 repetitions" in build(repeated)


def test_utilisation_is_a_mean_over_processes(io_time):
    repeated = pd.concat([io_time, io_time.assign(repetition=1)])
    by_model = estimate(repeated, improvement_grid(PAIRS[0], 200, 10), epochs=[1])
    by_model = by_model.assign(method="model", utilisation_percent=50.0)
    html = build(
        repeated,
        UtilisationSweep,
        goal=UtilisationGoal(90),
        method="model",
        estimates=by_model,
        pairs=PAIRS,
    )
    assert "AU is a mean over the processes and over 2 repetitions." in html
    assert "Times are means" not in html


def test_points_say_what_they_stall_for_where_a_model_tells_it(io_time):
    """The table is of the second epoch and of cache rate 50 %."""
    first = io_time.assign(epoch=0)
    parts = zip([*CLASSES, TOGETHER], (1.0, 2.0, 0.0, 0.0, 0.0), strict=True)
    rows = [SCENARIO | {"part": part, "stall_s": stall_s} for part, stall_s in parts]
    keys = {"cache_rate_percent": 50, "epoch": 1}
    times = {"execution_time_s": 9.0, "first_wait_s": 0.0}
    stalls = pd.DataFrame(rows).assign(**keys, **times)
    limits = decide_limits(break_down(io_time), None, stalls, 1, may_hide=True)
    limits = limits[limits["cache_rate_percent"] == 50]
    html = build(pd.concat([first, io_time]), limits=limits, stalls=stalls)
    said = {
        (point["epoch"], point["cache_rate_percent"]): point.get("stall")
        for point in embedded(html)["points"]
    }
    words = "stall by the model: GFS-META 2.00 s of 3.00 s; what limits is undecided "
    words += (
        "(GFS-META if storage limits; only ideal runs tell, by --ideal DIRECTORY or "
    )
    words += "sweep.ideal)"
    assert said == {(0, 0): None, (0, 50): None, (1, 0): None, (1, 50): words}


def text_where(*storage):
    """Return the words of a page of scenarios, by whether storage limits each."""
    n_osts = [60, 1][: len(storage)]
    io_time = pd.concat(io_time_of([(1, 2, 3, 4)], n_osts=one) for one in n_osts)
    limits = decide_limits(break_down(io_time), None, None, 1, may_hide=True)
    limits["storage"] = limits["n_osts"].map(dict(zip(n_osts, storage, strict=True)))
    limits = limits.assign(most_s=0.1, most_percent=2.0)
    limits.loc[limits["storage"] == "does not limit", "why"] = ""
    page = build(io_time, scenario=SCENARIO, limits=limits)
    return re.sub(r"<[^>]*>", "", page.partition("<script")[0])


def test_a_page_gives_advice_on_each_scenario_and_asks_where_storage_may_limit():
    text = text_where("does not limit", "undecided")
    assert "Which storage must become faster" in text
    assert "small dataset, 60 OSTs: Computation and processor limit at " in text
    assert "small dataset, 1 OST: It is undecided whether storage limits" in text
    same = text_where("undecided", "undecided")
    assert same.count("It is undecided whether storage limits") == 1
    assert "OST: It is undecided" not in same
    for one in (text_where("does not limit"), text_where(*2 * ["does not limit"])):
        assert one.count("So no improvement of storage is recommended.") == 1
        assert "Which storage must become faster" not in one


def test_every_class_has_its_label_and_colour(html):
    classes = embedded(html)["classes"]
    assert [one["label"] for one in classes] == [one.label for one in IOClass]
    assert [one["colour"] for one in classes] == [one.colour for one in IOClass]
    for name, io_class in zip(IMPROVEMENTS, IOClass, strict=True):
        border = f'<label style="border-left: 8px solid {io_class.colour};'
        slider = html.partition(border)[2].partition("</label>")[0]
        assert io_class.label in slider
        assert f'name="{name}"' in slider


def test_a_map_coarser_than_fig_4_says_so(io_time, html):
    words = "Chart c has steps of 20 %, a coarser grid than the 10 % of Fig. 4"
    assert words not in html
    coarser = build(io_time, max_improvement_percent=210)
    assert words in coarser
    edges = embedded(coarser)["grid_edges"]
    assert edges[:2] == [-10, 10]
    assert edges[-3:] == [190, 205, 215]


def test_an_empty_table_is_refused(io_time):
    with pytest.raises(ValueError, match="got an empty table io_time"):
        build(io_time.iloc[:0])


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [("dataset", "large", "not in the table"), ("epoch", 0, r"expected one of \[0\]")],
)
def test_a_table_without_what_is_shown_first_is_refused(
    io_time, column, value, message
):
    with pytest.raises(ValueError, match=message):
        build(io_time.assign(**{column: value}))


@pytest.mark.parametrize(
    ("goal_s", "expected"),
    [(3.0, 60), (3.0121, 60.2), (0.001, 1), (99.0, 150), (0.052, 1), (5.0, 100)],
)
def test_the_goal_starts_where_the_slider_is_nearest(goal_s, expected):
    assert nearest_goal_percent(Goal("io_time", goal_s), best_s=5.0) == expected


def test_the_goal_starts_at_the_end_if_no_io_takes_time():
    assert nearest_goal_percent(Goal("io_time", 1.0), best_s=0.0) == 150


def test_the_slider_of_the_goal_has_steps_of_a_tenth(io_time):
    html = build(io_time, goal=Goal("io_time", 3.0121))
    slider = 'name="goal_percent" min="1" max="150" step="0.1" value="60.2"'
    assert slider in html


@pytest.mark.parametrize(
    ("goal", "expected"),
    [
        (
            Goal("io_time", 3.0121),
            "goal: 3.01 s of I/O time in the second epoch of the scenario shown "
            "first, where the slider starts (60.2 %, rounded to 0.1 %).",
        ),
        (
            Goal("execution_time", 7.0, 4.0),
            "goal: 7.00 s of execution time, less 4.00 s that are not I/O = 3.00 s "
            "of I/O time in the second epoch",
        ),
        (
            Goal("io_time", 10.0),
            "goal: 10.0 s of I/O time in the second epoch of the scenario shown "
            "first. It is outside the slider, which starts at its nearest end.",
        ),
        (
            Goal("execution_time", 3.0, 4.0),
            "= -1.00 s of I/O time in the second epoch of the scenario shown first. "
            "It is outside the slider",
        ),
    ],
)
def test_the_experiments_goal_is_said(io_time, goal, expected):
    assert expected in build(io_time, goal=goal)


def test_a_page_is_written_whole_or_not_at_all(tmp_path):
    write_text(tmp_path / "page.html", "±")
    assert (tmp_path / "page.html").read_bytes() == "±".encode()
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
