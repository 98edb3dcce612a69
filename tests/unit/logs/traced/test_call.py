"""What a call of `tierscope trace` leaves beside its logs, and others put there."""

import json
import os
import stat
from pathlib import Path

import pytest
from tierscope.logs.traced.call import left_folders, this_call
from tierscope.logs.traced.command import make_spools, recover, trace
from tierscope.storage.own_folder import open_own


@pytest.fixture
def call():
    return this_call()


@pytest.fixture
def spools(tmp_path, call):
    """Return the folder of spools that a call has left below the logs."""
    return make_spools(tmp_path / "logs", call)


def put(content):
    """Return what replaces `call.json` by a file that another user would make."""
    return lambda path: (path.unlink(), path.write_text(content))


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def link(target):
    return lambda path: (path.unlink(), path.symlink_to(target))


def huge(path):
    os.truncate(path, 1 << 40)


def with_fields(**fields):
    """Return what changes fields of `call.json`."""
    return lambda path: path.write_text(
        json.dumps(json.loads(path.read_text()) | fields)
    )


def test_folder_of_a_call_is_found_below_the_logs_and_by_its_name(spools, call):
    assert left_folders(spools.parents[1]) == [(spools, call)]
    assert left_folders(spools.parent) == [(spools, call)]


def test_name_of_the_events_cannot_be_listed(spools):
    (hidden,) = spools.parents[1].iterdir()
    assert hidden == spools.parent
    mode = stat.S_IMODE(hidden.stat().st_mode)
    assert mode == (0o711 if os.geteuid() == 0 else 0o700)
    os.close(open_own(hidden))


@pytest.mark.parametrize(
    "spoil",
    [
        pipe,
        link("/dev/zero"),
        link("/etc/passwd"),
        huge,
        put("[" * 100_000),
        put("[]"),
        with_fields(job_id="../../job"),
        with_fields(pid=None),
        with_fields(host=["n0"]),
        with_fields(mounts={"/": 1}),
        with_fields(began_s="1"),
        with_fields(more=1),
    ],
)
def test_call_that_is_not_as_we_write_it_is_left_out(spools, spoil):
    spoil(spools.parent / "call.json")
    assert left_folders(spools.parents[1]) == []


def test_folder_that_others_can_change_is_left_out(spools):
    spools.parent.chmod(0o777)
    assert left_folders(spools.parents[1]) == []


def test_link_to_a_folder_of_a_call_is_left_out(spools, tmp_path):
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / ".tierscope-a").symlink_to(spools.parent)
    assert left_folders(tmp_path / "others") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user")
def test_logs_of_calls_of_another_user_are_not_written(spools, capfd):
    """By root, who may read all; nor are folders made that the other user names."""
    path = spools.parent / "call.json"
    with_fields(pid=1, ticks=1, job_id=7, user="../../b")(path)
    for one in (spools.parent, path):
        os.chown(one, 4321, 4321)
    with pytest.raises(ValueError, match="--recover: got"):
        recover(spools.parents[1])
    assert list(spools.parents[1].iterdir()) == [spools.parent]


def test_name_of_a_folder_is_printed_so_that_all_of_it_is_seen(tmp_path, call, capfd):
    logs = tmp_path / "\x1b]0;mine\x07\u202e"
    spools = make_spools(logs, call)
    with_fields(ticks=1)(spools.parent / "call.json")
    assert trace(["true"], logs) == 0
    said = capfd.readouterr().err
    assert r"\x1b]0;mine\x07\u202e" in said
    assert all(line.isprintable() for line in said.splitlines())


def test_events_that_cannot_be_read_cost_no_status_of_the_command(tmp_path, capfd):
    # What escapes is noted before it starts, so the last program replaces the file.
    spoil = f"unset LD_PRELOAD; e=$(find {tmp_path} -name processes); "
    spoil += "mkfifo $e.new; mv -f $e.new $e"
    assert trace(["sh", "-c", f"{spoil}; exit 4"], tmp_path / "logs") == 4
    said = capfd.readouterr().err
    assert "processes: is no regular file" in said
    (left,) = Path(tmp_path / "logs").iterdir()
    assert f"the counts stay in {left}" in said


def test_only_marks_that_the_tracer_makes_tell_of_losses(spools, call, capfd):
    host = spools / call.host
    for name in ("rank-00000.7.28", "a", "rank-0.x.1", f"rank-0.7.{'9' * 99}"):
        (host / f"{name}.incomplete").touch()
    with_fields(ticks=1)(spools.parent / "call.json")
    assert recover(spools.parents[1]) == 0
    said = capfd.readouterr().err
    assert said.count("could not record its calls") == 1
    assert "process 7 could not record its calls (No space left on device)" in said
