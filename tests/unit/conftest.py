"""Fixtures for several unit tests."""

import shutil
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "workflow" / "native"


def compile_library(folder, name):
    """Compile a preload library without a warning and return its path."""
    if not (compiler := shutil.which("cc")):
        pytest.skip("needs a C compiler")
    library = folder / f"libtierscope_{name}.so"
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread"]
    command = [compiler, *flags, "-o", library, NATIVE / f"{name}.c", "-ldl"]
    subprocess.run(command, check=True, timeout=60)
    return library


@pytest.fixture(scope="session")
def trace_library(tmp_path_factory):
    """Return the path of the compiled tracer."""
    return compile_library(tmp_path_factory.mktemp("native"), "trace")


@pytest.fixture(scope="session")
def device_library(tmp_path_factory):
    """Return the path of the compiled device emulator."""
    return compile_library(tmp_path_factory.mktemp("native"), "device")
