"""The page of all jobs in a real browser."""

import job_tables
import pandas as pd
import pytest
from explorer.test_hostile import NAMES, is_pwned, runs_inline_script
from job_tables import tables_of
from pages import TEMPLATE
from tierscope.analysis.logs.asking import JobTables
from tierscope.core.provenance import Origin
from tierscope.pages.document import render
from tierscope.pages.logs.fleet_page import OF_FLEET, fleet_page

SHOWN = """
    return [...document.querySelectorAll("#Programs tbody tr")]
        .filter((row) => !row.hidden).map((row) => row.cells[0].textContent)
"""


@pytest.fixture
def page(browser, tmp_path):
    """Open the page of 200 jobs, each of another program; some names are hostile."""
    tables = tables_of(job_tables.exact_job())
    fleet = pd.concat([tables["fleet"]] * 200, ignore_index=True)
    fleet["io_hours"] = [float(200 - number) for number in range(200)]
    fleet["exe"] = [f"Program {number}" for number in range(200 - len(NAMES))] + NAMES
    asked = JobTables({name: (tables | {"fleet": fleet})[name] for name in OF_FLEET})
    context = fleet_page(
        asked, experiment="x", pictures=[], provenance=Origin("Darshan logs")
    )
    path = tmp_path / "page.html"
    path.write_text(render(TEMPLATE, context))
    browser.get(path.as_uri())
    return browser


def test_programs_are_found_by_a_part_of_their_name(page):
    assert len(page.execute_script(SHOWN)) == 20
    field = page.find_element("name", "Programs")
    field.send_keys("PROGRAM 11")
    expected = ["Program 11", *(f"Program {number}" for number in range(110, 120))]
    assert page.execute_script(SHOWN) == expected
    assert "11 of 200" in page.find_element("id", "programs").text
    field.clear()
    field.send_keys(" ")
    assert len(page.execute_script(SHOWN)) == 20
    button = page.find_element("css selector", "#programs button")
    button.click()
    assert len(page.execute_script(SHOWN)) == 200
    assert not button.is_displayed()
    assert page.get_log("browser") == []


def test_a_search_runs_nothing_of_hostile_names(page):
    field = page.find_element("name", "Programs")
    field.send_keys("<script")
    assert len(page.execute_script(SHOWN)) >= 1
    assert not is_pwned(page)
    assert not runs_inline_script(page)
