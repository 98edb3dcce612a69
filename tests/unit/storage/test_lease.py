import errno
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from tierscope.core.processes.times import start_time
from tierscope.storage.lease import Holder, Lease, LeaseError

SCRIPTS = Path(__file__).parents[3] / "workflow" / "scripts"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.lease"


def write(path, holder):
    path.write_text(json.dumps(asdict(holder)))


def of_a_dead_process(token="old"):
    """Return a process of this machine that has ended."""
    child = subprocess.Popen(["true"])
    child.wait()
    return replace(Holder.this_process("launch 7", token), pid=child.pid, started=1)


def holding(path, what="snakemake of experiment a"):
    """Start a process that holds a lease until its input ends."""
    code = (
        f"import sys; from tierscope.storage.lease import *; "
        f"hold_lease(Path({str(path)!r}), {what!r}); print(flush=True); "
        "sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", code],
        env=os.environ | {"PYTHONPATH": str(SCRIPTS)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    process.stdout.readline()
    return process


def test_second_process_is_told_who_holds_it(path):
    holder = holding(path)
    with pytest.raises(
        LeaseError,
        match=rf"snakemake of experiment a \(process {holder.pid} on .*\) works here "
        rf"since {time.strftime('%Y')}-\d\d-\d\d [\d:]{{8}}; wait until it has ended",
    ):
        Lease(path, "me").take()
    holder.communicate()
    assert not path.exists()
    Lease(path, "me").take()


def test_lease_of_a_killed_process_here_is_taken(path):
    holder = holding(path)
    holder.kill()
    holder.wait()
    assert path.exists()
    Lease(path, "me", "mine").take()
    assert Lease(path, "me").holder().token == "mine"
    assert os.listdir(path.parent) == [path.name]


def test_zombie_holds_nothing(path):
    holder = holding(path)
    holder.kill()
    os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
    Lease(path, "me").take()
    holder.wait()


def test_process_number_that_is_used_again_is_no_holder(path):
    me = Holder.this_process("launch 7", "old")
    write(path, replace(me, started=me.started - 1))
    Lease(path, "me").take()


@pytest.mark.parametrize(
    "elsewhere",
    [{"host": "login2"}, {"boot": "other", "machine": ""}, {"namespace": 1}],
)
def test_holder_that_cannot_be_seen_is_refused_with_what_to_type(path, elsewhere):
    write(path, replace(of_a_dead_process(), **elsewhere))
    with pytest.raises(LeaseError, match=f"launch 7 .* rm {path}$"):
        Lease(path, "me").take()
    assert path.exists()


@pytest.mark.parametrize("machine", ["m1", "m2", ""])
def test_lease_of_before_a_power_cut_is_taken_only_on_the_same_machine(
    path, machine, monkeypatch
):
    monkeypatch.setattr("tierscope.storage.lease._machine", lambda: machine)
    before = replace(of_a_dead_process(), boot="other", machine=machine and "m1")
    write(path, before)
    if machine == "m1":
        Lease(path, "me").take()
    else:
        with pytest.raises(LeaseError, match=f"rm {path}$"):
            Lease(path, "me").take()


@pytest.mark.parametrize("content", ["", "login2 77", "[]", "{}", '{"what": 1}', "\0"])
def test_file_that_names_nobody_is_refused(path, content, monkeypatch):
    monkeypatch.setattr("tierscope.storage.lease._WRITING_S", 0.1)
    path.write_text(content)
    with pytest.raises(LeaseError, match=f"names no holder.*rm {path}"):
        Lease(path, "me").take()
    assert path.read_text() == content


def test_planted_link_is_not_followed(path, tmp_path):
    victim = tmp_path / "victim"
    path.symlink_to(victim)
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        Lease(path, "me").take()
    assert not victim.exists()


def test_own_lease_is_taken_again_and_another_of_this_process_refused(path):
    Lease(path, "me", "mine").take()
    Lease(path, "me", "mine").take()
    with pytest.raises(LeaseError, match="wait until it has ended"):
        Lease(path, "me", "other").take()


def test_only_the_own_lease_is_given_back(path):
    Lease(path, "me", "mine").take()
    Lease(path, "me", "other").give_back()
    assert path.exists()
    Lease(path, "me", "mine").give_back()
    Lease(path, "me", "mine").give_back()
    assert not path.exists()


def test_lease_of_the_launch_is_adopted_from_a_process_that_has_ended(path):
    write(path, of_a_dead_process("launch"))
    assert Lease(path, "me", "launch").adopt()
    assert Lease(path, "me").holder() == Holder.this_process("me", "launch")


def test_lease_of_others_or_of_nobody_is_not_adopted(path):
    assert not Lease(path, "me", "launch").adopt()
    write(path, of_a_dead_process("other"))
    assert not Lease(path, "me", "launch").adopt()


def test_only_one_of_many_takes_the_lease_of_a_dead_process(path, tmp_path):
    write(path, of_a_dead_process())
    code = (
        "import os, time; from tierscope.storage.lease import *\n"
        f"while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(.001)\n"
        "try:\n"
        f"    Lease(Path({str(path)!r}), 'me').take(); print('taken', flush=True)\n"
        "    input()\n"
        "except LeaseError: print('refused', flush=True)\n"
    )
    others = [
        subprocess.Popen(
            [sys.executable, "-S", "-c", code],
            env=os.environ | {"PYTHONPATH": str(SCRIPTS)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(6)
    ]
    (tmp_path / "go").touch()
    assert sorted(one.stdout.readline() for one in others) == [
        *["refused\n"] * 5,
        "taken\n",
    ]
    for one in others:
        one.communicate("\n")


def test_who_was_slow_does_not_remove_the_lease_of_who_was_faster(path):
    dead = of_a_dead_process()
    Lease(path, "faster", "new").take()
    Lease(path, "slow", "slow")._end(dead)
    assert Lease(path, "me").holder().token == "new"


def test_takeover_that_was_killed_half_way_is_refused_with_what_to_type(
    path, monkeypatch
):
    monkeypatch.setattr("tierscope.storage.lease._WRITING_S", 0.1)
    write(path, of_a_dead_process())
    left = path.with_name("x.lease.old")
    left.touch()
    with pytest.raises(LeaseError, match=f"rm {left}"):
        Lease(path, "me").take()


def test_new_lease_without_content_yet_is_waited_for(path, monkeypatch):
    path.touch()
    naps = []

    def sleep(time_s):
        naps.append(time_s)
        write(path, of_a_dead_process())

    monkeypatch.setattr(time, "sleep", sleep)
    Lease(path, "me").take()
    assert naps


def test_copy_of_the_holder_does_not_give_it_back(tmp_path):
    path = tmp_path / "new" / "x.lease"
    code = (
        "import os, sys; from tierscope.storage.lease import *\n"
        f"hold_lease(Path({str(path)!r}), 'me')\n"
        "child = os.fork()\n"
        "if child: os.waitpid(child, 0); print(os.path.exists(sys.argv[1]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, str(path)],
        env=os.environ | {"PYTHONPATH": str(SCRIPTS)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "True\n"
    assert not path.exists()


def test_lease_of_another_one_that_was_killed_is_left_where_only_the_own_counts(path):
    write(path, of_a_dead_process())
    with pytest.raises(
        LeaseError,
        match=f"launch 7 .* was killed, and its jobs may still run.*rm {path}",
    ):
        Lease(path, "me", only_own=True).take()
    Lease(path, "launch 7", only_own=True).take()


def test_process_that_is_not_shown_to_this_user_is_not_dead(path, monkeypatch):
    other = subprocess.Popen(["sleep", "1000"])
    try:
        me = Holder.this_process("launch 7", "old")
        write(path, replace(me, pid=other.pid, started=start_time(other.pid)))
        exists = os.path.exists
        hidden = f"/proc/{other.pid}"
        monkeypatch.setattr("tierscope.storage.lease.start_time", lambda pid: None)
        monkeypatch.setattr(
            os.path, "exists", lambda name: name != hidden and exists(name)
        )
        with pytest.raises(LeaseError, match="wait until it has ended"):
            Lease(path, "me").take()
    finally:
        other.kill()
        other.wait()


def test_lease_for_which_there_is_no_room_is_not_left_half(path, monkeypatch):
    def fsync(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match=f"No space left.*{path}"):
        Lease(path, "me").take()
    assert not path.exists()


def test_taking_over_needs_no_more_room_than_the_old_lease(path, monkeypatch):
    write(path, of_a_dead_process())
    contents = []
    dump = json.dump

    def dump_if_there_is_room(content, file):
        contents.append([one.name for one in path.parent.iterdir()])
        dump(content, file)

    monkeypatch.setattr(json, "dump", dump_if_there_is_room)
    Lease(path, "me").take()
    assert contents == [[path.name]]  # the old one is gone, nothing else was written


def test_job_that_a_scheduler_ends_gives_its_lease_back(path):
    code = (
        "import signal, sys; from pathlib import Path\n"
        "from tierscope.benchmark.rank import Terminated, terminate_by_exception\n"
        "from tierscope.storage.lease import held\n"
        "terminate_by_exception()\n"
        "try:\n"
        f"    with held(Path({str(path)!r}), 'me'): print(flush=True); signal.pause()\n"
        "except Terminated as error: sys.exit(str(error))\n"
    )
    job = subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(SCRIPTS)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    job.stdout.readline()
    assert path.exists()
    job.terminate()
    assert job.communicate()[1] == "SIGTERM\n"
    assert not path.exists()


def test_command_that_removes_a_lease_is_safe_to_paste(tmp_path):
    folder = tmp_path / "a; touch pwned"
    folder.mkdir()
    path = folder / "x.lease"
    write(path, replace(of_a_dead_process(), host="x\x1b[2J", what="a\nb"))
    with pytest.raises(LeaseError) as raised:
        Lease(path, "me").take()
    assert str(raised.value).endswith(f"rm '{path}'")
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    "change",
    [
        {"token": "../../mine"},
        {"token": 7},
        {"pid": "1"},
        {"pid": 10**12},
        {"what": ["x"]},
        {"more": "x"},
    ],
)
def test_lease_that_we_would_not_write_names_no_holder(path, monkeypatch, change):
    """Others may write to the folder of a dataset, and choose what we then remove."""
    monkeypatch.setattr("tierscope.storage.lease._WRITING_S", 0.0)
    holder = asdict(of_a_dead_process()) | change
    path.write_text(json.dumps(holder))
    with pytest.raises(LeaseError, match="names no holder; if no process works here"):
        Lease(path, "me").take()


def test_lease_that_nests_deep_names_no_holder(path, monkeypatch):
    monkeypatch.setattr("tierscope.storage.lease._WRITING_S", 0.0)
    path.write_text("[" * 4096)
    with pytest.raises(LeaseError, match="names no holder"):
        Lease(path, "me").take()
