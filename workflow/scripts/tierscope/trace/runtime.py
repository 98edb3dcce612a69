"""Set up the Darshan runtime of a site: find it, size its memory, enable it."""

import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from tierscope.core.validation import ConfigError
from tierscope.trace.posix_records import POSIX_RECORD

AUTO, BUILTIN, DARSHAN = "auto", "builtin", "darshan"
# Variables that a site's module may set and that override our settings in Darshan. With
# ENABLE_NONMPI any program that a rank starts writes the log instead of the rank.
OVERRIDES = (
    "DARSHAN_DISABLE",
    "DARSHAN_ENABLE_NONMPI",
    "DARSHAN_EXCLUDE_DIRS",
    "DARSHAN_MODMEM",
    "DARSHAN_NAMEMEM",
    "DARSHAN_MOD_DISABLE",
    "DARSHAN_MOD_ENABLE",
    "DXT_ENABLE_IO_TRACE",
    "DARSHAN_APP_EXCLUDE",
    "DARSHAN_APP_INCLUDE",
    "DARSHAN_RANK_EXCLUDE",
    "DARSHAN_RANK_INCLUDE",
)

_LIBRARY = "libdarshan.so"
_PROBE = Path(__file__).with_name("darshan_probe.py")
_PROBE_S = 120  # enough for a busy file system
_SLACK = 1.25  # even excluded files use memory and can set the flag
_SPARE_RECORDS = 64
_SMALLEST_MIB = 8
_MIB = 1 << 20
_NAME_OVERHEAD_BYTES = 64  # id and hash table, in addition to the path
_UNUSED_MODULES = ("STDIO", "HEATMAP", "MPI-IO")
_COUNTING = ("POSIX", "STDIO")


def tracer_as_json(runtime: str, library: Path, version: object) -> dict[str, Any]:
    """Return the part of `run.json` on who traced."""
    return {"runtime": runtime, "library": str(library), "version": version}


def darshan_settings(
    prefixes: Sequence[str | Path],
    n_records_per_process: int,
    longest_path_bytes: int = 256,
    unused: Sequence[str] = _UNUSED_MODULES,
) -> str:
    """Return the text of a Darshan configuration that loses no record.

    Prefixes are those of the traced paths, such as ``/gfs/data.ep``. A process has a
    record for each of its files and epochs. Modules that are `unused` count nothing.
    """
    if not prefixes or n_records_per_process < 1:
        raise ValueError(
            f"got prefixes {list(prefixes)} and {n_records_per_process} records per "
            "process, expected at least one of each."
        )
    if unusable := [
        str(prefix) for prefix in prefixes if re.search(r"\s", str(prefix))
    ]:
        raise ValueError(f"prefixes: got {unusable}, expected none with white space.")
    n_records = math.ceil(n_records_per_process * _SLACK) + _SPARE_RECORDS
    name_bytes = longest_path_bytes + _NAME_OVERHEAD_BYTES
    counting = ",".join(one for one in _COUNTING if one not in unused)
    lines = [
        f"MAX_RECORDS {n_records} {counting}",
        f"MODMEM {_mebibytes(n_records * POSIX_RECORD.itemsize)}",
        f"NAMEMEM {_mebibytes(n_records * name_bytes)}",
        "NAME_EXCLUDE .* *",
        *(f"NAME_INCLUDE ^{_escape(str(prefix))} *" for prefix in prefixes),
        f"MOD_DISABLE {','.join(unused)}",
    ]
    return "\n".join(lines) + "\n"


def _mebibytes(n_bytes: int) -> int:
    """Return a size with slack in whole MiB."""
    return max(_SMALLEST_MIB, math.ceil(n_bytes * _SLACK / _MIB))


def _escape(text: str) -> str:
    """Return a POSIX extended regular expression that matches the text itself."""
    return re.sub(r"([][.^$*+?(){}|\\])", r"\\\1", text)


def darshan_environment(settings: str | Path, log: str | Path) -> dict[str, str]:
    """Return the environment for a rank's interpreter that preloads Darshan.

    The file of settings has the text of `darshan_settings`. The log must not exist yet,
    else a FileExistsError.
    """
    log = Path(log).absolute()
    if log.exists():
        raise FileExistsError(f"{log}: got a log, Darshan overwrites none.")
    return {
        "DARSHAN_CONFIG_PATH": str(Path(settings).absolute()),
        "DARSHAN_LOGFILE": str(log),
        "DARSHAN_DISABLE_SHARED_REDUCTION": "1",
    }


def check_darshan_runtime(library: Path) -> None:
    """Refuse a library that cannot trace ranks, before MPI starts with it.

    A ConfigError says that it cannot be loaded, is not Darshan, or uses another MPI
    than mpi4py.
    """
    unwanted = {*OVERRIDES, "LD_PRELOAD"}
    environment = {k: v for k, v in os.environ.items() if k not in unwanted}
    try:
        probe = subprocess.run(
            [sys.executable, "-P", _PROBE, library],
            env=environment,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=_PROBE_S,
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(
            f"{library}: loading it with MPI takes longer than {_PROBE_S} s."
        ) from None
    if probe.returncode:
        lines = probe.stderr.strip().splitlines()
        words = lines[-1] if lines else f"exit code {probe.returncode}"
        by_us = words.startswith(f"{library}: ")
        reason = f"{library}: cannot be loaded together with MPI: {words}"
        raise ConfigError(words if by_us else reason)


def find_darshan_runtime(
    setting: str, environ: Mapping[str, str] = os.environ
) -> Path | None:
    """Return the site's libdarshan.so, or None to use the built-in tracer.

    Parameters
    ----------
    setting : str
        ``auto`` (the site's if it exists), ``builtin``, or a path, which may contain
        variables.
    environ : mapping of str to str
        Variables that a module sets: `LD_PRELOAD`, `LD_LIBRARY_PATH`, and `PATH` with
        Darshan's ``darshan-config``. The system's library cache comes last.

    Raises
    ------
    ConfigError
        If the setting is a path with an unset or empty variable.
    FileNotFoundError
        If the setting is a path without a file.
    """
    if setting == BUILTIN:
        return None
    if setting == AUTO:
        found = next(filter(Path.is_file, _candidates(environ)), None)
        return found.absolute() if found else _find_in_cache(environ)
    library = Path(_fill(setting, environ)).absolute()
    if not library.is_file():
        filled = f" ({library})" if "$" in setting else ""
        raise FileNotFoundError(
            f"darshan.runtime: got {setting}{filled}, expected {AUTO}, {BUILTIN} or "
            f"the path of a {_LIBRARY}."
        )
    return library


def _fill(setting: str, environ: Mapping[str, str]) -> str:
    """Return a path with its variables filled in."""
    values = {name: value for name, value in environ.items() if value}
    try:
        return os.path.expanduser(Template(setting).substitute(values))
    except KeyError as error:
        raise ConfigError(
            f"darshan.runtime: got {setting!r}, but the environment variable "
            f"{error.args[0]} is not set here (a line of the system's job.setup may "
            "export it)."
        ) from None
    except ValueError:
        raise ConfigError(
            f"darshan.runtime: got {setting!r}, expected $ only before a variable name."
        ) from None


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield possible paths of the library after ``module load`` or ``spack load``."""
    for entry in re.split("[: ]", environ.get("LD_PRELOAD", "")):
        if "/" in entry and Path(entry).name.startswith(_LIBRARY):
            yield Path(entry)
    for folder in filter(None, environ.get("LD_LIBRARY_PATH", "").split(":")):
        yield Path(folder, _LIBRARY)
    if tool := shutil.which("darshan-config", path=environ.get("PATH", os.defpath)):
        for folder in ("lib", "lib64"):
            yield Path(tool).resolve().parents[1] / folder / _LIBRARY


def _find_in_cache(environ: Mapping[str, str]) -> Path | None:
    """Return the library that the system's loader would find, if any."""
    folders = os.pathsep.join([environ.get("PATH", os.defpath), "/sbin", "/usr/sbin"])
    if not (ldconfig := shutil.which("ldconfig", path=folders)):
        return None
    told = subprocess.run([ldconfig, "-p"], capture_output=True, check=False).stdout
    pattern = rf"^\s*{re.escape(_LIBRARY)}(?:\.\d+)*\s.*=> (?P<path>.+)$"
    match = re.search(pattern, os.fsdecode(told), re.MULTILINE)
    return Path(match["path"]) if match else None
