"""Policies that move files of a program of the user, for real: plain Python."""

import os
import random
import re
import signal
import stat
import time
from pathlib import Path

import pytest
from integration.conftest import ROOT
from integration.launches import wait_until_idle
from integration.programs import HALF, PLACED, Programs
from sessions import HANG_S
from tierscope.policies import Place

N_FILES, EPOCHS = 20, 4
# A rank reads its part of an order that is drawn for each epoch. The next epoch begins
# when so many files that it has read are on its LFS. The ranks wait for each other.
RANKS = f"""{PLACED}
import random
rank, size = int(os.environ.get("PMI_RANK", 0)), int(os.environ.get("PMI_SIZE", 1))
notes, most, mine = sys.argv[2], int(sys.argv[3]), set()
def wait_for_all(what):
    open(f"{{notes}}/{{what}}-{{rank}}", "w").close()
    while not all(os.path.exists(f"{{notes}}/{{what}}-{{i}}") for i in range(size)):
        time.sleep(0.01)
wait_for_all("start")
for epoch in range({EPOCHS}):
    mark(epoch)
    for name in random.Random(epoch).sample(names, len(names))[rank::size]:
        assert len(read(name)) == 1000
        mine.add(name)
    while sum(map(is_placed, mine)) < min(most, len(mine)):
        time.sleep(0.01)
    wait_for_all(epoch)
"""
# An epoch, a pause in which a test does something, and another epoch.
TWO_EPOCHS = f"""{PLACED}
for epoch in (0, 1):
    mark(epoch)
    for name in names:
        read(name)
    open(f"epoch-{{epoch}}", "w").close()
    while epoch == 0 and not os.path.exists("go"):
        if all(map(is_placed, names)):
            open("placed", "w").close()
        time.sleep(0.01)
"""
# The example, which computes until all of its files are on the LFS.
EXAMPLE = f"""{PLACED}
def compute(seconds):
    while not all(map(is_placed, names)):
        time.sleep(0.01)
if __name__ == "__main__":
    sys.path.append({str(ROOT / "examples")!r})
    sys.argv[1:] = ["--data", dataset]
    import multiprocessing_files as example
    example.compute = compute
    example.main()
"""


def write_files(folder, n_files):
    """Write what programs read, files of one size, and make their folder of notes."""
    for number in range(n_files):
        path = folder / "my data" / f"class {number % 3}" / f"{number:03d}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes([number % 256]) * 1000)
    (folder / "notes").mkdir()


@pytest.fixture
def make(tmp_path):
    """Return a function that makes where programs run, with files of one size."""

    def made(**options):
        write_files(tmp_path, N_FILES)
        return Programs(tmp_path, **options)

    return made


def hits(names, n_nodes, most):
    """Return how many reads of `RANKS` find a file that their node has read before."""
    seen, n_hits = [set() for _ in range(n_nodes)], 0
    for epoch in range(EPOCHS):
        order = random.Random(epoch).sample(names, len(names))
        for node, before in enumerate(seen):
            part = order[node::n_nodes]
            n_hits += len(before.intersection(part))
            new = [name for name in part if name not in before]
            before.update(new[: most - len(before)])
    return n_hits


@pytest.mark.parametrize(
    ("n_nodes", "rate", "cold"), [(1, 50, True), (2, 100, True), (4, 100, False)]
)
def test_monarch_serves_from_the_second_read_of_a_node_on(make, n_nodes, rate, cold):
    programs = make(policy="monarch", n_nodes=n_nodes, cold=cold)
    most = N_FILES * rate // 100
    words = [str(programs.folder / "notes"), str(most)]
    run = programs.run([*programs.python(RANKS), *words], f"cache-{rate:03d}/rep-0")
    assert run.failed == []
    opens = run.evidence.opens.groupby("tier")["opens"].sum()
    names = sorted(programs.files["path"])
    expected = hits(names, n_nodes, most)
    assert opens.to_dict() == {"lfs": expected, "gfs": N_FILES * EPOCHS - expected}
    if n_nodes == 1:  # Monarch's law, f (E - 1) / E
        assert expected == most * (EPOCHS - 1)
    said = run.said()
    assert (said["copies"][0], said["in time"][0]) == ("yes", "yes")
    background = run.evidence.records.background.groupby("tier").sum()
    n_copies = int((run.evidence.decisions["event"] == "placed").sum())
    assert background.loc["gfs", ["opens", "bytes_read"]].tolist() == [
        n_copies,
        1000 * n_copies,
    ]
    assert background.loc["lfs", "bytes_written"] == 1000 * n_copies
    # Not those of who copies, which drops pages of cold epochs.
    seen = run.evidence.run.observed["interference"]
    assert (seen["n_processes"], seen["made"]) == (n_nodes, 0)


def test_example_that_computes_long_enough_meets_the_law(make):
    run = make(policy="monarch").run(EXAMPLE, "cache-100/rep-0")
    assert run.failed == []
    opens = run.evidence.opens.groupby(["epoch", "tier"])["opens"].sum()
    assert opens.to_dict() == {
        (0, "gfs"): N_FILES,
        (1, "lfs"): N_FILES,
        (2, "lfs"): N_FILES,
    }
    said = run.said()
    names = ("tier", "copies", "in time", "epochs")
    assert [said[name][0] for name in names] == ["yes"] * len(names)


def test_lru_evicts_what_was_used_least_recently(make):
    programs = make(policy="lru")
    run = programs.run(
        f"""{PLACED}
for name in [*names[:10], names[0], *names[10:]]:
    assert len(read(name)) == 1000
    while not is_placed(name):
        time.sleep(0.01)
    copies = [*filter(is_placed, names)]
assert names[0] not in copies and names[10] in copies and len(copies) == 10
"""
    )
    assert run.failed == []
    decisions = run.evidence.decisions
    gone = decisions.loc[decisions["event"] == "evict", "file_id"].tolist()
    ids = {name: i for i, name in enumerate(run.programs.files["path"])}
    names = sorted(ids)
    # The first one was read again from the LFS, so the second one goes first.
    assert gone == [ids[name] for name in [*names[1:10], names[0]]]
    begun = decisions[(decisions["event"] == "begin") & (decisions["place"] == "lfs")]
    assert begun["file_id"].tolist() == [ids[names[0]]]
    assert run.said()["copies"][0] == "yes"


def test_read_of_a_process_that_was_killed_ends_with_it(make):
    run = make(policy="monarch").run(
        f"""{PLACED}
if not (pid := os.fork()):
    os.open(f"{{dataset}}/{{names[0]}}", os.O_RDONLY)
    os.kill(os.getpid(), 9)
os.waitpid(pid, 0)
while not is_placed(names[0]):
    time.sleep(0.01)
read(names[0])
"""
    )
    assert run.failed == []
    assert run.evidence.opens["tier"].tolist() == ["gfs", "lfs"]


@pytest.fixture
def paused(make):
    """Return a program under Monarch after its first epoch, and its launch."""
    programs = make(policy="monarch")
    process = programs.start(programs.python(TWO_EPOCHS), "cache-100/rep-0")
    programs.wait_for("epoch-0", process)
    return programs, process


def finish(programs, process):
    """Let a program go on, and return its run."""
    (programs.folder / "go").touch()
    assert process.wait() == 0, programs.log.read_text()
    programs.left_nothing(process)
    return programs.ran("cache-100/rep-0")


def test_run_whose_copies_do_not_last_goes_on_and_is_refused(paused):
    """One is deleted, another cannot be opened, even by root, a third is truncated."""
    programs, process = paused
    programs.wait_for("placed", process)
    deleted, unreadable, truncated = sorted(programs.lfs.rglob("*.bin"))[:3]
    deleted.unlink()
    unreadable.unlink()
    os.mknod(unreadable, stat.S_IFSOCK)
    os.truncate(truncated, 10)
    run = finish(programs, process)
    assert run.failed == [
        "copies on an LFS that could not be opened",
        "copies that are no longer as they were made",
        "decisions that the policy would not have made",
    ]
    spoilt = [f"class 0/{number:03d}.bin" for number in (0, 3, 6)]
    assert run.evidence.run.observed["damaged"] == spoilt
    assert served_by_lfs(run) == {*programs.files["path"]} - {*spoilt[:2]}


def served_by_lfs(run):
    """Return the names of the files that the LFS served in the second epoch."""
    opens = run.evidence.opens.query("epoch == 1 and tier == 'lfs'")
    return {*run.programs.files["path"][opens["file_id"]]}


def test_full_lfs_ends_the_copies_and_the_program_goes_on(make, mount_memory):
    programs = make(policy="monarch")
    mount_memory(programs.lfs)
    process = programs.start(programs.python(TWO_EPOCHS), "cache-100/rep-0")
    programs.wait_for("epoch-0", process)
    while "No space left on device" not in programs.log.read_text():
        assert process.poll() is None, programs.log.read_text()
        time.sleep(0.01)
    run = finish(programs, process)
    assert run.failed == []
    assert run.evidence.opens["opens"].sum() == 2 * N_FILES
    decisions = run.evidence.decisions
    failed = decisions[decisions["event"] == "failed"]
    assert set(failed["detail"]) == {"full"}
    placed = decisions[decisions["event"] == "placed"]
    assert 0 < len(placed) < N_FILES
    names = run.programs.files["path"]
    before = placed["time_s"] < failed["time_s"].min()
    assert {*names[placed.loc[before, "file_id"]]} <= served_by_lfs(run)
    assert served_by_lfs(run) <= {*names[placed["file_id"]]}
    answer, words = run.said()["copies"]
    assert answer == "no"
    assert words.endswith(f"failed: {len(failed)} as the LFS was full.")


def children_of(pid):
    """Yield what a process has started, directly or not."""
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, path.read_text().split()):
            yield child
            yield from children_of(child)


def process_of(launch, script):
    """Return the number of the process of a launch that runs a script."""
    for pid in children_of(launch.pid):
        if script in Path(f"/proc/{pid}/cmdline").read_text():
            return pid
    raise AssertionError(script)


def test_program_goes_on_without_what_copies_and_its_run_is_refused(paused):
    programs, process = paused
    os.kill(process_of(process, "copy_in_background.py"), signal.SIGKILL)
    run = finish(programs, process)
    assert "nodes whose process that copies did not end well" in run.failed
    assert run.evidence.opens["opens"].sum() == 2 * N_FILES


def test_killed_keeper_ends_the_program_and_the_next_launch_cleans_up(paused):
    programs, process = paused
    programs.wait_for("placed", process)
    ranks = [
        pid
        for pid in children_of(process.pid)
        if re.search(
            r"run_program\.py.*--shared", Path(f"/proc/{pid}/cmdline").read_text()
        )
    ]
    os.kill(max(ranks), signal.SIGKILL)
    assert process.wait(HANG_S) == 1
    wait_until_idle(programs.folder)  # the program has not been told to go on
    assert not (programs.folder / "epoch-1").exists()
    assert not (programs.runs / "cache-100" / "rep-0").exists()
    assert [*programs.lfs.rglob("*.bin")]
    (programs.folder / "go").touch()
    run = programs.run(programs.last, HALF)
    assert run.failed == []
    programs.left_nothing(process)


def test_file_that_the_program_changes_is_left_on_the_gfs(make):
    programs = make(policy="monarch")
    code = """
for epoch in (0, 1):
    mark(epoch)
    for name in names:
        read(name)
    with open(f"{dataset}/{names[0]}", "r+b") as file:
        file.write(b"new")
"""
    run = programs.run(code, "cache-100/rep-0")
    assert run.failed == []
    assert run.said()["read only"][0] == "no"
    first = programs.files["path"].tolist().index(sorted(programs.files["path"])[0])
    opens = run.evidence.opens
    assert set(opens.loc[opens["file_id"] == first, "tier"]) == {str(Place.GFS)}
