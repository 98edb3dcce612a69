"""No file stands half-written under its final name."""

import re
from pathlib import Path

import pytest
from tierscope.core.files import write_text, written_whole

PACKAGE = Path(__file__).parents[3] / "workflow" / "scripts"
# They keep temporary files apart, which their next start removes, or link them.
OWN_WAY = {"tfrecord.py", "file.py", "copies.py", "library.py", "local_folder.py"}


def test_text_is_written_in_utf_8_and_its_folder_made(tmp_path):
    path = tmp_path / "new" / "one.txt"
    write_text(path, "é\n")
    assert path.read_bytes() == b"\xc3\xa9\n"
    assert list(path.parent.iterdir()) == [path]


def test_file_that_cannot_be_finished_leaves_the_older_one(tmp_path):
    path = tmp_path / "one.txt"
    path.write_text("old")

    def fail():
        with written_whole(path) as temporary:
            temporary.write_text("new, but")
            raise ValueError("half")

    with pytest.raises(ValueError, match="half"):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_file_is_there_only_when_it_is_whole(tmp_path):
    path = tmp_path / "one.txt"
    with written_whole(path) as temporary:
        temporary.write_text("new")
        assert temporary.parent == path.parent
        assert not path.exists()
    assert path.read_text() == "new"


def test_nobody_else_writes_under_a_temporary_name():
    renames = re.compile(r"\b(temporary|unfinished|unchecked)\.(replace|rename)\(")
    found = [
        path.name
        for path in PACKAGE.rglob("*.py")
        if renames.search(path.read_text()) and path.name not in OWN_WAY
    ]
    assert found == ["files.py"]
