"""Errors in one line that says what to type."""

import pytest

from snakemake_logger_plugin_tierscope.errors import configuration_files, error_line
from snakemake_logger_plugin_tierscope.profile import unknown_profile
from snakemake_logger_plugin_tierscope.words import duration

TRACEBACK = 'Traceback (most recent call last):\n\n  File "/x/y.py", line 3, in f\n'


def os_error(kind, number, reason, path):
    return f"{TRACEBACK}{kind}: [Errno {number}] {reason}: '{path}'\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            'WorkflowError in file "/x/common.smk", line 22:\nconfig: got 1\n'
            '  File "/x/common.smk", line 22, in <module>',
            "config: got 1",
        ),
        (
            os_error("FileNotFoundError", 2, "No such file or directory", "fig2"),
            "fig2: no such configuration file; a target goes before --configfile: "
            "snakemake fig2 --configfile mine.yaml.",
        ),
        (
            os_error("FileNotFoundError", 2, "No such file", "/work/mine.yaml"),
            "mine.yaml: no such configuration file.",
        ),
        (
            os_error("PermissionError", 13, "Permission denied", "/x/.snakemake"),
            "/x/.snakemake: permission denied; work in a folder where you may read and "
            "write.",
        ),
        (
            "MissingRuleException:\nNo rule to produce results/x (if you use input "
            "functions make sure that they don't raise unexpected exceptions).",
            "results/x: no rule makes this file; snakemake --list-target-rules lists "
            "the targets.",
        ),
        (
            "NameError in file x, line 3:\nname 'a'",
            "NameError in file x, line 3:\nname 'a'",
        ),
        (
            "WorkflowError:\nError recording metadata for finished job ([Errno 30] "
            "Read-only file system: 'results/x.svg'). Please ensure write permissions "
            "for the directory /x/.snakemake",
            "results/x.svg: Read-only file system; Snakemake cannot note what is "
            "finished.",
        ),
        (
            'RuleException:\nOSError in file "/x/logs.smk", line 66:\n[Errno 28] No '
            'space left on device\n  File "/x/tempfile.py", line 483, in func_wrapper',
            ".snakemake: No space left on device.",
        ),
        ("WorkflowError:\nAt least one job did not complete successfully.", ""),
        ("RuleException:\nCalledProcessError in file x:\nCommand 'set -e' x", ""),
    ],
)
def test_error_is_one_line(text, line):
    arguments = ["snakemake", "--configfile", "mine.yaml", "fig2", "--cores", "2"]
    assert error_line(text, arguments) == line


HOME_LACKS = "set XDG_CACHE_HOME to a folder where you may read and write."


@pytest.mark.parametrize(
    ("path", "is_of_cache"),
    [
        ("/home/me/.cache", True),
        ("/home/me/.cache/snakemake/x", True),
        ("/home/me", True),
        ("/home/me/project/.snakemake", False),
        ("/x/.snakemake", False),
    ],
)
@pytest.mark.parametrize(
    "reason", ["Read-only file system", "No such file or directory"]
)
def test_home_that_cannot_be_written_gets_a_hint_that_helps(
    monkeypatch, path, is_of_cache, reason
):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    text = f"Traceback (most recent call last):\nOSError: [Errno 30] {reason}: '{path}'"
    line = error_line(text, ["snakemake"])
    assert line.startswith(f"{path}: ")
    assert line.endswith(HOME_LACKS) == is_of_cache


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("training.epochs: got 'two', expected integer", "mine.yaml"),
        ("sweep.n_osts.1: got -1, expected integer", "mine.yaml"),
        ("sweep.n_osts: got 60 2 times, expected a list", "mine.yaml"),
        ("sweep.policies: got lru, expected pinning with lmdb", "config/config.yaml"),
        ("datasets.7: got 1, but that is no dataset", "mine.yaml"),
        ("top level: got unknown key sytem, expected some of system", "mine.yaml"),
        ("top level: got unknown key a, sytem, expected some of system", "mine.yaml"),
        ("training: got unknown key seed, expected some of x", "config/config.yaml"),
        ("audit.limit: got 'x', expected number", "config"),  # as --config has it
        ("top level: got unknown key audit, expected some of system", "config"),
        ("whatif.goal: got 1, expected mapping", "config"),
        ("training: missing key epochs", "config"),
    ],
)
def test_error_of_a_value_names_the_file_that_has_it(tmp_path, monkeypatch, line, file):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.yaml").write_text(
        "training: {epochs: 3, seed: 1}\nsweep: {policies: [lru]}\naudit: {limit: 1}"
    )
    (tmp_path / "mine.yaml").write_text(
        "sytem: a\nsweep: {n_osts: [1, -1]}\ntraining: {epochs: two}\ndatasets: {7: 1}"
    )
    text = f'WorkflowError in file "/x/base.smk", line 9:\nconfig: {line}'
    files = ["--configfile", "mine.yaml", "gone.yaml"]
    arguments = ["snakemake", *files, "--config", "audit={limit: x}"]
    assert error_line(text, arguments) == f"{file}: {line}"


def test_file_that_is_no_yaml_is_named_with_its_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.yaml").write_text("a: 1\n")
    (tmp_path / "bad.yaml").write_text("a: 1\nb: [1, 2\nc: 3\n")
    text = "WorkflowError:\nConfig file is not valid JSON or YAML. In case of YAML"
    line = error_line(text, ["snakemake", "--configfile", "good.yaml", "bad.yaml"])
    assert line.startswith(
        "bad.yaml, line 3: is not valid YAML: while parsing a flow seq"
    )
    assert "\n" not in line


@pytest.mark.parametrize(
    ("content", "found"),
    [("", "nothing"), ("- a\n- b\n", "['a', 'b']"), ("text\n", "'text'")],
)
def test_file_without_keys_is_named_with_what_it_holds(
    tmp_path, monkeypatch, content, found
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.yaml").write_text("a: 1\n")
    (tmp_path / "bad.yaml").write_text(content)
    text = (
        "WorkflowError:\nConfig file must be given as JSON or YAML with keys at top "
        "level."
    )
    line = error_line(text, ["snakemake", "--configfile", "good.yaml", "bad.yaml"])
    assert line == f"bad.yaml: got {found}, expected keys with values."


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            b"a: 1\n# M\xfcller\n",
            "mine.yaml, line 2: got byte 0xfc, which is not UTF-8",
        ),
        ("a: 1\n".encode("utf-16-le") + b"\xff", "mine.yaml, line 2: got byte 0xff"),
        (b"a: 1\nb: \0\n", "mine.yaml, line 2: got character U+0000, expected text."),
        (b"a: 2026-13-45\n", "mine.yaml: is not valid YAML: month must be in 1..12."),
        (b"[" * 5000, "mine.yaml: is nested too deeply"),
        (b"a: !!bool x\n", "mine.yaml: is not valid YAML: 'x'."),
        (None, "mine.yaml: cannot be read: Is a directory."),
    ],
)
@pytest.mark.parametrize("is_imported", [True, False])
def test_file_that_snakemake_cannot_read_is_named(
    tmp_path, monkeypatch, content, words, is_imported
):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.yaml"
    path.mkdir() if content is None else path.write_bytes(content)
    (tmp_path / "Snakefile").write_text('# mine\nconfigfile: "mine.yaml"\n')
    text, arguments = f"{TRACEBACK}SomeError: x\n", ["--configfile", "mine.yaml"]
    if is_imported:
        text, arguments = f'SomeError in file "{tmp_path}/Snakefile", line 2:\nx', []
    line = error_line(text, ["snakemake", *arguments])
    assert line.startswith(words)
    assert "\n" not in line


def test_configuration_files_are_those_of_the_option():
    given = ["fig2", "--configfile=a.yaml", "-n", "x", "--configfiles", "b", "c", "-p"]
    assert list(configuration_files(given)) == ["a.yaml", "b", "c"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--profile", "locl"],
            "--profile locl: unknown, expected one of local",
        ),
        (["--profile=locl"], "--profile locl: unknown, expected one of local"),
        (
            ["--profile", "slurm"],
            "--profile slurm: the link slurm is missing",
        ),
        (["--profile", "local"], ""),
        (["--profile", "profiles/local"], ""),
        (["--profile", "mine"], ""),
        (["--profile", "none"], ""),
        (["fig2"], ""),
    ],
)
def test_unknown_profile_is_answered_with_ours(tmp_path, arguments, words):
    for name in ("local", "slurm"):
        (tmp_path / "profiles" / name).mkdir(parents=True)
        (tmp_path / "profiles" / name / "config.v9+.yaml").touch()
    known = {"local": "a link", "profiles/local": "a folder", "mine": "of the user"}
    line = unknown_profile(arguments, tmp_path, known.get)
    assert line.startswith(words)
    assert bool(line) == bool(words)


def test_durations_are_said_in_the_unit_that_fits():
    assert [duration(s) for s in (3.4, 95, 7260)] == ["3 s", "2 min", "2 h 01 min"]
