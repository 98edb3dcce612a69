"""What a job prepares arrives at each rank, which starts again with it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tierscope.benchmark.preparation import (
    MEMORY_ENVIRONMENT,
    NUMPY_ENVIRONMENT,
    PRELOADED,
    VARIABLE,
    announce,
)

SCRIPTS = Path(__file__).parents[3] / "workflow" / "scripts"
RANK = """
import os, sys
from tierscope.benchmark.preparation import start_again
start_again()
print(sys.argv[1:], *(os.environ.get(name) for name in ("LD_PRELOAD", "SET", "UNSET")))
"""


def start_rank(tmp_path, **environment):
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    return subprocess.run(
        [sys.executable, script, "an argument", "2"],
        env={**os.environ, "PYTHONPATH": str(SCRIPTS), **environment},
        capture_output=True,
        text=True,
    )


def test_rank_starts_again_with_what_was_prepared(tmp_path, capsys):
    library = tmp_path / "none.so"
    announce([library], {"SET": "1"}, ["UNSET"])
    start = capsys.readouterr().out
    done = start_rank(tmp_path, UNSET="1", LD_PRELOAD="mine.so", **{VARIABLE: start})
    words = f"['an argument', '2'] {library}:mine.so 1 None\n"
    assert (done.returncode, done.stdout) == (0, words)


def test_rank_that_was_started_again_goes_on(tmp_path):
    done = start_rank(tmp_path, **{PRELOADED: "1", "UNSET": "1"})
    assert done.stdout == "['an argument', '2'] None None 1\n"


def test_launcher_that_passes_no_environment_is_an_error_of_one_line(tmp_path):
    done = start_rank(tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("tierscope: TIERSCOPE_START is not set")


def test_memory_is_kept_by_every_rank(capsys):
    announce([], {}, [])
    start = json.loads(capsys.readouterr().out)
    assert start["environment"] == MEMORY_ENVIRONMENT | NUMPY_ENVIRONMENT


@pytest.mark.parametrize("folder", ["with space", "with:colon"])
def test_library_that_ld_preload_cannot_name_is_refused(tmp_path, monkeypatch, folder):
    path = tmp_path / folder / "library.so"
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=folder):
        announce([path], {}, [])


def test_folder_with_a_space_is_named_relative_to_the_project(
    tmp_path, monkeypatch, capsys
):
    folder = tmp_path / "with space"
    folder.mkdir()
    monkeypatch.chdir(folder)
    announce([folder / "library.so"], {}, [])
    assert json.loads(capsys.readouterr().out)["preload"] == ["library.so"]
