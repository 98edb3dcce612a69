"""Try before a command starts whether its programs load our libraries.

The loader of glibc lists what a program would load, and starts nothing. So it also says
what the program's file does not: that a library needs a newer glibc, or lies where
nothing may be executed.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from tierscope.logs.traced.escapes import FATAL, REASONS, escape_of

_MOST_S = 60  # of a slow file system
_HEAD_BYTES = 4096  # they name the loader
_LOADERS = (b"/ld-linux", b"/ld64.so")  # of glibc
_MOST_PROGRAMS = 5  # scripts whose interpreters are scripts
_WITH_VALUE = ("-u", "--unset", "-C", "--chdir")  # options of `env`
# What a loader prints of a library that it leaves out, and of what one needs.
_SAYS_WHY = re.compile(
    r"object '(?P<left_out>.*)' from .* cannot be preloaded \((.+?)\)"
    r"|: (version .* not found.*)|^\s*(\S+ => not found)",
    re.MULTILINE,
)


def why_not_loaded(
    command: Sequence[str],
    libraries: Sequence[Path],
    environ: Mapping[str, str],
    reasons: Collection[int] = FATAL,
) -> str:
    """Return which program of a command cannot load our libraries, and why, or "".

    Parameters
    ----------
    command : sequence of str
        The command; a script, or `env`, is followed to the program that it starts.
    libraries : sequence of Path
        Libraries that the environment lets it preload.
    environ : mapping of str to str
        The environment of the command.
    reasons : collection of int
        Which of `REASONS` count. By default not those of a program that may start
        others which load the libraries.
    """
    for program in programs_of(command, environ.get("PATH")):
        reason = escape_of(program, libraries[0])
        if reason in reasons:
            return f"{program} {REASONS[reason]}"
        if not reason and (why := _fault_of(program, libraries, environ)):
            return f"{program} {why}"
    return ""


def programs_of(command: Sequence[str], path: str | None = None) -> list[str]:
    """Return the programs that a command begins with: interpreters, too, no scripts."""
    found: list[str] = []
    words = list(command)
    for _ in range(_MOST_PROGRAMS):
        program = shutil.which(words[0], path=path) if words else None
        if program is None:
            break
        head = _head_of(program)
        if head.startswith(b"#!"):
            line = os.fsdecode(head[2:].partition(b"\n")[0]).split(maxsplit=1)
            words = [*(word.strip() for word in line), program, *words[1:]]
            continue
        found.append(program)
        if os.path.basename(program) != "env":
            break
        words = _started_by_env(words[1:])
    return found


def _started_by_env(words: Sequence[str]) -> list[str]:
    """Return the command that `env` starts with our environment, [] if with another."""
    left = list(words)
    while left:
        word = left.pop(0)
        if word.startswith(("-S", "--split-string")):
            text = word.removeprefix("-S").removeprefix("--split-string").lstrip("=")
            try:
                left = [*shlex.split(text or left.pop(0)), *left]
            except (IndexError, ValueError):  # `env` refuses it, too
                return []
        elif word in ("-", "-i", "--ignore-environment"):
            return []
        elif word in _WITH_VALUE:
            left = left[1:]
        elif not word.startswith("-") and "=" not in word:
            return [word, *left]
    return []


def _head_of(program: str) -> bytes:
    """Return the first bytes of a file, none if it cannot be read."""
    try:
        with open(program, "rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError:
        return b""


def _fault_of(
    program: str, libraries: Sequence[Path], environ: Mapping[str, str]
) -> str:
    """Return what the loader of a program says of libraries that it cannot load."""
    if not any(one in _head_of(program) for one in _LOADERS):
        return ""  # it is not tried, as it might run
    try:
        done = subprocess.run(
            [program],
            env={**environ, "LD_TRACE_LOADED_OBJECTS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=_MOST_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""  # its start will say why
    ours, loaded = list(map(str, libraries)), _loaded(done.stdout)
    lacking = [one for one in ours if one not in loaded]
    whys = [
        said[said.lastindex]
        for said in _SAYS_WHY.finditer(done.stdout)
        if said["left_out"] in (None, *ours)  # the user's own may well be left out
    ]
    if not (lacking or whys):
        return ""
    why = whys[0] if whys else "no reason is given"
    return f"does not load {lacking[0] if lacking else 'all of it'} ({why})"


def _loaded(listed: str) -> set[str]:
    """Return the paths that a loader has listed: ``PATH (0x...)``, or behind ``=>``."""
    return set(re.findall(r"^\s*(?:.* => )?(/.*) \(0x[0-9a-f]+\)$", listed, re.M))
