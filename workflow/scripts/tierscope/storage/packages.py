"""Packages of others that a later step imports: tried before what it follows.

As a program it imports the modules that its arguments name, and prints which it begins
with, and why one cannot be imported.
"""

import subprocess
import sys
from collections.abc import Iterable
from importlib import import_module

from tierscope.core.validation import ConfigError

_MOST_S = 300  # of a start on a slow file system


def refuse_missing(names: Iterable[str]) -> None:
    """Refuse to go on if a module, or a name in one, cannot be imported.

    What this process has not loaded, another one tries: a library may crash.

    Raises
    ------
    ConfigError
        With the first name, and why.
    """
    if not (missing := [name for name in names if not _is_loaded(name)]):
        return
    python = str(sys.executable)  # which Snakemake's start has made another one
    try:
        done = subprocess.run(
            [python, "-m", __name__, *missing],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="backslashreplace",
            timeout=_MOST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(
            f"{sys.prefix}: importing {', '.join(missing)} takes longer than {_MOST_S} "
            "s, expected some seconds"
        ) from None
    if done.returncode:
        name, _, why = done.stdout.rpartition("\n> ")[2].strip().partition("\n")
        why = why or f"the process ended with status {done.returncode}"
        raise ConfigError(
            f"{name}: cannot be imported by {python}, expected the packages of "
            f"requirements.lock, which later steps need: {why}"
        )


def _is_loaded(name: str) -> bool:
    """Return whether this process has imported a module, or the one of a name."""
    module, _, attribute = name.rpartition(".")
    return name in sys.modules or hasattr(sys.modules.get(module), attribute)


def _try(name: str) -> None:
    """Import a module, or the one of a name; an error says why it cannot be used."""
    module, _, attribute = name.rpartition(".")
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        if not module or error.name != name:
            raise
        if not hasattr(import_module(module), attribute):
            raise ImportError(f"{module} has no {attribute}") from error


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print("\n>", name, flush=True)
        try:
            _try(name)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}".partition("\n")[0])
            sys.exit(1)
