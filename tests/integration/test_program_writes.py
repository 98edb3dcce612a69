"""What a program writes and reads outside of its dataset, against its own clock."""

import json

import pytest
from integration.programs import Programs
from tierscope.storage.mounts import mount_of

PROGRAM = """
import contextlib, json, mmap, tempfile, threading
out, rank = OUT, int(os.environ.get("PMI_RANK", 0))
block, own, who, epoch = os.urandom(1 << 20), {}, "beside", -1
@contextlib.contextmanager
def timed(call, n_bytes=0):
    start_s = time.perf_counter()
    yield
    time_s = time.perf_counter() - start_s
    n, all_bytes, all_s = own.get(f"{epoch} {who} {call}", [0, 0, 0])
    own[f"{epoch} {who} {call}"] = [n + 1, all_bytes + n_bytes, all_s + time_s]
def checkpoint(name, n=4):
    with timed("other"): file = os.open(f"{out}/{name}-{rank}", os.O_RDWR | os.O_CREAT)
    for _ in range(n):
        with timed("write", len(block)): os.write(file, block)
    with timed("fsync"): os.fsync(file)
    with timed("other"): os.close(file)
def slow_write(n_bytes, wait_s=0.25):
    # Deterministic: the call waits for what another thread puts into a pipe.
    source, target = os.pipe()
    later = threading.Timer(wait_s, os.write, (target, b"x" * n_bytes))
    with timed("other"): file = os.open(f"{out}/slow-{rank}", os.O_RDWR | os.O_CREAT)
    later.start()
    with timed("write", n_bytes): os.splice(source, file, n_bytes)
    later.join()
    with timed("other"): os.close(file)
    os.close(source); os.close(target)
def read_back():
    with timed("other"): file = os.open(f"{out}/start-{rank}", os.O_RDONLY)
    with timed("read", len(block)): assert len(os.read(file, 1 << 20)) == 1 << 20
    with timed("other"): os.close(file)
def through_a_mapping():
    with timed("other"): file = os.open(f"{out}/start-{rank}", os.O_RDWR)
    with mmap.mmap(file, 1 << 20) as mapping:
        mapping[:3] = b"abc"
        with timed("fsync"): mapping.flush()
    with timed("other"): os.close(file)
checkpoint("start")
for epoch in (0, 1):
    mark(epoch)
    for name in names: read(name)
    who = "loop"
    checkpoint("a", 4 + 8 * rank)
    slow_write(1000 * (1 + rank))
    read_back()
    through_a_mapping()
    who = "beside"
    thread = threading.Thread(target=checkpoint, args=("b",))
    thread.start()
    thread.join()
    told, tells = os.pipe()
    if (child := os.fork()) == 0:
        checkpoint("c")
        os.write(tells, json.dumps(own).encode())
        os._exit(0)
    os.waitpid(child, 0)
    own = json.loads(os.read(told, 1 << 16))  # of both
    for name in names[:4]:  # files of the dataset, which a program gets open
        subprocess.run(f"cat < '{dataset}/{name}' > /dev/null", shell=True)
mark(2)  # what comes now is not compared
with tempfile.TemporaryFile(dir="/dev/shm") as source:
    source.write(block * 8)
    source.seek(0)
    file = os.open(f"{out}/copy-{rank}", os.O_WRONLY | os.O_CREAT)
    assert os.sendfile(file, source.fileno(), None, 8 << 20) == 8 << 20
open(f"{out}/own-{rank}.json", "w").write(json.dumps(own))
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Return the run of two ranks, and what each has timed itself."""
    folder = tmp_path_factory.mktemp("writes")
    out = folder / "out"
    out.mkdir()
    programs = Programs(folder, per_node=2)
    run = programs.run(f"OUT = {str(out)!r}\n{PROGRAM}")
    own = {
        (rank, int(epoch), who == "loop", call): counts
        for rank in (0, 1)
        for key, counts in json.loads((out / f"own-{rank}.json").read_text()).items()
        for epoch, who, call in [key.split()]
    }
    return run.evidence.other_time, own, run


def test_calls_bytes_and_times_are_those_of_the_programs_own_clock(ran):
    table, own, run = ran
    assert run.failed == []
    keys = ["rank", "epoch", "in_loop", "call"]
    found = table.set_index(keys)[["operations", "bytes", "time_s"]].sort_index()
    compared = [key for key in own if key[1] >= 0]
    assert len(compared) == 2 * 2 * (4 + 3)  # ranks, epochs, calls of loop and others
    for key in compared:
        n, n_bytes, time_s = own[key]
        ours = found.loc[key]
        assert 0 < ours["time_s"] <= time_s
        if key[3] != "other":  # also seeks, for example
            assert (ours["operations"], ours["bytes"]) == (n, n_bytes)
    is_read = (table["call"] == "read") & (table["epoch"] < 2)
    assert not (is_read & ~table["in_loop"]).any()


def test_time_of_writes_is_that_of_the_calls_that_wait(ran):
    table, own, _ = ran
    for rank in (0, 1):
        is_write = (table["rank"] == rank) & (table["call"] == "write")
        of_loop = is_write & table["in_loop"] & (table["epoch"] < 2)
        ours_s = table.loc[of_loop, "time_s"].sum()
        own_s = sum(own[rank, epoch, True, "write"][2] for epoch in (0, 1))
        assert 2 * 0.2 < ours_s <= own_s  # two calls wait for 0.25 s each


def test_mappings_of_other_files_are_told(ran):
    table, _, _ = ran
    maps = table[(table["call"] == "map") & (table["rank"] == 0)]
    assert maps["epoch"].tolist() == [0, 1]
    assert maps["in_loop"].all()
    assert maps["bytes"].tolist() == [1 << 20, 1 << 20]


def test_copy_out_of_memory_is_a_write(ran):
    table, _, run = ran
    last = table[(table["epoch"] == 2) & (table["rank"] == 0)]
    times_s = last.set_index(["mount", "call"])["time_s"]
    written_s = times_s[mount_of(run.folder).point, "write"]
    assert times_s["/dev/shm", "read"] < written_s / 10


def test_what_the_loop_waits_for_is_said_by_file_system(ran):
    table, _, run = ran
    answer, words = run.said(1)["other io"]
    assert answer == "no"
    assert "in calls on files outside of the dataset: write 0." in words
    (mount,) = table.loc[table["epoch"] < 2, "mount"].unique()
    assert f" on {mount} (" in words
    assert mount_of(run.folder).point == mount
