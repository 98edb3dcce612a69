"""Words and answers on streams that are closed, full or without a reader."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sessions import HANG_S
from snakemake_logger_plugin_tierscope.jobs import PROGRESS
from tierscope.core.output.streams import Parser, say, say_error, say_step

SCRIPTS = Path(__file__).parents[4] / "workflow" / "scripts"
PROGRAM = """
import os, sys
from tierscope.core.output.streams import answer, end, hold_closed_streams, say
{body}
"""


def run(body, shell='exec "$@"', **streams):
    """Run lines of Python by a shell that closes or fills streams."""
    command = ["sh", "-c", shell, "sh", sys.executable, "-c", PROGRAM.format(body=body)]
    environment = os.environ | {"PYTHONPATH": str(SCRIPTS)}
    wanted = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    return subprocess.run(command, env=environment, text=True, timeout=HANG_S, **wanted)


SAYS = "say('a word'); print('data'); sys.exit(4)"


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
def test_words_that_cannot_be_written_change_nothing(stderr):
    done = run(SAYS, f'exec "$@" {stderr}')
    assert (done.returncode, done.stdout, done.stderr) == (4, "data\n", "")


def test_words_without_a_reader_change_nothing():
    reader, writer = os.pipe()
    os.close(reader)
    done = run(SAYS, stderr=writer)
    os.close(writer)
    assert (done.returncode, done.stdout) == (4, "data\n")


def test_words_with_any_letters_are_lines_that_are_seen(capsys):
    say("a\x1b[2Jb\udcff\nsecond")
    assert capsys.readouterr().err == "a\\x1b[2Jb\\udcff\nsecond\n"


def test_words_do_not_go_to_standard_output_in_place_of_a_closed_stream(
    capsys, monkeypatch
):
    monkeypatch.setattr("sys.stderr", None)
    say("a word")
    assert capsys.readouterr().out == ""


def test_steps_of_a_fit_are_lines_that_the_terminal_knows(capsys):
    say_step("8 parameters, step 2: 3.10 % off")
    line = capsys.readouterr().out
    assert line == "fit: 8 parameters, step 2: 3.10 % off\n"
    assert PROGRESS.match(line)


def test_unexpected_error_is_said_with_its_place(capsys):
    try:
        raise KeyError("x")
    except KeyError as error:
        say_error(error)
    first, *_, last = capsys.readouterr().err.splitlines()
    assert (first, last) == ("Traceback (most recent call last):", "KeyError: 'x'")


@pytest.mark.parametrize("n_letters", [1, 100_000])  # less than a buffer, and more
@pytest.mark.parametrize(
    ("stdout", "reason"),
    [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")],
)
def test_answer_that_cannot_be_written_is_one_line(n_letters, stdout, reason):
    done = run(f"answer('x' * {n_letters})", f'exec "$@" {stdout}')
    expected = f"tierscope: cannot write to standard output: {reason}.\n"
    assert (done.returncode, done.stderr) == (1, expected)


def test_answer_whose_reader_is_gone_is_no_word():
    reader, writer = os.pipe()
    os.close(reader)
    done = run("answer('x')", stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_letters_that_the_encoding_lacks_are_escapes_in_an_answer():
    done = run("answer('\\u30c7')", 'PYTHONIOENCODING=latin1 exec "$@"')
    assert (done.returncode, done.stdout) == (0, "\\u30c7\n")


HOLDS = """
hold_closed_streams(for_children={for_children})
file = os.open("/dev/zero", os.O_RDONLY)
os.system("readlink /proc/self/fd/2 >&" + str(sys.stdout.fileno()))
print(file > 2)
"""


@pytest.mark.parametrize(
    ("for_children", "found"), [(False, ["True"]), (True, ["/dev/null", "True"])]
)
def test_no_file_of_ours_gets_the_number_of_a_closed_stream(for_children, found):
    """What it starts finds the stream closed, unless it is for children, too."""
    done = run(HOLDS.format(for_children=for_children), 'exec "$@" 2>&-')
    assert done.stdout.splitlines() == found


def test_help_is_an_answer_and_a_wrong_argument_a_word(capsys):
    parser = Parser(prog="it", description="It does.")
    with pytest.raises(SystemExit, match="0"):
        parser.parse_args(["--help"])
    assert "It does." in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        parser.parse_args(["--bad"])
    text = capsys.readouterr()
    assert (text.out, text.err.splitlines()[-1]) == (
        "",
        "it: error: unrecognized arguments: --bad",
    )


def test_wrong_argument_without_standard_error_says_nothing(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    with pytest.raises(SystemExit, match="2"):
        Parser(prog="it").parse_args(["--bad"])
    assert capsys.readouterr().out == ""
