"""The figure of designs, on hand-made tables."""

import pandas as pd
from design_tables import COST, designs, inputs, row, servers
from matplotlib.colors import to_hex
from tierscope.analysis.designs.answer import Answer
from tierscope.data.costs import Cost
from tierscope.figures.designs import plot_designs


def numbers(rates=(0, 50), band=None, **keys):
    """Return three numbers of accelerators at each cache rate."""
    rows = [
        row(used - rate, n_accelerators=n, cache_rate_percent=rate, **(band or {}))
        for rate in rates
        for n, used in ((1, 100), (2, 90), (4, 60))
    ]
    return designs(*rows, **keys)


def draw(table, cost=None):
    answer = Answer(table, inputs(), cost or Cost(), {})
    return plot_designs(answer, provenance="made up")


def lines(ax):
    """Return the lines of storages, which have no markers."""
    return [one for one in ax.lines if one.get_marker() == "None"]


def entries(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_a_line_a_cache_rate_and_the_goal():
    (ax,) = draw(numbers()).axes
    first, second, goal = lines(ax)
    assert first.get_xydata().tolist() == [[1, 100], [2, 90], [4, 60]]
    assert second.get_ydata().tolist() == [50, 40, 10]
    assert set(goal.get_ydata()) == {90}
    assert ax.get_xscale() == "log"
    assert [one.get_text() for one in ax.get_xticklabels()] == ["1", "2", "4"]


def test_a_panel_a_workload_with_its_computation():
    other = numbers(workload="other", goal_value=70.0)
    figure = draw(pd.concat([numbers(), other], ignore_index=True))
    titles = [ax.get_title() for ax in figure.axes]
    assert titles == ["net, 0.500 s a step", "other, 0.500 s a step"]
    assert entries(figure) == ["a cache rate of 0 %", "a cache rate of 50 %", "goal"]


def test_markers_are_hollow_where_the_lfs_has_no_room():
    table = numbers()
    table["fits_lfs"] = table["cache_rate_percent"] == 0
    figure = draw(table)
    fills = {
        to_hex(one.get_markerfacecolor())
        for one in figure.axes[0].lines
        if one.get_marker() == "o" and len(one.get_xdata())
    }
    assert "#ffffff" in fills
    assert len(fills) == 2
    assert "has no room" in figure.get_supxlabel()
    assert "has no room" not in draw(numbers()).get_supxlabel()


def test_a_band_only_where_there_is_one():
    figure = draw(numbers(band={"low": 40.0, "high": 60.0}))
    assert len(figure.axes[0].collections) == 2
    assert "Bands and bars: least and largest" in figure.get_supxlabel()
    assert not draw(numbers()).axes[0].collections


def test_it_says_that_it_is_simulated_and_how_many_steps():
    figure = draw(numbers())
    assert "(simulated)" in figure.get_suptitle()
    assert "net: 50 of 500 steps of an epoch" in figure.get_supxlabel()


def test_storages_are_drawn_over_their_cost_with_front_and_choice():
    figure = draw(servers(80, 70, 95), COST)
    (ax,) = figure.axes
    assert "Buy 3 object servers" in figure.get_suptitle()
    assert (ax.get_xlabel(), ax.get_ylabel()) == (
        "Price (declared), EUR",
        "Accelerator utilisation (%)",
    )
    (on_front,) = [one for one in ax.lines if one.get_color() == "#444444"]
    assert on_front.get_xydata().tolist() == [[130, 80], [330, 95]]
    (star,) = [one for one in ax.lines if one.get_marker() == "*"]
    assert star.get_xydata().tolist() == [[330, 95]]
    assert entries(figure)[:4] == ["meets", "undecided", "misses", "front"]


def test_of_several_workloads_the_least_margin_is_drawn():
    other = servers(80, 95, workload="other", goal_value=60.0)
    table = pd.concat([servers(80, 95), other], ignore_index=True)
    (ax,) = draw(table, COST).axes
    assert ax.get_ylabel() == "Better than the goal by (points)"
    (on_front,) = [one for one in ax.lines if one.get_color() == "#444444"]
    assert on_front.get_ydata().tolist() == [-10, 5]


def test_both_are_drawn_where_both_vary():
    table = pd.concat([servers(80, 95), servers(60, 92, n_accelerators=16)])
    table["design"] = range(len(table))
    figure = draw(table.reset_index(drop=True), COST)
    assert [ax.get_title() for ax in figure.axes] == [
        "Cost and goal",
        "net, 0.500 s a step",
    ]
    assert entries(figure)[5:] == ["1 object server", "2 object servers", "goal"]
