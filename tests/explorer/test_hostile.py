"""Names of configurations and logs that would like to be HTML or scripts."""

import numpy as np
import pytest
from explorer.conftest import io_time_table, open_page, write_page
from long.pages.report.test_page import claims_of, io_time_of, page_of
from tierscope.core.provenance import Origin
from tierscope.pages import scorecard

PWNED = "window.pwned = true"
NAMES = [
    f"</script><script>{PWNED}</script>",
    f"<!--<script>{PWNED}</script>",
    f"<img src=x onerror='{PWNED}'>",
    f'"><svg onload="{PWNED}">',
    "$title ${spec} $$",
    "{{ title }} {title}",
    "]]>&lt;&#60;b",
]
ALL = " ".join(NAMES)


def runs_inline_script(browser):
    """Return whether the page runs a script that somebody has put into it."""
    browser.execute_script(
        """
        const script = document.createElement("script");
        script.textContent = "window.injected = true";
        document.body.append(script);
        """
    )
    browser.get_log("browser")  # which says so
    return browser.execute_script("return window.injected === true")


def is_pwned(browser):
    """Return whether a name has run as a script, once its events have come."""
    return browser.execute_async_script(
        "const done = arguments[0];"
        "requestAnimationFrame(() => setTimeout(() => done(window.pwned === true)));"
    )


@pytest.mark.parametrize("name", ["=1 + 1", f"=window {ALL}", ALL])
def test_explorer_shows_a_hostile_name_and_runs_nothing(browser, tmp_path, name):
    def times_of(dataset, n_osts, rate):
        return np.array([[0.1, 0.2, 0.3, rate / 100]] * 3)

    table = io_time_table(
        [("small", 60), ("small", 1)],
        [0, 50, 100],
        times_of,
        2,
        source="emulated",
        system=name,
    )
    path = tmp_path / "explorer.html"
    write_page(table, path, titles={"small": name}, provenance=name)
    page = open_page(browser, path)
    assert page.state("goal_percent") == 60  # the page computes
    assert not is_pwned(browser)
    assert not runs_inline_script(browser)
    shown = page.input("scenario").find_elements("tag name", "option")
    options = [one.text for one in shown]
    assert all(name in option for option in options), options
    assert name in browser.find_element("tag name", "footer").text


def test_report_shows_hostile_names_and_runs_nothing(browser, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(
        page_of(
            io_time_of(system=ALL),
            experiment=ALL,
            description=ALL,
            origin=Origin(ALL),
        )
    )
    browser.get(path.as_uri())
    assert browser.title == f"Storage experiment {ALL}"
    assert ALL in browser.find_element("tag name", "h1").text
    assert not is_pwned(browser)
    assert not runs_inline_script(browser)


def test_scorecard_shows_hostile_names_and_runs_nothing(browser, tmp_path):
    path = tmp_path / "scorecard.html"
    path.write_text(scorecard.html(claims_of("measured"), ALL, ALL))
    browser.get(path.as_uri())
    assert ALL in browser.find_element("tag name", "body").text
    assert not is_pwned(browser)
    assert not runs_inline_script(browser)
