import job_tables
import numpy as np
import pandas as pd
import pytest
from job_tables import META, READ, tables_of
from tierscope.analysis.logs.asking import JobTables
from tierscope.core.provenance import Origin
from tierscope.core.tables import empty_table
from tierscope.figures.logs.classes import UNSURE
from tierscope.figures.logs.fleet import (
    MOST_JOBS,
    cost_words,
    hours_words,
    plot_fleet,
)
from tierscope.figures.style import save_figure

ORIGIN = Origin("Darshan logs")


def job_of(name, hours, **changes):
    """Return a job of two nodes that costs so many node-hours, half of them META."""
    seconds = 3600 * hours / 4
    times = {(-1, READ): [seconds, 0], (-1, META): [seconds, 0]}
    return job_tables.exact_job(name, times=times, run_time_s=1e4, **changes)


def draw(*jobs, **changes):
    tables = asked(tables_of(*jobs), **changes)
    return plot_fleet(tables, provenance=ORIGIN)


def asked(tables, **changes):
    fleet = tables["fleet"].assign(**changes)
    return JobTables({"fleet": fleet, "fleet_classes": tables["fleet_classes"]})


def names_of(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def test_the_most_costly_job_comes_first_stacked_by_class():
    costly = draw(job_of("cheap", 1), job_of("dear", 3)).axes[0]
    assert names_of(costly) == ["dear", "cheap"]
    widths = [round(bar.get_width(), 9) for bar in costly.patches]
    assert widths == [1.5, 0.5, 1.5, 0.5]
    assert costly.get_xlabel().endswith("(node-hours)")


def test_only_twenty_jobs_are_bars():
    figure = draw(*(job_of(f"job-{n}", n + 1) for n in range(MOST_JOBS + 5)))
    assert len(names_of(figure.axes[0])) == MOST_JOBS
    assert "I/O of 25 jobs" in figure.get_suptitle()


def test_savings_lie_between_the_least_and_the_most():
    saved = draw(job_tables.bounded_job(n_nodes=3600.0)).axes[1]
    certain, more = saved.patches
    assert certain.get_width() == pytest.approx(0.5)  # of 1 s of META
    assert more.get_hatch() == UNSURE["hatch"]
    assert certain.get_width() + more.get_width() == pytest.approx(1.0)  # of 2 s
    assert [text.get_text() for text in saved.texts] == ["0.500 to 1.00 h"]


def test_savings_without_upper_bound_have_an_arrow():
    saved = draw(job_tables.partial_job()).axes[1]
    assert [line.get_marker() for line in saved.lines] == [">"]
    assert saved.texts[0].get_text().startswith("at least ")


def test_outliers_have_a_name_and_other_jobs_none():
    far = job_of("far", 1, outlier="90 % of the run time is I/O")
    parts = draw(far, job_of("usual", 1)).axes[2]
    assert [text.get_text() for text in parts.texts] == ["far"]
    points = [len(dots.get_offsets()) for dots in parts.collections]
    assert points == [1, 0, 1]  # usual ones, lower bounds, outliers


def test_names_of_outliers_are_never_on_each_other():
    near = {"outlier": "90 % of the run time is I/O"}
    jobs = [job_of(f"near-{n}", 1 + n / 1e3, **near) for n in range(4)]
    parts = draw(*jobs, job_of("far", 30, **near)).axes[2]
    assert [text.get_text() for text in parts.texts] == ["far", "near-3"]


def test_a_job_far_above_its_run_time_does_not_squash_the_others():
    """One job of many threads has 800 % of its run time in I/O."""
    figure = draw(job_of("a", 1), job_of("b", 2), io_least_percent=[800.0, 50])
    parts = figure.axes[2]
    assert parts.get_ylim()[1] < 200
    assert sorted(parts.collections[0].get_offsets()[:, 1]) == [50, 150]
    labels = [text.get_text() for text in figure.axes[-1].get_legend().texts]
    assert labels == ["job", "above the axis: up to 800 %"]


def test_a_job_with_an_unknown_part_is_counted_in_the_title():
    parts = draw(job_of("a", 1), job_of("b", 2), io_least_percent=[np.nan, 10]).axes[2]
    assert parts.get_title() == "Part of I/O (1 unknown)"


def test_hours_of_processes_are_marked_among_hours_of_nodes():
    tables = tables_of(job_of("a", 1), job_of("b", 2))
    assert hours_words(["processes", "nodes"]) == "node-hours or process-hours"
    mixed = asked(tables, hours_of=["processes", "nodes"])
    figure = plot_fleet(mixed, provenance=ORIGIN)
    assert names_of(figure.axes[0]) == ["b *", "a"]
    assert "* Hours of processes" in figure.get_supxlabel()
    assert hours_words(["processes"]) == "process-hours"


@pytest.mark.parametrize(
    ("jobs", "title"),
    [
        ([job_of("a", 1)], "All jobs"),
        ([job_of("a", 1), job_of("idle", 0)], "The most costly job"),
        ([job_of("a", 1), job_of("b", 1), job_of("c", 0)], "The 2 most costly jobs"),
    ],
)
def test_a_title_says_whether_all_jobs_are_shown(jobs, title):
    assert draw(*jobs).axes[0].get_title() == title


def test_jobs_without_io_are_no_costly_jobs():
    assert names_of(draw(job_of("a", 0), job_of("b", 2)).axes[0]) == ["b"]


@pytest.mark.parametrize(
    ("jobs", "words"),
    [([], "No log could be used"), ([job_of("idle", 0)], "No job has")],
)
def test_a_fleet_without_io_is_a_sentence(jobs, words, tmp_path):
    if jobs:
        figure = draw(*jobs)
    else:
        names = ("fleet", "fleet_classes")
        empty = JobTables({name: empty_table(name) for name in names})
        figure = plot_fleet(empty, provenance=ORIGIN)
    assert figure.axes == []
    assert words in figure.texts[-1].get_text()
    save_figure(figure, [tmp_path / "a.svg"])


def test_hostile_names_are_drawn_as_they_are_seen(tmp_path):
    job = job_of("$\\frac{1}$\u202e\n", 1, exe="<svg onload=x>\x00", user="$")
    figure = draw(job)
    assert names_of(figure.axes[0]) == ["$\\frac{1}$\\u202e\\n"]
    assert "<svg onload=x>\\x00" in figure.axes[0].texts[0].get_text()
    save_figure(figure, [tmp_path / "a.svg"])


def test_only_classes_that_can_be_seen_are_in_the_legend():
    """Of 3600 s of READ and 1 s of META, META is thinner than a pixel."""
    job = job_tables.exact_job(times={(-1, READ): [3600, 0], (-1, META): [1, 0]})
    figure = draw(job)
    labels = [text.get_text() for text in figure.axes[3].get_legend().texts]
    assert labels == ["gfs READ"]
    assert len(figure.axes[0].patches) == 2


def test_hours_have_a_panel_of_their_own_if_one_job_costs_much_more():
    jobs = [job_of("dear", 1000), job_of("a", 1), job_of("b", 2)]
    figure = draw(*jobs)
    costly, hours = figure.axes[0], figure.axes[3]
    assert costly.get_xlabel() == "% of the job's node-hours"
    assert [bar.get_width() for bar in costly.patches] == pytest.approx([50] * 6)
    assert hours.get_xscale() == "log"
    assert [bar.get_width() for bar in hours.patches] == pytest.approx([1000, 2, 1])
    assert [text.get_text() for text in hours.texts] == ["1,000 h", "2.00 h", "1.00 h"]
    assert names_of(hours) == ["dear", "b", "a"]
    assert draw(*jobs[1:]).axes[0].get_xlabel().endswith("(node-hours)")


def test_what_a_job_costs_has_bounds():
    """2 to 4 s on 2 nodes; of a job that lost records, at least 3 s on 2 nodes."""
    figure = draw(job_tables.bounded_job(), job_tables.partial_job())
    words = [text.get_text().partition(" (")[0] for text in figure.axes[0].texts]
    assert words == ["at least 6.00 s", "4.00 to 8.00 s"]


def test_many_jobs_are_counted_in_cells_and_few_outliers_are_points():
    """3000 jobs alike and 150 outliers, of which the 100 with the most hours."""
    tables = tables_of(job_of("usual", 1), job_of("far", 2, outlier="much I/O"))
    names = [("usual", 3000), ("far", 150)]
    fleet = pd.concat(
        tables["fleet"].query("job == @name").sample(n, replace=True, random_state=1)
        for name, n in names
    )
    fleet["io_least_percent"] = np.tile([10.0, 20, 200], 1050)
    parts = plot_fleet(asked(tables | {"fleet": fleet}), provenance=ORIGIN).axes[2]
    cells, points = parts.collections
    assert cells.get_array().tolist() == [1050, 1050, 1050]
    assert len(points.get_offsets()) == 100


@pytest.mark.parametrize(
    ("least", "most", "words"),
    [
        (2.0, 2.0, "2.00 h"),
        (0.5, 2.0, "0.500 to 2.00 h"),
        (0.25, 0.5, "15.0 to 30.0 min"),
        (2e-5, 2e-5, "0.0720 s"),
        (0.0, np.nan, "at least 0 h"),
        (0.5, np.nan, "at least 30.0 min"),
    ],
)
def test_few_hours_are_minutes_or_seconds(least, most, words):
    assert cost_words(least, most) == words
    assert cost_words(1 / 60, 1 / 60, "node-hours") == "1.00 node-minutes"
