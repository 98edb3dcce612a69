"""What is asked of PJM: typed resources, command line and script."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.utils import format_cli_arg, is_quoted

from snakemake_executor_plugin_pjm import Executor, ExecutorSettings
from snakemake_executor_plugin_pjm.submission import (
    JobFiles,
    RefusedError,
    job_name,
    job_script,
    pjsub_command,
    read_request,
    refuse_active_shell_syntax,
)

FILES = JobFiles(Path("/logs/point.1234"))
PAPER = {
    "pjm_group": "hp123456",
    "pjm_node": "8x6x16:torus:strict-io",
    "pjm_rscgrp": "large",
    "runtime": 90,
    "nodes": 768,
    "tasks": 3072,
    "pjm_localtmp_mib": 80 * 1024,
    "pjm_gfscache": "/vol0004:/vol0006",
    # Resources of other executors are no concern of ours.
    "mem_mb": 1000,
    "slurm_partition": "-x;",
}
HOSTILE = [
    "$(touch pwned)",
    "`touch pwned`",
    "a b",
    "it's",
    'a"b',
    "a\nb",
    "-rf",
    "a,b",
]

hostile_text = st.one_of(
    st.sampled_from(
        [*HOSTILE, "'a' $(touch pwned)", '"a" ; touch pwned', "\\", "a\\'b"]
    ),
    st.text(alphabet="ab-, '\"\\$`()&;|<>*?~#!{}=%\n\té", min_size=1, max_size=12),
)


def command(resources=PAPER, files=FILES, limit_gib=87):
    request = read_request("rule point", resources, limit_gib)
    return pjsub_command(request, "point", files)


def options(words, option):
    """Return the arguments of an option of a command line."""
    return [words[i + 1] for i, word in enumerate(words) if word == option]


def refused(resources, *words):
    """Assert that resources are refused with an error that holds all words."""
    with pytest.raises(RefusedError) as error:
        command({"pjm_group": "g", **resources})
    for word in ("rule point", *words):
        assert word in str(error.value)


def test_paper_point_has_the_documented_form():
    words = command()
    assert words[0] == "pjsub"
    assert words[-1] == "/logs/point.1234.sh"
    assert options(words, "-L") == [
        "node=8x6x16:torus:strict-io,rscgrp=large,elapse=01:30:00"
    ]
    assert options(words, "--mpi") == ["proc=3072,max-proc-per-node=4"]
    assert options(words, "-g") == ["hp123456"]
    assert options(words, "--llio") == ["localtmp-size=81920Mi"]
    assert options(words, "-x") == [
        "PJM_LLIO_GFSCACHE=/vol0004:/vol0006",
        "PLE_MPI_STD_EMPTYFILE=off",
    ]
    assert options(words, "-o") == ["/logs/point.1234.log"]
    assert options(words, "--spath") == ["/logs/point.1234.stats"]


def test_a_job_without_resources_is_one_node_without_processes():
    words = command({"pjm_group": "g"})
    assert options(words, "-L") == ["node=1"]
    assert options(words, "--mpi") == []


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"tasks": 8, "nodes": 2}, "proc=8,max-proc-per-node=4"),
        ({"tasks": 9, "nodes": 2}, "proc=9,max-proc-per-node=5"),
        ({"tasks": 6, "pjm_node": "2x3"}, "proc=6,max-proc-per-node=1"),
        (
            {"tasks": 4, "nodes": 2, "tasks_per_node": 4},
            "proc=4,max-proc-per-node=4",
        ),
        ({"tasks_per_node": 4}, "max-proc-per-node=4"),
    ],
)
def test_processes_are_spread_over_nodes(resources, expected):
    words = command({"pjm_group": "g", **resources})
    assert options(words, "--mpi") == [expected]


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({"pjm_group": None}, ["pjm_group=None", "pjsub -g"]),
        ({"pjm_group": "-x"}, ["pjm_group='-x'"]),
        ({"pjm_node": "8x6,rscgrp=large"}, ["pjm_node", "8x6x16"]),
        ({"pjm_node": "2x2x2x2"}, ["pjm_node"]),
        ({"pjm_node": "0"}, ["pjm_node", "at least one node"]),
        ({"pjm_node": "2x3", "nodes": 5}, ["nodes=5", "6 nodes"]),
        ({"nodes": 0}, ["nodes=0", "at least 1"]),
        ({"nodes": True}, ["nodes=True", "whole number"]),
        ({"runtime": "soon"}, ["runtime='soon'", "whole number"]),
        ({"runtime": 0}, ["runtime=0"]),
        ({"tasks": 9, "nodes": 2, "tasks_per_node": 4}, ["tasks=9", "2 nodes x 4"]),
        ({"pjm_rscgrp": "small,node=9"}, ["pjm_rscgrp", "letters"]),
        ({"pjm_localtmp_mib": 87 * 1024 + 1}, ["pjm_localtmp_mib", "89088 MiB"]),
        (
            {"pjm_localtmp_mib": 50000, "pjm_sharedtmp_mib": 50000},
            ["pjm_localtmp_mib=50000", "pjm_sharedtmp_mib=50000", "89088 MiB"],
        ),
        ({"pjm_cn_cache_mib": 32769}, ["pjm_cn_cache_mib", "32768"]),
        ({"pjm_gfscache": "/vol0004,/vol0006"}, ["pjm_gfscache", "colon"]),
        ({"pjm_gfscache": "vol0004"}, ["pjm_gfscache", "absolute"]),
        ({"pjm_transfer": "a::b"}, ["pjm_transfer"]),
        ({"pjm_transfer": "a\nb"}, ["pjm_transfer", "control characters"]),
        ({"pjm_extra": "--llio 'x"}, ["pjm_extra", "No closing quotation"]),
        ({"pjm_extra": "other.sh"}, ["pjm_extra", "dash"]),
        ({"pjm_extra": "-x A=a\nb"}, ["pjm_extra", "control characters"]),
    ],
)
def test_wrong_resource_is_refused_with_what_was_expected(resources, words):
    refused(resources, *words)


@pytest.mark.parametrize("folder", ["/a%jb", "/a\nb"])
def test_log_folder_that_pjm_reads_differently_is_refused(folder):
    with pytest.raises(RefusedError, match="--pjm-logdir"):
        command(files=JobFiles(Path(folder, "point")))


@pytest.mark.parametrize("name", ["point", "Ünïcode rule", "9", "-x", "a" * 99, ""])
def test_job_name_is_one_that_pjm_takes(name):
    made = job_name(name)
    assert made[0].isalpha()
    assert len(made.encode()) <= 63
    assert made.isascii()
    assert "/" not in made


@settings(deadline=None)
@given(
    value=hostile_text, name=st.sampled_from(["pjm_group", "pjm_rscgrp", "pjm_node"])
)
def test_hostile_name_is_refused_or_plain(value, name):
    try:
        words = command({"pjm_group": "g", name: value})
    except RefusedError:
        return
    assert not set(value) & set("-, '\"\\$`()&;|<>*?~#!{}%\n") - {"-"}
    assert any(value in word for word in words)


@settings(deadline=None)
@given(words=st.lists(hostile_text, min_size=1, max_size=4))
def test_extra_options_arrive_as_they_are_or_are_refused(words):
    try:
        made = command({"pjm_group": "g", "pjm_extra": ["--option", *words]})
    except RefusedError:
        assert any(letter in word for word in words for letter in "\n\t")
        return
    assert made[-len(words) - 2 : -1] == ["--option", *words]


def run_bash(script, folder, **variables):
    """Run a script with only this folder's programs on PATH first."""
    environment = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", **variables}
    (folder / "script").write_text(script)
    return subprocess.run(
        ["bash", folder / "script"],
        cwd=folder,
        env=environment,
        capture_output=True,
        timeout=600,
    )


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    """Return a folder with a program that prints its arguments, each ended by NUL."""
    folder = tmp_path_factory.mktemp("shell")
    echo = folder / "echo0"
    echo.write_text("#!/bin/sh\nprintf '%s\\0' \"$@\"\n")
    echo.chmod(0o755)
    (folder / "llio_transfer").symlink_to(echo)
    return folder


run_often = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@run_often
@given(value=hostile_text)
def test_snakemake_argument_arrives_as_it_is_or_is_refused(shell, value):
    if is_quoted(value):  # Snakemake passes it on as it is; refused by the executor.
        return
    line = f"echo0 {format_cli_arg('--target-jobs', [f'rule:n={value}'])} end"
    try:
        refuse_active_shell_syntax("rule point", line)
    except RefusedError:
        return
    printed = run_bash(line, shell).stdout.decode().split("\0")[:-1]
    assert printed == ["--target-jobs", f"rule:n={value}", "end"]
    assert not (shell / "pwned").exists()


@pytest.mark.parametrize(
    "line",
    ["a; b", "a && b", "a\nb", "a $(b)", 'a "$(b)"', "a `b`", "a 'b", "a \\b", "a &"],
)
def test_shell_syntax_is_refused(line):
    with pytest.raises(RefusedError, match="rule point"):
        refuse_active_shell_syntax("rule point", line)


@run_often
@given(value=hostile_text.filter(lambda text: "/" not in text))
def test_script_keeps_letters_of_paths_and_variables(shell, value):
    workdir = shell / f"w{value}"
    workdir.mkdir(exist_ok=True)
    files = JobFiles(workdir / "point.1234")
    script = job_script(
        title=f"rule {value}",
        submission=["pjsub", value],
        command="env -0",
        files=files,
        workdir=workdir,
        python=f"{workdir}/bin/python",
        environment={"SECRET": value},
        preamble="set -u",
        transfer=[value],
    )
    done = run_bash(script, shell)
    transferred, *environment = done.stdout.decode().split("\0")
    assert transferred == f"{workdir}/{value}"
    assert f"SECRET={value}" in environment
    assert f"PWD={workdir}" in environment
    assert any(word.startswith(f"PATH={workdir}/bin:") for word in environment)
    assert files.exit_status.read_text() == "0\n"
    assert done.stderr == b""
    assert not any(folder.joinpath("pwned").exists() for folder in (shell, workdir))


def script_of(folder, command="true", **values):
    """Return a script that runs in a folder, and its files."""
    files = JobFiles(folder / "point")
    common = {"title": "", "submission": [], "python": "python", "environment": {}}
    script = job_script(command=command, files=files, workdir=folder, **common | values)
    return script, files


@pytest.mark.parametrize(
    ("command", "preamble", "status"),
    [
        ("true", "", 0),
        ("bash -c 'exit 7'", "", 7),
        ("bash -c 'kill -KILL $$'", "", 137),
        ("true", "exit 5", 5),
        ("true", "set -e; false", 1),
        ("no-such-program", "", 127),
    ],
)
def test_exit_status_is_returned_and_recorded(tmp_path, command, preamble, status):
    script, files = script_of(tmp_path, command, preamble=preamble)
    assert run_bash(script, tmp_path).returncode == status
    assert int(files.exit_status.read_text()) == status


@pytest.mark.parametrize(("name", "number"), [("TERM", 15), ("XCPU", 24), ("INT", 2)])
def test_signal_is_recorded_and_ends_the_command(tmp_path, name, number):
    script, files = script_of(tmp_path, "bash -c 'touch started; exec sleep 60'")
    (tmp_path / "script").write_text(script)
    process = subprocess.Popen(
        ["bash", tmp_path / "script"],
        cwd=tmp_path,
        start_new_session=True,
        # Shells have background jobs, such as these tests may be, ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        while not (tmp_path / "started").exists():
            assert process.poll() is None
            time.sleep(0.01)
        subprocess.run(["kill", "-s", name, str(process.pid)], check=True)
        assert process.wait(timeout=600) == 128 + number
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert int(files.exit_status.read_text()) == 128 + number


def test_failing_transfer_is_a_warning(tmp_path):
    script, files = script_of(tmp_path, transfer=["no-such-file"])
    done = run_bash(script, tmp_path)
    assert done.returncode == 0
    assert b"warning: llio_transfer of" in done.stderr
    assert int(files.exit_status.read_text()) == 0


def test_all_files_of_a_folder_are_transferred(tmp_path, shell):
    (tmp_path / "env" / "lib").mkdir(parents=True)
    for name in ("env/python", "env/lib/a b.py"):
        (tmp_path / name).touch()
    script, _ = script_of(tmp_path, transfer=["env"])
    printed = run_bash(script, shell).stdout.decode().split("\0")[:-1]
    assert sorted(printed) == [f"{tmp_path}/env/lib/a b.py", f"{tmp_path}/env/python"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"# M\xfcller\n", r"cannot be read \(not UTF-8\)"),
        (b"a\0b\n", "got a NUL byte"),
        (None, r"cannot be read \(Is a directory\)"),
    ],
)
def test_preamble_that_is_no_text_is_refused(tmp_path, content, words):
    path = tmp_path / "first.sh"
    path.mkdir() if content is None else path.write_bytes(content)
    executor = Executor.__new__(Executor)
    executor.settings = ExecutorSettings(preamble=path)
    with pytest.raises(WorkflowError, match=f"first.sh: {words}; expected a file of"):
        executor._read_preamble()


def test_preamble_with_line_ends_of_other_systems_is_read(tmp_path):
    path = tmp_path / "first.sh"
    path.write_bytes(b"module load a\r\nset -u\r\n")
    executor = Executor.__new__(Executor)
    executor.settings = ExecutorSettings(preamble=path)
    assert executor._read_preamble() == "module load a\nset -u\n"
