"""How a command is started for tracing; integration/test_trace_command.py runs it."""

import os
import sys

import pytest
from tierscope.core.validation import ConfigError
from tierscope.logs.traced import command
from tierscope.logs.traced.call import job_and_group
from tierscope.logs.traced.command import traced_environment


@pytest.mark.parametrize(
    ("environ", "job_id", "group"),
    [
        ({}, 5, "HOST-5-TIME"),
        ({"SLURM_JOB_ID": "99"}, 99, "HOST-5-TIME"),
        ({"PBS_JOBID": "12.server"}, 12, "HOST-5-TIME"),
        ({"PBS_JOBID": "none", "PJM_JOBID": "8"}, 8, "HOST-5-TIME"),
        ({"PMI_RANK": "1"}, 4, "HOST-4"),
        ({"SLURM_JOB_ID": "99", "SLURM_STEP_ID": "2"}, 99, "99.2"),
    ],
)
def test_logs_of_a_call_or_of_a_launcher_s_calls_are_one_group(environ, job_id, group):
    got_id, got_group = job_and_group(environ, pid=5, parent=4)
    assert got_id == job_id
    pattern = group.replace("HOST", os.uname().nodename)
    if pattern.endswith("-TIME"):
        assert got_group.rpartition("-")[0] == pattern.removesuffix("-TIME")
        assert got_group.rpartition("-")[2].isdecimal()
    else:
        assert got_group == pattern


def test_folders_and_files_are_traced_but_not_what_only_begins_like_them(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    environment = traced_environment("x.so", "spools", ["data", "/a/b/", "file", "/"])
    assert environment["TIERSCOPE_TRACE_PREFIXES"].split("\n") == [
        f"{tmp_path}/data/",
        "/a/b/",
        f"{tmp_path}/file/",
        "/",
    ]
    assert environment["TIERSCOPE_TRACE_EXCLUDED"] == ""


def test_libraries_that_are_preloaded_already_stay(monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", "other.so")
    assert traced_environment("x.so", "spools", [])["LD_PRELOAD"] == "x.so:other.so"


@pytest.mark.parametrize("path", ["", "a\nb"])
def test_path_that_cannot_be_a_prefix_is_refused(path):
    with pytest.raises(ConfigError, match="expected a path without new lines"):
        traced_environment("x.so", "spools", [path])


@pytest.mark.parametrize("lacks", ["numpy", "tierscope.trace.log_writer"])
def test_command_does_not_start_if_its_logs_could_not_be_written(
    tmp_path, monkeypatch, trace_library, lacks
):
    monkeypatch.setattr(command, "tracer_library", lambda: trace_library)
    for name in (lacks, "tierscope.logs.traced.processes"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, lacks, None)
    with pytest.raises(ConfigError, match=r"^/.*: cannot write Darshan logs: "):
        command.trace(["touch", str(tmp_path / "started")], tmp_path / "logs")
    assert list(tmp_path.iterdir()) == []
