import job_tables
import pytest
from job_tables import LFS_WRITE, META, MPI_IO, READ, STDIO, tables_of
from matplotlib.colors import to_hex
from tierscope.core.provenance import Origin
from tierscope.figures.logs.classes import UNSURE, Palette
from tierscope.figures.logs.job_breakdown import plot_job_breakdown
from tierscope.figures.style import save_figure

ORIGIN = Origin("Darshan logs, test")


def draw(*jobs, job=None, **changes):
    tables = tables_of(*jobs)
    return plot_job_breakdown(
        tables["job_breakdown"],
        tables["job_slowest"],
        job or jobs[0].name,
        provenance=ORIGIN,
        **changes,
    )


def texts_of(figure):
    words = [text.get_text() for legend in figure.legends for text in legend.texts]
    words += [text.get_text() for ax in figure.axes for text in ax.texts]
    return [*words, figure.get_suptitle(), figure.get_supxlabel()]


def bars_of(ax, colour):
    return [bar for bar in ax.patches if to_hex(bar.get_facecolor()).upper() == colour]


def dotted_of(ax):
    return [bar for bar in ax.patches if bar.get_hatch() == UNSURE["hatch"]]


def test_the_slowest_process_is_stacked_by_class():
    figure = draw(job_tables.exact_job())  # 2, 4, 1.5 and 0.5 s
    stack = [bar for bar in figure.axes[0].patches if bar.get_height()]
    assert [bar.get_height() for bar in stack] == [2, 4, 1.5, 0.5]
    assert stack[-1].get_y() + stack[-1].get_height() == 8
    assert [bar.get_width() for bar in figure.axes[1].patches] == [2, 4, 1.5, 0.5]
    assert not dotted_of(figure.axes[0])
    assert "4.00 s" in texts_of(figure)


def test_each_epoch_has_a_bar_and_the_whole_job_the_classes():
    figure = draw(job_tables.epochs_job())
    reads = bars_of(figure.axes[0], Palette(["gfs"]).colour("gfs", "read"))
    assert [bar.get_height() for bar in reads] == pytest.approx([6, 3, 2])
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == list(
        "012"
    )
    assert figure.axes[1].patches[0].get_width() == pytest.approx(11)


def test_what_is_not_certain_is_dotted_up_to_the_upper_bound():
    figure = draw(job_tables.bounded_job())  # 1 to 2 s in two classes, 2 to 4 s in all
    (bar,) = dotted_of(figure.axes[0])
    assert (bar.get_y(), bar.get_y() + bar.get_height()) == (2, 4)
    assert [bar.get_width() for bar in dotted_of(figure.axes[1])] == [1, 1]
    assert "1.00 to 2.00 s" in texts_of(figure)
    assert any(
        text.startswith("Source: Darshan logs, test.") for text in texts_of(figure)
    )
    assert "Bounds: processes share records" in figure.get_supxlabel()


def test_a_time_without_upper_bound_has_an_arrow():
    figure = draw(job_tables.partial_job())
    (arrow,) = (line for line in figure.axes[0].lines if line.get_marker() == "^")
    assert len(arrow.get_xdata()) == 1
    assert "at least 2.00 s" in texts_of(figure)
    assert "no upper bound" in texts_of(figure)


def test_stdio_is_hatched_and_mpi_io_is_only_named():
    job = job_tables.exact_job()
    job.times |= {(-1, STDIO): [0.25, 0.25], (-1, MPI_IO): [9, 9]}
    figure = draw(job)
    assert {bar.get_hatch() for bar in figure.axes[0].patches} == {None, "////"}
    assert "gfs STDIO WRITE" in texts_of(figure)
    assert not any("MPI-IO" in label for label in texts_of(figure)[:-1])
    assert "MPI-IO is not drawn" in figure.get_supxlabel()
    heights = [bar.get_height() for bar in figure.axes[0].patches]
    assert sum(heights) == pytest.approx(8.25)


def test_mpi_io_is_not_drawn_even_if_it_has_a_time():
    job = job_tables.exact_job()
    job.times[-1, MPI_IO] = [9, 9]
    tables = tables_of(job)
    breakdown = tables["job_breakdown"].assign(least_s=1.0, most_s=1.0)
    slowest = tables["job_slowest"]
    figure = plot_job_breakdown(breakdown, slowest, job.name, provenance=ORIGIN)
    assert len(figure.axes[1].patches) == 4


@pytest.mark.parametrize(
    ("longest_s", "unit", "last"),
    [(0.5, "s", "0.6"), (0.05, "ms", "60"), (0.0005, "ms", "0.6"), (5e-5, "µs", "60")],
)
def test_small_times_have_short_labels(longest_s, unit, last):
    ax = draw(job_tables.exact_job(times={(-1, READ): [longest_s, 0]})).axes[1]
    assert ax.get_xlabel() == f"I/O time ({unit})"
    labels = {text.get_text() for text in ax.get_xticklabels()}
    assert last in labels
    assert max(map(len, labels)) <= 4


def test_other_jobs_are_left_out():
    figure = draw(job_tables.exact_job(), job_tables.epochs_job(), job="train-1")
    assert figure.axes[0].get_title() == "Whole job"
    assert sum(bar.get_height() for bar in figure.axes[0].patches) == 8


def test_a_job_without_io_can_be_drawn(tmp_path):
    job = job_tables.exact_job(times={(-1, READ): [0, 0], (-1, META): [0, 0]})
    save_figure(draw(job), [tmp_path / "a.svg"])


def test_a_hostile_name_is_drawn_as_it_is_seen(tmp_path):
    job = job_tables.exact_job("$x_{1}$ \u202e<b>\n" + "y" * 300)
    job.times[-1, ("sc$r^{2}$", *LFS_WRITE[1:])] = [1, 1]
    figure = draw(job)
    title = figure.get_suptitle().replace("\n", " ")  # broken into lines
    assert "$x_{1}$ \\u202e<b>\\n" in title
    assert len(figure.get_suptitle()) < 140
    save_figure(figure, [tmp_path / "a.svg", tmp_path / "a.png"])


def test_the_same_table_gives_the_same_bytes(tmp_path):
    for name in ("a.svg", "b.svg"):
        save_figure(draw(job_tables.bounded_job()), [tmp_path / name])
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
