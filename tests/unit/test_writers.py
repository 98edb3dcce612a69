"""Whatever call of the system fails, a writer says so in a line and leaves no half."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from native import compile_library, native_libraries
from writers import ERRORS, WRITERS

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def problems(tmp_path_factory):
    """Return what is wrong, by the writer and the error: all were tried."""
    folder = tmp_path_factory.mktemp("errors")
    compile_library(folder, "errors", [TESTS / "faults" / "errors.c"])
    libraries = {
        "LD_PRELOAD": str(folder / "libtierscope_errors.so"),
        "NATIVE": str(native_libraries() / platform.machine()),
    }
    command = [sys.executable, TESTS / "writers.py"]
    done = subprocess.run(command, env=os.environ | libraries, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert b"Exception ignored" not in done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("writer", WRITERS)
def test_failed_call_ends_in_a_line_and_the_next_start_writes_all(
    problems, writer, error
):
    assert problems[writer][error] == []
