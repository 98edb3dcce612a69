"""What the page shows after its sliders were moved is what Python computes."""

from xml.etree import ElementTree

import numpy as np
import pytest
from explorer.conftest import stalls_at
from sessions import HANG_S
from tierscope.analysis.breakdown import break_down, select_epoch, select_scenario
from tierscope.analysis.training.limit import decide_limits
from tierscope.analysis.whatif import (
    Goal,
    best_point,
    estimate,
    estimated_breakdown,
    improvement_grid,
    mean_over_repetitions,
)
from tierscope.core.columns import CLASSES, IMPROVEMENTS
from tierscope.core.io_class import IOClass

SCENARIOS = [{"dataset": "small", "n_osts": 60}, {"dataset": "small", "n_osts": 1}]
SETTINGS = [
    {},
    {"gfs_meta": 50},
    {"lfs_read": 50},
    {"gfs_read": 7, "gfs_meta": 140, "lfs_read": 120, "lfs_meta": 200},
]
EXACT = {"rtol": 1e-9, "atol": 0}


def sliders(improvement):
    """Return what inputs of an improvement are set to."""
    names = zip(CLASSES, IMPROVEMENTS, strict=True)
    return {name: improvement.get(io_class, 0) for io_class, name in names}


def shown(io_time, scenario=0, epoch=1):
    return select_epoch(select_scenario(io_time, SCENARIOS[scenario]), epoch)


def io_times(io_time, improvement):
    """Return the mean I/O time by cache rate after an improvement."""
    epochs = io_time["epoch"].unique()
    points = mean_over_repetitions(estimate(io_time, [improvement], epochs))
    return points.set_index("cache_rate_percent")["io_time_s"]


def best_of(io_time, improvement):
    estimates = estimate(io_time, [improvement], io_time["epoch"].unique())
    best = best_point(estimates).iloc[0]
    return best["cache_rate_percent"], best["io_time_s"]


@pytest.mark.parametrize("improvement", SETTINGS)
@pytest.mark.parametrize(("scenario", "epoch"), [(0, 1), (1, 0)])
def test_the_lines_are_the_estimates(explorer, io_time, improvement, scenario, epoch):
    explorer.set(scenario=scenario, epoch=epoch, **sliders(improvement))
    table = shown(io_time, scenario, epoch)
    columns = ["cache_rate_percent", "today.value", "improved.value"]
    points = explorer.table("points", columns).set_index("cache_rate_percent")
    today, improved = io_times(table, {}), io_times(table, improvement)
    assert points.index.tolist() == improved.index.tolist()
    np.testing.assert_allclose(points["today.value"], today, **EXACT)
    np.testing.assert_allclose(points["improved.value"], improved, **EXACT)


def breakdown_after(rows, improvement):
    """Return the seconds by class of the then slowest process of each run."""
    estimates = estimate(rows, [improvement], rows["epoch"])
    return estimated_breakdown(estimates, [improvement])


@pytest.mark.parametrize("improvement", SETTINGS)
def test_the_bars_are_the_breakdown_of_the_then_slowest_process(
    explorer, io_time, improvement
):
    explorer.set(**sliders(improvement))
    bars = explorer.table("bars", ["cache_rate_percent", "io_class", "time_s"])
    expected = breakdown_after(shown(io_time), improvement)
    by = ["cache_rate_percent", "io_class"]
    expected = expected.groupby(by)["time_s"].mean()
    labels = {io_class.label: str(io_class) for io_class in IOClass}
    bars = bars.replace({"io_class": labels}).set_index(by)["time_s"]
    np.testing.assert_allclose(bars[expected.index], expected, **EXACT)


@pytest.mark.parametrize("improvement", SETTINGS)
def test_the_best_points_are_marked_with_their_numbers(explorer, io_time, improvement):
    explorer.set(**sliders(improvement))
    best = explorer.answer("best")
    rate, io_time_s = best_of(shown(io_time), improvement)
    marks = explorer.table("bestMarks", ["cache_rate_percent", "value", "label"])
    mark = marks.iloc[-1]
    assert mark["cache_rate_percent"] == rate == best["improved"]["cache_rate_percent"]
    assert mark["value"] == pytest.approx(io_time_s, rel=1e-9)
    assert mark["label"] == f"{rate} %: {io_time_s:#.3g} s"
    assert len(marks) == (2 if improvement else 1)
    texts = explorer.browser.find_elements("css selector", "#views svg text")
    assert mark["label"] in {text.text for text in texts}


def test_stall_stands_beside_the_class_with_most_io_time(explorer_with, io_time):
    stalls = stalls_at(io_time, 40, [0.5, 1.0, 2.0, 0.0, 0.0])
    limits = decide_limits(break_down(io_time), None, stalls, 1, may_hide=True)
    limits = limits[limits["cache_rate_percent"] == 40]
    explorer = explorer_with(limits=limits, stalls=stalls)
    explorer.set(cache_rate_percent=40)
    most, stall, limit, _ = explorer.text("looked_at_today_limit").split("; ")
    assert " has most I/O time (" in most
    assert stall == "stall by the model: LFS-READ 2.00 s of 3.50 s"
    assert limit == "what limits is undecided (LFS-READ if storage limits"
    explorer.set(cache_rate_percent=60)  # not in the table
    assert explorer.text("looked_at_today_limit").endswith("%)")
    assert explorer.complaints() == []


def test_no_cheapest_improvement_is_named_where_storage_does_not_limit(
    explorer_with, io_time
):
    limits = decide_limits(break_down(io_time), None, None, 1, may_hide=True)
    first = (limits[["dataset", "n_osts"]] == ["small", 60]).all(axis=1)
    limits.loc[first, "storage"] = "does not limit"
    limits.loc[first, ["most_s", "most_percent", "why"]] = [0.1, 2.0, ""]
    explorer = explorer_with(limits=limits)
    assert "heapest" not in explorer.text("combinations")
    assert "combinations of" in explorer.text("combinations")
    assert explorer.answer("cheapest") is None
    assert "Star" not in explorer.browser.find_element("id", "views").text
    limited = "limited by computation and processor (storage at most 2.0"
    assert limited in explorer.text("looked_at_today_limit")
    (advice,) = explorer.browser.find_elements("css selector", ".note")
    assert "60 OSTs: Computation and processor limit at cache rate" in advice.text
    explorer.set(scenario=1)  # undecided
    assert "The cheapest of these: " in explorer.text("combinations")
    assert explorer.complaints() == []


def test_the_texts_answer_what_limits_and_what_an_improvement_brings(explorer, io_time):
    explorer.set(cache_rate_percent=40, lfs_read_improvement_percent=50)
    breakdown = breakdown_after(shown(io_time), {})
    at_40 = breakdown[breakdown["cache_rate_percent"] == 40]
    classes_s = at_40.groupby("io_class")["time_s"].mean()
    limit, share = classes_s.idxmax(), classes_s.max() / classes_s.sum()
    assert explorer.text("looked_at") == "Cache rate 40 %"
    assert explorer.text("looked_at_today_limit") == (
        f"{IOClass(limit).label} limits ({100 * share:.0f} %)"
    )
    rate, before_s = best_of(shown(io_time), {})
    assert explorer.text("best_today") == f"{before_s:#.3g} s at {rate} %"
    rate, after_s = best_of(shown(io_time), {"lfs_read": 50})
    assert explorer.text("best_improved") == f"{after_s:#.3g} s at {rate} %"
    cut = f"{100 * (after_s / before_s - 1):+.1f}".replace("-", "\N{MINUS SIGN}")
    assert explorer.text("best_improved_note") == f"({cut} %)"


@pytest.mark.parametrize(
    ("pair", "others"),
    [
        (("gfs_meta", "lfs_read"), {}),
        (("lfs_read", "gfs_meta"), {"gfs_read": 30, "lfs_meta": 100}),
        (("gfs_read", "lfs_meta"), {"gfs_meta": 120, "lfs_read": 60}),
    ],
)
def test_the_map_holds_the_sufficient_combinations(explorer, io_time, pair, others):
    x, y = pair
    # Sliders of the classes on the axes do not matter.
    explorer.set(x_class=x, y_class=y, goal_percent=60, **sliders({x: 70} | others))
    columns = ["x_percent", "y_percent", "min_cache_rate_percent", "sufficient"]
    cells = explorer.table("cells", columns).sort_values(["x_percent", "y_percent"])
    table = shown(io_time)
    grid = [others | cell for cell in improvement_grid(pair, 200, 10)]
    goal_s = 0.6 * best_of(table, {})[1]
    expected = Goal("io_time", goal_s).sufficient(estimate(table, grid, [1]))
    names = [f"{io_class}_improvement_percent" for io_class in pair]
    expected = expected.sort_values(names)
    assert cells["sufficient"].tolist() == expected["sufficient"].tolist()
    least = expected["min_cache_rate_percent"].fillna(101).astype(int)
    assert cells["min_cache_rate_percent"].tolist() == least.tolist()
    assert cells["sufficient"].sum() > 0 or others == {}


def assert_the_cheapest_is_named(explorer, pair, cost):
    percents = dict(zip(pair, ["x_percent", "y_percent"], strict=True))
    columns = [*percents.values(), "min_cache_rate_percent", "sufficient"]
    cells = explorer.table("cells", columns)
    cells = cells[cells["sufficient"]]
    costs = sum(cost[name] * cells[column] for name, column in percents.items())
    cells["cost"] = [float(f"{cell:.12g}") for cell in costs]
    in_order = [percents[name] for name in CLASSES if name in pair]
    order = ["cost", "min_cache_rate_percent", *in_order]
    cheapest = cells.sort_values(order).iloc[0]
    words = (f"{IOClass(n).label} +{cheapest[c]:g} %" for n, c in percents.items())
    assert explorer.text("combinations").endswith(
        f"The cheapest of these: {', '.join(words)}, at a cache rate of "
        f"{cheapest['min_cache_rate_percent']:g} %."
    )
    mark = explorer.answer("cheapest")
    assert {name: mark[name] for name in percents.values()} == {
        name: cheapest[name] for name in percents.values()
    }


@pytest.mark.parametrize("costs", [(2, 3), (1e-6, 1e-6), (1.1, 1.1), (1e9, 1), (0, 1)])
def test_the_cheapest_combination_of_the_map_is_named(explorer_with, costs):
    cost = dict.fromkeys(CLASSES, 1)
    cost |= dict(zip(["gfs_meta", "lfs_read"], costs, strict=True))
    explorer = explorer_with(cost_per_percent=cost)
    for pair in (("gfs_meta", "lfs_read"), ("lfs_read", "gfs_meta")):
        explorer.set(x_class=pair[0], y_class=pair[1])
        for goal_percent in (60, 45, 50, 75.5):
            explorer.set(goal_percent=goal_percent)
            assert_the_cheapest_is_named(explorer, pair, cost)


def test_a_coarser_map_keeps_the_end_of_the_grid(explorer_with, io_time):
    explorer = explorer_with(max_improvement_percent=210)
    cells = explorer.table("cells", ["x_percent", "y_percent", "sufficient"])
    percents = [*range(0, 201, 20), 210]
    assert sorted(set(cells["x_percent"])) == percents
    assert len(cells) == len(percents) ** 2
    assert explorer.answer("data")["grid_edges"][-3:] == [190, 205, 215]
    corner = cells[(cells["x_percent"] == 210) & (cells["y_percent"] == 210)]
    best_s = best_of(shown(io_time), {"gfs_meta": 210, "lfs_read": 210})[1]
    goal_s = explorer.answer("goal")
    assert corner["sufficient"].item() == (best_s <= goal_s)


def test_low_cache_rates_are_dark_and_high_ones_light_as_in_fig_4(explorer):
    script = """
        const limits = explorer.answer.colourLimits;
        return limits.map(rate => colourOf(rate, limits));
    """
    low, high = explorer.browser.execute_script(script)
    assert (low, high) == ("rgb(68, 1, 84)", "rgb(253, 231, 37)")


def test_the_goal_is_a_percentage_of_the_best_time(explorer, io_time):
    explorer.set(goal_percent=100)
    rate, best_s = best_of(shown(io_time), {})
    assert explorer.answer("goal") == pytest.approx(best_s, rel=1e-9)
    assert explorer.text("goal") == f"Goal: {best_s:#.3g} s"
    assert explorer.text("goal_today") == f"met, least cache rate {rate} %"
    explorer.set(goal_percent=50)
    assert explorer.text("goal_today") == (
        "not met, the best time is 100 % above the goal"
    )


def test_two_equal_classes_are_refused_in_words(explorer):
    explorer.set(y_class="gfs_meta")
    assert explorer.text("combinations").startswith("Choose two different classes")
    assert not explorer.table("cells", ["sufficient"])["sufficient"].any()


def test_sliders_and_lists_answer_to_the_keyboard(explorer):
    keys = pytest.importorskip("selenium.webdriver").Keys
    explorer.input("lfs_read_improvement_percent").send_keys(keys.ARROW_RIGHT * 3)
    explorer.input("goal_percent").send_keys(keys.END)
    explorer.input("scenario").send_keys(keys.ARROW_DOWN)
    assert explorer.state("lfs_read_improvement_percent") == 3
    assert explorer.state("goal_percent") == 150
    assert explorer.state("scenario") == 1


def test_a_click_on_the_map_sets_the_sliders_of_its_classes(explorer):
    (cell, *_) = explorer.browser.find_elements(
        "css selector",
        '#views .map .mark[aria-label*="+120 %, LFS-READ +80 %"]',
    )
    cell.click()
    explorer.set()
    assert explorer.state("gfs_meta_improvement_percent") == 120
    assert explorer.state("lfs_read_improvement_percent") == 80
    assert explorer.input("lfs_read_improvement_percent").get_attribute("value") == "80"


@pytest.mark.parametrize("marks", ["lines", "bars"])
def test_a_click_on_a_point_or_a_bar_looks_at_its_cache_rate(explorer, marks):
    explorer.set(cache_rate_percent=40)
    paths = f"#views .{marks} .mark"
    explorer.browser.find_elements("css selector", paths)[-1].click()
    explorer.set()
    assert explorer.state("cache_rate_percent") == 100


def test_the_page_asks_for_nothing_and_complains_of_nothing(explorer):
    script = "return performance.getEntriesByType('resource').map(e => e.name)"
    assert explorer.browser.execute_script(script) == []
    assert explorer.complaints() == []


def test_the_charts_can_be_saved(browser, explorer, tmp_path):
    support = pytest.importorskip("selenium.webdriver.support.wait")
    where = {"behavior": "allow", "downloadPath": str(tmp_path)}
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", where)
    for kind in ("svg", "png"):
        browser.find_element("id", f"save_{kind}").click()
        wait = support.WebDriverWait(browser, HANG_S)
        wait.until(lambda _, kind=kind: (tmp_path / f"explorer.{kind}").is_file())
    (title, *_) = [
        one.text
        for one in ElementTree.parse(tmp_path / "explorer.svg").iter()
        if one.tag.endswith("text")
    ]
    assert title == "a  I/O time of the slowest process"
    assert (tmp_path / "explorer.png").read_bytes().startswith(b"\x89PNG")
    assert explorer.complaints() == []


@pytest.mark.parametrize(("width", "n_columns"), [(1280, 2), (390, 1)])
def test_the_page_fits_its_window(browser, explorer, width, n_columns):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.refresh()
    explorer.set()
    places = [
        one.location["x"]
        for one in browser.find_elements("css selector", "#views svg > g")
    ]
    assert len(set(places)) == n_columns
    content, room = browser.execute_script(
        "const v = document.getElementById('views');"
        "return [v.scrollWidth, v.clientWidth]"
    )
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert content <= room


def test_at_paper_size_the_page_stays_small_and_exact(
    paper_size_explorer, paper_size_page, paper_size_io_time
):
    assert paper_size_page.stat().st_size < 500_000
    # Of 3072 processes the few that can become the slowest are computed.
    points = paper_size_explorer.answer("points")
    assert len(points) == 21
    assert max(len(run) for point in points for run in point["runs_s"]) < 50
    for method in ("model", "rule"):
        paper_size_explorer.set(method=method, gfs_meta_improvement_percent=150)
    improvement = dict.fromkeys(CLASSES, 59)
    paper_size_explorer.set(goal_percent=90, **sliders(improvement))
    points = paper_size_explorer.table("points", ["improved.value"])
    expected = io_times(shown(paper_size_io_time), improvement)
    np.testing.assert_allclose(points["improved.value"], expected, **EXACT)
