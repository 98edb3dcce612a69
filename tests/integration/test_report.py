"""Both reports of the tiny experiment: tierscope's page and Snakemake's own."""

import json
import re

import pytest

PAGES = ["Report", "Scorecard", "Explorer"]


@pytest.fixture(scope="module")
def page(finished):
    """Return the report's HTML."""
    return finished.path("report.html").read_text()


def test_the_report_is_one_file_that_names_experiment_source_and_runs(finished, page):
    assert "Report: results/tiny/report.html" in finished.first_output
    assert "Storage experiment tiny" in page
    assert "These numbers are emulated." in page
    assert "fitted to statements of the paper, not measured" in page
    assert "All 5 runs passed" in page
    assert page.count("passed</span>") == 5
    run = json.loads(next(finished.path("runs").rglob("run.json")).read_text())
    for words in (run["started"][:10], run["versions"]["mpi4py"]):
        assert words in page
    addresses = set(re.findall(r'(?:src|href)="(?!#|data:)([^"]*)"', page))
    assert addresses == {"explorer.html"}
    assert finished.path("explorer.html").is_file()


def test_the_report_holds_every_figure_with_its_caption(finished, page):
    svgs = [path.stem for path in finished.path("figures").glob("fig*.svg")]
    assert len(svgs) == page.count("<figcaption>") >= 5
    for name in svgs:
        assert f'<figure id="{name}">' in page


def test_the_report_is_built_again_only_if_something_changed(finished):
    finished.snakemake("report")  # another test may have drawn a figure again
    before = finished.path("report.html").read_bytes()
    assert "Nothing to be done" in finished.snakemake("report")
    finished.snakemake("report", "--force")
    assert finished.path("report.html").read_bytes() == before


def test_snakemakes_own_report_shows_figures_and_pages(finished):
    finished.snakemake("--report", "own.html")
    own = (finished.folder / "own.html").read_text()
    for words in (
        "Figure 2: breakdown of the slowest process",
        "Figure 4: improvements of GFS-META and LFS-READ",
        "What does the slowest process wait for?",
        "source of the numbers",
        *(f'"page": "{name}"' for name in PAGES),
        '"table": "Breakdown by I/O class"',
        "application/vnd.apache.parquet",
    ):
        assert words in own
