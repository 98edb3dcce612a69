from pathlib import Path

import job_tables
import numpy as np
import pandas as pd
from job_tables import LFS_READ, META, READ, tables_of
from pages import TEMPLATE, Page
from tierscope.analysis.logs.asking import JobTables
from tierscope.analysis.logs.questions import class_costs, totals
from tierscope.core.provenance import Origin
from tierscope.core.tables import empty_table
from tierscope.figures.logs.fleet import hours_words
from tierscope.pages.document import Picture, render
from tierscope.pages.logs.fleet_page import OF_FLEET, answer, classes_table, fleet_page

PICTURES = [Picture("fleet", "All jobs", b"<svg/>", "Look.")]


def job_of(name, hours, **changes):
    """Return a job of two nodes that costs so many node-hours, half of them META."""
    seconds = 3600 * hours / 4
    times = {(-1, READ): [seconds, 0], (-1, META): [seconds, 0]}
    return job_tables.exact_job(name, times=times, run_time_s=1e4, **changes)


def context_of(tables, **changes):
    given = {"experiment": "mine", "pictures": PICTURES, "provenance": Origin("logs")}
    return fleet_page(asked(tables), **given | changes)


def asked(tables):
    return JobTables({name: tables[name] for name in OF_FLEET})


def classes_of(tables):
    return classes_table(class_costs(asked(tables)))


def page_of(tables, **changes):
    return Page(render(TEMPLATE, context_of(tables, **changes)))


def table_of(context, section, place=0):
    (found,) = (one for one in context["sections"] if one.name == section)
    tables = [item for item in found.items if item.kind == "table"]
    return tables[place]


def test_a_page_begins_with_what_all_jobs_cost():
    text = page_of(tables_of(job_of("a", 1), job_of("b", 3))).text
    assert "I/O of all jobs costs 4.00 node-hours, the largest part is " in text
    assert "metadata servers twice as fast would save 1.00 node-hours" in text


def test_the_cost_of_jobs_with_bounds_has_bounds():
    """Of 2 nodes, 2 to 4 s are 4 to 8 node-seconds."""
    tables = tables_of(job_tables.bounded_job())
    context = context_of(tables)
    text = Page(render(TEMPLATE, context)).text
    assert "I/O of all jobs costs 4.00 to 8.00 node-seconds" in text
    assert table_of(context, "jobs").frame["Cost"].tolist() == ["4.00 to 8.00 s"]
    of_cost = table_of(context, "metadata").frame["Of its cost"]
    assert of_cost.tolist() == ["4.00 to 8.00 s"]
    tables = tables_of(job_of("a", 1), job_tables.partial_job())
    assert "I/O of all jobs costs at least 1.00 node-hours." in page_of(tables).text


def test_the_rule_is_explained_where_it_is_used():
    text = page_of(tables_of(job_of("a", 1))).text
    assert text.index("Estimated by the paper's rule") < text.index("No model checks")


def test_the_most_costly_job_comes_first_and_leads_to_its_page():
    pages = {"b": "jobs/b/report.html"}
    context = context_of(tables_of(job_of("a", 1), job_of("b", 3)), pages=pages)
    table = table_of(context, "jobs")
    assert table.frame["Job"].tolist() == ["b", "a"]
    assert table.frame["Cost"].tolist() == ["3.00 h", "1.00 h"]
    assert table.links == {0: "jobs/b/report.html"}
    addresses = Page(render(TEMPLATE, context)).addresses
    assert addresses.count("jobs/b/report.html") == 2  # jobs, and metadata servers


def test_classes_have_hours_and_shares():
    tables = tables_of(job_of("a", 1), job_of("b", 3))
    table = classes_of(tables).set_index("Class")
    assert table.loc["gfs META"].tolist() == ["2.00 h", "50.0 %", "2"]


def test_the_class_that_costs_most_comes_first_whatever_its_tier():
    times = {(-1, READ): [1, 1], (-1, META): [3, 3], (-1, LFS_READ): [2, 2]}
    tables = tables_of(job_tables.exact_job(times=times))
    classes = classes_of(tables)["Class"]
    assert classes.tolist() == ["gfs META", "lfs READ", "gfs READ"]


def test_jobs_that_may_have_a_class_are_counted_as_bounds():
    """One job has READ for sure, two may have it: from 0 s, or without upper bound."""
    nothing = [0.0, 0, 0]
    some = job_tables.bounded_job(times={(-1, READ): (nothing, [1.0, 1, 1])})
    lost = job_tables.partial_job(times={(-1, READ): (nothing, [np.nan] * 3)})
    table = classes_of(tables_of(job_of("a", 1), some, lost))
    assert table.set_index("Class")["Jobs"].to_dict() == {
        "gfs READ": "1 to 3",
        "gfs META": "1",
    }


def test_classes_of_lost_records_have_lower_bounds():
    tables = tables_of(job_of("a", 4), job_tables.partial_job())
    costs = classes_of(tables)["Cost"]
    assert costs.str.startswith("at least 2.00 h").all()


def test_jobs_that_save_most_come_first_with_the_tier():
    context = context_of(tables_of(job_of("a", 1), job_of("b", 3)))
    frame = table_of(context, "metadata").frame
    assert frame["Saves"].tolist() == ["45.0 min", "15.0 min"]
    assert frame["Metadata server of"].tolist() == ["gfs", "gfs"]
    idle = job_tables.exact_job(times={(-1, READ): [1, 2]})
    names = [section.name for section in context_of(tables_of(idle))["sections"]]
    assert "metadata" not in names


def test_outliers_and_refusals_have_their_reasons():
    refusals = [("/logs/a.darshan", "is empty, expected a Darshan log")]
    odd = job_of("odd", 1, outlier="90 % of the run time is I/O")
    tables = tables_of(odd, job_of("usual", 2), refusals=refusals)
    context = context_of(tables)
    assert table_of(context, "outliers").frame["Why"].tolist() == [odd.outlier]
    assert table_of(context, "refusals").frame.iloc[0].tolist() == list(refusals[0])
    assert context["lead"] == "2 jobs from 3 logs; 1 log could not be used."


def test_tiers_have_their_prefixes():
    frame = table_of(context_of(tables_of(job_of("a", 1))), "tiers").frame
    assert frame.iloc[0].tolist() == ["gfs", "/gfs", "lustre", "1"]


def test_an_analysis_without_jobs_says_so():
    tables = {
        name: empty_table(name)
        for name in ("fleet", "fleet_classes", "logs", "tier_prefixes")
    }
    tables["refusals"] = tables_of(job_of("a", 1), refusals=[("x", "y")])["refusals"]
    text = page_of(tables, pictures=[]).text
    assert "No log could be used" in text
    assert "0 jobs from 1 log; 1 log could not be used." in text


def test_hours_of_processes_are_marked():
    tables = tables_of(job_of("a", 1), job_of("b", 3))
    tables["fleet"]["hours_of"] = ["processes", "nodes"]
    text = page_of(tables).text
    assert "3.00 h *" in text
    assert "hours of processes" in text
    tables["fleet"]["hours_of"] = "processes"
    text = page_of(tables).text
    assert "3.00 h *" not in text
    assert "(process-hours of I/O)" in text


def test_a_page_needs_no_other_file_and_few_jobs_need_no_script():
    page = page_of(tables_of(*job_tables.random_fleet(30)))
    links = [one for one in page.addresses if not one.startswith(("#", "data:"))]
    assert links == ["tables/"]
    assert "script" not in page.elements


def test_months_users_and_programs_come_before_jobs():
    """One job a month, of 1, 2 and 4 hours, by two users with two programs."""
    jobs = [
        job_of(f"job-{n}", 2**n, user="ab"[n % 2], exe="xy"[n // 2]) for n in range(3)
    ]
    for number, job in enumerate(jobs):
        job.started_s += number * 30 * 86400
    context = context_of(tables_of(*jobs))
    names = [section.name for section in context["sections"]]
    assert names[:4] == ["summary", "months", "users", "programs"]
    months = table_of(context, "months").frame
    assert months["Month"].tolist() == ["2025-10", "2025-11", "2025-12"]
    assert months["Cost"].tolist() == ["1.00 h", "2.00 h", "4.00 h"]
    users = table_of(context, "users").frame
    assert users["User"].tolist() == ["a", "b"]
    assert users["Share of what is certain"].tolist() == ["71.4 %", "28.6 %"]
    programs = table_of(context, "programs").frame
    assert programs.iloc[0].tolist() == ["y", "4.00 h", "57.1 %", "1", "1", "0"]


def test_one_month_user_or_program_needs_no_table():
    names = [part.name for part in context_of(tables_of(job_of("a", 1)))["sections"]]
    assert not {"months", "users", "programs", "time"} & set(names)


def test_many_programs_are_searched_and_the_rest_is_in_a_table():
    job = tables_of(job_of("a", 1))
    fleet = pd.concat([job["fleet"]] * 1200, ignore_index=True)
    fleet["exe"] = [f"program {number}" for number in range(1200)]
    context = context_of(job | {"fleet": fleet})
    programs = table_of(context, "programs")
    assert (programs.search, programs.n_first) == ("Search programs:", 20)
    assert len(programs.frame) == 1000
    html = render(TEMPLATE, context)
    assert len(html) < 1_000_000
    page = Page(html)
    assert "200 more are in table fleet." in page.text
    assert page.elements.count("input") == 2  # of programs and of jobs
    assert page.handlers == []
    assert "script-src 'sha256-" in context["policy"]


def test_no_name_of_a_log_is_html():
    evil = "</td><script>x</script><img src=x onerror=y>\u202e"
    job = job_of(evil, 1, exe=evil, user=evil, outlier=evil)
    page = page_of(tables_of(job, refusals=[(evil, evil)]), experiment=evil)
    assert page.elements.count("img") == 1
    assert "script" not in page.elements
    assert page.handlers == []
    assert "\u202e" not in page.text


def test_a_page_of_two_thousand_jobs_is_small_enough_to_open():
    jobs = [job_of(f"job-{n}", 1 + n) for n in range(60)]
    tables = tables_of(*jobs)
    page = render(TEMPLATE, context_of(tables))
    assert len(page) < 120_000
    many = tables["fleet"].sample(2000, replace=True, random_state=1)
    frame = table_of(context_of(tables | {"fleet": many}), "jobs").frame
    assert len(frame) == 500


def test_classes_without_hours_are_left_out():
    tables = tables_of(
        job_tables.exact_job(times={(-1, READ): [1, 2], (-1, META): [0, 0]})
    )
    assert classes_of(tables)["Class"].tolist() == ["gfs READ"]


def test_a_run_time_that_no_log_tells_is_not_known():
    tables = tables_of(job_of("a", 1))
    tables["fleet"]["run_time_s"] = np.nan
    table = table_of(context_of(tables), "jobs")
    assert table.frame["Run time"].tolist() == ["not known"]


def test_a_real_year_of_logs_is_answered_as_a_reader_found_clear():
    """Its tables, and where they come from, are in tests/data/answers."""
    real = Path(__file__).parents[3] / "data" / "answers" / "year-of-logs"
    names = ("fleet", "fleet_classes")
    tables = JobTables({name: real / f"{name}.parquet" for name in names})
    known = totals(tables)
    said = answer(known, class_costs(tables), hours_words(known["kinds"]))
    assert f"{said}\n" == (real / "answer.txt").read_text()
