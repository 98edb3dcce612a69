import re

import job_tables
from hypothesis import given
from hypothesis import strategies as st
from job_tables import tables_of
from tierscope.pages.logs.folders import folder_names, page_folders


def test_the_jobs_with_the_most_hours_get_pages():
    jobs = [job_tables.exact_job(f"job-{n}", n_nodes=float(n)) for n in (1, 3, 2)]
    fleet = tables_of(*jobs)["fleet"]
    assert page_folders(fleet, 2) == {"job-3": "job-3", "job-2": "job-2"}
    assert page_folders(fleet, 0) == {}
    assert len(page_folders(fleet, 9)) == 3


def test_folders_are_near_to_the_names_of_jobs():
    names = ["python-1", "a/../b", "..", "Python-1", "", "\u202e"]
    folders = ["python-1", "a-b", "job", "Python-1-2", "job-2", "job-3"]
    assert list(folder_names(names).values()) == folders


@given(st.lists(st.text(max_size=200), unique=True, max_size=20))
def test_any_names_have_safe_and_different_folders(names):
    folders = folder_names(names)
    assert list(folders) == names
    assert len({folder.lower() for folder in folders.values()}) == len(names)
    assert all(re.fullmatch(r"[\w-]{1,90}", one, re.A) for one in folders.values())
