import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from tierscope.breakdown import break_down, select_epoch
from tierscope.io_class import IOClass
from tierscope.plot import (
    epoch_words,
    plot_breakdown,
    plot_improvement,
    plot_sufficient,
    plot_times,
    save_figure,
    scenario_titles,
)
from tierscope.tables import check_table
from tierscope.whatif import (
    break_down_improved,
    estimate,
    improvement_grid,
    sufficient_combinations,
)

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
SECONDS = {0: (1, 8, 0, 0), 50: (1, 3, 2, 0), 60: (1, 1, 5, 1), 100: (0, 0, 9, 1)}


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


@pytest.fixture
def combinations():
    io_time = io_time_of()
    grid = improvement_grid(["gfs_meta", "lfs_read"], 200, 100)
    return sufficient_combinations(estimate(io_time, grid, epochs=[1]), goal_s=4.5)


def draw_times(io_time):
    return plot_times(
        epochs_of(io_time), io_time, provenance=PROVENANCE, dataset_titles=TITLES
    )


def draw_breakdown(io_time, epoch=1):
    return plot_breakdown(
        break_down(io_time), epoch, provenance=PROVENANCE, dataset_titles=TITLES
    )


def draw_improvement(io_time):
    improvements = [{}, {"gfs_meta": 50}, {"lfs_read": 100}]
    improved = break_down_improved(select_epoch(io_time, 1), improvements)
    return plot_improvement(improved, 1, provenance=PROVENANCE, dataset_titles=TITLES)


def draw_sufficient(combinations, goal_s=4.5, **arguments):
    return plot_sufficient(
        combinations,
        goal_s,
        provenance=PROVENANCE,
        dataset_titles=TITLES,
        **arguments,
    )


@pytest.fixture(params=["times", "breakdown", "improvement", "sufficient"])
def figure(request, combinations):
    if request.param == "times":
        return draw_times(io_time_of())
    if request.param == "breakdown":
        return draw_breakdown(io_time_of())
    if request.param == "improvement":
        return draw_improvement(io_time_of())
    return draw_sufficient(combinations)


def points_of(line):
    return list(zip(line.get_xdata(), line.get_ydata(), strict=True))


def lines_with(ax, marker):
    return [line for line in ax.lines if line.get_marker() == marker]


def test_every_figure_says_where_its_numbers_come_from(figure):
    assert figure.get_supxlabel() == f"Source: {PROVENANCE}"
    assert "(emulated)" in figure.get_suptitle()


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
    assert "(" not in figure.get_suptitle()


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


def test_repetitions_become_their_mean_and_a_band_from_least_to_largest():
    (ax,) = draw_times(io_time_of(repetitions=3)).axes
    assert points_of(lines_with(ax, "^")[0])[:2] == [(0, 10), (50, 7)]
    bands = [band.get_paths()[0].vertices for band in ax.collections]
    band = next(band for band in bands if band[:, 1].min() == 6)
    at_zero = band[band[:, 0] == 0][:, 1]
    assert (at_zero.min(), at_zero.max()) == (9, 11)


def test_bars_stand_at_their_cache_rate_and_stack_to_the_io_time():
    (ax,) = draw_breakdown(io_time_of()).axes
    centres = [bar.get_x() + bar.get_width() / 2 for bar in ax.patches[:4]]
    assert centres == pytest.approx([0, 50, 60, 100])
    tops = [bar.get_y() + bar.get_height() for bar in ax.patches[-4:]]
    assert tops == pytest.approx([9, 6, 8, 10])
    colours = [to_hex(bar.get_facecolor()).upper() for bar in ax.patches[::4]]
    assert colours == [io_class.colour for io_class in IOClass]


def test_the_best_cache_rate_is_marked():
    (ax,) = draw_breakdown(io_time_of()).axes
    assert [text.get_text() for text in ax.texts] == ["best: 50 %, 6.00 s"]


def test_an_epoch_that_is_absent_is_named():
    with pytest.raises(ValueError, match=r"got 7, expected one of \[0, 1, 2\]"):
        draw_breakdown(io_time_of(), epoch=7)


def test_each_improvement_has_a_panel_with_the_cut_of_the_best_time():
    """GFS-META +50 %: 5 s at 50 %; LFS-READ +100 %: 5 s at 50 %."""
    titles = [ax.get_title() for ax in draw_improvement(io_time_of()).axes]
    assert titles == [
        "GFS-META +50 %\nbest at 50 %: 6.00 s → 5.00 s (\N{MINUS SIGN}16.7 %)",
        "LFS-READ +100 %\nbest at 50 %: 6.00 s → 5.00 s (\N{MINUS SIGN}16.7 %)",
    ]


def test_a_best_point_that_moves_is_named_with_both_cache_rates():
    """LFS-READ +300 %: 6 to 4.5 s at 50 %, 8 to 4.25 s at 60 %, 10 to 3.25 s."""
    improved = break_down_improved(io_time_of(), [{}, {"lfs_read": 300}])
    (ax,) = plot_improvement(improved, 1, provenance=PROVENANCE).axes
    assert "best at 50 % → 100 %: 6.00 s → 3.25 s" in ax.get_title()
    best = [points_of(line)[0] for line in lines_with(ax, "D")]
    assert best == [(50, 6), (100, 3.25)]
    assert points_of(lines_with(ax, "o")[0])[0] == (0, 9)


def test_sufficient_combinations_are_dots_coloured_by_the_least_cache_rate(
    combinations,
):
    """With META +100 % and READ +100 % 50 % takes 1 + 1.5 + 1 = 3.5 s."""
    ax, bar = draw_sufficient(combinations).axes
    insufficient, dots = ax.collections
    assert [0, 0] in insufficient.get_offsets().tolist()
    assert [100, 100] in dots.get_offsets().tolist()
    labels = [label.get_text() for label in bar.get_yticklabels()]
    least = combinations["min_cache_rate_percent"].dropna().unique()
    assert labels == [str(rate) for rate in sorted(least)]
    assert bar.get_ylabel() == "least cache rate that meets the goal (%)"


def test_an_impossible_goal_is_said_to_be_so(combinations):
    none = combinations.assign(sufficient=False, min_cache_rate_percent=pd.NA)
    (ax,) = draw_sufficient(none, goal_s=0.5).axes
    assert [text.get_text() for text in ax.texts] == [
        "No combination on this grid meets the goal of 0.5 s."
    ]


def test_the_goal_and_its_origin_are_in_the_title(combinations):
    figure = draw_sufficient(combinations, goal_words="half of the best")
    title = figure.get_suptitle().replace("\n", " ")
    assert "goal of 4.5 s of I/O time, half of the best, second epoch" in title


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_the_same_table_gives_the_same_bytes(tmp_path, suffix):
    paths = [tmp_path / f"{name}.{suffix}" for name in "ab"]
    for path in paths:
        save_figure(draw_breakdown(io_time_of()), [path])
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {p.name for p in paths}


def test_one_figure_is_written_in_all_formats(tmp_path):
    paths = [tmp_path / "new" / f"figure.{suffix}" for suffix in ("svg", "png", "pdf")]
    save_figure(draw_breakdown(io_time_of()), paths)
    starts = [path.read_bytes()[:5] for path in paths]
    assert starts == [b"<?xml", b"\x89PNG\r", b"%PDF-"]
    assert b"<dc:date>" not in paths[0].read_bytes()


def test_an_unknown_format_is_rejected(tmp_path):
    with pytest.raises(ValueError, match=r"got \.gif, expected"):
        save_figure(Figure(), [tmp_path / "figure.gif"])


def test_zero_time_still_draws():
    figure = draw_breakdown(io_time_of().assign(time_s=0.0))
    assert np.isfinite(figure.axes[0].get_ylim()).all()
