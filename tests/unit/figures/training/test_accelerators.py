"""The figure of accelerators, on hand-made tables."""

import math

import pandas as pd
from matplotlib.colors import to_hex
from tierscope.figures.training.accelerators import plot_accelerators


def table(workload="net", rates=(0, 50), low=math.nan, fits=True, goal=90.0):
    """Return three numbers of accelerators at each rate; the LFS may lack room."""
    return pd.DataFrame(
        {
            "workload": workload,
            "cache_rate_percent": rate,
            "n_accelerators": n,
            "n_steps": 500,
            "n_simulated_steps": 50,
            "compute_time_s": 0.5,
            "goal_percent": goal,
            "utilisation_percent": float(used - rate),
            "utilisation_low_percent": low,
            "utilisation_high_percent": 100 - low,
            "fits_lfs": fits or rate == 0,
        }
        for rate in rates
        for n, used in ((1, 100), (2, 90), (4, 60))
    )


def draw(frame):
    return plot_accelerators(frame, provenance="made up")


def lines(ax):
    """Return the lines of cache rates, which have no markers."""
    return [one for one in ax.lines if one.get_marker() == "None"]


def test_a_line_a_cache_rate_and_the_goal():
    (ax,) = draw(table()).axes
    first, second, goal = lines(ax)
    assert first.get_xydata().tolist() == [[1, 100], [2, 90], [4, 60]]
    assert second.get_ydata().tolist() == [50, 40, 10]
    assert set(goal.get_ydata()) == {90}
    assert ax.get_xscale() == "log"
    assert [one.get_text() for one in ax.get_xticklabels()] == ["1", "2", "4"]


def test_a_panel_a_workload_with_its_computation():
    figure = draw(pd.concat([table("net"), table("other", goal=70.0)]))
    titles = [ax.get_title() for ax in figure.axes]
    assert titles == ["net, 0.500 s a step", "other, 0.500 s a step"]
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == ["cache rate", "0 %", "50 %", "goal: 70 % and 90 % AU"]


def test_markers_are_hollow_where_the_lfs_has_no_room():
    figure = draw(table(fits=False))
    fills = {
        to_hex(one.get_markerfacecolor())
        for one in figure.axes[0].lines
        if one.get_marker() == "o" and len(one.get_xdata())
    }
    assert "#ffffff" in fills
    assert len(fills) == 2
    assert "has no room" in figure.get_supxlabel()
    assert "has no room" not in draw(table()).get_supxlabel()


def test_a_band_only_where_there_is_one():
    figure = draw(table(low=40.0))
    assert len(figure.axes[0].collections) == 2
    assert "Bands: least and largest" in figure.get_supxlabel()
    assert not draw(table()).axes[0].collections


def test_it_says_that_it_is_simulated_and_how_many_steps():
    figure = draw(table())
    assert "(simulated)" in figure.get_suptitle()
    assert "net: 50 of 500 steps of an epoch" in figure.get_supxlabel()
