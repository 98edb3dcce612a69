"""All that writes files, with calls of the system that fail one after the other.

    NATIVE=DIR LD_PRELOAD=liberrors.so python tests/writers.py WRITER ...

A writer writes to a folder. Each of its calls that change the folder fails once, alone
and with all later ones. Then it must raise one line that names a file or the folder, or
finish. No file under a final name differs from the whole one, nothing else is left but
what the next start takes over (`kept`), and that writes all.
"""

import ctypes
import errno
import itertools
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parents[1] / "workflow" / "scripts"))

from launch import move_finished
from tierscope.benchmark.placement.copies import Copier
from tierscope.benchmark.programs.ended.kept import mark_begun, mark_ended, reserved
from tierscope.benchmark.programs.staging import StagedFiles
from tierscope.benchmark.programs.table import NodeTable, TableFolders
from tierscope.benchmark.run_folder import mark_complete
from tierscope.core.files import errors_named, write_array, write_text
from tierscope.core.tables import write_table
from tierscope.core.words import error_words
from tierscope.data.listing import list_files
from tierscope.data.lmdb.file import generate_database, provenance_here
from tierscope.data.tfrecord import SampleWriter, generate_files, present_files
from tierscope.figures.style import save_figure
from tierscope.logs.chunks.chunk import TableWriters
from tierscope.logs.chunks.folders import folder_written_whole
from tierscope.logs.chunks.listing import ListedLog, list_logs
from tierscope.logs.chunks.store import ReadLogs
from tierscope.logs.reading import ReadingKey, ReadLog
from tierscope.storage.emulated.device import Device
from tierscope.storage.emulated.library import Emulation
from tierscope.storage.lease import Lease
from tierscope.storage.local_folder import LocalStorage
from tierscope.storage.tier import make_epoch_aliases
from tierscope.trace.log_writer import LoggedJob, write_log
from tierscope.trace.posix_records import POSIX_RECORD

ERRORS = ("ENOSPC", "EDQUOT", "EIO", "EROFS", "ESTALE", "EMFILE")
WRITERS: dict[str, Callable[[Path], object]] = {}
KEPT: dict[str, tuple[str, ...]] = {}


def writer(*kept: str) -> Callable[[Callable[[Path], object]], None]:
    """Take a function among the writers; it makes a folder beside what it needs."""

    def take(function: Callable[[Path], object]) -> None:
        WRITERS[function.__name__], KEPT[function.__name__] = function, kept

    return take


@writer()
def text(out: Path) -> None:
    write_text(out / "new" / "text.txt", "some words\n" * 5000)


@writer()
def lasting_text(out: Path) -> None:
    write_text(out / "text.txt", "some words\n", lasting=True)


@writer()
def table(out: Path) -> None:
    rows = {"file_id": range(9), "path": "a", "size_bytes": 1, "ost": -1}
    write_table(pd.DataFrame(rows), out / "manifest.parquet", "manifest")


@writer()
def array(out: Path) -> None:
    write_array(out / "array.npy", np.arange(100_000))


@writer()
def log(out: Path) -> None:
    facts = {"started_s": 1, "ended_s": 2, "uid": 0, "job_id": 0}
    job = LoggedJob(n_processes=1, exe="x", mounts={}, **facts)
    records = np.zeros(99, POSIX_RECORD)
    write_log(out / "log.darshan", {"POSIX": records}, {1: "/a"}, job)


@writer()
def figure(out: Path) -> None:
    save_figure(Figure(figsize=(1, 1)), [out / "figure.svg"])


@writer("staging/")
def run(out: Path) -> None:
    """The files of a run, which are then moved to their place."""
    staged = out / "staging" / "cache-000" / "rep-0"
    for name in ("log.darshan", "epochs.parquet", "logs/0.darshan"):
        write_text(staged / name, name)
    mark_complete(staged, {"hash": "x"})
    move_finished(out / "staging", out / "runs")


@writer("begun.json")
def program(out: Path) -> None:
    """The notes of a program's nodes."""
    if not out.exists():
        out.mkdir()
    with reserved(out / "room", 1 << 16):
        mark_begun(out, {"started": "now"})
    write_array(out / "opens-0.npy", np.arange(9))
    mark_ended(out)


@writer()
def database(out: Path) -> None:
    generate_database(out / "database", provenance_here(9, 600, 4))


@writer()
def dataset(out: Path) -> None:
    out.mkdir(exist_ok=True)
    present_files(out, 600)  # removes what a killed process has left
    generate_files(out, list("abcd"), range(4), 600)


@writer()
def striped_dataset(out: Path) -> None:
    out.mkdir(exist_ok=True)
    SampleWriter(600).write(str(out / "file"), 7)


@writer()
def copies(out: Path) -> None:
    """Copies of a policy, as a node makes them meanwhile."""
    gfs, lfs = out.parent / "gfs", out / "lfs"
    for root in (gfs, lfs):
        (root / "data" / "set").mkdir(parents=True, exist_ok=True)
        make_epoch_aliases(root / "data", 1, background=True)
    (gfs / "data" / "set" / "a").write_bytes(b"x" * 600)
    roots = gfs / "data", lfs / "data"
    Copier(*roots, "set", "set", 600, str).copy("a", 0, None)


@writer("lfs/")
def staged_files(out: Path) -> None:
    """Copies of a user's files."""
    data = out.parent / "mine"
    for name in ("a/1", "a/2", "b"):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text(name)
        os.utime(data / name, ns=(5, 5))
    manifest = pd.DataFrame(list_files(data, out.parent / "notes").columns())
    storage = LocalStorage(out / "lfs" / "data", 0, 1, "launch")
    try:
        files = StagedFiles(storage, "mine", data, manifest)
        files.claim()
        files.fill(np.ones(3, bool), cold=False)
        held = [files.folder.joinpath(name).read_text() for name in manifest["path"]]
        write_text(out / "held", str(held))
    finally:
        storage.release()


@writer("notes")
def listing(out: Path) -> None:
    """The notes on a user's dataset, which a listing leaves to a later one."""
    (out.parent / "mine").mkdir(exist_ok=True)
    (out.parent / "mine" / "a").write_text("a")
    os.utime(out.parent / "mine", ns=(5, 5))
    listed = list_files(out.parent / "mine", out / "notes")
    write_text(out / "listed", str(listed.names))
    (out / "notes").unlink()


@writer()
def lists_of_logs(out: Path) -> None:
    for name in ("a.darshan", "b.darshan"):
        (out.parent / name).write_text(name)
        os.utime(out.parent / name, ns=(5, 5))
    list_logs([str(out.parent)], out)


@writer()
def kept_logs(out: Path) -> None:
    logs = [ListedLog("/a", 10, 1), ListedLog("/b", 20, 2)]
    key = ReadingKey("settings", "code")
    with errors_named(out), ReadLogs(out, "2026", logs, key) as reading:
        reading.started_ns = 5
        for one in logs:
            reading.add(one.path, ReadLog("digest", {"uid": 1}, '"summary"'))
        reading.keep()


@writer()
def chunk(out: Path) -> None:
    with (
        folder_written_whole(out / "chunk", 5) as folder,
        TableWriters(folder, ["manifest"]),
    ):
        pass


@writer()
def lease(out: Path) -> None:
    out.mkdir(exist_ok=True)
    held = Lease(out / ".lease", "a test", "token")
    held.take()
    held.give_back()


@writer()
def devices(out: Path) -> None:
    """The files of emulated devices, in memory."""
    emulation = Emulation.__new__(Emulation)
    emulation.library, emulation.devices = native("device"), [Device(("/a",))]
    emulation.system = SimpleNamespace(n_processes=1)
    emulation._config, emulation._state = out / "devices.tsv", out / "devices.state"
    emulation.environment()


@writer()
def node_table(out: Path) -> None:
    """The table of a node, in memory."""
    for folder in (out.parent / "set", out / "links"):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    folders = TableFolders(
        ["/set"], str(out.parent / "set"), "/lfs", str(out / "links"), True
    )
    made = {"names": ["a"], "is_link": np.zeros(1, bool), "on_lfs": np.ones(1, bool)}
    room = {"wants_closes": False, "library": native("redirect"), "room": (8, 2)}
    NodeTable.create(out / "table", folders, **made, **room)


def native(name: str) -> Path:
    """Return a compiled library of ours."""
    return Path(os.environ["NATIVE"], f"libtierscope_{name}.so")


def tree(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


class Trial:
    """A writer in a folder of its own."""

    def __init__(self, name: str, room: Path):
        self._write, self._kept = WRITERS[name], KEPT[name]
        self._room, self.out = room, room / "out"

    def begin(self) -> None:
        """Remove what there is."""
        shutil.rmtree(self._room, ignore_errors=True)
        self._room.mkdir()

    def write(self) -> Exception | None:
        """Write, and return the error."""
        try:
            self._write(self.out)
        except Exception as error:
            return error
        return None

    def faults(self, error: Exception | None, whole: dict[str, bytes]) -> Iterator[str]:
        """Yield what is wrong after an error, and then after another start."""
        found = tree(self.out)
        found = {k: v for k, v in found.items() if not k.startswith(self._kept)}
        if error is None and found != whole:
            yield f"says nothing, but left {sorted(found)}"
        if error is not None:
            line = error_words(error)
            if "\n" in line or str(self._room) not in line:
                yield f"says {type(error).__name__}: {line!r}"
        yield from (f"left {name}" for name in found if whole.get(name) != found[name])
        if again := self.write():
            yield f"cannot be repeated: {again!r}"
        elif tree(self.out) != whole:
            yield f"is not repeated: {sorted(tree(self.out))}"


def try_all(name: str, fail: Callable[..., int], room: Path) -> dict[str, list[str]]:
    """Return what is wrong after a failed call of a writer, in lines by the error."""
    trial = Trial(name, room)
    trial.begin()
    if error := trial.write():
        raise error
    whole = tree(trial.out)
    return {kind: list(_try(trial, fail, kind, whole)) for kind in ERRORS}


def _try(
    trial: Trial, fail: Callable[..., int], kind: str, whole: dict[str, bytes]
) -> Iterator[str]:
    for and_later in (True, False) if kind == ERRORS[0] else (True,):
        for nth in itertools.count(1):
            trial.begin()
            fail(os.fsencode(trial.out), getattr(errno, kind), nth, and_later)
            error = trial.write()
            if not fail(b"", 0, 0, 0):
                break
            for what in trial.faults(error, whole):
                yield f"after call {nth}{' and later' * and_later}: {what}"
        if nth == 1:
            yield "no call failed"


def main() -> None:
    """Try the writers that are named, and print what is wrong as JSON."""
    fail = ctypes.CDLL(None).tierscope_fail
    with tempfile.TemporaryDirectory(dir="/dev/shm") as room:  # syncs take no time
        names = sys.argv[1:] or WRITERS
        found = {name: try_all(name, fail, Path(room, "room")) for name in names}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
