"""Fixtures for several unit tests."""

import shutil
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "workflow" / "native"


@pytest.fixture(scope="session")
def trace_library(tmp_path_factory):
    """Compile the preload tracer without a warning and return its path."""
    if not (compiler := shutil.which("cc")):
        pytest.skip("needs a C compiler")
    library = tmp_path_factory.mktemp("native") / "libtierscope_trace.so"
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread"]
    command = [compiler, *flags, "-o", library, NATIVE / "trace.c", "-ldl"]
    subprocess.run(command, check=True, timeout=60)
    return library
