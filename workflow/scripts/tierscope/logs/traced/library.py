"""Find or compile the library of our tracer.

A clone compiles it as the benchmarks do, into ``results/native``. An installed package,
or a clone in a folder with a space, compiles it into the user's cache, under a name
with a digest of its source.
"""

import hashlib
import os
import platform
import subprocess
from pathlib import Path

from tierscope.core.files import written_whole
from tierscope.core.validation import ConfigError
from tierscope.storage.own_folder import FolderError, check_way

# In the project, or where the package is installed.
NATIVE = Path(__file__).parents[4] / "native"
if not NATIVE.is_dir():
    NATIVE = Path(__file__).parents[2] / "native"
SEPARATORS = set(" \t\n:")  # of LD_PRELOAD, which cannot quote them


def tracer_library(native: Path = NATIVE) -> Path:
    """Return the library, compiled if it is missing or old.

    `native` has ``preload.c`` and ``trace``; a clone has a ``Makefile`` beside them. A
    ConfigError says that it cannot be compiled, that its path cannot be preloaded, or
    that another user could replace it.
    """
    machine = platform.machine()
    if (native / "Makefile").is_file() and not SEPARATORS & set(str(native)):
        library = native.parents[1] / f"results/native/{machine}/libtierscope_trace.so"
        target = f"../../results/native/{machine}/{library.name}"
        _compile(["make", "--silent", "-C", str(native), target])
    else:
        sources = tracer_sources(native)
        texts = b"".join(path.read_bytes() for path in sources)
        digest = hashlib.sha256(texts).hexdigest()[:16]
        library = _cache() / f"libtierscope_trace-{machine}-{digest}.so"
        if not library.is_file():
            _compile_into_cache([one for one in sources if one.suffix == ".c"], library)
        try:
            check_way(library)  # no other user can have made it, or replace it
        except FolderError as error:
            raise ConfigError(f"XDG_CACHE_HOME: {error}") from error
    if SEPARATORS & set(str(library)):
        raise ConfigError(
            f"{library}: got a space or colon, expected none in the path of a library "
            "that is preloaded."
        )
    return library


def tracer_sources(native: Path) -> list[Path]:
    """Return the files that the tracer is made of, headers as well."""
    return sorted([*native.glob("preload.[ch]"), *native.glob("trace/*.[ch]")])


def _cache() -> Path:
    """Return the user's folder for what can be made again."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).absolute() / "tierscope"


def _compile_into_cache(sources: list[Path], library: Path) -> None:
    """Compile the tracer; another process may be doing the same."""
    flags = ["-O2", "-fexceptions", "-shared", "-fPIC", "-pthread"]
    compiler = os.environ.get("CC") or "cc"
    try:
        with written_whole(library) as temporary:
            _compile(
                [compiler, *flags, "-o", str(temporary), *map(str, sources), "-ldl"]
            )
    except OSError as error:
        raise ConfigError(
            f"cannot make {library}: {error.strerror}; set XDG_CACHE_HOME to a folder "
            "in which files can be made."
        ) from error


def _compile(command: list[str]) -> None:
    """Run a command of the compilation; a ConfigError gives its last line."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            check=False,
        )
    except FileNotFoundError as error:
        raise ConfigError(
            f"{command[0]}: not found, but the tracer must be compiled once; on "
            "Debian: apt-get install gcc make."
        ) from error
    if done.returncode:
        lines = (done.stderr + done.stdout).strip().splitlines() or ["no message"]
        raise ConfigError(f"compiling the tracer failed ({command[0]}): {lines[-1]}")
