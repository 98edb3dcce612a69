"""The preload libraries, compiled without a warning, once for all tests."""

import platform
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


def native_libraries() -> Path:
    """Return the folder in which the preload libraries are, as launches have them."""
    return made_once("native", compile_libraries)


def compile_libraries(folder: Path) -> None:
    """Compile them as the start of a launch does, without a warning."""
    if not shutil.which("cc"):
        pytest.skip("needs a C compiler")
    flags = "CFLAGS=-O2 -Wall -Wextra -Werror"
    output = f"OUTPUT={folder / platform.machine()}"
    make = ["make", "--silent", "-C", NATIVE, flags, output]
    subprocess.run(make, check=True, timeout=HANG_S)


def compiled_library(name: str) -> Path:
    """Return the path of a compiled preload library."""
    return native_libraries() / platform.machine() / f"libtierscope_{name}.so"


def advice_library(kind: str) -> Path:
    """Return a library of another that takes posix_fadvise, such as PASSES.

    The kinds are those of `tests/data/advice.c`. Its name is like that of ours; its
    folder is another one.
    """
    name = f"advice_{kind.lower()}"
    sources = [Path(__file__).parent / "data" / "advice.c"]
    compiled = partial(compile_library, name=name, sources=sources, flags=[f"-D{kind}"])
    return made_once(name, compiled) / f"libtierscope_{name}.so"


def compile_library(
    folder: Path, name: str, sources: Sequence[Path] = (), flags: Sequence[str] = ()
) -> None:
    """Compile a preload library without a warning."""
    if not (compiler := shutil.which("cc")):
        pytest.skip("needs a C compiler")
    library = folder / f"libtierscope_{name}.so"
    command = [compiler, *FLAGS, *flags, "-o", library, *(sources or sources_of(name))]
    subprocess.run([*command, "-ldl"], check=True, timeout=HANG_S)


def sources_of(name: str) -> list[Path]:
    """Return the sources of a preload library: a folder, and what all share."""
    return [NATIVE / "preload.c", *sorted((NATIVE / name).glob("*.c"))]
