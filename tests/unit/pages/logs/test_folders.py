import re

from hypothesis import given
from hypothesis import strategies as st
from tierscope.pages.logs.folders import folder_names


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
