"""The page of a goal of utilisation shows what the table of estimates holds."""

import numpy as np
import pytest
from explorer.conftest import open_page, stalls_at, write_page
from tierscope.analysis.breakdown import break_down
from tierscope.analysis.training.limit import decide_limits
from tierscope.analysis.utilisation import (
    UtilisationGoal,
    mean_utilisation,
)
from tierscope.analysis.whatif import cheapest_sufficient, select_improvements
from tierscope.core.columns import CLASSES
from tierscope.pages.explorer.subjects import UtilisationSweep

AXES = [("gfs_meta", "lfs_read"), ("lfs_read", "gfs_meta")]
NAMES = [f"{name}_improvement_percent" for name in AXES[0]]


@pytest.fixture(scope="session")
def estimates(by_model):
    """Return estimates in which 1 s of computation meets all of the I/O time."""
    utilisation = 100 / (1 + by_model["io_time_s"] / by_model["io_time_s"].min())
    rows = by_model.assign(utilisation_percent=utilisation)
    first = rows["n_osts"] == 60
    return rows[first & (rows["dataset"] == "small") & (rows["epoch"] == 1)]


@pytest.fixture(scope="session")
def utilisation_page(io_time, estimates, tmp_path_factory):
    stalls = stalls_at(io_time, 40, [0.5, 1.0, 2.0, 0.0, 4.0])
    limits = decide_limits(break_down(io_time), None, stalls, 1, may_hide=True)
    return write_page(
        io_time,
        tmp_path_factory.mktemp("utilisation") / "explorer.html",
        estimates,
        goal=UtilisationGoal(40),
        subject=UtilisationSweep,
        method="model",
        stalls=stalls,
        limits=limits[limits["cache_rate_percent"] == 40],
    )


@pytest.fixture
def page(browser, utilisation_page):
    return open_page(browser, utilisation_page)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("percent", [40, 45])
def test_map_is_that_of_the_estimates(page, estimates, axes, percent):
    page.set(x_class=axes[0], y_class=axes[1], goal_percent=percent)
    cells = page.table("cells", ["x_percent", "y_percent", "min_cache_rate_percent"])
    cells.columns = [*(f"{one}_improvement_percent" for one in axes), "least"]
    expected = UtilisationGoal(percent).sufficient(estimates)
    assert 0 < expected["sufficient"].sum() < len(expected)
    least = expected.set_index(NAMES)["min_cache_rate_percent"].fillna(101).astype(int)
    shown = cells.set_index(NAMES)["least"]
    assert shown.sort_index().to_dict() == least.sort_index().to_dict()
    cost = dict(zip(CLASSES, (1, 2, 3, 4), strict=True))
    cheapest = cheapest_sufficient(expected, cost)
    star = page.answer("cheapest")
    assert [star["x_percent"], star["y_percent"]] == [
        cheapest[f"{one}_improvement_percent"] for one in axes
    ]


def test_line_follows_the_sliders(page, estimates):
    page.set(lfs_read_improvement_percent=50, gfs_meta_improvement_percent=101)
    lines = page.table("lines", ["when", "cache_rate_percent", "value"])
    names = lines["when"].unique()
    assert list(names) == ["today", "improved, by the model"]
    improvements = [{}, {"lfs_read": 50, "gfs_meta": 100}]
    for name, improvement in zip(names, improvements, strict=True):
        rows = mean_utilisation(select_improvements(estimates, [improvement]))
        shown = lines[lines["when"] == name]["value"]
        np.testing.assert_allclose(shown, rows["utilisation_percent"], rtol=1e-9)


def test_page_says_why_the_rule_is_missing_and_has_no_column_of_it(page):
    headings = page.browser.find_elements("css selector", "thead th")
    assert [one.text for one in headings] == [
        "",
        "Today",
        "With the improvements, by the model",
    ]
    text = page.browser.find_element("css selector", "body").text
    assert "The paper's rule does not tell it" in text
    assert "At least" in text


def test_stall_of_the_cache_rate_is_said(page):
    page.set(cache_rate_percent=40)
    stall, limit, _ = page.text("looked_at_today_limit").split("; ")
    assert stall == "stall by the model: several classes together 4.00 s of 7.50 s"
    assert limit.startswith("what limits is undecided (several classes together if")
    page.set(cache_rate_percent=60)  # not in the table
    assert page.text("looked_at_today_limit") == ""


def test_a_pair_without_answers_is_said(page):
    page.set(x_class="gfs_read")
    assert "no answer for this pair" in page.text("method")
    assert page.answer("cells") == []
    assert page.complaints() == []
