"""What the tracer adds to opening, reading and closing a 128 KiB file, warm.

A C loop makes the calls that TensorFlow makes, in alternating plain and preloaded
processes. Each file is opened under a new name in every epoch of a real run, so
``first open`` is what a run pays; ``again`` is the tracer without a new record. The
floor is a library that only finds a file by its path, reads the clock eight times a
file and adds to a record in a mapped file (least_tracer.c): no tracer does less.

``make bench BENCH=tracing OLD=COMMIT`` also measures the tracer of a commit, in turn
with that of the working tree.
"""

import os
import platform
import shutil
from pathlib import Path

import numpy as np
from common import (
    NATIVE,
    ROOT,
    CannotMeasure,
    Results,
    WrongWork,
    build_native,
    progress,
    run,
    run_as_script,
    temporary_folder,
)
from tierscope.trace.spool import SPOOL_VERSION, open_spool

FILE_SIZE_BYTES = 1 << 17
CASES = {"new": "first open of each path", "known": "the same paths again"}
STARTS = {"new": "1.10-1.16", "known": "1.07-1.08"}
PLAIN, TRACED, FLOOR = "plain", "traced", "floor"
OLD = os.environ.get("TIERSCOPE_OLD_TRACER", "")  # a commit
READS_PER_FILE = 2  # the last one finds the end
FLOOR_SPOOL = "0.spool"
VERSION_OFFSET = 16  # in the header of a spool
FLOOR_RECORD = np.dtype(  # of least_tracer.c
    [(name, "u8") for name in ("id", "opens", "reads", "bytes")]
    + [(name, "f8") for name in ("read_s", "meta_s")]
    + [("path", "S80")]
)
Counts = dict[str, int]


def measure(small: bool = False) -> Results:
    """Measure plain and traced processes in turn."""
    results = Results("tracing", "time per file of 128 KiB, one process", small)
    n_files, n_passes, n_rounds = (64, 2, 2) if small else (512, 8, 30)
    build_native()
    if not (compiler := shutil.which("cc")):
        raise CannotMeasure("there is no C compiler (cc).")
    with temporary_folder() as folder:
        here = Path(__file__).parent
        loop, floor = folder / "read_loop", folder / "floor.so"
        run([compiler, "-O2", "-o", loop, here / "read_loop.c"])
        shared = ["-O2", "-shared", "-fPIC", "-o", floor]
        run([compiler, *shared, here / "least_tracer.c", "-ldl"])
        libraries = {PLAIN: None, TRACED: _tracer(), FLOOR: floor}
        if OLD:
            libraries[OLD] = _old_tracer(folder)
        _make_files(folder / "data", n_files, n_passes)
        for number in range(n_rounds):
            turn = number % len(libraries)
            for what in [*libraries, *libraries][turn : turn + len(libraries)]:
                progress("tracing", f"round {number + 1} of {n_rounds}, {what}")
                command = [loop, folder / "data", n_files, n_passes]
                output, recorded = _run(command, folder, libraries[what])
                _add(results, what, output, n_files)
                if what != PLAIN:
                    _count_recorded(results, what, recorded, 2 * n_passes * n_files)
    for kind, name in CASES.items():
        for clock in ("CPU", "wall"):
            over, under = f"{TRACED}, {clock}", f"{PLAIN}, {clock}"
            goal, start = (1.05, STARTS[kind]) if clock == "CPU" else (None, "")
            results.compare(name, over, under, at_most=goal, start=start)
            results.compare(name, f"{FLOOR}, {clock}", under)
            if OLD:
                results.compare(name, over, f"{OLD}, {clock}", at_most=1.02)
    return results


def _tracer() -> str:
    """Return the path of our tracer; LD_PRELOAD takes none with a space."""
    library = NATIVE / platform.machine() / "libtierscope_trace.so"
    return os.path.relpath(library, ROOT)


def _old_tracer(folder: Path) -> Path:
    """Compile the tracer of another commit, with its own Makefile."""
    archive = folder / "old.tar"
    run(["git", "archive", "-o", archive, OLD, "workflow/native"])
    run(["tar", "-xf", archive, "-C", folder])
    output = folder / "old"
    native = folder / "workflow" / "native"
    run(["make", "--silent", "-C", native, f"OUTPUT={output}"])
    return output / "libtierscope_trace.so"


def _make_files(data: Path, n_files: int, n_passes: int) -> None:
    """Make files and an alias of their folder for each pass."""
    data.mkdir()
    content = os.urandom(FILE_SIZE_BYTES)
    for i in range(n_files):
        (data / f"{i:07d}.tfrecord").write_bytes(content)
    for number in range(n_passes):
        data.with_name(f"{data.name}.ep{number}").symlink_to(data.name)
    os.sync()


def _run(
    command: list[object], folder: Path, library: str | Path | None
) -> tuple[str, Counts]:
    """Run the loop, with a library that traces or without; return what it recorded."""
    if library is None:
        return run(command), {}
    spool = folder / "spool"
    spool.mkdir()
    environment = {
        "LD_PRELOAD": str(library),
        "TIERSCOPE_TRACE_SPOOL": str(spool),
        "TIERSCOPE_TRACE_RANK": "0",
        "TIERSCOPE_TRACE_PREFIXES": f"{folder / 'data'}.ep",
    }
    output = run(command, environment)
    if len(spools := list(spool.glob("*.spool"))) != 1:
        raise WrongWork(f"{library}: got {len(spools)} spools, expected 1.")
    recorded = _recorded(spools[0])
    shutil.rmtree(spool)
    return output, recorded


def _recorded(spool: Path) -> Counts:
    """Return the opens, reads and bytes of our tracer's spool, or of the floor's."""
    names = {
        "opens": "POSIX_OPENS",
        "reads": "POSIX_READS",
        "bytes": "POSIX_BYTES_READ",
    }
    if spool.name == FLOOR_SPOOL:
        records = np.fromfile(spool, FLOOR_RECORD)
        return {unit: int(records[unit].sum()) for unit in names}
    with spool.open("r+b") as file:  # of an old tracer, with the same records
        file.seek(VERSION_OFFSET)
        file.write(SPOOL_VERSION.to_bytes(4, "little"))
    records = open_spool(spool).records
    return {unit: int(records[name].sum()) for unit, name in names.items()}


def _count_recorded(
    results: Results, what: str, recorded: Counts, n_opens: int
) -> None:
    """Count the calls that a tracer recorded in all passes of a process."""
    expected = {
        "opens": n_opens,
        "reads": READS_PER_FILE * n_opens,
        "bytes": FILE_SIZE_BYTES * n_opens,
    }
    for case in CASES.values():
        for unit, found in recorded.items():
            results.count(case, what, f"recorded {unit}", found, expected[unit])


def _add(results: Results, what: str, output: str, n_files: int) -> None:
    """Add what the loop printed."""
    for line in output.splitlines():
        kind, wall_us, cpu_us, n_bytes = line.split()
        case = CASES[kind]
        results.count(case, what, "bytes", int(n_bytes), n_files * FILE_SIZE_BYTES)
        results.add(case, f"{what}, CPU", [float(cpu_us)], "us a file")
        results.add(case, f"{what}, wall", [float(wall_us)], "us a file")


if __name__ == "__main__":
    run_as_script(measure)
