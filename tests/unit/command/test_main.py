"""The command of the installed package."""

from pathlib import Path

import pytest
from tierscope.command import main as command
from tierscope.command import options
from tierscope.command.main import main
from tierscope.core.output.version import VERSION
from tierscope.logs.traced.call import this_call
from tierscope.logs.traced.command import make_spools


def test_without_words_it_says_what_it_can_do(capsys):
    assert main([]) == 0
    text = capsys.readouterr().out
    assert "tables" in text
    assert "workflow/Snakefile as a module" in text


def test_tables_are_listed_with_their_number_of_columns(capsys):
    main(["tables"])
    assert "manifest                 4\n" in capsys.readouterr().out


def test_columns_of_a_table_have_type_and_values(capsys):
    main(["table", "goals"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["source", "str", "emulated,", *SOURCES]
    assert any(line.split()[:2] == ["n_osts", "int64"] for line in lines)


def test_columns_of_a_table_have_their_unit_and_below_their_meaning(capsys):
    main(["table", "jobs"])
    lines = capsys.readouterr().out.splitlines()
    started = "started_s    float64  s       at least 0"
    assert started in lines
    (below,) = (i + 1 for i, line in enumerate(lines) if line.startswith("n_logs"))
    assert lines[below] == "    Number of logs of the job."


def test_unknown_table_is_refused_with_the_known_ones(capsys):
    with pytest.raises(SystemExit):
        main(["table", "goal"])
    assert "invalid choice: 'goal' (choose from" in capsys.readouterr().err


def test_version_is_not_that_of_another_installed_package(
    tmp_path, monkeypatch, capsys
):
    (other := tmp_path / "tierscope-9.dist-info").mkdir()
    (other / "METADATA").write_text("Name: tierscope\nVersion: 9\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"tierscope {VERSION}\n"


@pytest.mark.parametrize("wrong", [["--log-folder", "x"], ["--paths"], ["ls"]])
def test_tracing_refuses_what_it_does_not_know_as_a_failure_of_its_own(capsys, wrong):
    """The traced command may end with 2, too."""
    assert main(["trace", *wrong, "--", "true"]) == 125
    *usage, reason = capsys.readouterr().err.splitlines()
    assert usage[0].startswith("usage: tierscope trace [--logs DIR]")
    assert reason.startswith("tierscope trace: error: ")
    assert wrong[0] in reason


def test_other_commands_refuse_with_2(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["tables", "--all"])
    assert "usage: tierscope [-h]" in capsys.readouterr().err


SOURCES = ["measured,", "simulated,", "trained"]


def test_sweep_is_asked_with_all_that_stands_before_the_program(monkeypatch):
    asked = []
    monkeypatch.setattr(command, "sweep", lambda *words: asked.append(words) or 7)
    words = "--dataset /d --lfs /l --rates 0 50 --repetitions 3 --in-place -n"
    assert main(["sweep", *words.split(), "--", "train", "--lfs", "{dataset}"]) == 7
    ((request, profile, further),) = asked
    assert request.command == ["train", "--lfs", "{dataset}"]
    assert request.dataset == Path("/d")
    assert request.lfs == Path("/l")
    assert request.cache_rates_percent == [0, 50]
    assert request.repetitions == 3
    assert request.in_place
    assert (profile, further) == ("local", ["-n"])


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("sweep --dataset a --dataset b", "--dataset: got a, then b, expected one."),
        (
            "sweep --rates 0 50 --rates 75",
            "--rates: got 0 50, then 75, expected one list: --rates 0 50 75.",
        ),
        ("trace -l a --logs b", "--logs: got a, then b, expected one."),
        ("trace -p a -p b", "--paths: got a, then b, expected one list: --paths a b."),
    ],
)
def test_value_that_is_given_twice_is_refused_in_a_line(words, reason, capsys):
    name, *options = words.split()
    try:
        status = main([name, *options, "--", "true", "{dataset}"])
    except SystemExit as end:
        status = end.code
    assert status == {"sweep": 2, "trace": 125}[name]
    assert capsys.readouterr().err == f"tierscope {name}: {reason}\n"


def test_each_option_with_a_value_is_given_once():
    """Also one that is added later."""
    (commands,) = (one for one in command._parser()._actions if one.choices)
    kinds = {
        type(option)
        for parser in commands.choices.values()
        for option in parser._actions
        if option.option_strings and option.nargs != 0
    }
    assert kinds == {options._Once}


@pytest.mark.parametrize(
    "words",
    [
        ["sweep", "--dataset", "", "--lfs", "/l"],
        ["sweep", "--dataset", "/d", "--lfs", ""],
        ["sweep", "--dataset", "/d", "--lfs", "/l", "--name="],
        ["sweep", "--dataset", "/d", "--system", ""],
        ["sweep", "--dataset", "/d", "--lfs", "/l", "--policies", ""],
        ["trace", "--logs", ""],
        ["trace", "--paths", "/d", ""],
    ],
)
def test_empty_text_of_an_unset_variable_is_no_value(words, capsys):
    try:
        status = main([*words, "--", "true"])
    except SystemExit as end:
        status = end.code
    assert status in (2, 125)
    assert "got an empty text, expected a value" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["--rates 0 50", "--in-place", "--minutes"])
def test_command_without_its_sign_is_told_where_it_stands(words, capsys):
    with pytest.raises(SystemExit):
        main(["sweep", "--dataset", "/d", *words.split(), "python", "train.py"])
    assert "(a command stands behind --)" in capsys.readouterr().err


@pytest.mark.parametrize("other", [["--logs", "x"], ["--paths", "x"], ["--", "true"]])
def test_recovery_takes_nothing_else(other, capsys):
    assert main(["trace", "--recover", "x", *other]) == 125
    assert "got --recover and " in capsys.readouterr().err


def test_wrong_sweep_is_refused_in_a_line(capsys, tmp_path):
    words = ["sweep", "--dataset", str(tmp_path), "--lfs", str(tmp_path / "none")]
    assert main([*words, "--", "train", "{dataset}"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tierscope sweep: --lfs: got ")
    assert line.endswith("expected a directory")


@pytest.mark.parametrize("words", [["sweep"], ["sweep", "--dataset", "/d", "--rate"]])
def test_sweep_without_what_it_needs_says_how_to_ask(words, capsys):
    with pytest.raises(SystemExit):
        main(words)
    assert "usage: tierscope sweep --dataset DIR" in capsys.readouterr().err


def test_reason_of_a_refusal_is_printed_so_that_all_of_it_is_seen(tmp_path, capsys):
    logs = tmp_path / "\x1b]0;mine\x07\u202e"
    make_spools(logs, this_call())
    assert main(["trace", "--recover", str(logs)]) == 125
    said = capsys.readouterr().err.rstrip("\n")
    assert said.isprintable()
    assert "which still runs" in said
