"""No file stands half-written under its final name; scripts begin with their log."""

import ast
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from stops import stopped
from tierscope.core import files
from tierscope.core.files import (
    is_torn,
    named_at_end,
    opened,
    os_errors_as,
    read_regular,
    remove_left,
    write_text,
    written_whole,
)
from tierscope.figures.style import save_figure

SCRIPTS = Path(__file__).parents[3] / "workflow" / "scripts"
# What writes, or names, files in another way than by `written_whole` and
# `named_at_end`, and why.
LINES, ONES = "grows line by line", "nobody reads it, or it has one byte or none"
MOVED, IN_MEMORY = "moves whole files", "is in memory, and new"
OWN_WAY = {
    "launch.py": {LINES, MOVED},
    "measure_two_directories.py": {ONES},
    "tierscope/benchmark/keeper.py": {ONES},
    "tierscope/benchmark/programs/ended/kept.py": {ONES, MOVED},
    "tierscope/benchmark/programs/hook/epoch_hook/loops.py": {LINES},
    "tierscope/benchmark/programs/meeting.py": {MOVED},
    "tierscope/benchmark/programs/table.py": {IN_MEMORY},
    "tierscope/benchmark/programs/tracing.py": {MOVED},
    "tierscope/core/files.py": {LINES, "is the way"},
    "tierscope/core/output/streams.py": {LINES},
    "tierscope/data/listing_notes.py": {LINES},
    "tierscope/data/lmdb/file.py": {"is of the LFS, which ends with its launch"},
    "tierscope/data/tfrecord.py": {"its list names the files that it writes"},
    "tierscope/figures/style.py": {"is under its temporary name"},
    "tierscope/logs/chunks/datasets.py": {"is in a folder that is written whole"},
    "tierscope/logs/chunks/folders.py": {MOVED, "writes whole folders"},
    "tierscope/logs/traced/call.py": {ONES},
    "tierscope/storage/emulated/device.py": {IN_MEMORY},
    "tierscope/storage/emulated/library.py": {MOVED},
    "tierscope/storage/lease.py": {"must not replace another one"},
    "tierscope/storage/local_folder.py": {ONES},
    "tierscope/storage/page_cache.py": {"is the kernel's"},
    "tierscope/trace/log_writer.py": {"is under its temporary name"},
}
OF_RULES = [p for p in SCRIPTS.glob("*.py") if "snakemake.log" in p.read_text()]
CODE = """
import sys
sys.path.insert(0, sys.argv[1])
from tierscope.core.files import log_to
log_to(sys.argv[2])
print("\\u00e9\\udcff")
print(open(sys.argv[2], encoding="utf-8").read(99), end="")
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


@pytest.mark.parametrize("lasting", [False, True])
def test_file_is_the_old_or_the_new_one_after_a_kill_or_if_lasting_a_power_cut(
    tmp_path, lasting
):
    path = tmp_path / "file"
    path.write_text("old")
    stops = stopped(tmp_path, lambda: write_text(path, "new", lasting=lasting))
    found = {how: path.read_text() for how, _ in stops}
    torn = {how for how, text in found.items() if text not in ("old", "new")}
    assert torn == (set() if lasting else {"cut_late before the end"})
    assert {"old", "new"} <= set(found.values())


@pytest.mark.parametrize("kind", ["svg", "png", "pdf"])
def test_figure_is_torn_without_its_end(tmp_path, kind):
    path = tmp_path / "folder" / f"figure.{kind}"
    save_figure(Figure(figsize=(1, 1)), [path])
    whole = path.read_bytes()
    assert not is_torn(path)
    assert not is_torn(path.parent)
    for content in (b"", whole[:-9], whole[:-9] + bytes(9), bytes(len(whole))):
        path.write_bytes(content)
        assert is_torn(path)
        assert is_torn(path.parent)


def test_page_and_table_are_torn_without_their_ends_and_nothing_else(tmp_path):
    for name in ("absent.svg", "marks.npy", "summary.txt", "svg"):
        assert not is_torn(tmp_path / name)
        (tmp_path / name).touch()
    assert is_torn(tmp_path / "absent.svg")
    for name, whole, torn in (
        ("page.html", "<html>\n</html>\n", "<html>\n"),
        ("audit.json", '{"a": 1}\n', '{"a": 1'),
        ("list.json", "[1, 2]", "[1, "),
        ("table.parquet", "PAR1 PAR1", "PAR1 PAR"),
    ):
        (tmp_path / name).write_text(whole)
        assert not is_torn(tmp_path / name)
        (tmp_path / name).write_text(torn)
        assert is_torn(tmp_path / name)


HEX = "0123456789abcdef"
LEFT = (f".a.json.{HEX}", f"staging/cache-000/.log.darshan.{HEX}")
STAYS = (f"a.json.{HEX}", f".a.json.{HEX[1:]}", f".a.json.{HEX}0", f".{HEX}")
STAYS += (f".a.json.{HEX.upper()}", f".a.json.{HEX}.old", f".folder.{HEX}/a.json")


def test_only_what_killed_processes_have_left_is_removed_when_it_is_a_day_old(
    tmp_path, monkeypatch
):
    for name in (*LEFT, *STAYS, "x/hard"):
        (tmp_path / "x" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "x" / name).touch()
    outside = tmp_path / "elsewhere" / LEFT[0]
    outside.parent.mkdir()
    outside.touch()
    (tmp_path / "x" / "link").symlink_to("../elsewhere")
    (tmp_path / "x" / f".link.{HEX}").symlink_to(outside)
    os.link(tmp_path / "x" / "x" / "hard", tmp_path / "x" / f".hard.{HEX}")
    if os.geteuid() == 0:
        others = tmp_path / "x" / f".others.{HEX}"
        others.touch()
        os.chown(others, 4321, 4321)
    before = {*tmp_path.rglob("*")}
    assert remove_left(tmp_path / "x") == 0  # somebody may write them now
    later_s = time.time() + 86_500
    monkeypatch.setattr(files.time, "time", lambda: later_s)
    assert remove_left(tmp_path / "x") == len(LEFT)
    assert before - {*tmp_path.rglob("*")} == {tmp_path / "x" / one for one in LEFT}


def test_what_a_killed_writer_leaves_has_a_name_that_is_removed(tmp_path, monkeypatch):
    with written_whole(tmp_path / "a.json") as temporary:
        temporary.touch()
        later_s = time.time() + 86_500
        monkeypatch.setattr(files.time, "time", lambda: later_s)
        assert remove_left(tmp_path) == 1
        temporary.touch()


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


def test_nobody_else_writes_or_names_files_in_a_way_of_its_own():
    found = {
        str(path.relative_to(SCRIPTS))
        for path in SCRIPTS.rglob("*.py")
        if not {"analysis", "audit", "pages"}.intersection(path.parts)  # have frames
        and any(map(_writes, ast.walk(ast.parse(path.read_text()))))
    }
    assert found == OWN_WAY.keys()


def _writes(node: ast.AST) -> bool:
    """Return whether a call opens a file for writing, or gives one a name."""
    if not isinstance(node, ast.Call):
        return False
    call = ast.unparse(node.func)
    name = call.rpartition(".")[2]
    if name == "open":
        modes = r"'[rwaxb+]*[wax+][rwaxb+]*'|O_(WR.NLY|CREAT)"
        return bool(re.search(modes, ast.unparse(node)))
    if name in {"rename", "replace"} and not call.startswith("os."):
        return len(node.args) == 1 and not node.keywords  # not of a frame, or a text
    return name in {"write_bytes", "copyfile", "tofile", "rename", "replace"} or (
        call in {"np.save", "os.link"} or call.endswith(".write_text")
    )


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


def test_what_a_log_cannot_take_goes_to_standard_error(monkeypatch):
    monkeypatch.delenv("TIERSCOPE_SPARE_LOG", raising=False)
    command = [sys.executable, "-c", CODE, SCRIPTS, "/dev/full"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 1
    assert done.stdout == b""
    assert done.stderr.decode().endswith("tierscope: no\n")
    command[-1] = str(SCRIPTS)
    done = subprocess.run(command, capture_output=True, check=False)
    words = f"tierscope: {SCRIPTS}: cannot be written: Is a directory.\n"
    assert done.stderr.decode() == words


@pytest.mark.parametrize("is_ours", [True, False])
def test_what_a_log_cannot_take_goes_to_the_logger_of_snakemake(
    tmp_path, monkeypatch, is_ours
):
    spare, other = tmp_path / "spare", tmp_path / "other"
    spare.touch()
    (tmp_path / "link").symlink_to(spare)
    leads_to = spare if is_ours else other  # where the number is of another process
    monkeypatch.setenv("TIERSCOPE_SPARE_LOG", f"{tmp_path / 'link'} {leads_to}")
    command = [sys.executable, "-c", CODE, SCRIPTS, "/dev/full"]
    done = subprocess.run(command, capture_output=True, check=False)
    told = [json.loads(line) for line in spare.read_text().splitlines()]
    assert {log for log, _ in told} <= {"/dev/full"}
    text = "".join(text for _, text in told) + done.stderr.decode()
    assert text.endswith("tierscope: no\n")
    assert bool(told) == is_ours
    assert bool(done.stderr) != is_ours


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
