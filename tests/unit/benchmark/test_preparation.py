"""What a job prepares arrives at each rank, whose command it starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tierscope.benchmark.preparation import announce

SCRIPTS = Path(__file__).parents[3] / "workflow" / "scripts"

RANK = """
import os, sys
print(sys.argv[1:], *(os.environ.get(name) for name in ("LD_PRELOAD", "SET", "UNSET")))
"""


def start_rank(start, **environment):
    """Start a rank as a launcher does; return its exit code and what it printed."""
    command = ["/bin/sh", "-c", start, "tierscope"]
    command += [sys.executable, "-c", RANK, "an argument", "$HOME"]
    inherited = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    done = subprocess.run(
        command, env={**inherited, **environment}, capture_output=True, text=True
    )
    return done.returncode, done.stdout


def test_rank_starts_with_what_was_prepared(tmp_path, capsys):
    library = tmp_path / "none.so"
    announce([library, tmp_path / "it's.so"], {"SET": "its 'own' $value"}, ["UNSET"])
    start = capsys.readouterr().out
    assert start.count("\n") == 1
    words = "its 'own' $value None\n"
    libraries = f"{library}:{tmp_path}/it's.so"
    for variables, preloads in (
        ({}, libraries),
        ({"LD_PRELOAD": "mine.so"}, f"{libraries}:mine.so"),
    ):
        printed = f"['an argument', '$HOME'] {preloads} {words}"
        assert start_rank(start, UNSET="1", **variables) == (0, printed)


def test_rank_without_libraries_keeps_those_of_the_site(capsys):
    announce([], {}, [])
    start = capsys.readouterr().out
    printed = "['an argument', '$HOME'] mine.so None 1\n"
    assert start_rank(start, UNSET="1", LD_PRELOAD="mine.so") == (0, printed)


def test_every_rank_keeps_memory_and_starts_no_threads_and_no_hooks(capsys):
    announce([], {}, [])
    start = capsys.readouterr().out
    for of_site, hooks in ({}, "none"), ({"UCX_MEM_MMAP_HOOK_MODE": "reloc"}, "reloc"):
        done = subprocess.run(
            ["/bin/sh", "-c", start, "tierscope", "env"],
            env={"PATH": os.environ["PATH"]} | of_site,
            capture_output=True,
            text=True,
        )
        assert {
            "MALLOC_ARENA_MAX=1",
            "MALLOC_TRIM_THRESHOLD_=1073741824",
            "OPENBLAS_NUM_THREADS=1",
            f"UCX_MEM_MMAP_HOOK_MODE={hooks}",
        } <= set(done.stdout.splitlines())


@pytest.mark.parametrize(
    "command",
    [
        "run_benchmark.py x.json --staging s --runs r cache-000/rep-0",
        "run_probes.py x.json --manifest m --output o",
    ],
)
def test_rank_that_was_started_directly_is_refused_in_one_line(command):
    script, *arguments = f"{command} --native n --launch l".split()
    done = subprocess.run(
        [sys.executable, SCRIPTS / script, *arguments], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("tierscope: got a rank that was started directly, expected")


@pytest.mark.parametrize("folder", ["with space", "with:colon"])
def test_library_that_ld_preload_cannot_name_is_refused(
    tmp_path, monkeypatch, capsys, folder
):
    path = tmp_path / folder / "library.so"
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        announce([path], {}, [])
    assert folder in capsys.readouterr().err


def test_folder_with_a_space_is_named_relative_to_the_project(
    tmp_path, monkeypatch, capsys
):
    folder = tmp_path / "with space"
    folder.mkdir()
    monkeypatch.chdir(folder)
    announce([folder / "library.so"], {}, [])
    assert 'export LD_PRELOAD=library.so"${LD_PRELOAD' in capsys.readouterr().out
