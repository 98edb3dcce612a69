import json
import os

import pytest
from tierscope.benchmark.programs.ended.own_changes import (
    changed_by_program,
    own_changes_words,
)


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a finished run; later ones are newer."""

    def write_run(repetition, dataset="/data", **observed):
        known = {"dataset": dataset, "written": {}, "changed": []}
        path = (
            tmp_path / "runs" / "all" / "cache-050" / f"rep-{repetition}" / "run.json"
        )
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"observed": known | observed}))
        number = len(list(tmp_path.glob("runs/*/*/*")))
        os.utime(path, (number, number))
        return f"cache-050/rep-{repetition}"

    return write_run


def found(tmp_path):
    """Return what is found in all folders of the test."""
    return changed_by_program([tmp_path / "runs", tmp_path / "staging"], "/data")


def test_files_that_the_program_has_changed_know_their_first_run(tmp_path, write):
    first = write(1, written={"x": [0], "y": [0]}, changed=["x", "z"])
    second = write(0, written={"x": [0], "y": [0]}, changed=["x", "y"])
    write(2, "/other", written={"q": [0]}, changed=["q"])
    assert found(tmp_path) == {"x": first, "y": second}  # not who changed z


def test_files_of_a_renamed_folder_are_changed_by_the_program(tmp_path, write):
    run = write(0, changed=["d/x"], renamed_folders=1)
    assert found(tmp_path) == {"d/x": run}


def test_words_name_some_files_and_the_run():
    words = own_changes_words("/data", list("abcd"), "cache-050/rep-0")
    assert words.startswith("/data: 4 files are no longer as listed (such as a, b, c)")
    assert "has changed the dataset, first in its run at cache-050/rep-0. " in words
    assert "\n" not in words
