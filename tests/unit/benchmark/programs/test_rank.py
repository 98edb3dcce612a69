import json
import os
import signal
import subprocess
import sys
import time

import pytest
from sessions import HANG_S
from tierscope.benchmark.processes import BenchmarkError
from tierscope.benchmark.programs import rank
from tierscope.benchmark.programs.meeting import Meeting, OtherFailed
from tierscope.benchmark.programs.rank import (
    command_of,
    environment_of,
    fail,
    note_end,
    run_command,
    status_words,
    wait_a_little,
    while_none_fails,
)
from tierscope.core.processes.times import start_time

SLEEP = ["sleep", "1000"]


@pytest.fixture
def meeting(tmp_path):
    """Return the meeting of a run's only rank."""
    return Meeting(tmp_path / "local", tmp_path, "0", 0, 1, 1)


def wait_until_gone(pid):
    """Wait until a process has ended."""
    end_s = time.monotonic() + HANG_S
    while start_time(pid) is not None:
        assert time.monotonic() < end_s
        time.sleep(0.01)


def run(command, most_s=1000.0, step=wait_a_little):
    """Run a command in the environment of this test."""
    return run_command(command, os.environ, most_s, step)


def test_every_place_of_the_dataset_is_filled():
    words = ["train", "--data={dataset}/a", "{dataset}:{dataset}", "{other}"]
    expected = ["train", "--data=/d/a", "/d:/d", "{other}"]
    assert command_of(words, "/d") == expected


def test_redirection_stands_before_the_tracer_and_the_users_modules_are_kept(
    monkeypatch,
):
    monkeypatch.setenv("LD_PRELOAD", "/own.so")
    monkeypatch.setenv("PYTHONPATH", f"{rank._SCRIPTS}{os.pathsep}/my modules")
    found = environment_of(
        {
            "tracer": "/trace.so",
            "spools": "/spools",
            "traced": ["/links", "/data"],
            "library": "/redirect.so",
            "table": "/table",
            "notes": "/notes",
        }
    )
    assert found["LD_PRELOAD"] == "/redirect.so:/trace.so:/own.so"
    assert found["TIERSCOPE_REDIRECT"] == "/table"
    assert found["TIERSCOPE_HOOK_NOTES"] == "/notes"
    assert found["TIERSCOPE_TRACE_PREFIXES"] == "/links/\n/data/"
    assert found["PYTHONPATH"] == f"{rank.HOOK}{os.pathsep}/my modules"


@pytest.mark.parametrize("users", ["", "0", "1"])
def test_program_has_the_utf8_mode_that_its_user_wants(monkeypatch, users):
    """Ours is on in all jobs."""
    monkeypatch.setenv("PYTHONUTF8", "1")
    monkeypatch.setenv("TIERSCOPE_PYTHONUTF8", users)
    names = ("tracer", "spools", "library", "table", "notes")
    found = environment_of({name: "/x" for name in names} | {"traced": ["/x"]})
    assert found.get("PYTHONUTF8", "") == users


@pytest.mark.parametrize(
    ("code", "status"), [("", 0), ("raise SystemExit(3)", 3), ("os.kill(0, 15)", -15)]
)
def test_status_of_the_command_is_returned(code, status):
    words = "import os; os.setsid(); " if "kill" in code else ""
    assert run([sys.executable, "-S", "-c", words + code]) == status


def test_command_that_is_no_program_is_refused(tmp_path):
    with pytest.raises(BenchmarkError, match=r"'/no/such', expected a program: No "):
        run(["/no/such"])
    (tmp_path / "text").write_text("no program")
    with pytest.raises(BenchmarkError, match="expected a program: Permission denied"):
        run([str(tmp_path / "text")])


def test_command_that_takes_too_long_is_ended():
    with pytest.raises(BenchmarkError, match=r"longer than 0.001 min \(loader."):
        run(SLEEP, 0.06)


def test_exception_ends_the_command():
    children = []

    def step():
        path = f"/proc/self/task/{os.getpid()}/children"
        with open(path) as file:
            children.extend(map(int, file.read().split()))
        raise OtherFailed

    with pytest.raises(OtherFailed):
        run(SLEEP, step=step)
    assert not os.path.exists(f"/proc/{children[-1]}")


def test_what_the_command_has_started_is_ended_with_it(tmp_path):
    started = tmp_path / "started"
    words = ["sh", "-c", f"sleep 1000 & echo $! > '{started}'; wait"]

    def step():
        if started.exists() and started.read_text():
            raise OtherFailed

    with pytest.raises(OtherFailed):
        run(words, step=step)
    wait_until_gone(int(started.read_text()))


def test_command_is_killed_with_its_rank(tmp_path):
    started = tmp_path / "started"
    code = f"""if True:
        import os, sys
        sys.path[:0] = {sys.path!r}
        from tierscope.benchmark.programs.rank import run_command
        words = ["sh", "-c", "echo $$ > '{started}'; exec sleep 1000"]
        def step():
            if os.path.exists({str(started)!r}) and open({str(started)!r}).read():
                os.kill(os.getpid(), 9)
        run_command(words, os.environ, 1000.0, step)
    """
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    wait_until_gone(int(started.read_text()))


def test_command_that_ignores_the_request_is_killed(monkeypatch):
    monkeypatch.setattr(rank, "_GRACE_S", 0.05)
    began_s = time.monotonic()
    words = ["sh", "-c", "trap '' TERM; while :; do sleep 0.01; done"]
    with pytest.raises(BenchmarkError):
        run(words, 0.05)
    assert time.monotonic() - began_s < 500


def test_failure_of_another_rank_is_seen_after_a_step(meeting):
    steps = []
    step = while_none_fails(lambda: steps.append(1), meeting)
    step()
    meeting.fail()
    step()  # not yet looked again
    assert len(steps) == 2
    with pytest.raises(OtherFailed):
        while_none_fails(wait_a_little, meeting)()


def test_end_is_noted(meeting):
    note_end(meeting, 7, -9)
    noted = json.loads((meeting.shared / "rank-0.json").read_text())
    assert (noted["rank"], noted["began_ns"], noted["status"]) == (0, 7, -9)
    assert noted["ended_ns"] > 7


def test_status_is_said_in_words():
    assert status_words(3) == "exit status 3"
    assert status_words(-signal.SIGKILL) == "signal SIGKILL"
    assert status_words(-40) == "signal 40"


def test_only_the_first_rank_that_fails_says_why(meeting, capsys):
    for line in ("because", "because of that"):
        with pytest.raises(SystemExit):
            fail(meeting, line)
    assert capsys.readouterr().err == "tierscope: because\n"
