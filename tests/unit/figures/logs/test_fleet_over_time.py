import job_tables
import pytest
from job_tables import META, READ, tables_of
from tierscope.analysis.logs.asking import JobTables
from tierscope.core.provenance import Origin
from tierscope.figures.logs.fleet_over_time import plot_fleet_over_time
from tierscope.figures.style import save_figure


def draw(n_weeks, job=job_tables.exact_job):
    """Draw jobs of one week after the other."""
    jobs = [job(f"{n}", started_s=1.76e9 + 7 * 86400 * n) for n in range(n_weeks)]
    tables = tables_of(*jobs)
    names = ("fleet", "fleet_classes")
    asked = JobTables({name: tables[name] for name in names})
    return plot_fleet_over_time(asked, provenance=Origin("Darshan logs"))


def exact(name, **changes):
    """Return a job of two nodes with 3 s of READ and 1 s of META, so 8 s of nodes."""
    times = {(-1, READ): [3.0, 0], (-1, META): [1.0, 0]}
    return job_tables.exact_job(name, times=times, **changes)


def test_bars_of_weeks_are_stacked_by_class():
    figure = draw(8, exact)
    (ax,) = figure.axes
    assert ax.get_ylabel() == "Node-seconds of I/O a week"
    assert [bar.get_height() for bar in ax.patches] == pytest.approx([6] * 8 + [2] * 8)
    assert [bar.get_y() for bar in ax.patches] == pytest.approx([0] * 8 + [6] * 8)
    labels = [text.get_text() for text in figure.legends[0].texts]
    assert labels == ["gfs META", "gfs READ"]


def unsure(name, **changes):
    """Return a job of which each process takes 2 s, of READ or META or of both."""
    times = {(-1, READ): ([0.0, 2], [2.0, 2]), (-1, META): ([2.0, 0], [2.0, 2])}
    return job_tables.exact_job(name, times=times, **changes)


def test_what_is_of_no_certain_class_is_dotted():
    (ax,) = draw(8, unsure).axes
    dotted = [bar.get_height() for bar in ax.patches if bar.get_hatch()]
    assert dotted == pytest.approx([4] * 8)  # of 2 nodes


@pytest.mark.parametrize("n_weeks", [1, 2])
def test_a_few_bars_are_a_sentence(n_weeks, tmp_path):
    figure = draw(n_weeks)
    assert figure.axes == []
    assert "Too few days, weeks or months" in figure.texts[-1].get_text()
    save_figure(figure, [tmp_path / "a.svg"])
