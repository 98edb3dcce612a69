"""PJM's commands end in time, whatever they do."""

import pytest

from snakemake_executor_plugin_pjm.commands import CommandError, NoAnswerError, run


def test_output_and_exit_code_are_returned():
    assert run(["sh", "-c", "echo out; echo err >&2; exit 3"]) == (3, "out\n", "err\n")


def test_undecodable_output_is_no_error():
    assert run(["printf", r"\377"])[1] == "\ufffd"


def test_hanging_command_is_ended():
    with pytest.raises(NoAnswerError, match=r"sleep did not answer in 0.1 s"):
        run(["sleep", "60"], timeout_s=0.1)


def test_missing_command_is_named():
    with pytest.raises(CommandError, match="no-such-pjsub cannot be run"):
        run(["no-such-pjsub"])
