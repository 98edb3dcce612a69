"""Which functions of libc the tracer wraps, beside those that Darshan 3.5.0 wraps."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from native import compile_library

ROOT = Path(__file__).parents[3]
# Darshan counts a call of fileno as an open of the file, which it is not.
ONLY_DARSHAN = {"fileno"}


@pytest.fixture(scope="module")
def ours(trace_library):
    """Return the functions that the library defines for programs."""
    if not shutil.which("nm"):
        pytest.skip("needs nm of binutils")
    command = ["nm", "--dynamic", "--defined-only", trace_library]
    lines = subprocess.check_output(command, text=True).splitlines()
    names = {line.split()[-1] for line in lines}
    return {name for name in names if not name.startswith("tierscope_")}


@pytest.fixture(scope="module")
def darshan():
    """Return the functions that Darshan's modules POSIX and STDIO wrap."""
    text = (ROOT / "tests" / "data" / "darshan-3.5.0-functions.txt").read_text()
    return {line for line in text.splitlines() if not line.startswith("#")}


def test_every_function_that_darshan_wraps_is_wrapped(ours, darshan):
    assert darshan - ours == ONLY_DARSHAN


def test_table_of_the_docs_is_what_both_wrap(ours, darshan):
    lines = (ROOT / "workflow" / "native" / "README.md").read_text().splitlines()
    start = next(i for i, one in enumerate(lines) if "functions of both" in one) + 2
    both, only = [], []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        _, _, first, second, *_ = line.split("|")
        both += re.findall(r"`(\w+)`", first)
        only += re.findall(r"`(\w+)`", second)
    assert sorted(both) == sorted((ours | ONLY_DARSHAN) & darshan)
    assert sorted(only) == sorted(ours - darshan)


@pytest.mark.parametrize("name", ["trace", "redirect", "device"])
def test_newer_headers_of_libc_bring_no_warning(tmp_path, name):
    header = ROOT / "tests" / "data" / "newer_libc.h"
    compile_library(tmp_path, name, flags=["-O0", "-include", header])
