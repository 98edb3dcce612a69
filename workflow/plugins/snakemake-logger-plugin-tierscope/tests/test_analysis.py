"""How many logs of an analysis are read, and how long the rest takes."""

import logging
import re

from snakemake_interface_logger_plugins.common import LogEvent

from snakemake_logger_plugin_tierscope.analysis import AnalysisProgress
from snakemake_logger_plugin_tierscope.jobs import SnakemakeJob


def record(event, **values):
    """Return a record as Snakemake makes it."""
    made = logging.LogRecord("snakemake", logging.INFO, "", 0, "", None, None)
    made.event = getattr(LogEvent, event)
    made.__dict__.update(values)
    return made


def started(jobid, rule, log=None, **resources):
    """Return the record of a job that starts."""
    return record(
        "JOB_INFO",
        jobid=jobid,
        rule_name=rule,
        rule_msg=f"Doing {rule}.",
        log=[str(log)] if log else [],
        output=[] if rule == "analyse" else ["results/a"],
        reason="",
        wildcards={},
        resources=resources,
    )


def chunk(n_logs, **counts):
    """Return a job that reads a chunk, with its counts so far."""
    job = SnakemakeJob(started(1, "read_chunk", logs=n_logs))
    job.counts = counts
    return job


def test_logs_are_counted_over_chunks_that_have_ended_and_that_run():
    time_s = [0]
    progress = AnalysisProgress(lambda: time_s[0])
    assert progress.so_far() == ""
    progress.expect(100)
    assert progress.so_far() == "0 of 100 logs read"
    time_s[0] = 1
    half = chunk(40, reading=(20, 40))
    assert progress.so_far([half]) == "20 of 100 logs read, about 7 s left"
    half.counts["joining"] = (10, 30)  # so all of its logs are read
    text = progress.so_far([half]).rstrip()
    assert text.startswith("40 of 100 logs read, 13 joined to jobs, about ")
    progress.finished(chunk(60, reading=(5, 5), joining=(50, 50)))
    text = progress.so_far([half])
    assert text.startswith("100 of 100 logs read, 73 joined to jobs, about ")
    assert not progress.is_complete


def test_chunks_that_are_read_for_other_reasons_count_too():
    progress = AnalysisProgress()
    progress.expect(0)
    assert progress.so_far([chunk(30)]) == "0 of 30 logs read"


def test_an_analysis_is_shown_by_its_logs_and_is_done_with_its_target(
    logger, file, tmp_path
):
    handler = logger()
    for rule in ("list_logs", "read_chunk"):
        (tmp_path / rule).touch()
    handler.emit(record("RUN_INFO", stats={"list_logs": 1, "analyse": 1, "total": 2}))
    log = tmp_path / "list_logs"
    handler.emit(started(1, "list_logs", log, terminal="log"))
    words = "Logs in chunks that are new or changed: 3 of 9 (1 of 2 chunks).\n"
    log.write_text(words)
    handler.emit(record("JOB_FINISHED", job_id=1))
    log = tmp_path / "read_chunk"
    handler.emit(started(2, "read_chunk", log, terminal="progress", logs=3))
    log.write_text("reading: 3 of 3 logs\njoining: 1 of 2 jobs\njoining: 2 of 2 jobs\n")
    handler.emit(record("JOB_FINISHED", job_id=2))
    handler.emit(started(3, "analyse"))
    handler.emit(record("JOB_FINISHED", job_id=3))
    lines = [re.sub(r"^\d\d:\d\d:\d\d +", "", one) for one in file.text.splitlines()]
    assert lines == [
        "0 of 3 logs read  Doing list_logs (0 s)",
        words.strip(),
        "3 of 3 logs read, 3 joined to jobs  Doing read_chunk (0 s)",
        "3 of 3 logs read, 3 joined to jobs  Doing analyse (0 s)",
        "3 of 3 logs read, 3 joined to jobs  Done in 0 s.",
    ]
