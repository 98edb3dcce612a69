"""Programs of the user over cache rates, for real: plain Python, no framework."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
import pytest
import warm_python
from integration.conftest import Project
from integration.launches import wait_until_idle
from integration.programs import HALF, N_FILES, PLACED, Programs, in_memory
from native import advice_library
from sessions import HANG_S
from tierscope.analysis.comparing.staging import fills_of
from tierscope.core.columns import AFTER_TRAINING
from tierscope.core.description import Run
from tierscope.core.machine import MEMORY
from tierscope.core.tables import read_table

ALL = "cache-100/rep-0"
# Each tells of its reads: epoch, rank, name, where the descriptor points, and bytes.
TWO_EPOCHS = """
import json
rank, size = int(os.environ.get("PMI_RANK", 0)), int(os.environ.get("PMI_SIZE", 1))
with open(f"{sys.argv[2]}-{rank}", "w") as told:
    for epoch in (0, 1):
        mark(epoch)
        for name in names[(rank + epoch) % size :: size]:
            with open(f"{dataset}/{name}", "rb", buffering=0) as file:
                where = os.readlink(f"/proc/self/fd/{file.fileno()}")
                row = [epoch, rank, name, where, len(file.read())]
                print(json.dumps(row), file=told)
"""
READ_ALL = "for name in names: read(name)\n"
WAITS = "while os.path.exists('hold'): time.sleep(0.01)\n"


@pytest.fixture
def one(tmp_path):
    """Return where programs of one process are launched."""
    return Programs(tmp_path)


@pytest.fixture
def two(tmp_path):
    """Return where programs are launched on two nodes, one process each."""
    return Programs(tmp_path, n_nodes=2)


def told(folder):
    """Return what programs have told of each read, sorted."""
    lines = [
        line for path in folder.glob("told-*") for line in path.read_text().splitlines()
    ]
    return sorted(tuple(json.loads(line)) for line in lines)


def expected_reads(run, ranks):
    """Return what a program of `TWO_EPOCHS` must tell, by what was decided."""
    programs = run.programs
    rows = []
    for row in programs.files.itertuples():
        for epoch in (0, 1):
            rank = (row.file_id - epoch) % ranks
            folder = programs.dataset
            if run.on_lfs[row.file_id]:
                node = f"node-{rank // programs.per_node:05d}"
                folder = programs.lfs / "data" / node / "mine"
            rows.append((epoch, rank, row.path, f"{folder}/{row.path}", row.size_bytes))
    return sorted(rows)


def rows_of(table, programs, *columns):
    """Return epoch, rank, tier, name and other columns of a table, sorted."""
    names = programs.files["path"].to_numpy()[table["file_id"]]
    keys = table[["epoch", "rank", "tier"]].assign(name=names)
    return sorted(map(tuple, keys.join(table[list(columns)]).to_numpy().tolist()))


def check_reads(run, reads):
    """Check that events and logs of a run have these reads, and the audit passes."""
    evidence, programs = run.evidence, run.programs
    assert run.failed == []
    tier = {True: "lfs", False: "gfs"}
    wanted = [
        (epoch, rank, tier[where.startswith(str(programs.lfs))], name, n_bytes)
        for epoch, rank, name, where, n_bytes in reads
    ]
    opens = rows_of(evidence.opens, programs, "opens")
    assert opens == sorted((*row[:4], 1) for row in wanted)
    records = evidence.records.file_records
    found = rows_of(records, programs, "opens", "bytes_read")
    assert found == sorted((*row[:4], 1, row[4]) for row in wanted)


def check_once(run, epoch=0):
    """Check that the audit passes, and that each file was opened once, whole."""
    assert run.failed == []
    said = {name: answer for name, (answer, _) in run.said(epoch).items()}
    assert (said["cover"], said["once"], said["whole"]) == ("yes", "yes", "yes")


def copied_name(programs):
    """Return the name of a file that each LFS holds at half the bytes."""
    return programs.files["path"][programs.on_lfs(50)].iloc[0]


def test_opens_and_bytes_are_those_of_the_decisions(one):
    command = [*one.python(TWO_EPOCHS), str(one.folder / "told")]
    runs = one.run_all(command, ALL, HALF)
    assert told(one.folder) == expected_reads(runs[-1], 1)
    for run in runs:
        check_reads(run, expected_reads(run, 1))
        assert run.said()["epochs"][0] == "yes"


def test_ranks_read_the_copies_of_their_nodes(tmp_path):
    programs = Programs(tmp_path, n_nodes=2, per_node=2)
    run = programs.run([*programs.python(TWO_EPOCHS), str(tmp_path / "told")])
    assert told(tmp_path) == expected_reads(run, 4)
    check_reads(run, told(tmp_path))
    epochs = run.evidence.epochs
    assert epochs["node"].tolist() == [0, 0, 1, 1] * 2
    assert epochs["samples"].tolist() == [6] * 8


def test_run_is_refused_if_only_one_of_its_ranks_marks_epochs(two):
    code = "if os.environ['PMI_RANK'] == '0': mark(1)\n"
    failed = ["ranks that open files and begin no epoch, while others do"]
    assert two.run(code + READ_ALL).failed == failed


TRAIN_AND_TEST = """
from epoch_hook.loops import LOOPS, take
from epoch_hook.streams import Loader, Place
class Data: pass
def loop(data, names, is_evaluation):
    of = Loader(data, kind=(), size=None, source=id)
    place = Place((id(data),))
    stream = LOOPS.begin("made up", of, place, {}, is_evaluation)[1]
    batches = iter(names)
    try:
        while True: read(take(stream, next, batches))
    except StopIteration: pass
def write(name, n_bytes):
    with open(name, "wb", buffering=0) as file: file.write(bytes(n_bytes))
train, held = Data(), Data()
for epoch in range(2):
    loop(train, names[:12], False)
    write("between", 10)
    read(names[12])
    loop(held, names[13:16], True)
    write("checkpoint", 500)
for name in names[16:20]: read(name)  # the test set
"""


def test_what_follows_the_last_loop_is_in_no_epoch(one):
    run = one.run(TRAIN_AND_TEST)
    evidence = run.evidence
    assert run.failed == []  # the logs have each open of the events, and no other
    opened = evidence.opens.groupby("epoch")["file_id"].agg(sorted).to_dict()
    ids = one.files.sort_values("path")["file_id"].tolist()
    assert opened == {
        **{epoch: sorted(ids[:16]) for epoch in (0, 1)},
        AFTER_TRAINING: sorted(ids[16:20]),
    }
    sizes = one.files.set_index("file_id")["size_bytes"]
    read = evidence.file_records.groupby("epoch")["bytes_read"].sum()
    assert read.to_dict() == {e: sizes[some].sum() for e, some in opened.items()}
    other = evidence.other_time
    written = other[other["call"] == "write"].groupby(["epoch", "in_loop"])["bytes"]
    assert written.sum().to_dict() == {
        (0, True): 510,
        (1, True): 10,
        (AFTER_TRAINING, True): 500,
    }
    marks = pd.read_parquet(run.folder / "marks.parquet")
    marks = marks[marks["what"] != "evaluation"]
    assert marks["epoch"].tolist() == [0, 1, AFTER_TRAINING]
    assert marks["began_s"].tolist()[1:] == marks["ended_s"].tolist()[:-1]
    processes = pd.read_parquet(run.folder / "program_processes.parquet")
    assert marks["ended_s"].iloc[-1] == processes["ended_s"].max()
    answer, words = run.said()["after"]
    assert answer == "no"
    assert "The program opened 4 files of the dataset, 4 times in all." in words


def test_all_ways_to_a_file_are_seen_and_a_program_without_marks_is_one_phase(one):
    run = one.run(
        """
try:
    read("nothing.bin")
    sys.exit("it is not there")
except FileNotFoundError:
    pass
os.chdir(dataset)
for name in names[:4]:
    open(name, "rb").read()
os.chdir("train")
for name in names[4:8]:
    open(f"../{name}", "rb").read()
cat = ["cat", *(f"{dataset}/{name}" for name in names[8:12])]
subprocess.run(cat, check=True, stdout=subprocess.DEVNULL)
words = ["bash", "-c", 'cat "$1" > /dev/null', "bash", f"{dataset}/{names[12]}"]
subprocess.run(words, check=True)
if not (pid := os.fork()):
    for name in names[13:16]:
        read(name)
    os._exit(0)
os.waitpid(pid, 0)
sys.stdout.flush()
os.execvp("cat", ["cat", *(f"{dataset}/{name}" for name in names[16:])])
"""
    )
    check_once(run)
    assert run.said()["epochs"][0] == "no"
    assert run.evidence.epochs["execution_time_s"].iloc[0] > 0
    assert run.evidence.run.observed["n_processes"] > 3


@pytest.mark.parametrize("in_place", [False, True])
def test_dataset_is_recognised_behind_another_link(tmp_path, in_place):
    programs = Programs(tmp_path, in_place=in_place)
    (tmp_path / "link").symlink_to(programs.dataset)
    command = programs.python(f"dataset = sys.argv[2]\n{READ_ALL}")
    run = programs.run([*command, str(tmp_path / "link")])
    check_once(run)
    assert run.evidence.opens["opens"].sum() == 24
    answer, words = run.said()["seen"]
    assert answer == ("no" if in_place else "yes")
    assert ("cannot be excluded" in words) == in_place


# What the hook knows as Keras. A part of the files is trained on, or looked at.
KERAS = """
class CallbackList:
    def on_epoch_begin(self, epoch, logs=None): pass
    def on_test_begin(self, logs=None): pass
"""
LOOPS = """
from keras.callbacks import CallbackList
part, n_parts, n_epochs = map(int, sys.argv[2:])
rank, size = (int(os.environ.get(f"PMI_{n}", n == "SIZE")) for n in ("RANK", "SIZE"))
mine = names[rank::size][part::n_parts]
loops = CallbackList()
for epoch in range(max(1, n_epochs)):
    loops.on_epoch_begin(epoch) if n_epochs else loops.on_test_begin()
    for name in mine: read(name)
"""
SCRIPT = """
set -e
"$@" 0 2 2 &
"$@" 1 2 2
wait
"$@" 0 1 0
"$@" 0 1 1
"""


@pytest.mark.parametrize("ranks", ["no launcher", "mpiexec in the command", "nodes"])
def test_script_starts_programs_at_the_same_time_and_one_after_the_other(
    tmp_path, ranks
):
    """Two train for two epochs together, then one evaluates, and another one trains."""
    programs = Programs(tmp_path, n_nodes=1 + (ranks == "nodes"))
    _, _, program, dataset = programs.python(LOOPS)
    package = Path(program).parent / "keras"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "callbacks.py").write_text(KERAS)
    mpiexec = str(Path(sys.executable).with_name("mpiexec"))
    launcher = [mpiexec, "-n", "2"] if ranks.startswith("mpiexec") else []
    script = ["sh", "-c", SCRIPT, "sh", sys.executable, program, dataset]
    run = programs.run([*launcher, *script])
    check_once(run, 0)
    check_once(run, 2)
    assert run.said()["epochs"] == ("yes", "The framework's loops mark the epochs.")
    n_ranks = 1 + (ranks != "no launcher")
    opens = run.evidence.opens.groupby(["epoch", "rank"])["opens"].sum()
    assert opens.to_dict() == {
        (epoch, rank): n_opens // n_ranks
        for epoch, n_opens in enumerate((24, 48, 24))
        for rank in range(n_ranks)
    }
    marks = pd.read_parquet(run.folder / "marks.parquet")
    evaluated = marks[marks["what"] == "evaluation"]
    assert evaluated["epoch"].tolist() == [1] * n_ranks
    of_second = run.evidence.epochs.query("epoch == 1")
    began_s = marks.query("epoch == 1 and what == 'epoch'").groupby("rank")["began_s"]
    lasts_s = evaluated.set_index("rank")["began_s"] - began_s.min()
    assert (of_second.set_index("rank")["execution_time_s"] > lasts_s).all()


def test_checkpoint_below_the_dataset_is_in_no_class(one):
    run = one.run(
        """
os.mkdir(f"{dataset}/out")
for epoch in (0, 1):
    mark(epoch)
    for name in names:
        read(name)
    with open(f"{dataset}/out/model.pt", "wb") as file:
        file.write(b"x" * 1000)
    assert len(read("out/model.pt")) == 1000
"""
    )
    assert (one.dataset / "out" / "model.pt").stat().st_size == 1000
    check_once(run, 0)
    check_once(run, 1)
    other = run.evidence.records.other_io.set_index("what")
    assert other.loc["other below the dataset", "bytes_written"] == 2000
    assert other.loc["other below the dataset", "bytes_read"] == 2000


WRITES = """
for epoch in (0, 1):
    mark(epoch)
    if os.environ.get("PMI_RANK") in sys.argv[3:]:
        read(sys.argv[2])
    if epoch == 0 and os.environ.get("PMI_RANK", "0") == "0":
        with open(f"{dataset}/{sys.argv[2]}", "r+b") as file:
            file.write(b"new")
    if os.environ.get("PMI_RANK", "0") == "0":
        assert read(sys.argv[2])[:3] == b"new"
"""


def test_written_file_is_read_from_the_gfs_and_is_in_no_class(one):
    name = copied_name(one)
    run = one.run([*one.python(READ_ALL + WRITES), name])
    assert run.failed == []
    assert (one.dataset / name).read_bytes()[:3] == b"new"
    answer, words = run.said()["read only"]
    assert answer == "no"
    assert name in words
    tiers = rows_of(run.evidence.opens, one, "opens")
    assert (0, 0, "lfs", name, 1) in tiers
    assert (1, 0, "gfs", name, 1) in tiers
    assert one.start(one.last, ALL).wait(HANG_S) == 1
    (line,) = one.lines()
    assert (
        f"1 file is no longer as listed ({name}), and the LFS needs copies. The" in line
    )
    assert "program itself has changed the dataset, first in its run at cache-0" in line
    assert one.ran(HALF).failed == []


@pytest.mark.parametrize(("readers", "is_stale"), [("0", False), ("1", True)])
def test_run_is_refused_if_another_node_read_its_copy(two, readers, is_stale):
    name = copied_name(two)
    run = two.run([*two.python(WRITES), name, readers])
    failed = ["files that changed during the run and were read from an LFS"]
    assert run.failed == failed * is_stale


def test_file_that_changes_from_outside_refuses_the_run(one):
    (one.folder / "hold").touch()
    process = one.start(one.python(f"{READ_ALL}open('read', 'w')\n{WAITS}"), HALF)
    one.wait_for("read", process)
    (one.dataset / copied_name(one)).write_bytes(b"other")
    (one.folder / "hold").unlink()
    assert process.wait(HANG_S) == 0
    assert [name[:18] for name in one.ran(HALF).failed] == ["files that changed"]


def test_program_killed_between_open_and_close_fails_in_a_line_and_works_again(one):
    (one.folder / "kill").touch()
    command = one.python(
        """
file = open(f"{dataset}/{names[0]}", "rb")
if os.path.exists("kill"):
    os.kill(os.getpid(), 9)
"""
        + READ_ALL
    )
    line, summary = one.fail(command)
    assert line.startswith("tierscope: rank 0 on node 0: the program ended with signal")
    assert "SIGKILL" in line
    assert "run at cache-050/rep-0 failed" in summary
    (one.folder / "kill").unlink()
    assert one.run(command).failed == []


def test_run_that_cannot_be_written_is_kept_and_a_later_launch_writes_it(one):
    in_the_way = one.staging / HALF / "epochs.parquet"
    command = one.python(
        f"""
open("starts", "a").write("one\\n")
{READ_ALL}
os.mkdir({str(in_the_way)!r})
"""
    )
    lines = one.fail(command)
    assert "the program has run at cache-050/rep-0, but its run cannot be" in lines[0]
    assert f"kept in {in_the_way.parent}: the next start" in lines[0]
    in_the_way.rmdir()
    (ended,) = in_the_way.parent.glob("*/ended.json")
    os.utime(ended, (1000, 1000))
    run = one.run(command)
    facts = json.loads((run.folder / "run.json").read_text())
    assert facts["finished"] == "1970-01-01T00:16:40+00:00"
    assert (one.folder / "starts").read_text() == "one\n"
    check_once(run)
    assert not list(one.staging.glob("*/*"))


def test_lfs_without_room_for_a_later_point_is_refused_at_the_first(one, mount_memory):
    mount_memory(one.lfs)
    command = one.python("open('started', 'w')\n")
    process = one.start(command, "cache-000/rep-0", "cache-100/rep-0")
    assert process.wait(HANG_S) == 1
    assert re.search(r"needs \d+ bytes for the files of a node", one.lines()[0])
    assert not (one.folder / "started").exists()


def test_failure_of_a_rank_ends_those_of_other_nodes(two):
    began_s = time.monotonic()
    lines = two.fail(
        "if os.environ['PMI_RANK'] == '1': sys.exit(3)\ntime.sleep(1000)\n"
    )
    assert time.monotonic() - began_s < 500
    assert lines[0].startswith("tierscope: rank 1 on node 1: the program ended with")
    assert "exit status 3: " in lines[0]
    assert len(lines) == 2


def test_program_that_does_not_exist_fails_in_a_line(one):
    line, _ = one.fail(["no-such-program", "{dataset}"])
    assert line == (
        "tierscope: loader.command: got 'no-such-program', expected a program: No such "
        "file or directory"
    )


def test_launcher_that_hides_the_failure_of_a_rank_is_not_believed(one, monkeypatch):
    launcher = """sh -c 'shift 2; "$@"; true' hides"""
    monkeypatch.setattr("integration.programs.ONE_PROCESS", launcher)
    _, line = one.fail(f"{READ_ALL}sys.exit(3)")
    assert "the launcher ended without an error, but 0 ranks have run the" in line


STATIC = """\
#include <fcntl.h>
#include <stdio.h>
int main(int n, char **words) {
  if (open(words[n - 1], O_RDONLY) < 0) perror("got");
  return 0;
}
"""


@pytest.fixture
def static(tmp_path):
    """Return a static program that opens the file of its last argument."""
    (tmp_path / "static.c").write_text(STATIC)
    command = ["cc", "-static", "-o", tmp_path / "my static", tmp_path / "static.c"]
    if subprocess.run(command, check=False).returncode:
        pytest.skip("needs a C compiler and a static C library")
    return str(tmp_path / "my static")


OPENS = """
words = [sys.argv[2], f"{dataset}/{names[0]}"]
done = subprocess.run(words, stderr=subprocess.PIPE, text=True, check=True)
assert bool(done.stderr) == dataset.startswith("/tierscope/"), done.stderr
"""


@pytest.mark.parametrize("in_place", [False, True])
def test_static_program_is_named_and_fails_on_the_virtual_path(
    tmp_path, static, in_place
):
    programs = Programs(tmp_path, in_place=in_place)
    run = programs.run([*programs.python(READ_ALL + OPENS), static])
    check_once(run)
    answer, words = run.said()["seen"]
    assert answer == ("no" if in_place else "yes")
    assert "redirected: my static (is linked statically)" in words


def test_program_that_cannot_load_a_library_is_refused_before_it_starts(one):
    program = one.folder / "other libc"
    program.write_bytes(Path(sys.executable).resolve().read_bytes())
    start = program.read_bytes().index(b"/ld-linux")
    with program.open("r+b") as file:
        file.seek(start)
        file.write(b"/ld-musl-")
    program.chmod(0o755)
    script = one.folder / "script"
    script.write_text(f"#!/usr/bin/env -S '{program}' -u\n")
    script.chmod(0o755)
    (line, _) = one.fail([str(script), "{dataset}"])
    assert line.startswith(f"tierscope: loader.command: {program} is linked to the C")


def test_program_that_tierscope_cannot_see_at_all_is_refused(one, static):
    (line,) = one.fail([static, "{dataset}/train"])
    assert line.startswith("tierscope: no process of the program was redirected")


def test_mappings_are_of_their_epoch_and_maps_for_writing_are_opens(one):
    """Epoch 0 reads, 1 maps, 2 maps half of the files as `np.memmap` does."""
    run = one.run(
        """
import mmap
for epoch, part in ((0, []), (1, names), (2, names[::2])):
    mark(epoch)
    for name in names:
        mode = "r+b" if epoch == 2 and name in part else "rb"
        with open(f"{dataset}/{name}", mode, buffering=0) as file:
            map = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) if part else file
            assert len(map.read()) == os.path.getsize(file.fileno())
"""
    )
    assert run.failed == []
    whole = [run.said(epoch)["whole"][0] for epoch in (0, 1, 2)]
    assert whole == ["yes", "not measured", "not measured"]
    half = f"{N_FILES // 2} of them only for writing."
    assert run.said(2)["cover"] == (
        "yes",
        f"All {N_FILES} files were opened, {half}",
    )
    assert run.said()["rate"][0] == "no"
    assert "No call wrote to them; all are as listed." in run.said()["read only"][1]
    # Python duplicates the descriptor of a map.
    for table in (run.evidence.file_records, run.evidence.records.file_records):
        opens = table.groupby("epoch")["opens"].agg(["max", "sum"])
        assert opens.to_numpy().tolist() == [[1, N_FILES // 2]] * 3


def test_library_that_keeps_pages_is_named_and_its_calls_are_counted(two, monkeypatch):
    """It is loaded into all that the launch starts, as by a module of the site."""
    library = advice_library("SWALLOWS")
    monkeypatch.setenv("LD_PRELOAD", str(library))
    run = two.run(
        """
for name in names:
    fd = os.open(f"{dataset}/{name}", os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
"""
    )
    assert run.failed == []
    seen = run.evidence.run.observed["interference"]
    assert (seen["n_processes"], seen["preloaded"]) == (2, {library.name: 2})
    assert (seen["made"], seen["failed"], seen["swallowed"]) == (0, 0, 2 * N_FILES)
    assert seen["behind"] == {library.name: 2}


def started_program(programs, code):
    """Start a program, and wait until it has created a file `began`."""
    process = programs.start(programs.python(f"open('began', 'w')\n{code}"), HALF)
    programs.wait_for("began", process)
    return process


def test_killed_launch_is_cleaned_up_by_the_next(two):
    process = started_program(two, "time.sleep(1000)")
    assert os.listdir(two.lfs / "data")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    wait_until_idle(two.folder)
    assert in_memory(two.folder)
    run = two.run(READ_ALL)
    assert run.failed == []
    assert in_memory(two.folder) == []


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_launch_that_is_ended_ends_its_program_and_cleans_up(two, signum):
    process = started_program(two, "time.sleep(1000)")
    process.send_signal(signum)
    assert process.wait(HANG_S) in (128 + signum, -signum)
    wait_until_idle(two.folder)
    two.left_nothing(process)


def test_interrupt_of_the_terminal_ends_the_program_and_cleans_up(two):
    process = started_program(two, "time.sleep(1000)")
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(HANG_S) == 1
    wait_until_idle(two.folder)  # ranks may end after their launcher
    two.left_nothing(process)
    assert two.lines()[-1] == "tierscope: SIGINT ended the launch."


def test_program_of_a_terminal_that_is_closed_ends_and_cleans_up(one):
    process = started_program(one, "time.sleep(1000)")
    os.killpg(process.pid, signal.SIGHUP)
    assert process.wait(HANG_S) == 128 + signal.SIGHUP
    wait_until_idle(one.folder)
    one.left_nothing(process)


CONFIG = "results/my-sweep/sweep.yaml"
STATEMENTS = "results/my-sweep/tables/statements.parquet"
CERTIFICATE = "results/my-sweep/tables/certificate.parquet"
SUMMARY = "results/my-sweep/summary.txt"
N_COPIES, COPIED_BYTES = 11, 13_200  # Monarch's, of half of the bytes by name
# With Monarch it reads on when the copies are made. The rank that starts it knows.
MARKED = f"""{PLACED}
with open(f"/proc/{{os.getppid()}}/cmdline") as command:
    least = {N_COPIES} if "-monarch-" in command.read() else 0
for epoch in (0, 1):
    mark(epoch)
    for name in names:
        read(name)
    while sum(map(is_placed, names)) < least:
        time.sleep(0.01)
"""


class Sweep:
    """A project in which `tierscope sweep` is typed."""

    def __init__(self, folder):
        self.programs = Programs(folder)
        (folder / "project").mkdir()
        (folder / "fast").mkdir()
        self.project = Project(folder / "project")
        options = ["--profile", "local", "--configfile", CONFIG]
        self.project.command = lambda *words: ["snakemake", *words, *options]
        self.program = self.programs.python(MARKED)

    def words(self, *options):
        """Return the words of `tierscope sweep`."""
        command = [sys.executable, "workflow/scripts/tierscope_command.py", "sweep"]
        command += ["--dataset", self.programs.dataset, "--name", "my-sweep"]
        command += ["--lfs", self.programs.folder / "fast", "--rates", "50"]
        return [*map(str, command), *options, "--", *self.program]

    def plan(self, *options):
        """Let `tierscope sweep` write the configuration; return its plan."""
        code, output = warm_python.run(
            self.words(*options, "-n"), self.project.folder, self.project.environment
        )
        assert code == 0, output
        return output

    def points(self, which="*program"):
        """Return when each point was measured, by policy and repetition."""
        runs = self.project.folder.glob(f"results/my-sweep/runs/{which}/*/*/run.json")
        return {
            (run.parts[-4].split("-")[-2], run.parts[-2]): run.stat().st_mtime_ns
            for run in runs
        }

    def read(self, name, folder="tables"):
        """Return a table of the sweep."""
        path = self.project.folder / "results" / "my-sweep" / folder
        return read_table(path / f"{name}.parquet", name)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_signal_to_the_sweep_alone_ends_all_and_leaves_nothing(tmp_path, signum):
    sweep = Sweep(tmp_path)
    began = tmp_path / "began"
    code = f"open({str(began)!r}, 'w')\ntime.sleep(1000)"
    sweep.program = sweep.programs.python(code)
    folder, environment = sweep.project.folder, sweep.project.environment
    process = warm_python.start(sweep.words(), folder, environment)
    wait_for(began.exists, process)
    process.send_signal(signum)
    output = process.communicate(timeout=HANG_S)[0]
    assert process.returncode in (128 + signum, -signum)
    wait_until_idle(folder)
    assert "Traceback" not in output
    assert output.splitlines()[-1].startswith("Stopped. Finished files are kept; ")
    assert os.listdir(tmp_path / "fast") == []
    assert in_memory(tmp_path) == []


def wait_for(is_met, process):
    """Wait until something is so, while a process runs."""
    end_s = time.monotonic() + HANG_S
    while not is_met():
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < end_s
        time.sleep(0.01)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Return a sweep of two policies and ideal runs, as its user has run it."""
    sweep = Sweep(tmp_path_factory.mktemp("sweep"))
    options = ["--policies", "none", "monarch"]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        sweep.first_plan = sweep.plan(*options, "--ideal", memory)
        targets = (STATEMENTS, CERTIFICATE, SUMMARY, "policies", "ideal")
        sweep.output = sweep.project.snakemake(*targets)
        sweep.left_in_memory = os.listdir(memory)
    return sweep


def test_sweep_says_what_is_true_of_each_run(sweep):
    assert "monarch-program: 2 points" in sweep.first_plan
    repetitions = ("rep-0", "rep-1")
    assert {*sweep.points()} == {*itertools.product(("none", "monarch"), repetitions)}
    table = sweep.read("statements")
    assert len(table.groupby(["policy", "cache_rate_percent", "repetition"])) == 4
    answers = table.set_index("statement")["answer"]
    names = ["tier", "seen", "epochs", "cover", "once", "whole", "copies", "in time"]
    assert set(answers[names]) == {"yes"}
    assert os.listdir(sweep.programs.folder / "fast") == []


def test_ideal_runs_follow_the_others_of_their_repetition(sweep):
    ideal = sweep.points("*+ideal")
    assert {*ideal} == {("pinning", "rep-0"), ("pinning", "rep-1")}
    ended = {**sweep.points(), **ideal}
    order = [name for name, _ in sorted(ended, key=ended.get)]
    assert order[2::3] == ["pinning", "pinning"]
    assert {*order[:2]} == {*order[3:5]} == {"none", "monarch"}
    assert [rep for _, rep in sorted(ended, key=ended.get)] == [
        *["rep-0"] * 3,
        *["rep-1"] * 3,
    ]


def test_ideal_runs_tell_what_storage_costs(sweep):
    verdicts = sweep.read("verdicts", "ideal")
    assert set(verdicts["tier"] + verdicts["told_by"]) == {"lfs" + MEMORY}
    ideal = sweep.read("epochs", "ideal")
    assert ideal["lfs_files"].tolist() == [N_FILES] * 4
    assert sweep.left_in_memory == []
    table = sweep.read("storage_time")
    assert table.groupby("policy")["n_repetitions"].agg(list).to_dict() == {
        "none": [2, 2],
        "monarch": [2, 2],
    }
    means = ideal.groupby("epoch")["execution_time_s"].mean()
    of_none = table[table["policy"] == "none"]
    assert of_none["ideal_time_s"].to_numpy() == pytest.approx(means)
    text = (sweep.project.folder / "results/my-sweep/ideal/summary.txt").read_text()
    # What limits may stand in a line of its own before that of each policy.
    assert sum(" an epoch at cache rate " in one for one in text.splitlines()) == 2
    assert text in sweep.output


def test_sweep_is_summed_up_before_its_figures_and_at_the_end(sweep):
    text = (sweep.project.folder / SUMMARY).read_text()
    ideal = (sweep.project.folder / "results/my-sweep/ideal/summary.txt").read_text()
    assert text.endswith(ideal)
    heads = [one.partition(":")[0] for one in text.removesuffix(ideal).splitlines()]
    assert heads[0] == "The program"
    assert [one for one in heads if one != "The program"] == ["monarch", "none"]
    workload = sweep.project.folder / "results/my-sweep/dlio/workload/my_data.yaml"
    (line,) = workload.read_text().splitlines()
    assert "no workload file for DLIO: program" in line
    assert "DLIO" not in text  # who has no loader expects no file
    during, drawn, end = sweep.output.partition('Drawing "Policies compared"')
    assert drawn
    assert text in during
    assert text in end


def test_each_run_of_a_sweep_is_certified(sweep):
    table = sweep.read("certificate").set_index("statement")
    undisturbed = table.loc[["libraries", "advice"]]
    assert undisturbed.groupby("policy").size().to_dict() == {"none": 4, "monarch": 4}
    assert set(undisturbed["answer"]) == {"yes"}
    of_tiers = table.drop(index=["libraries", "advice"]).reset_index()
    assert of_tiers.groupby(["policy", "statement"]).size().to_dict() == {
        ("none", "gfs bytes"): 2,
        ("monarch", "gfs bytes"): 2,
        ("monarch", "lfs bytes"): 2,
    }


def test_policies_of_a_program_are_compared(sweep):
    epochs = sweep.read("policy_epochs", "policies").groupby(["policy", "epoch"])
    assert epochs["gfs_opens"].apply(list).to_dict() == {
        ("none", 0): [N_FILES] * 2,
        ("none", 1): [N_FILES] * 2,
        ("monarch", 0): [N_FILES] * 2,
        ("monarch", 1): [N_FILES - N_COPIES] * 2,
    }
    background = sweep.read("background").groupby(["repetition", "epoch"])
    assert background["lfs_bytes"].sum().tolist() == [COPIED_BYTES, 0] * 2
    folder = sweep.project.folder / "results" / "my-sweep"
    summary = (folder / "policies" / "summary.txt").read_text()
    assert summary in sweep.output
    none, monarch = (
        line for line in summary.splitlines() if re.match(r" ?\d+ %  ", line)
    )
    assert none.split() == ["0", "%", "none", "reference"]
    # A copy reads as often as the read that it saves. There is no staging.
    saved = r"\??-?[\d.]+ ± [\d.]+"
    pays = r"\??(~?\d+|never)"
    words = rf"50 %   monarch +{saved} +{saved} +0\.0 +12\.89 KiB +0\.00 +{pays}"
    assert re.fullmatch(words, monarch), monarch
    assert (folder / "figures" / "policies.png").stat().st_size > 10_000
    assert "plot_policies" in sweep.first_plan
    assert "score_policy_claims" not in sweep.first_plan
    assert not (folder / "policies" / "claims.md").exists()


def test_files_of_another_project_in_the_current_folder_are_left_alone(tmp_path):
    files = ("config/config.yaml", "small/a.bin")
    for name in (*files, "lfs/none"):
        (tmp_path / name).parent.mkdir()
    for name in files:
        (tmp_path / name).write_text("model: {depth: 50}\n")
    script = Path(__file__).parents[2] / "workflow/scripts/tierscope_command.py"
    command = [sys.executable, str(script), "sweep", "--dataset", "small"]
    command += ["--lfs", "lfs", "-n", "--", "train", "{dataset}"]
    code, output = warm_python.run(
        command, tmp_path, warm_python.installed_environment()
    )
    assert code == 0, output
    assert "small-0ost-pinning-program: 10 points" in output


def test_second_start_measures_only_what_lacks(sweep):
    before = sweep.points()
    options = ["--repetitions", "1", "--policies", "none", "pinning"]
    assert "1 point in one launch" in sweep.plan(*options)
    sweep.project.snakemake(STATEMENTS)
    after = sweep.points()
    assert {*after} - {*before} == {("pinning", "rep-0")}
    assert {point: after[point] for point in before} == before
    (pinned,) = sweep.project.folder.glob(
        "results/my-sweep/runs/*pinning-program/*/*/run.json"
    )
    (filled,) = fills_of([Run.read(pinned)]).to_dict("records")
    assert filled["copied_bytes"] == filled["held_bytes"] > 0
    assert (filled["policy"], filled["held_files"] > 0) == ("pinning", True)
    assert filled["time_s"] > 0
    table = sweep.read("statements")
    answers = table[table["policy"] == "pinning"].set_index("statement")["answer"]
    names = ["tier", "seen", "epochs", "cover", "once", "whole"]
    assert set(answers[names]) == {"yes"}


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("scorecard", "scorecard: got loader.command, a program of yours"),
        ("predict", "config: sweep.ideal: got false, expected true"),
        ("calibrate", "config: sweep.ideal: got false, expected true"),
    ],
)
def test_models_and_claims_refuse_a_program_in_a_line(sweep, target, words):
    sweep.plan("--policies", "none", "pinning")
    output = sweep.project.snakemake(target, "-n", expect=1)
    (line,) = (line for line in output.splitlines() if ": got " in line)
    assert line.strip().startswith(words)
