"""Who writes the logs of a program's run: our tracer, or a site's Darshan.

Each process leaves a log. The job begins and ends the tracing of a run, and the ranks
start the program with the environment that the tracer needs.
"""

import dataclasses
import os
import shutil
from collections.abc import Container, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tierscope.core.files import write_text
from tierscope.core.validation import ConfigError
from tierscope.logs.traced.call import Identity, left_folders, this_call
from tierscope.logs.traced.command import (
    make_spools,
    refuse_without_writer,
    traced_environment,
    write_logs,
)
from tierscope.logs.traced.library import SEPARATORS
from tierscope.logs.traced.trial import why_not_loaded
from tierscope.trace.darshan.inflation import OURS
from tierscope.trace.log import read_any_log
from tierscope.trace.runtime import (
    BUILTIN,
    DARSHAN,
    OVERRIDES,
    darshan_settings,
    find_darshan_runtime,
    tracer_as_json,
)
from tierscope.trace.spool import SPOOL_VERSION

_EPOCHS = 4  # for which Darshan has room for records, as nobody knows their number
_MOST_RECORDS = 1 << 20  # of a process: 0.7 GB
_PATH_BYTES = 512


class OwnTracer:
    """Our preload library, as `tierscope trace` uses it."""

    def __init__(self, library: Path):
        self.library = library

    def begin(self, logs: Path) -> dict[str, str]:
        """Return what the ranks must know; a ConfigError says that no log can be."""
        refuse_without_writer()
        return {
            "tracer": str(self.library),
            "spools": str(make_spools(logs, this_call())),
        }

    def end(
        self, logs: Path, ended_s: float, own: Container[Identity]
    ) -> dict[str, Any]:
        """Write the logs; return what is known of them, a part of `run.json`.

        ``interference``: who stood between the program and libc. `own` are processes of
        ours, which are not the program's. The counts stay (`remove_counts`), so all of
        it may be done again. A ConfigError says that a log could not be written.
        """
        left = left_folders(logs)
        if not left:
            raise ConfigError(f"{logs}: has no counts of the program's calls any more.")
        spools, call = left[0]
        ended = dataclasses.replace(call, ended_s=ended_s)
        end = write_logs(spools, logs, ended, own=own, keep=True)
        if not end.is_whole:
            raise ConfigError(f"{logs}: a log could not be written, as is said above.")
        interference = dataclasses.asdict(end.interference)
        return {"logs_are_whole": True, "interference": interference}

    def describe(self) -> dict[str, str]:
        """Return the tracer's part of `run.json`."""
        return tracer_as_json(BUILTIN, self.library, str(SPOOL_VERSION))


class SiteTracer:
    """The Darshan runtime of the site, without MPI: each process writes a log."""

    def __init__(self, library: Path):
        self.library, self._version = library, ""

    def begin(self, logs: Path) -> dict[str, str]:
        """Return what the ranks must know; make the folders that Darshan expects."""
        now = datetime.now()
        for day in (now, now + timedelta(days=1)):
            of_day = logs / f"{day.year}" / f"{day.month}" / f"{day.day}"
            of_day.mkdir(parents=True, exist_ok=True)
        return {"tracer": str(self.library), "darshan_logs": str(logs)}

    def end(
        self, logs: Path, ended_s: float, own: Container[Identity]
    ) -> dict[str, Any]:
        """Move all logs into one folder; a ConfigError says that there are none.

        It returns what is known of them, a part of `run.json`.
        """
        found = [path for path in logs.rglob("*.darshan*") if path.is_file()]
        for path in found:
            path.rename(logs / path.name)
        for folder in sorted(logs.rglob("*"), reverse=True):
            if folder.is_dir():
                folder.rmdir()
        whole = sorted(logs.glob("*.darshan"))
        if not whole:
            raise ConfigError(
                f"darshan.runtime: {self.library} left no log in {logs}, "
                "expected a runtime that traces programs without MPI and knows "
                "DARSHAN_LOGPATH."
            )
        first = read_any_log(whole[0], OURS, may_be_empty=True)
        self._version = first.metadata.get("lib_ver", "")
        is_whole = len(whole) == len(found)  # others are partial
        return {"logs_are_whole": is_whole, "interference": None}

    def describe(self) -> dict[str, str]:
        """Return the tracer's part of `run.json`."""
        return tracer_as_json(DARSHAN, self.library, self._version)


def remove_counts(logs: Path) -> None:
    """Remove what our tracer has counted, when no log needs it any more."""
    for spools, _ in left_folders(logs):
        shutil.rmtree(spools.parent, ignore_errors=True)


def make_tracer(setting: str, native: Path) -> OwnTracer | SiteTracer:
    """Return who traces, by `darshan.runtime`; `native` has our library."""
    runtime = find_darshan_runtime(setting)
    if runtime is not None:
        return SiteTracer(runtime)
    return OwnTracer(native / "libtierscope_trace.so")


def with_preloadable_libraries(node: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return what the ranks must know, with libraries that `LD_PRELOAD` can name.

    It cannot quote blanks and colons, so a library behind such a path gets a link in a
    folder of the node.
    """
    changed = dict(node)
    for name in ("library", "tracer"):
        path = os.path.abspath(node[name])
        if SEPARATORS & set(path):
            link = folder / os.path.basename(path)
            link.symlink_to(path)
            changed[name] = str(link)
    return changed


def refuse_unloadable(command: Sequence[str], node: Mapping[str, Any]) -> None:
    """Refuse a command whose programs cannot load our libraries, before the LFS fills.

    A ConfigError names the program, and says why.
    """
    libraries = [node["library"], node["tracer"]]
    environ = os.environ | {"LD_PRELOAD": _preloaded(*libraries)}
    if why := why_not_loaded(command, list(map(Path, libraries)), environ):
        raise ConfigError(
            f"loader.command: {why}, expected a program that loads what redirects and "
            "traces its opens"
        )


def _preloaded(*libraries: str) -> str:
    """Return `LD_PRELOAD` with libraries of ours before those of the user."""
    return ":".join(filter(None, [*libraries, os.environ.get("LD_PRELOAD")]))


def prepare_tracing(node: Mapping[str, Any], n_files: int) -> None:
    """Write the settings of a site's Darshan, by which it traces only the tiers.

    A ConfigError says that Darshan has no way to write a path; our tracer takes any.
    """
    if "darshan_logs" not in node:
        return
    try:
        text = darshan_settings(
            [f"{prefix}/" for prefix in node["traced"]],
            min(_MOST_RECORDS, n_files * _EPOCHS),
            _PATH_BYTES,
            unused=("HEATMAP", "MPI-IO"),
        )
    except ValueError as error:
        raise ConfigError(
            "darshan.runtime: got a site's Darshan, expected builtin, which traces any "
            f"path: {error}"
        ) from error
    write_text(node["settings"], text)


def tracing_environment(node: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of a traced and redirected command on a prepared node.

    The redirecting library stands first: so logs have the paths of the tiers.
    """
    library = Path(node["library"])
    if "spools" in node:
        tracer, spools = Path(node["tracer"]), Path(node["spools"])
        return traced_environment(tracer, spools, node["traced"], before=[library])
    kept = {name: one for name, one in os.environ.items() if name not in OVERRIDES}
    return kept | {
        "LD_PRELOAD": _preloaded(str(library), node["tracer"]),
        "DARSHAN_CONFIG_PATH": node["settings"],
        "DARSHAN_LOGPATH": node["darshan_logs"],
        "DARSHAN_ENABLE_NONMPI": "1",
        "DARSHAN_DISABLE_SHARED_REDUCTION": "1",
    }
