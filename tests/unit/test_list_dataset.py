"""The script that lists a user's dataset."""

import os

import numpy as np
import pytest
from list_dataset import list_dataset, summary
from tierscope.core.tables import read_table
from tierscope.data.listing import Listing
from tierscope.data.tfrecord import DatasetError


def test_manifest_is_written_and_the_notes_are_removed(tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a").write_text("12")
    output = tmp_path / "results" / "mine-1ost.parquet"
    list_dataset(str(tmp_path / "mine"), output)
    assert read_table(output, "user_manifest")["path"].tolist() == ["a"]
    assert os.listdir(output.parent) == [output.name]
    assert capsys.readouterr().out == f"{tmp_path}/mine: 1 file, 2 B\n"


def test_notes_stay_for_the_next_try(tmp_path):
    (tmp_path / "mine").mkdir()
    with pytest.raises(DatasetError, match="holds no file"):
        list_dataset(str(tmp_path / "mine"), tmp_path / "results" / "mine.parquet")
    assert os.listdir(tmp_path / "results") == [".mine.parquet.notes"]


def test_further_names_of_files_are_counted():
    sizes, left_out = np.array([1, 1]), []
    found = Listing(["a", "b"], sizes, sizes, sizes > 0, np.array([-1, 0]), left_out)
    _, line = summary("mine", found)
    assert line.startswith("mine: 1 name leads to a file that has another name in the")


def test_names_that_are_left_out_are_listed_up_to_a_number():
    sizes, left_out = np.array([1 << 20]), [f"{i}: is a pipe" for i in range(22)]
    lines = summary("mine", Listing(["a"], sizes, sizes, sizes > 0, -sizes, left_out))
    assert lines[:3] == [
        "mine: 1 file, 1 MiB",
        "mine: left out 22 names:",
        "0: is a pipe",
    ]
    assert lines[-2:] == ["19: is a pipe", "... and 2 more"]
