import job_tables
import numpy as np
import pytest
from job_tables import READ, tables_of
from tierscope.core.provenance import Origin
from tierscope.figures.logs.classes import UNSURE
from tierscope.figures.logs.job_processes import MOST_BARS, plot_job_processes
from tierscope.figures.style import save_figure


def draw(job, **changes):
    origin = Origin("Darshan logs")
    return plot_job_processes(tables_of(job), job.name, provenance=origin, **changes)


def marks_of(ax):
    (marks,) = (line for line in ax.lines if line.get_marker() == "v")
    return marks


def labels_of(figure):
    return [text.get_text() for legend in figure.legends for text in legend.texts]


def job_of(n_processes, unsure=0.0):
    """Return a job whose process n takes n + 1 s, or so much longer."""
    least = np.arange(1.0, n_processes + 1)
    return job_tables.exact_job(times={(-1, READ): (least, least + unsure)})


def test_few_processes_are_bars_and_the_longest_comes_first():
    (ax,) = draw(job_tables.exact_job()).axes
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "0"]
    tops = {}
    for bar in ax.patches:
        place = round(bar.get_x() + bar.get_width() / 2)
        tops[place] = max(tops.get(place, 0), bar.get_y() + bar.get_height())
    assert tops == {0: 8, 1: 4.5}
    assert marks_of(ax).get_xdata().tolist() == [0]


def test_what_is_not_certain_is_dotted_and_every_candidate_marked():
    figure = draw(job_tables.bounded_job())
    (ax,) = figure.axes
    dotted = [bar for bar in ax.patches if bar.get_hatch() == UNSURE["hatch"]]
    assert [bar.get_y() + bar.get_height() for bar in dotted] == [4, 4, 4]
    assert len(marks_of(ax).get_xdata()) == 3
    assert "any of 3 processes\ncan be the slowest" in labels_of(figure)


@pytest.mark.parametrize("n_processes", [MOST_BARS, MOST_BARS + 1])
def test_many_processes_are_a_curve(n_processes):
    (ax,) = draw(job_of(n_processes)).axes
    assert bool(ax.patches) == (n_processes == MOST_BARS)
    if not ax.patches:
        assert ax.lines[0].get_ydata().tolist() == list(range(n_processes, 0, -1))
    assert marks_of(ax).get_xdata()[0] == (0 if ax.patches else 1)


def test_a_band_reaches_from_the_sorted_lower_to_the_sorted_upper_bounds():
    figure = draw(job_of(100, unsure=0.5))
    (ax,) = figure.axes
    (band,) = ax.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert heights.max() == 100.5
    assert "up to the upper bound" in labels_of(figure)
    assert len(marks_of(ax).get_xdata()) == 1  # 99.5 s does not reach 100 s


def test_lower_bounds_are_sorted_by_themselves():
    """Process n takes n to 1000 - n s: upper bounds have the opposite order."""
    n = np.arange(1.0, 81)
    job = job_tables.exact_job(times={(-1, READ): (n, 1000 - n)})
    tables = tables_of(job)
    tables["job_breakdown"]["sum_s"] = n.sum() + 1  # nearly all is certain
    (ax,) = plot_job_processes(tables, job.name, provenance=Origin("x")).axes
    assert ax.lines[0].get_ydata().tolist() == n[::-1].tolist()


def test_an_epoch_can_be_drawn_alone():
    figure = draw(job_tables.epochs_job(), epoch=1)
    (ax,) = figure.axes
    assert max(bar.get_y() + bar.get_height() for bar in ax.patches) == 5
    assert "epoch 1" in figure.get_suptitle()


def test_of_lost_records_the_slowest_is_only_the_slowest_recorded(tmp_path):
    figure = draw(job_tables.partial_job())
    assert "slowest process,\nas far as is recorded" in labels_of(figure)
    assert "Lower bounds: a log lacks records or times" in figure.get_supxlabel()
    save_figure(figure, [tmp_path / "a.png"])


def test_a_job_of_the_papers_size_is_drawn_quickly(tmp_path):
    save_figure(draw(job_tables.large_job()), [tmp_path / "a.svg"])
    assert (tmp_path / "a.svg").stat().st_size < 2_000_000


def test_a_job_of_very_many_processes_is_a_small_file_without_marks(tmp_path):
    """All of 20,000 processes can be the slowest: the figure says it in words."""
    times = {(-1, READ): (np.ones(20_000), np.full(20_000, 2.0))}
    figure = draw(job_tables.exact_job(times=times))
    assert "any of 20,000 processes\ncan be the slowest" in labels_of(figure)
    assert not any(line.get_marker() == "v" for line in figure.axes[0].lines)
    save_figure(figure, [tmp_path / "a.svg"])
    assert (tmp_path / "a.svg").stat().st_size < 200_000


@pytest.mark.parametrize("n_candidates", [10, 11])
def test_up_to_ten_candidates_are_marked(n_candidates):
    most = np.where(np.arange(30) < n_candidates, 2.0, 0.5)
    least = np.where(np.arange(30) < 1, 1.0, 0.0)
    figure = draw(job_tables.exact_job(times={(-1, READ): (least, most)}))
    marks = [line for line in figure.axes[0].lines if line.get_marker() == "v"]
    assert [len(line.get_xdata()) for line in marks] == [10][: n_candidates < 11]


def test_the_band_follows_the_sum_over_the_processes():
    """Each of 100 processes takes up to 50 s, but all together 60 s: no rectangle."""
    job = job_tables.exact_job(times={(-1, READ): (np.zeros(100), np.full(100, 50.0))})
    tables = tables_of(job)
    tables["job_breakdown"]["sum_s"] = 60.0
    figure = plot_job_processes(tables, job.name, provenance=Origin("x"))
    (band,) = figure.axes[0].collections
    x, y = band.get_paths()[0].vertices.T
    assert y[x == 2].max() == 30
    assert y[x == 60].max() == 1
    assert {"median, at least", "median, at most"} <= set(labels_of(figure))
