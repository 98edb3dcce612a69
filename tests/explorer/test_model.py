"""What the page shows by the model is what the table of estimates holds."""

import numpy as np
import pytest
from explorer.test_page import EXACT, best_of, io_times, shown, sliders
from tierscope.analysis.whatif import (
    Goal,
    best_point,
    mean_over_repetitions,
    select_improvements,
)
from tierscope.core.columns import CLASS_TIMES, CLASSES, IMPROVEMENTS
from tierscope.core.io_class import IOClass

CELLS = [{}, {"gfs_meta": 50}, {"gfs_meta": 200, "lfs_read": 30}]
AXES = [("gfs_meta", "lfs_read"), ("lfs_read", "gfs_meta")]


def modelled(by_model, improvement):
    """Return the mean I/O time by cache rate after an improvement, by the model."""
    points = mean_over_repetitions(select_improvements(by_model, [improvement]))
    return points.set_index("cache_rate_percent")["io_time_s"]


def best_by_model(by_model, improvement):
    best = best_point(select_improvements(by_model, [improvement])).iloc[0]
    return best["cache_rate_percent"], best["io_time_s"]


def words_of(before_s, after_s):
    cut = f"{100 * (after_s / before_s - 1):+.1f}".replace("-", "\N{MINUS SIGN}")
    return f"({cut} %)"


@pytest.mark.parametrize("method", ["rule", "model"])
@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("improvement", CELLS)
def test_both_lines_are_the_estimates(
    explorer_by_both, io_time, by_model, improvement, axes, method
):
    x, y = axes
    explorer_by_both.set(method=method, x_class=x, y_class=y, **sliders(improvement))
    columns = ["cache_rate_percent", "improved.value", "model.value"]
    points = explorer_by_both.table("points", columns)
    points = points.set_index("cache_rate_percent")
    expected = modelled(by_model, improvement)
    assert points.index.tolist() == expected.index.tolist()
    np.testing.assert_allclose(points["model.value"], expected, **EXACT)
    by_rule = io_times(shown(io_time), improvement)
    np.testing.assert_allclose(points["improved.value"], by_rule, **EXACT)
    lines = explorer_by_both.table("lines", ["when", "value"]).groupby("when").size()
    assert lines.to_dict() == dict.fromkeys(
        ["today", "improved, by the rule", "improved, by the model"], len(expected)
    )


@pytest.mark.parametrize("improvement", CELLS)
def test_the_bars_are_the_models_classes(explorer_by_both, by_model, improvement):
    explorer_by_both.set(method="model", **sliders(improvement))
    columns = ["cache_rate_percent", "io_class", "time_s"]
    bars = explorer_by_both.table("bars", columns)
    bars = bars.pivot(index="cache_rate_percent", columns="io_class", values="time_s")
    rows = select_improvements(by_model, [improvement])
    expected = rows.groupby("cache_rate_percent")[["io_time_s", *CLASS_TIMES]].mean()
    bars = bars[[io_class.label for io_class in IOClass]]
    # Classes are embedded as parts in 100 000 of the I/O time.
    error = np.abs(bars.to_numpy() - expected[CLASS_TIMES].to_numpy())
    assert (error <= 1e-5 * expected[["io_time_s"]].to_numpy()).all()
    assert explorer_by_both.answer("bySomething") == ", by the model"


@pytest.mark.parametrize("axes", AXES)
def test_the_map_by_the_model_holds_its_sufficient_combinations(
    explorer_by_both, io_time, by_model, axes
):
    x, y = axes
    explorer_by_both.set(method="model", goal_percent=60, x_class=x, y_class=y)
    columns = ["x_percent", "y_percent", "min_cache_rate_percent", "sufficient"]
    cells = explorer_by_both.table("cells", columns)
    cells = cells.sort_values(["x_percent", "y_percent"])
    goal_s = 0.6 * best_of(shown(io_time), {})[1]
    names = [f"{io_class}_improvement_percent" for io_class in axes]
    expected = Goal("io_time", goal_s).sufficient(by_model).sort_values(names)
    assert cells["sufficient"].tolist() == expected["sufficient"].tolist()
    least = expected["min_cache_rate_percent"].fillna(101).astype(int)
    assert cells["min_cache_rate_percent"].tolist() == least.tolist()
    n_sufficient = expected["sufficient"].sum()
    assert 0 < n_sufficient < len(expected)
    text = explorer_by_both.text("combinations")
    assert text.startswith(f"{n_sufficient} of 441 combinations")
    assert ", by the model." in text


def test_without_improvement_both_are_what_is_there_today(explorer_by_both):
    explorer_by_both.set(method="model", goal_percent=100)
    today = explorer_by_both.text("best_today")
    assert explorer_by_both.text("best_model") == today
    assert explorer_by_both.text("best_model_note") == "(±0 %)"
    assert explorer_by_both.text("goal_model") == explorer_by_both.text("goal_today")
    assert explorer_by_both.text("goal_model").startswith("met, least cache rate")


def test_the_cut_by_rule_and_by_model_stand_side_by_side(
    explorer_by_both, io_time, by_model
):
    explorer_by_both.set(gfs_meta_improvement_percent=50, cache_rate_percent=40)
    table = shown(io_time)
    _, before_s = best_of(table, {})
    rate, rule_s = best_of(table, {"gfs_meta": 50})
    assert explorer_by_both.text("best_improved") == f"{rule_s:#.3g} s at {rate} %"
    assert explorer_by_both.text("best_improved_note") == words_of(before_s, rule_s)
    rate, model_s = best_by_model(by_model, {"gfs_meta": 50})
    ends = f"{model_s / 1.05:#.3g} to {model_s * 1.05:#.3g} s"
    best = f"{model_s:#.3g} s ({ends}) at {rate} %"
    assert explorer_by_both.text("best_model") == best
    assert explorer_by_both.text("best_model_note") == words_of(before_s, model_s)
    at_40_s = modelled(by_model, {"gfs_meta": 50})[40]
    ends_s = at_40_s / 1.05, at_40_s * 1.05
    ends = f"{ends_s[0]:#.3g} to {ends_s[1]:#.3g} s"
    assert explorer_by_both.text("looked_at_model") == f"{at_40_s:#.3g} s ({ends})"
    bars = explorer_by_both.table("lines", ["when", "cache_rate_percent", "low"])
    bars = bars[bars["when"] == "improved, by the model"]
    low_s = bars.set_index("cache_rate_percent").loc[40, "low"]
    assert low_s == pytest.approx(ends_s[0], rel=1e-4)
    assert explorer_by_both.text("best_model_limit").endswith(" %)")
    assert explorer_by_both.text("method") == ""


def test_with_the_model_sliders_go_to_where_it_has_an_answer(explorer_by_both):
    named = dict(zip(CLASSES, IMPROVEMENTS, strict=True))
    explorer_by_both.set(**{named["lfs_read"]: 54, named["gfs_read"]: 20})
    assert explorer_by_both.text("best_model") == "\N{EN DASH}"
    assert "no answer for these sliders" in explorer_by_both.text("method")
    explorer_by_both.set(method="model")
    values = {name: explorer_by_both.state(named[name]) for name in CLASSES}
    assert values == {"gfs_read": 0, "gfs_meta": 0, "lfs_read": 50, "lfs_meta": 0}
    inputs = {name: explorer_by_both.input(named[name]) for name in CLASSES}
    shown = {name: int(one.get_attribute("value")) for name, one in inputs.items()}
    assert shown == values
    enabled = [name for name, one in inputs.items() if one.is_enabled()]
    assert enabled == ["gfs_meta", "lfs_read"]
    assert inputs["lfs_read"].get_attribute("step") == "10"
    explorer_by_both.set(method="rule")
    assert all(one.is_enabled() for one in inputs.values())
    assert inputs["lfs_read"].get_attribute("step") == "1"


def test_the_keyboard_moves_a_slider_from_one_answer_to_the_next(explorer_by_both):
    keys = pytest.importorskip("selenium.webdriver").Keys
    explorer_by_both.input("method").send_keys(keys.ARROW_DOWN)
    explorer_by_both.input("gfs_meta_improvement_percent").send_keys(
        keys.ARROW_RIGHT * 2
    )
    assert explorer_by_both.state("method") == "model"
    assert explorer_by_both.state("gfs_meta_improvement_percent") == 20
    assert explorer_by_both.answer("cell") == 2 * 21


@pytest.mark.parametrize(
    "elsewhere", [{"scenario": 1}, {"epoch": 0}, {"x_class": "gfs_read"}]
)
def test_where_the_model_has_no_answer_the_rule_is_shown_and_said_to_be(
    explorer_by_both, elsewhere
):
    explorer_by_both.set(method="model", **elsewhere)
    assert not explorer_by_both.answer("byModel")
    assert explorer_by_both.text("best_model") == "\N{EN DASH}"
    assert explorer_by_both.text("method").endswith("shown by the rule.")
    assert explorer_by_both.answer("bySomething") == ", by the rule"
    assert set(explorer_by_both.table("lines", ["when"])["when"]) == {
        "today",
        "improved, by the rule",
    }


def test_a_second_click_on_a_cell_counts_after_a_slider_was_moved(explorer_by_both):
    for _ in range(2):
        explorer_by_both.set(gfs_meta_improvement_percent=0)
        (cell, *_) = explorer_by_both.browser.find_elements(
            "css selector",
            '#views .map .mark[aria-label*="+120 %, LFS-READ +80 %"]',
        )
        cell.click()
        assert explorer_by_both.state("gfs_meta_improvement_percent") == 120


def test_the_page_of_the_rule_alone_has_no_choice(explorer):
    assert not explorer.input("method").is_displayed()
    body = explorer.browser.find_element("tag name", "body").text
    assert "by the model" not in body
    assert "How the model estimates" not in body
    assert set(explorer.table("lines", ["when"])["when"]) == {
        "today",
        "with the improvements",
    }


def test_the_page_by_both_complains_of_nothing_and_fits(explorer_by_both):
    explorer_by_both.set(method="model")
    assert explorer_by_both.complaints() == []
    content, room = explorer_by_both.browser.execute_script(
        "const v = document.getElementById('views');"
        "return [v.scrollWidth, v.clientWidth]"
    )
    assert content <= room
