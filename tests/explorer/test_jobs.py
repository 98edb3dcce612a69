"""Pages of logged jobs in a real browser."""

import job_tables
import pytest
from build_job_pages import build_pages
from explorer.conftest import open_page
from explorer.test_hostile import NAMES, is_pwned, runs_inline_script
from job_tables import tables_of
from pages import STYLE, TEMPLATE, TEMPLATES
from tierscope.core.sources import Origin

GIVEN = {
    "template": TEMPLATE,
    "style": STYLE,
    "explorer_page": (TEMPLATES / "explorer.html").read_text(),
    "explorer_computation": (TEMPLATES / "explorer.vega.yaml").read_text(),
    "breakdown": "Bars.",
    "processes": "Processes.",
}
ALL = " ".join(NAMES)


def write_pages(job, folder):
    """Write the pages of a job and return their folder."""
    origin = Origin("Darshan logs")
    build_pages(tables_of(job), job.name, folder, GIVEN, provenance=origin)
    return folder


def test_the_explorer_of_a_job_computes_with_one_point(browser, tmp_path):
    """Rank 1 takes 2 + 4 + 1.5 + 0.5 = 8 s; with twice the GFS-META throughput 6 s."""
    folder = write_pages(job_tables.exact_job(), tmp_path)
    page = open_page(browser, folder / "explorer.html")
    assert page.text("looked_at_today").startswith("8.00 s")
    page.set(gfs_meta_improvement_percent=100)
    assert page.text("looked_at_improved").startswith("6.00 s")
    assert "met" in page.text("goal_improved")
    assert page.complaints() == []


def test_the_page_of_a_job_shows_hostile_names_and_runs_nothing(browser, tmp_path):
    files = [("file", f"/gfs/{ALL}"), ("folder", ALL)]
    job = job_tables.exact_job(ALL, exe=ALL, user=ALL, remarks=ALL, files=files)
    folder = write_pages(job, tmp_path)
    browser.get((folder / "report.html").as_uri())
    text = browser.find_element("tag name", "body").text
    assert NAMES[2] in text
    assert not is_pwned(browser)
    assert not runs_inline_script(browser)
    page = open_page(browser, folder / "explorer.html")
    assert page.text("looked_at_today").startswith("8.00 s")
    assert not is_pwned(browser)


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_of_a_large_job_is_not_wider_than_the_window(browser, tmp_path, width):
    folder = write_pages(job_tables.large_job(), tmp_path)
    size = browser.get_window_size()
    try:
        browser.set_window_size(width, 900)
        browser.get((folder / "report.html").as_uri())
        inside, wide = browser.execute_script(
            "const d = document.documentElement; return [d.clientWidth, d.scrollWidth]"
        )
        assert wide <= inside
    finally:
        browser.set_window_size(size["width"], size["height"])
