import job_tables
from build_job_pages import build_pages
from job_tables import READ, tables_of
from pages import Page
from tierscope.core.provenance import Origin

GIVEN = {
    "breakdown": "**Breakdown.**",
    "processes": "**Processes.**",
}


def files_of(job, folder):
    tables = tables_of(job)
    build_pages(
        tables, job.name, folder / "a", GIVEN, provenance=Origin("Darshan logs")
    )
    return {path.name for path in (folder / "a").iterdir()}


def test_a_job_has_a_page_figures_and_an_explorer(tmp_path):
    files = files_of(job_tables.exact_job(), tmp_path)
    drawn = {
        f"{name}.{kind}"
        for name in ("breakdown", "processes")
        for kind in ("svg", "png")
    }
    assert files == {"report.html", "explorer.html", *drawn}
    page = Page((tmp_path / "a" / "report.html").read_text())
    assert "explorer.html" in page.addresses
    assert page.elements.count("figure") == 2
    assert "Breakdown. Processes." not in page.text
    assert "Breakdown." in page.text


def test_a_job_with_bounds_has_no_explorer_and_says_why(tmp_path):
    assert "explorer.html" not in files_of(job_tables.bounded_job(), tmp_path)
    text = Page((tmp_path / "a" / "report.html").read_text()).text
    assert "There is no explorer of this job" in text


def test_a_job_of_one_process_has_no_figure_of_processes(tmp_path):
    job = job_tables.exact_job(times={(-1, READ): [3.0]})
    assert files_of(job, tmp_path) == {"report.html", "breakdown.svg", "breakdown.png"}
