"""The page of designs in a real browser: it chooses as Python does, at any price."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from design_tables import COST, HOURLY, designs, inputs, row
from explorer.conftest import open_page
from tierscope.analysis.designs.answer import Answer
from tierscope.analysis.designs.choice import choose, designs_of
from tierscope.analysis.designs.summary import null_words
from tierscope.data.costs import Cost, Unit
from tierscope.pages.designs import build_designs

OPTIONS = {"by": "", "need": 0}


def grid(seed, workload, goal):
    """Return 48 designs whose AU grow with their hardware, and vary."""
    rng, rows = np.random.default_rng(seed), []
    for servers in (1, 2, 4):
        for links in (1, 2):
            for devices, placement in ((1, "none"), (1, "pinning"), (2, "adhoc")):
                for n in (8, 16):
                    au = 100 * servers * 6 / (servers * 6 + n / 4) - 3 * (links < 2)
                    au += 2 * devices * (placement != "none") + rng.normal(0, 1)
                    au = min(99.0, au)
                    held = n // 8 * devices * (placement != "none")
                    found = {"object_servers": servers, "n_links": links}
                    found |= {"placement": placement, "n_lfs_devices": held}
                    found |= {"lfs_devices": devices, "n_accelerators": n}
                    found |= {"n_nodes": n // 8, "lfs_gib": 1750.0, "goal_value": goal}
                    found |= {"linear": au + 4, "demand": au + 8}
                    found |= {"limit": "gfs_read" if au < goal else "not asked"}
                    rows.append(row(au, au - 1, min(100.0, au + 1), **found))
    return designs(*rows, workload=workload)


@pytest.fixture(scope="module")
def table():
    both = [grid(1, "net", 90.0), grid(2, "other", 80.0)]
    return pd.concat(both, ignore_index=True).assign(share=0.5)


def answer_of(table, cost, limits=None):
    changes = (("gfs.read_latency_s", 1, 2, 1),)
    return Answer(table, inputs(*changes), cost, limits or {})


@pytest.fixture
def opened(browser, table, tmp_path):
    """Return a function that opens the page of a cost."""

    def open_with(cost=COST, of=table):
        page = tmp_path / "designs.html"
        sources = {"net": "made up.", "other": "made up."}
        answer = answer_of(of, cost)
        page.write_text(build_designs(answer, "What to buy", sources, "made up"))
        return open_page(browser, page)

    return open_with


def typed(cost, limits):
    """Return what a reader types in for a cost and limits."""
    found = {
        f"{kind}.{name}": value
        for kind, unit in cost.units.items()
        for name, value in vars(unit).items()
    }
    found |= {f"limit.{name}": value for name, value in limits.items()}
    return found | {"hours": cost.hours, "accelerator_hour": cost.accelerator_hour}


def assert_same(page, table, cost, limits, **options):
    """Check that the page chooses what Python does, and says the same."""
    page.set(**typed(cost, limits) | OPTIONS | options)
    found, answer = (
        choose(designs_of(table), cost, limits, **options),
        answer_of(table, cost, limits),
    )
    assert page.answer("by") == found.by
    for name in ("need", "chosen", "miss", "undecided"):
        expected = getattr(found, name)
        got = page.answer(name)
        assert (tuple(got) if isinstance(expected, tuple) else got) == expected, name
    assert page.answer("null") == found.null
    if not options:
        texts = page.answer("texts")
        assert page.answer("front") == answer.front
        assert page.answer("told") == answer.told
        told = [texts["answer"], *filter(None, [texts["limit"]])]
        assert told == answer.sentences()[:-1]
        assert texts["simple"] == null_words(answer)
        assert page.text("answer") == texts["answer"]


PRICES = [
    (HOURLY, {}),
    (COST, {}),
    (COST, {"price": 500}),
    (COST, {"object_server": 2, "node": 1}),
    (COST, {"price": 1}),
    (Cost(), {}),
    (Cost(units={"link": Unit(price=1e4), "lfs_device": Unit(price=0.1)}), {}),
    (Cost(units={"lfs_device": Unit(price_per_gib=0.1, watts=9.1)}), {"watts": 20}),
    (
        Cost(units={"object_server": Unit(rack_units=2, usable_tib=7)}),
        {"usable_tib": 14},
    ),
    (Cost(units={"node": Unit(watts=0.3), "metadata_server": Unit(watts=0.1)}), {}),
]


@pytest.mark.parametrize(("cost", "limits"), PRICES)
def test_the_front_and_the_choice_move_with_prices_as_python_says(
    opened, table, cost, limits
):
    page = opened(Cost(unit="EUR"))
    cost = replace(cost, unit="EUR")
    assert_same(page, table, cost, limits)
    for need in (8, 16):
        assert_same(page, table, cost, limits, need=need)
    assert page.complaints() == []


@pytest.mark.parametrize("by", ["hour_price", "watts", "hardware"])
def test_the_cheapest_can_be_told_by_another_cost(opened, table, by):
    assert_same(opened(), table, HOURLY, {}, by=by)


def test_a_price_that_is_typed_in_moves_the_front_at_once(opened, table):
    page = opened()
    before = page.text("answer")
    field = page.browser.find_element("css selector", "[name='object_server.price']")
    field.clear()
    field.send_keys("1")
    assert page.text("answer") != before
    cheap = replace(COST, units={**COST.units, "object_server": Unit(1, watts=10)})
    assert page.text("answer") == answer_of(table, cheap).sentences()[0]
    rows = page.browser.find_elements("css selector", "#told tr")
    assert len(rows) == len(answer_of(table, cheap).told)
    assert page.complaints() == []


def test_what_to_measure_is_told_with_whose_prices(opened, table):
    page = opened()
    assert page.text("measure").startswith("Measure gfs.read_latency_s (assumed")
    page.set(**{"limit.price": 0.5})
    assert page.text("measure").startswith("With the configuration's prices: Measure")


def test_one_workload_is_drawn_by_its_goal_and_each_point_has_words(opened, table):
    page = opened(of=table[table["workload"] == "net"].reset_index(drop=True))
    views = page.browser.find_element("id", "views")
    assert "Accelerator utilisation (%)" in views.text
    marks = page.browser.find_elements(
        "css selector", "#views [aria-label*=' at an AU']"
    )
    assert len(marks) == len(page.answer("compared")) > 4


@pytest.fixture(params=[1200, 400])
def window(browser, request):
    """Give the window a width."""
    size = {"height": 900, "deviceScaleFactor": 1, "mobile": False}
    size["width"] = request.param
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    yield
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.usefixtures("window")
@pytest.mark.parametrize("price", [0.111, 111_111])
def test_numbers_below_the_chart_do_not_touch(opened, price):
    page = opened(Cost(units={"object_server": Unit(price=price)}))
    script = """return [...document.querySelectorAll("#views text")]
        .filter((one) => /^[0-9.]+$/.test(one.textContent))
        .filter((one) => one.getAttribute("text-anchor") === "middle")
        .map((one) => one.getBoundingClientRect()).map(({ x, right }) => [x, right])"""
    ends = np.array(page.browser.execute_script(script))
    assert len(ends) > 1
    assert (ends[1:, 0] - ends[:-1, 1]).min() > 4


@pytest.mark.usefixtures("window")
def test_the_page_fits_its_window(opened):
    page = opened()
    script = "const e = document.documentElement; return [e.scrollWidth, e.clientWidth]"
    content, room = page.browser.execute_script(script)
    script = "const e = document.querySelector('.prices input'); e.value = 600000;"
    script += "return e.scrollWidth <= e.clientWidth"
    assert page.browser.execute_script(script)
    assert content <= room
