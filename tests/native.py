"""The preload libraries, compiled without a warning, once for all tests."""

import shutil
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from sessions import HANG_S
from shared import made_once

NATIVE = Path(__file__).parents[1] / "workflow" / "native"
FLAGS = [
    "-O2",
    "-fexceptions",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-shared",
    "-fPIC",
    "-pthread",
]


def compiled_library(name: str) -> Path:
    """Return the path of a compiled preload library."""
    folder = made_once(f"warnings-{name}", partial(compile_library, name=name))
    return folder / f"libtierscope_{name}.so"


def compile_library(folder: Path, name: str, sources: Sequence[Path] = ()) -> None:
    """Compile a preload library without a warning."""
    if not (compiler := shutil.which("cc")):
        pytest.skip("needs a C compiler")
    library = folder / f"libtierscope_{name}.so"
    command = [compiler, *FLAGS, "-o", library, *(sources or sources_of(name))]
    subprocess.run([*command, "-ldl"], check=True, timeout=HANG_S)


def sources_of(name: str) -> list[Path]:
    """Return the sources of a preload library: a folder, and what all share."""
    return [NATIVE / "preload.c", *sorted((NATIVE / name).glob("*.c"))]
