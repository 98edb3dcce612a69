"""Texts of PJM, verbatim where a source is named."""

import re

import pytest

from snakemake_executor_plugin_pjm.status import (
    JobStatus,
    StatusError,
    cause_of_failure,
    read_job_table,
    submitted_job_id,
)

HEADER = (
    "JOB_ID     JOB_NAME   MD ST  USER     GROUP    START_DATE      ELAPSE_TIM "
    "ELAPSE_LIM            NODE_REQUIRE    VNODE  CORE V_MEM        V_POL E_POL "
    "RANK      LST EC  PC  SN PRI ACCEPT         RSC_GRP  REASON          \n"
)

# Autosubmit (BSC-ES/autosubmit, an earlier test/unit/test_pjm.py): pjstat -v of an Arm
# system; some states seem to have been changed there by hand.
ARM_ACTIVE = (
    "167687     test       NM ACC bsc32070 bsc32    03/08 11:41:07  0000:00:01 "
    "0000:01:00            1               -      -    -            -     -     "
    "bychip    ACC 0   0   0  127 03/08 11:41:04 small    -               \n"
    "167688     test       NM RUN bsc32070 bsc32    (03/08 11:41)   0000:00:00 "
    "0000:01:00            1               -      -    -            -     -     "
    "bychip    RNO 0   0   0  127 03/08 11:41:05 small    -               \n"
)

# The same, pjstat -v -H.
ARM_ENDED = (
    "167648     STDIN      NM EXT bsc32070 bsc32    03/06 12:14:00  0000:00:02 "
    "0001:00:00            1               -      -    -            -     -     "
    "bychip    RNO 0   0   0  127 03/06 12:13:57 def_grp  -               \n"
    "167661     test       NM ERR bsc32070 bsc32    03/06 13:55:02  0000:00:02 "
    "0000:01:00            1               -      -    -            -     -     "
    "bychip    RNO 127 0   0  127 03/06 13:54:59 small    -               \n"
    "167662     test       NM CCL bsc32070 bsc32    03/06 14:25:30  0000:00:02 "
    "0000:01:00            1               -      -    -            -     -     "
    "bychip    RNO 127 0   0  127 03/06 14:25:27 small    -               \n"
    "167663     test       NM RJT bsc32070 bsc32    03/06 14:25:54  0000:00:04 "
    "0000:01:00            1               -      -    -            -     -     "
    "bychip    RNO 0   0   0  127 03/06 14:25:52 small    -               \n"
)

# Tests of a public REST API for Fugaku: pjstat -v, group rccs-aot.
FUGAKU_ACTIVE = (
    "6291500    job1.sh    NM RNA a03010   rccs-aot (04/12 11:25)   0000:00:00 "
    "0000:01:00            12              -      -    -            -     -     "
    "bychip    QUE 0   0   0  127 04/12 11:25:50 small    -               \n"
)

# qiskit-community/qcsc-prefect, tests of its Fugaku runtime: pjstat -v -H.
FUGAKU_ENDED = (
    "49047829   lucj-qpy-b NM EXT u13450   ra010014 06/01 15:03:44  0000:08:27 "
    "0000:15:00            1               -      -    -            -     -     "
    "bychip    RNO 0   0   0  127 06/01 15:03:14 small    -\n"
    "49047939   lucj-qpy-b NM EXT u13450   ra010014 06/01 15:22:46  0000:15:02 "
    "0000:15:00            1               -      -    -            -     -     "
    "bychip    RNO 0   11  24 127 06/01 15:22:16 small    ELAPSE LIMIT EXC\n"
)

# Fugaku user guide, "Displaying a job status": pjstat without -v, spaces as there.
BRIEF = (
    "JOB_ID  JOB_NAME  MD  ST   USER   START_DATE      ELAPSE_LIM  NODE_REQUIRE  "
    "VNODE  CORE  V_MEM\n"
    "238     job.sh    NM  RUN  user1  11/17 09:01:41  0001:00:00  12:2x3x2      "
    "-      -     -\n"
    "240     step.sh   ST  RUN  user1  11/17 09:01:42  -           -             "
    "-      -     -\n"
)


def test_running_and_waiting_jobs_are_active():
    table = read_job_table(HEADER + ARM_ACTIVE + FUGAKU_ACTIVE)
    assert {job_id: status.state for job_id, status in table.items()} == {
        "167687": "ACC",
        "167688": "RUN",
        "6291500": "RNA",
    }
    assert not any(status.has_ended for status in table.values())


def test_codes_of_ended_jobs_are_read():
    table = read_job_table(HEADER + ARM_ENDED + FUGAKU_ENDED)
    assert table["167648"] == JobStatus("EXT", 0, 0, 0)
    assert table["167661"] == JobStatus("ERR", 127, 0, 0)
    assert table["49047829"] == JobStatus("EXT", 0, 0, 0)
    assert table["49047939"] == JobStatus("EXT", 0, 11, 24)
    assert all(status.has_ended for status in table.values())


def test_brief_rows_have_a_state_only():
    assert read_job_table(BRIEF)["238"] == JobStatus("RUN")


def test_header_alone_is_an_empty_table_and_silence_is_none():
    assert read_job_table(HEADER) == {}
    assert read_job_table(" \n") is None


@pytest.mark.parametrize(
    "text", ["<html>down</html>", HEADER + "12345 no such row\n", "Segmentation fault"]
)
def test_text_that_is_no_table_is_an_error(text):
    with pytest.raises(StatusError, match="pjstat printed"):
        read_job_table(text)


@pytest.mark.parametrize(
    ("text", "job_id"),
    [
        # The Fugaku user guide, Autosubmit, and crest-cassia/xsub for the K computer.
        ("[INFO] PJM 0000 pjsub Job 9714 submitted.\n", "9714"),
        ("[ERR.] PJM 0057 pjsub node=32 is greater than the upper limit (24).", None),
        (
            "[ERR.] PJM 0007 pjsub Staging option error (3)\nRefer to the staging "
            "information file. (J5333b14881e31ebcd2000001.sh.s2366652)",
            None,
        ),
        ("[ERR.] PJM 0071 pjsub Group not authorized to submit a job: group(1)", None),
        ("", None),
    ],
)
def test_submission_is_judged_by_text(text, job_id):
    assert submitted_job_id(text) == job_id


@pytest.mark.parametrize(
    ("status", "exit_status", "words"),
    [
        (JobStatus("EXT", 0, 0, 0), 0, None),
        (JobStatus("EXT", 0, 0, 0), None, None),
        (None, 0, None),
        (JobStatus("EXT", 0, 0, 0), 3, "exit status 3"),
        (None, 3, "exit status 3"),
        (None, 152, "elapse limit"),
        (JobStatus("EXT", 1, 0, 0), 1, "exit code 1"),
        (JobStatus("EXT", 0, 0, 9), None, "signal 9"),
        (JobStatus("EXT", 0, 11, 24), 152, r"elapse limit \(PJM code 11\)"),
        (JobStatus("EXT", 0, 12, 9), None, "more memory"),
        (JobStatus("EXT", 0, 20, 9), None, "node went down"),
        (JobStatus("EXT", 0, 99, 0), None, r"not documented \(PJM code 99\)"),
        (JobStatus("CCL", 0, 1, 0), 143, "pjdel"),
        (JobStatus("ERR", 127, 0, 0), None, "PJM failed"),
        (JobStatus("RJT", 0, 0, 0), None, "rejected"),
        (JobStatus("EXT"), None, "no exit code"),
        (JobStatus("EXT"), 0, None),
    ],
)
def test_cause_is_in_words(status, exit_status, words):
    cause = cause_of_failure(status, exit_status)
    if words is None:
        assert cause is None
    else:
        assert re.search(words, cause)
