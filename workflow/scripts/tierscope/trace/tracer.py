"""The tracer of a benchmark: the site's Darshan or our own, with one interface.

`preload` and `environment` give the libraries and variables of a rank's interpreter;
`join` is called once under MPI; `begin`, `end` and `write_log` enclose a run.
"""

import ctypes
import math
import os
import shutil
import sys
import time
import zlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tierscope.core.description import RunDescription
from tierscope.core.files import write_text
from tierscope.core.scenario import Point
from tierscope.core.validation import ConfigError
from tierscope.core.words import as_text
from tierscope.policies import PEERS, kind_of
from tierscope.storage.mounts import mount_table
from tierscope.storage.preloaded import refuse_unless_loaded
from tierscope.storage.tier import background_root, peer_root
from tierscope.trace.runtime import (
    BUILTIN,
    DARSHAN,
    check_darshan_runtime,
    darshan_environment,
    darshan_settings,
    tracer_as_json,
)

_PATH_BYTES = 256  # epoch, node, dataset and file name below a tier's data directory


class BuiltinTracer:
    """Our preload library; counts like Darshan and writes one Darshan log per run."""

    writes_log_at_end = False

    def __init__(self, library: Path, prefixes: Sequence[str]):
        self.library, self._prefixes = library, prefixes

    def preload(self) -> list[Path]:
        """Return the libraries that the rank's interpreter must preload."""
        return [self.library]

    def environment(self) -> dict[str, str]:
        """Return the variables that the rank's interpreter must start with."""
        return {}

    def join(self, processes) -> None:
        """Bind this process's copy of the library.

        A loader only warns if it refuses the library; a ConfigError on rank 0 says so.
        """
        refuse_unless_loaded(self.library, processes)
        self._rank, self._size = processes.rank, processes.size
        library = ctypes.CDLL(None)
        self._begin = library.tierscope_trace_begin
        self._begin.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p]
        self._end = library.tierscope_trace_end

    def begin(self, folder: Path) -> None:
        """Start counting for a run."""
        self._spool = folder.absolute() / "spool"
        self._spool.mkdir(parents=True, exist_ok=True)
        self._started_s = int(time.time())
        prefixes = "\n".join(self._prefixes)
        code = self._begin(os.fsencode(self._spool), self._rank, os.fsencode(prefixes))
        if code:
            raise OSError(-code, os.strerror(-code), str(self._spool))

    def end(self) -> None:
        """Stop counting."""
        if code := self._end():
            raise OSError(-code, f"calls were lost: {os.strerror(-code)}", self._spool)

    def write_log(self, path: Path, duration_s: float | None) -> None:
        """Write the run's log from the counts of all ranks (rank 0, after `end`).

        `duration_s` is the run's duration in virtual time, None in real time.
        """
        from tierscope.trace.log_writer import LoggedJob  # rank 0 only
        from tierscope.trace.spool import write_log_from_spools

        job = LoggedJob(
            n_processes=self._size,
            exe=as_text(b" ".join(map(os.fsencode, sys.orig_argv))),
            mounts=mount_table(),
            started_s=self._started_s,
            ended_s=self._end_s(duration_s),
            metadata={"tracer": "tierscope builtin"},
        )
        write_log_from_spools(self._spool, path, job)
        shutil.rmtree(self._spool)

    def _end_s(self, duration_s: float | None) -> int:
        """Return the end of the run in seconds since 1970."""
        if duration_s is None:
            return int(time.time())
        return self._started_s + math.ceil(duration_s)

    def describe(self) -> dict[str, Any]:
        """Return the tracer's part of `run.json`."""
        from tierscope.trace.spool import SPOOL_VERSION  # rank 0 only

        return tracer_as_json(BUILTIN, self.library, str(SPOOL_VERSION))


class SiteDarshan:
    """The Darshan runtime of the site, which writes its log at MPI_Finalize."""

    writes_log_at_end = True

    def __init__(self, library: Path, environment: Mapping[str, str]):
        self.library, self._environment = library, environment
        self._version = None

    def preload(self) -> list[Path]:
        """Return the libraries that the rank's interpreter must preload.

        A ConfigError says that Darshan cannot trace the rank; the loader would only
        warn.
        """
        check_darshan_runtime(self.library)
        return [self.library]

    def environment(self) -> dict[str, str]:
        """Return the variables that the rank's interpreter must start with."""
        return dict(self._environment)

    def join(self, processes) -> None:
        """Check that Darshan is loaded in all processes.

        A loader only warns if it refuses the library; a ConfigError on rank 0 says so.
        """
        refuse_unless_loaded(self.library, processes)

    def begin(self, folder: Path) -> None:
        """Do nothing: the aliases select what Darshan counts."""

    def end(self) -> None:
        """Do nothing: Darshan ends with MPI."""

    def write_log(self, path: Path, duration_s: float | None) -> None:
        """Do nothing: Darshan writes the log itself."""

    def check_log(self, path: Path, n_processes: int, started: datetime) -> None:
        """Note the version of a log; a LogError if it is missing or of another run."""
        from tierscope.trace.log import LogError, read_posix  # rank 0 only

        if not path.is_file():
            raise LogError(
                path,
                f"was not written when MPI ended: {self.library} must be built for "
                "the MPI that mpi4py uses; its messages above may say why.",
            )
        job, columns, _ = read_posix(path)
        started_s = int(started.timestamp())
        if job.n_processes != n_processes:
            raise LogError(
                path,
                f"is of {job.n_processes} processes, expected {n_processes}.",
            )
        if job.end_time_s < started_s:
            raise LogError(
                path,
                f"is of an earlier run: it ends at {job.end_time_s} s, and this run "
                f"started at {started_s} s.",
            )
        if shared := int((columns["rank"] < 0).sum()):
            raise LogError(
                path,
                f"has {shared} records shared by all processes, expected one for "
                "each process (DARSHAN_DISABLE_SHARED_REDUCTION).",
            )
        self._version = job.metadata.get("lib_ver")

    def describe(self) -> dict[str, Any]:
        """Return the tracer's part of `run.json`."""
        return tracer_as_json(DARSHAN, self.library, self._version)


def make_tracer(
    description: RunDescription,
    runtime: Path | None,
    native: Path,
    staging: Path,
    points: Sequence[Point],
) -> BuiltinTracer | SiteDarshan:
    """Return the tracer of a launch.

    Parameters
    ----------
    description : RunDescription
        Settings that determine the measurements.
    runtime : Path or None
        The site's Darshan (`tierscope.trace.runtime.find_darshan_runtime`), if it
        traces.
    native : Path
        Folder of our own libraries.
    staging : Path
        Folder of the new runs; Darshan's settings and log are written there.
    points : sequence of Point
        The points of the launch; only one with Darshan: its log covers a whole job.

    Raises
    ------
    ConfigError
        If Darshan would have to trace a launch of several points.
    """
    roots = [tier.data_root() for tier in description.system.tiers.values()]
    prefixes = [f"{root}.ep" for root in roots]
    kind = kind_of(description.scenario)
    if kind.moves_files:
        prefixes += [f"{background_root(root)}.ep" for root in roots]
        if kind is PEERS:
            prefixes.append(f"{peer_root(roots[1])}.ep")
    if runtime is None:
        library = native.absolute() / "libtierscope_trace.so"
        return BuiltinTracer(library, prefixes)
    if len(points) > 1:
        raise ConfigError(
            f"system {description.system.name}: points_per_launch: got all, "
            f"expected 1: Darshan ({runtime}) writes one log per MPI job."
        )
    return SiteDarshan(runtime, _settle_darshan(description, prefixes, staging, points))


def _settle_darshan(
    description: RunDescription,
    prefixes: Sequence[str],
    staging: Path,
    points: Sequence[Point],
) -> dict[str, str]:
    """Write Darshan's settings for a run and return its environment."""
    dataset = description.dataset
    system = description.system
    n_processes = system.n_processes
    epochs = description.training.epochs
    n_records = -(-dataset.n_files // n_processes) * epochs
    kind = kind_of(description.scenario)
    if kind.moves_files:  # one process copies for the whole node
        n_records += 2 * -(-dataset.n_files // system.n_nodes) * epochs
        if kind is PEERS:  # stage-in, uneven owners
            n_records += 2 * -(-dataset.n_files // system.n_nodes)
    folder = (staging / points[0].path).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log.darshan").unlink(missing_ok=True)  # left by a failed run
    text = darshan_settings(
        prefixes,
        n_records_per_process=n_records,
        longest_path_bytes=max(map(len, prefixes)) + _PATH_BYTES,
    )
    # Named by content: the processes of a node, often of all nodes, share a file.
    settings = staging.absolute() / f"darshan-{zlib.crc32(text.encode()):08x}.conf"
    if not settings.exists():
        write_text(settings, text)
    return darshan_environment(settings, folder / "log.darshan")
