from dataclasses import replace

import job_tables
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_tables import MPI_IO, READ, tables_of
from pages import TEMPLATE, Page
from tierscope.core.provenance import Origin
from tierscope.pages.document import Picture, render
from tierscope.pages.logs.job_page import job_page, more_words

HOSTILE = (
    "</td><script>window.pwned = 1</script>\"'><img src=x onerror=alert(1)>{{ x }}"
)
PICTURES = [
    Picture(name, name.capitalize(), b"<svg/>", "Look.")
    for name in ("breakdown", "processes")
]


def context_of(*jobs, **changes):
    given = {"pictures": PICTURES, "provenance": Origin("Darshan logs, test")}
    return job_page(tables_of(*jobs), jobs[0].name, **given | changes)


def page_of(*jobs, **changes):
    return Page(render(TEMPLATE, context_of(*jobs, **changes)))


def busy_job():
    """Return a job of 20 s, of which its slowest process spends 5 s on I/O."""
    return replace(job_tables.exact_job(), run_time_s=20.0)


def sections_of(context):
    return [section.name for section in context["sections"]]


def test_a_page_begins_with_the_answer():
    page = page_of(job_tables.exact_job())
    assert page.text.index("waits most for gfs META") < page.text.index("All processes")
    assert page.text.startswith("I/O of job train-1 (Darshan logs)")
    assert "2 processes" in page.text


def test_remarks_stand_beside_the_answer():
    page = page_of(job_tables.exact_job(remarks="Processes wait for each other."))
    assert page.text.count("Processes wait for each other.") == 1
    assert page.text.index("wait for each other") < page.text.index("All processes")


def test_a_run_time_that_no_log_tells_is_not_known():
    job = job_tables.exact_job()
    tables = tables_of(job)
    for name in ("jobs", "logs", "fleet"):
        tables[name]["run_time_s"] = np.nan
    given = {"pictures": [], "provenance": Origin("Darshan logs, test")}
    context = job_page(tables, job.name, **given)
    page = Page(render(TEMPLATE, context))
    assert page.text.count("not known") == 2  # below the title, and of the job
    assert "nan" not in page.text.lower()


def test_a_page_has_all_parts():
    assert sections_of(context_of(job_tables.epochs_job())) == [
        "summary",
        "breakdown",
        "processes",
        "files",
        "sizes",
        "whatif",
        "logs",
    ]


def test_a_page_needs_no_other_file():
    page = page_of(job_tables.exact_job())
    outside = [one for one in page.addresses if not one.startswith(("#", "data:"))]
    assert outside == []
    assert "script" not in page.elements


@pytest.mark.parametrize(
    ("job", "warning"),
    [
        (job_tables.exact_job(), ""),
        (job_tables.bounded_job(), "known within bounds"),
        (job_tables.partial_job(), "lower bounds"),
    ],
)
def test_a_page_warns_of_bounds(job, warning):
    warnings = context_of(job)["warnings"]
    assert len(warnings) == bool(warning)
    assert all(warning in one for one in warnings)


def test_numbers_are_bounds_where_the_logs_hold_bounds():
    page = page_of(job_tables.bounded_job())
    assert "the slowest took 2.00 to 4.00 s" in page.text
    page = page_of(job_tables.partial_job())
    assert "the slowest took at least 3.00 s" in page.text


def test_the_words_on_processes_use_the_sum_over_them():
    """Each of 100 processes takes 0 to 50 s, but all together take 60 s."""
    job = job_tables.exact_job(times={(-1, READ): (np.zeros(100), np.full(100, 50.0))})
    tables = tables_of(job)
    tables["job_breakdown"]["sum_s"] = 60.0
    context = job_page(tables, job.name, pictures=[], provenance=Origin("x"))
    text = Page(render(TEMPLATE, context)).text
    assert "Of 100 processes that may have I/O" in text
    assert "the median 0 to 1.19 s, the fastest 0 to 0.600 s." in text
    assert "Together they took 60.0 s." in text
    assert (
        "Together they took at least 5.00 s." in page_of(job_tables.partial_job()).text
    )


def test_a_page_leads_to_its_explorer_or_says_why_there_is_none():
    page = page_of(job_tables.exact_job(), explorer="explorer.html")
    assert "explorer.html" in page.addresses
    page = page_of(job_tables.bounded_job(), no_explorer="The logs hold bounds.")
    assert "The logs hold bounds." in page.text
    assert "explorer.html" not in page.addresses


def test_a_page_leads_back_to_all_jobs():
    assert (
        "../all.html"
        in page_of(job_tables.exact_job(), fleet_page="../all.html").addresses
    )


def test_the_what_if_is_labelled_as_the_rule():
    text = page_of(busy_job()).text
    assert text.count("No model checks it here: logs do not determine") == 1
    assert text.index("paper's rule") < text.index("today, and after an improvement")
    assert "meet the goal of 4.00 s" in text


def test_no_combination_is_recommended_to_a_job_with_little_io_time():
    assert "Combinations that meet the goal" in page_of(busy_job()).text
    text = page_of(replace(busy_job(), run_time_s=100.0)).text
    assert "Combinations that meet the goal" not in text
    assert "% of the run time on I/O, so storage hardly limits this job" in text


def test_combinations_that_are_left_out_are_counted():
    tables = tables_of(busy_job())
    rows = tables["job_combinations"]
    many = pd.concat([rows.assign(position=place) for place in range(18)])
    assert "more are in table job_combinations" not in page_of(busy_job()).text
    tables["job_combinations"] = many
    context = job_page(tables, "train-1", pictures=[], provenance=Origin("x"))
    text = Page(render(TEMPLATE, context)).text
    assert "3 more are in table job_combinations." in text


def test_the_what_if_is_that_of_the_whole_job_by_the_rule():
    tables = tables_of(job_tables.epochs_job())
    rows = tables["job_estimates"]
    model = rows.head(1).assign(method="model", improvement="by a model +25 %")
    epoch = rows.head(1).assign(epoch=2, improvement="of an epoch +25 %")
    tables["job_estimates"] = pd.concat([rows, model, epoch])
    context = job_page(tables, "epochs-1", pictures=[], provenance=Origin("x"))
    text = Page(render(TEMPLATE, context)).text
    assert "by a model" not in text
    assert "of an epoch" not in text


def test_a_job_of_one_process_has_no_distribution():
    job = job_tables.exact_job()
    job.times = {key: seconds[:1] for key, seconds in job.times.items()}
    assert "processes" not in sections_of(context_of(job, pictures=PICTURES[:1]))


def test_epochs_are_listed_where_there_are_any():
    assert "rank 0 gfs READ" in page_of(job_tables.epochs_job()).text
    assert "Most I/O time" not in page_of(job_tables.exact_job()).text


def test_only_the_first_hundred_epochs_are_listed():
    times = {(epoch, READ): [1.0, 0.5] for epoch in range(103)}
    page = page_of(job_tables.exact_job(times=times))
    assert "3 more are in table job_slowest." in page.text


def test_what_is_known_of_the_nodes_is_said():
    assert (
        "nodes 2.00 (the configuration: 4 processes on a node)"
        in page_of(job_tables.exact_job(), processes_per_node=4).text
    )
    assert (
        "1 process on a node"
        in page_of(job_tables.exact_job(), processes_per_node=1).text
    )
    unknown = job_tables.exact_job(n_nodes=1.0)
    tables = tables_of(unknown)
    tables["jobs"]["n_nodes"] = float("nan")
    context = job_page(tables, "train-1", pictures=[], provenance=Origin("x"))
    assert "nodes not known" in Page(render(TEMPLATE, context)).text


def test_logs_of_helpers_are_said_to_be_left_out():
    tables = tables_of(job_tables.bounded_job())
    tables["job_times"]["rank"] -= 1
    processes = tables["job_processes"]
    tables["job_processes"] = processes[processes["rank"] < 2]
    context = job_page(tables, "shared-1", pictures=[], provenance=Origin("x"))
    text = Page(render(TEMPLATE, context)).text
    assert "Logs of no process" in text
    assert "Of 2 processes with I/O" in text


def test_other_jobs_are_not_on_the_page():
    page = page_of(job_tables.exact_job(), job_tables.bounded_job("secret"))
    assert "secret" not in page.text


def test_a_job_without_rows_is_refused():
    with pytest.raises(ValueError, match="no rows of job 'absent'"):
        job_page(
            tables_of(job_tables.exact_job()),
            "absent",
            pictures=[],
            provenance=Origin("x"),
        )


def test_no_name_of_a_log_is_html():
    job = job_tables.exact_job(
        HOSTILE,
        exe=HOSTILE,
        user=HOSTILE,
        host=HOSTILE,
        remarks=HOSTILE,
        log=f"/logs/{HOSTILE}",
        files=[("file", f"/gfs/{HOSTILE}\u202e\n"), ("folder", HOSTILE)],
    )
    job.times[-1, (HOSTILE, "POSIX", "read")] = [1, 1]
    job.times[-1, MPI_IO] = [1, 1]
    page = page_of(job)
    assert page.elements.count("img") == len(PICTURES)
    assert "script" not in page.elements
    assert page.handlers == []
    assert "\u202e" not in page.text
    assert f"/gfs/{HOSTILE}\\u202e\\n" in page.text


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_any_name_gives_a_whole_page(name):
    job = job_tables.exact_job(name, exe=name, files=[("file", name)])
    page = page_of(job, pictures=[])
    assert set(page.elements).isdisjoint({"script", "img", "iframe", "svg"})


def test_rows_that_are_not_shown_are_counted():
    assert more_words(1, "fleet") == "1 more is in table fleet."
    assert more_words(2000, "fleet") == "2,000 more are in table fleet."
