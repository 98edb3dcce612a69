"""No file stands half-written under its final name; scripts begin with their log."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tierscope.core.files import (
    named_at_end,
    opened,
    os_errors_as,
    read_regular,
    write_text,
    written_whole,
)

SCRIPTS = Path(__file__).parents[3] / "workflow" / "scripts"
# They keep temporary files apart, which their next start removes, or link them.
OWN_WAY = {"tfrecord.py", "file.py", "copies.py", "library.py", "local_folder.py"}
OWN_WAY |= {"folders.py"}  # whole folders
OF_RULES = [p for p in SCRIPTS.glob("*.py") if "snakemake.log" in p.read_text()]
CODE = """
import sys
sys.path.insert(0, sys.argv[1])
from tierscope.core.files import log_to
log_to(sys.argv[2])
print("\\u00e9\\udcff")
print(open(sys.argv[2], encoding="utf-8").read(), end="")
sys.exit("tierscope: no")
"""


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


def test_temporary_name_is_new_each_time_so_that_nobody_puts_a_link_there(tmp_path):
    path = tmp_path / "one.txt"
    with written_whole(path) as one, written_whole(path) as other:
        assert one != other
        one.touch()
        other.touch()


def test_what_is_no_plain_file_is_not_read_and_not_waited_for(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    assert read_regular(tmp_path / "file", 7) == b"content"
    with pytest.raises(OSError, match="has 7 bytes, expected at most 6"):
        read_regular(tmp_path / "file", 6)
    for name in ("link", "pipe", ""):
        with pytest.raises(OSError, match=str(tmp_path)):
            read_regular(tmp_path / name, 7)


def test_nobody_else_writes_under_a_temporary_name():
    renames = re.compile(r"\b(temporary|unfinished|unchecked)\.(replace|rename)\(")
    found = [
        path.name
        for path in SCRIPTS.rglob("*.py")
        if renames.search(path.read_text()) and path.name not in OWN_WAY
    ]
    assert found == ["files.py"]


def test_what_a_script_prints_is_in_its_log_at_once(tmp_path):
    log = tmp_path / "log"
    done = subprocess.run(
        [sys.executable, "-c", CODE, SCRIPTS, log],
        env={"LC_ALL": "C", "PYTHONUTF8": "0"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")
    assert log.read_text("utf-8") == "é\\udcff\né\\udcff\ntierscope: no\n"


@pytest.mark.parametrize("script", OF_RULES, ids=lambda path: path.stem)
def test_script_begins_with_its_log_and_names_it_once(script):
    text = script.read_text()
    glue = ast.parse(text).body[-1]
    assert ast.unparse(glue.test) == "__name__ == '__main__'"
    assert ast.unparse(glue.body[0]) == "log_to(snakemake.log[0])"
    assert text.count("snakemake.log") == 1
    assert "sys.stdout" not in text


def test_error_of_a_full_file_system_names_the_file(tmp_path):
    full, message = tmp_path / "here", r"No space left on device: '.*/here'"
    with (
        pytest.raises(OSError, match=message),
        written_whole(full),
        open("/dev/full", "w") as device,
    ):
        device.write("x")


def test_file_gets_its_name_when_it_is_whole_and_is_gone_after_an_error(tmp_path):
    temporary, path = str(tmp_path / "temporary"), str(tmp_path / "file")
    with (
        named_at_end(temporary, path),
        opened(temporary, os.O_WRONLY | os.O_CREAT) as file,
    ):
        os.write(file, b"whole")
    assert Path(path).read_bytes() == b"whole"
    Path(temporary).write_bytes(b"half")
    with pytest.raises(ZeroDivisionError), named_at_end(temporary, path):
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == ["file"]
    assert Path(path).read_bytes() == b"whole"


def test_file_that_was_opened_is_closed_also_after_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ZeroDivisionError), opened(tmp_path / "file", 0) as file:
        raise ZeroDivisionError(os.fstat(file))
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file)


def test_error_of_the_system_ends_as_one_of_ours(tmp_path):
    with (
        pytest.raises(KeyError, match=r"cannot open it: No such file or directory\."),
        os_errors_as(KeyError, "cannot open it"),
    ):
        os.open(tmp_path / "absent", os.O_RDONLY)
    with pytest.raises(ZeroDivisionError), os_errors_as(KeyError, "cannot open it"):
        raise ZeroDivisionError
