"""What a user sees of jobs, launches, failures and plans."""

import json
import logging
import os
import re
from pathlib import Path
from unittest.mock import Mock

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

LOG = """\
one launch of 4 processes measures 3 points; starting the loader posix
point 1 of 3: cache rate 0 %, repetition 0
  epoch 1 of 2: 0.1 s
tierscope: cannot copy 7: No space left on device; reads go on from the GFS
point 2 of 3: cache rate 50 %, repetition 0
"""
FAILED = "tierscope: rank 3 of 4 on vm failed in epoch 1 of 2: TierError: x is gone"


def record(event=None, level=logging.INFO, msg="", **values):
    """Return a record as Snakemake makes it."""
    made = logging.LogRecord("snakemake", level, "", 0, msg, None, None)
    if event:
        made.event = getattr(LogEvent, event)
    made.__dict__.update(values)
    return made


def job(jobid=1, rule="audit_run", message="Auditing a run.", **values):
    """Return the record of a job that starts."""
    common = {"log": [], "output": ["results/a"], "reason": "", "wildcards": {}}
    named = {"jobid": jobid, "rule_name": rule, "rule_msg": message}
    return record("JOB_INFO", **{"resources": {}, **common, **named, **values})


def lines(stream):
    """Return what was written, without times of day."""
    return [re.sub(r"^\d\d:\d\d:\d\d +", "", line) for line in stream.text.splitlines()]


def run_info(**counts):
    return record("RUN_INFO", stats={**counts, "total": sum(counts.values())})


def finished(jobid):
    return record("JOB_FINISHED", job_id=jobid)


@pytest.fixture
def launch(tmp_path):
    """Return the record of a launch, whose log is to be written."""
    resources = {
        "launch": "cache-000/rep-0 cache-050/rep-0 cache-100/rep-0",
        "mpi": "mpiexec",
        "points": 3,
    }
    return job(
        rule="run_benchmark",
        message="Measuring small.",
        log=[str(tmp_path / "run.log")],
        resources=resources,
    )


def error_of(started, message="None", logs=None):
    """Return the record of a job that has failed."""
    values = {name: getattr(started, name) for name in ("jobid", "rule_name")}
    log = started.log if logs is None else logs
    return record(
        "JOB_ERROR", logging.ERROR, rule_msg=message, log=log, aux={}, **values
    )


def test_a_job_is_one_line_with_what_is_done_of_all(logger, file):
    handler = logger()
    for one in (run_info(audit_run=2), job(), finished(1)):
        handler.emit(one)
    assert lines(file) == ["2 jobs to do.", "1 of 2 jobs  Auditing a run (0 s)"]


def test_messages_that_help_nobody_are_left_out(logger, file):
    handler = logger()
    noise = ("Building DAG of jobs...", "Using shell: /bin/bash", "Execute 1 jobs...")
    for text in (*noise, "Complete log(s): /x", "Write-protecting output file x."):
        handler.emit(record(msg=text))
    handler.emit(record(msg="Report: results/tiny/report.html"))
    assert lines(file) == ["Report: results/tiny/report.html"]


def test_launch_is_one_job_with_a_line_for_each_point(logger, file, launch):
    handler = logger()
    handler.emit(run_info(run_benchmark=1, audit_run=3))
    handler.emit(record(msg="Points to measure: 3, in launches: 1."))
    handler.emit(launch)
    Path(launch.log[0]).write_text(LOG)
    handler.emit(finished(1))
    assert lines(file) == [
        "3 points to measure, and 3 jobs more.",
        "Measuring small: 3 points in one launch of 4 processes, started",
        "point 1 of 3: cache rate 0 %, repetition 0",
        "point 2 of 3: cache rate 50 %, repetition 0",
        "3 of 3 points, 0 of 3 jobs  Measuring small: 3 points in one launch of 4 "
        "processes (0 s)",
        "tierscope: cannot copy 7: No space left on device; reads go on from the GFS",
    ]


def test_launch_that_waits_says_for_whom_on_a_terminal_too(terminal, logger, launch):
    handler = logger(terminal)
    handler.emit(run_info(run_benchmark=1))
    handler.emit(launch)
    line = "waiting for another launch in this folder: that of process 7, since 12:00"
    Path(launch.log[0]).write_text(f"{line}\n")
    for running in handler._running.values():
        handler._follow(running)
    handler.close()
    assert line in terminal.text


def test_what_an_earlier_start_left_in_a_log_is_not_shown(logger, file, launch):
    log = Path(launch.log[0])
    log.write_text(LOG.replace("small", "old"))
    os.utime(log, (1, 1))
    handler = logger()
    handler.emit(run_info(run_benchmark=1, audit_run=1))
    handler.emit(record(msg="Points to measure: 3, in launches: 1."))
    handler.emit(launch)
    handler.emit(finished(1))
    assert lines(file) == [
        "3 points to measure, and 1 job more.",
        "3 of 3 points, 0 of 1 job  Measuring small (0 s)",
    ]


def test_launches_are_counted_if_nobody_says_how_many_points_there_are(
    logger, file, launch
):
    handler = logger()
    handler.emit(run_info(run_benchmark=1, audit_run=1))
    assert lines(file) == []
    handler.emit(launch)
    assert lines(file) == ["1 point to measure, and 1 job more."]


def test_log_that_snakemake_removes_meanwhile_is_no_error(
    logger, file, launch, monkeypatch
):
    log = Path(launch.log[0])

    def state_before_it_is_gone(path):
        log.write_text(LOG)
        os.utime(log, (1e10, 1e10))
        state = stat(log)
        log.unlink()
        return state

    handler = logger()
    handler.emit(run_info(run_benchmark=1))
    handler.emit(launch)
    stat = os.stat
    monkeypatch.setattr(Path, "stat", state_before_it_is_gone)
    handler.emit(error_of(launch))
    handler.close()
    assert lines(file)[-1] == "The job left no message."
    assert "Traceback" not in file.text


def test_cause_of_a_failure_stands_last_and_names_the_rank(logger, file, launch):
    handler = logger()
    handler.emit(run_info(run_benchmark=1))
    handler.emit(launch)
    noise = "= BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n"
    Path(launch.log[0]).write_text(f"{LOG}{FAILED}\n{noise}")
    shell = "CalledProcessError in file x:\nCommand 'set -euo pipefail; rm' returned 1"
    handler.emit(record("ERROR", logging.ERROR, f"RuleException:\n{shell}"))
    handler.emit(error_of(launch))
    handler.emit(record(msg="What is finished is kept."))
    handler.close()
    *_, advice, gap, what, log, kept, cause = lines(file)
    assert (advice, gap) == ("What is finished is kept.", "")
    assert what.startswith("Failed: Measuring small")
    assert log == f"Log: {launch.log[0]}"
    assert kept == "Points measured before the failure, and kept: 1 of 3."
    assert cause == FAILED
    assert "pipefail" not in file.text
    assert "BAD TERM" not in file.text


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (
            'Traceback (most recent call last):\n  File "x", line 1\n    f()\n'
            "tierscope.audit.run.AuditError: audit failed: got 3\nexpected 2\n",
            ["AuditError: audit failed: got 3", "expected 2"],
        ),
        (
            "a warning\nTraceback (most recent call last):\n  File x\nOSError: no\n\n"
            "The above exception was the direct cause of the following exception:\n\n"
            "Traceback (most recent call last):\n  File x\nTableError: a: no\n\n"
            "During handling of the above exception, another exception occurred:\n\n"
            "Traceback (most recent call last):\n  File x\nKeyError: 1\n",
            ["Log: {log}", "a warning", "TableError: a: no", "KeyError: 1"],
        ),
        (
            "Traceback (most recent call last):\n  File x\nOSError: no\n"
            "tierscope: rank 3 failed: OSError: full\n"
            "The above exception was the direct cause of the following exception:\n\n"
            "Traceback (most recent call last):\n  File x\nTableError: a: no\n",
            ["Log: {log}", "tierscope: rank 3 failed: OSError: full"],
        ),
        (
            "module: command not found\ntierscope: a line of job.setup failed\n=BAD=\n",
            ["module: command not found", "tierscope: a line of job.setup failed"],
        ),
        (
            "point 1 of 3: x\n"
            + "".join(
                "Traceback (most recent call last):\n  File x\nOSError: b\nin epoch\n"
                f"tierscope: rank {rank} of 4 on vm failed: OSError: b\n"
                for rank in (2, 0)
            ),
            ["Log: {log}", "tierscope: rank 2 of 4 on vm failed: OSError: b"],
        ),
        (
            "Traceback (most recent call last):\n  File x\nRuntimeError: out of luck\n"
            "tierscope: rank 0 on node 0: the program ended with exit status 1: x\n",
            [
                "RuntimeError: out of luck",
                "tierscope: rank 0 on node 0: the program ended with exit status 1: x",
            ],
        ),
        ("Killed\n", ["Killed"]),
        ("", ["The job left no message."]),
    ],
)
def test_cause_is_what_the_log_says(logger, file, tmp_path, log, cause):
    handler = logger()
    path = tmp_path / "x.log"
    started = job(log=[str(path)])
    handler.emit(started)
    path.write_text(log)
    handler.emit(error_of(started))
    handler.close()
    assert lines(file)[-len(cause) :] == [line.format(log=path) for line in cause]


def said_of(handler, stream, started, error=""):
    """Let a job fail whose command ended so; return what is said last."""
    handler.emit(started)
    if error:
        handler.emit(record("ERROR", logging.ERROR, f"RuleException:\n{error}"))
    handler.emit(error_of(started))
    handler.close()
    return lines(stream)


def test_words_that_a_log_cannot_take_are_the_cause_without_their_traceback(
    logger, file, tmp_path
):
    handler, log = logger(), tmp_path / "x.log"
    reason = "OSError: [Errno 28] No space left on device: 'results/x'"
    place, _, name = os.environ["TIERSCOPE_SPARE_LOG"].partition(" ")
    assert os.readlink(place) == name
    with open(place, "a") as spare:
        for text in ("Traceback (most recent call last):\n", "  File x\n", reason):
            spare.write(f"{json.dumps([str(log), text])}\n")
        spare.write(f'{json.dumps([str(tmp_path / "other.log"), "no"])}\n["half')
    last = said_of(handler, file, job(log=[str(log)]))
    assert last[-2:] == [
        reason,
        "Free room there, then start again: finished files are kept.",
    ]
    assert "TIERSCOPE_SPARE_LOG" not in os.environ


def test_words_that_no_failure_shows_are_said_in_the_end(logger, file, tmp_path):
    handler, log = logger(), tmp_path / "x.log"
    place = os.environ["TIERSCOPE_SPARE_LOG"].partition(" ")[0]
    Path(place).write_text(json.dumps([str(log), "a copy failed\n"]) + "\n")
    started = job(log=[str(log)])
    handler.emit(started)
    handler.close()
    assert lines(file)[-1] == f"{os.path.relpath(log)} could not take: a copy failed"


def test_without_room_in_memory_there_is_no_spare_log(
    logger, file, tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.mkstemp", Mock(side_effect=OSError(28, "full")))
    handler = logger()
    assert "TIERSCOPE_SPARE_LOG" not in os.environ
    last = said_of(handler, file, job(log=[str(tmp_path / "x.log")]))[-1]
    assert last == "The job left no message."


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("died with <Signals.SIGKILL: 9>.", "signal 9 (SIGKILL), by a user, a sched"),
        ("returned non-zero exit status 137.", "signal 9 (SIGKILL), by a user, a s"),
        (
            "died with <Signals.SIGSEGV: 11>.",
            "The job was ended by signal 11 (SIGSEGV).",
        ),
        ("returned non-zero exit status 3.", "no message in its log: exit status 3."),
    ],
)
def test_signal_or_exit_status_of_a_silent_job_is_said(logger, file, error, words):
    command = f"CalledProcessError in file x:\nCommand 'set -e' {error}"
    assert words in said_of(logger(), file, job(), command)[-1]


def test_signal_is_said_after_the_words_of_the_job(logger, file, tmp_path):
    handler, log = logger(), tmp_path / "x.log"
    started = job(log=[str(log)])
    handler.emit(started)
    log.write_text("a warning\n")
    command = (
        "CalledProcessError in file x:\nCommand 'x' died with <Signals.SIGBUS: 7>."
    )
    *_, warning, last = said_of(handler, file, started, command)
    assert warning == "a warning"
    assert last == "The job was ended by signal 7 (SIGBUS)."


def test_log_that_cannot_be_written_is_the_cause(logger, file, tmp_path, monkeypatch):
    full = OSError(122, "Disk quota exceeded")
    monkeypatch.setattr("tempfile.TemporaryFile", Mock(side_effect=full))
    log = tmp_path / "x.log"
    *_, words, advice = said_of(logger(), file, job(log=[str(log)]))
    assert words == f"{log}: cannot be written: Disk quota exceeded."
    assert advice.startswith("Free room there, then start again")


def test_error_that_several_jobs_meet_is_said_once_and_what_to_do_last(logger, file):
    handler = logger()
    text = (
        "WorkflowError:\nError recording metadata for finished job ([Errno 28] No "
        "space left on device). Please ensure write permissions for the directory /x"
    )
    for _ in range(2):
        handler.emit(record("ERROR", logging.ERROR, text))
    handler.close()
    assert lines(file) == [
        "/x: No space left on device; Snakemake cannot note what is finished.",
        "Free room there, then start again: finished files are kept.",
    ]


def test_snakemakes_log_on_a_full_disk_gives_no_tracebacks(logger, file):
    logger()
    full = Mock(write=Mock(side_effect=OSError(28, "No space left on device")))
    logging.StreamHandler(full).handle(record(msg="lost"))
    assert full.write.called
    assert file.text == ""


def test_error_in_our_own_code_is_shown(logger, file):
    handler = logger()
    handler.emit(record("JOB_FINISHED"))  # which names no job
    assert file.text.splitlines()[-1].startswith("AttributeError: ")


def test_job_that_cannot_be_marked_is_told_in_a_line(logger, file):
    text = (
        "Failed to set marker file for job started ([Errno 28] No space left on "
        "device). Snakemake will work, but cannot ensure that output files are complete"
    )
    logger().emit(record(level=logging.WARNING, msg=text))
    assert lines(file) == [
        ".snakemake: No space left on device; what a killed job leaves will count as "
        "finished."
    ]


def test_schedulers_word_counts_where_a_job_left_no_log(logger, file, tmp_path):
    handler = logger()
    started = job(log=[str(tmp_path / "none.log")])
    handler.emit(started)
    words = "SLURM-job '7' failed, SLURM status is: 'TIMEOUT'."
    handler.emit(error_of(started, message=words))
    handler.close()
    assert lines(file)[-1] == words


def test_job_that_is_tried_again_has_not_failed(logger, file):
    handler = logger()
    for one in (job(), error_of(job()), job(), run_info(audit_run=1), finished(1)):
        handler.emit(one)
    handler.close()
    assert "Failed: " not in file.text


def test_interrupted_by_the_user_is_no_failure(logger, file, launch):
    handler = logger()
    handler.emit(launch)
    Path(launch.log[0]).write_text(f"{LOG}{FAILED}\n")
    handler.emit(record(msg="Terminating processes on user request, this might take"))
    handler.emit(error_of(launch))
    handler.emit(record(msg="What is finished is kept. Remove the cause, then"))
    handler.close()
    assert "Remove the cause" not in file.text
    assert lines(file)[-1].startswith("Stopped. Finished files are kept")
    assert "Failed" not in file.text


def test_failure_before_ctrl_c_is_still_explained(logger, file, launch):
    handler = logger()
    handler.emit(launch)
    Path(launch.log[0]).write_text(f"{LOG}{FAILED}\n")
    handler.emit(error_of(launch))
    handler.emit(record(msg="Terminating processes on user request, this might take"))
    handler.close()
    assert lines(file)[-1] == FAILED


def test_file_gets_no_codes_and_terminal_one_line_that_is_rewritten(
    logger, file, terminal, launch
):
    for stream in (file, terminal):
        Path(launch.log[0]).unlink(missing_ok=True)
        handler = logger(stream)
        handler.emit(run_info(run_benchmark=1, audit_run=3))
        handler.emit(record(msg="Points to measure: 3, in launches: 1."))
        handler.emit(launch)
        Path(launch.log[0]).write_text(LOG)
        for running in handler._running.values():
            handler._follow(running)
        handler._show_status()
        handler.close()
    assert not re.search("[\r\x1b]", file.text)
    assert "point 2 of 3" in file.text
    status = terminal.text.split("\r\x1b[K")[1]
    assert status.startswith("1 of 3 points, 0 of 3 jobs  Measuring small: point 2")
    assert len(status) < 60
    assert terminal.text.endswith("\r\x1b[K")


def test_verbose_shows_snakemakes_own_text(logger, file):
    handler = logger(verbose=True)
    handler.setFormatter(logging.Formatter("own: %(message)s"))
    handler.emit(record(msg="Building DAG of jobs..."))
    assert lines(file) == ["own: Building DAG of jobs..."]


def test_log_for_the_reader_is_printed_when_its_job_has_ended(logger, file, tmp_path):
    handler = logger()
    path = tmp_path / "summary.log"
    path.write_text("mva: 3 % off\n")
    started = job(message=None, log=[str(path)], resources={"terminal": "log"})
    for one in (run_info(predict=2), started, finished(1)):
        handler.emit(one)
    assert lines(file) == ["2 jobs to do.", "mva: 3 % off"]


def test_steps_of_a_fit_are_shown_as_they_come_and_its_report_at_its_end(
    logger, file, terminal, tmp_path
):
    path = tmp_path / "fit.log"
    started = job(message="Fitting.", log=[str(path)], resources={"terminal": "log"})
    for stream in (file, terminal):
        path.unlink(missing_ok=True)
        handler = logger(stream)
        for one in (run_info(calibrate=2), started):
            handler.emit(one)
        path.write_text("fit: 8 parameters, step 1: 9.10 % off\n")
        handler._follow(handler._running[1])
        handler._show_status()
        with path.open("a") as log:
            log.write("fit: the limits of a\na = 3 s\n")
        handler.emit(finished(1))
    assert lines(file) == [
        "2 jobs to do.",
        "Fitting: 8 parameters, step 1: 9.10 % off",
        "Fitting: the limits of a",
        "1 of 2 jobs  Fitting (0 s)",
        "a = 3 s",
    ]
    assert "Fitting: 8 parameters, step 1: 9.10 % off" in terminal.text
    assert terminal.text.count("a = 3 s") == 1


def test_plan_is_a_line_a_rule_with_what_is_made(logger, file, launch):
    handler = logger(dryrun=True, stdout=True)
    one = job(1, "run_benchmark", resources=launch.resources)
    one.output = ["results/x/launches/small-1ost/cache-000_rep-0/1.txt"]
    one.wildcards = {"scenario": "small-1ost"}
    one.reason = "Missing output files: a, b; Input files updated by another job: c"
    handler.emit(one)
    changed = "Params have changed since last execution: Before: 1, Now: 2"
    handler.emit(job(4, reason=changed, input=["a"] * 100))
    handler.emit(job(5, rule="all", output=[]))
    handler.emit(record(msg="This was a dry-run (flag -n). The order of jobs"))
    assert lines(file) == [
        "run_benchmark     1  results/x/launches/small-1ost/cache-000_rep-0/1.txt",
        " " * 21 + "small-1ost: 3 points in one launch",
        "audit_run         1  results/a  [Params have changed since last execution]",
        "2 jobs would run; nothing was run (-n).",
    ]


def test_plan_says_what_submitted_launches_ask_for(logger, file):
    handler = logger(dryrun=True)
    for number, minutes in enumerate((30, 45)):
        resources = {"launch": f"{number}/0", "nodes": 384, "runtime": minutes}
        words = f"Measuring: 384 nodes, {minutes} minutes at most."
        scenario = {"scenario": "small"}
        handler.emit(job(number, "r", words, resources=resources, wildcards=scenario))
    handler.emit(record(msg="This was a dry-run"))
    words = "small: 2 points in 2 launches of 384 nodes, 30 to 45 minutes at most"
    assert words in lines(file)[1]
