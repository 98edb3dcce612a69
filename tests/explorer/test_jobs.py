"""Pages of logged jobs in a real browser."""

import job_tables
import pytest
from build_job_pages import build_pages
from explorer.conftest import open_page
from explorer.test_hostile import NAMES, is_pwned, runs_inline_script
from job_tables import LFS_READ, tables_of
from tierscope.core.provenance import Origin

GIVEN = {
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


def test_the_explorer_of_a_job_says_nothing_about_cache_rates_or_epochs(
    browser, tmp_path
):
    """Tier local takes 3 + 1 s, tier nfs 2 s; with twice the READ of nfs it is 1 s."""
    times = {
        (-1, ("nfs", "POSIX", "read")): [2, 1],
        (-1, ("local", "POSIX", "read")): [3, 1],
        (-1, ("local", "POSIX", "meta")): [1, 1],
    }
    folder = write_pages(job_tables.exact_job(times=times), tmp_path)
    page = open_page(browser, folder / "explorer.html")
    page.set(gfs_read_improvement_percent=100)
    page.set(goal_percent=90)
    text = browser.find_element("tag name", "body").text
    for word in ("ache rate", "poch", "GFS", "LFS", "repetition", "best", "colour"):
        assert word not in text
    assert {"nfs READ", "local READ", "local META"} <= set(text.split("\n"))
    assert page.text("goal_today") == "not met, the time is 11.1 % above the goal"
    bars = page.table("bars", ["name", "io_class", "time_s", "left"])
    sums = bars.groupby("name")["time_s"].sum()
    assert sums.to_dict() == {"today": 6, "with the improvements": 5}
    assert sorted(set(bars["left"])) == pytest.approx([-0.85, 0.1])
    assert page.complaints() == []


def test_the_explorer_of_a_job_with_epochs_has_a_choice_of_them(browser, tmp_path):
    job = job_tables.exact_job()
    job.times = {
        (epoch, one): [(1 + epoch) * time_s for time_s in times_s]
        for epoch in (0, 1)
        for (_, one), times_s in job.times.items()
    }
    folder = write_pages(job, tmp_path)
    page = open_page(browser, folder / "explorer.html")
    assert page.text("looked_at_today").startswith("16.0 s")  # of the longer one
    assert page.input("epoch").is_displayed()
    page.set(epoch=0)
    assert page.text("looked_at_today").startswith("8.00 s")


@pytest.mark.parametrize("tier", [ALL, f"=window {ALL}", "a'b\"c\\d"])
def test_the_explorer_shows_hostile_tiers_and_runs_nothing(browser, tmp_path, tier):
    times = {(-1, (tier, "POSIX", "read")): [3, 2], (-1, LFS_READ): [1, 2]}
    folder = write_pages(job_tables.exact_job(times=times), tmp_path)
    page = open_page(browser, folder / "explorer.html")
    assert page.text("looked_at_today").startswith("4.00 s")
    assert tier[:8] in page.text("combinations")
    assert not is_pwned(browser)
    assert page.complaints() == []


@pytest.fixture
def opened(browser, tmp_path):
    """Return the function that opens the page of a large job with a width."""
    folder = write_pages(job_tables.large_job(), tmp_path)
    size = browser.get_window_size()

    def ask(width, script):
        browser.set_window_size(width, 900)
        browser.get((folder / "report.html").as_uri())
        return browser.execute_script(script)

    yield ask
    browser.set_window_size(size["width"], size["height"])


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_of_a_large_job_is_not_wider_than_the_window(opened, width):
    inside, wide = opened(
        width,
        "const d = document.documentElement; return [d.clientWidth, d.scrollWidth]",
    )
    assert wide <= inside


def test_what_is_wider_than_a_narrow_page_says_so(opened):
    hints = opened(
        390,
        "return [...document.querySelectorAll('.scroll')].filter(one => "
        "one.scrollWidth > one.clientWidth).map(one => [one.firstElementChild.tagName, "
        "getComputedStyle(one, '::before').content, "
        "getComputedStyle(one).backgroundImage])",
    )
    assert {kind for kind, *_ in hints} == {"IMG", "TABLE"}
    for kind, words, shadow in hints:
        assert kind == "TABLE" or "scroll sideways" in words
        assert shadow.count("gradient") == 4


def test_figures_of_a_wide_page_have_no_hint(opened):
    script = "return getComputedStyle(document.querySelector('figure .scroll'), "
    assert opened(1280, f"{script}'::before').content") == "none"
