"""What redirecting adds to an epoch of the TensorFlow example, in memory.

Processes of the example alternate: traced only, and redirected and traced, as
`tierscope sweep` runs them, with a keeper that takes the events. Files are of 128 KiB,
half of them on the LFS. The events say that each open was redirected.
"""

import platform
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
from common import NATIVE, SCRIPTS, Results, build_native, progress, run, run_as_script
from tierscope.benchmark.programs.keeper import NodeKeeper
from tierscope.benchmark.programs.table import NodeTable, TableFolders

FILE_BYTES = 128 << 10
TRACED, REDIRECTED = "traced", "redirected and traced"
VIRTUAL = "/tierscope/bench"
HOOK = SCRIPTS / "tierscope" / "benchmark" / "programs" / "hook"


def measure(small: bool = False) -> Results:
    """Measure epochs of the example without and with redirection in turn."""
    results = Results("program", "an epoch of the TensorFlow example in memory", small)
    n_files, n_epochs, n_rounds = (64, 2, 1) if small else (2048, 7, 5)
    build_native()
    case = f"{n_files} x 128 KiB"
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="tierscope-bench-") as one:
        folder = Path(one)
        names = [f"{number:06d}" for number in range(n_files)]
        for tier in ("gfs", "lfs"):
            (folder / tier).mkdir()
        for name in names:
            (folder / "gfs" / name).write_bytes(bytes(FILE_BYTES))
        for name in names[::2]:
            (folder / "lfs" / name).write_bytes(bytes(FILE_BYTES))
        for number in range(n_rounds):
            order = [TRACED, REDIRECTED][:: 1 if number % 2 == 0 else -1]
            for what in order:
                progress("program", f"round {number + 1} of {n_rounds}, {what}")
                _run(results, case, what, folder, names, n_epochs)
    for clock in ("CPU", "wall"):
        under = f"{TRACED}, {clock}"
        results.compare(case, f"{REDIRECTED}, {clock}", under, at_most=1.03)
    return results


def _run(
    results: Results,
    case: str,
    what: str,
    folder: Path,
    names: list[str],
    n_epochs: int,
) -> None:
    """Run the example once, and add its epochs but the first."""
    with tempfile.TemporaryDirectory(dir=folder) as own:
        spools = Path(own, "spools")
        spools.mkdir()
        libraries = [_library("trace")]
        environment = {
            "TIERSCOPE_TRACE_SPOOL": str(spools),
            "TIERSCOPE_TRACE_RANK": "0",
            "TIERSCOPE_TRACE_PREFIXES": f"{folder}/",
        }
        dataset, keeper = str(folder / "gfs"), None
        if what == REDIRECTED:
            table = _table(Path(own), folder, names)
            keeper, dataset = NodeKeeper(table, None), VIRTUAL
            libraries.insert(0, _library("redirect"))
            environment["TIERSCOPE_REDIRECT"] = str(table.path)
            environment["PYTHONPATH"] = str(HOOK)
        environment["LD_PRELOAD"] = ":".join(map(str, libraries))
        script = Path(__file__).with_name("train_epochs.py")
        command = [sys.executable, script, dataset, str(n_epochs)]
        output = _run_kept(command, environment, keeper)
        for number, line in enumerate(output.splitlines()):
            cpu_s, wall_s, n_files = line.split()
            results.count(case, what, "files an epoch", int(n_files), len(names))
            if number:  # the first one starts threads
                results.add(case, f"{what}, CPU", [float(cpu_s)], "s")
                results.add(case, f"{what}, wall", [float(wall_s)], "s")
        if keeper:
            n_opens = int(keeper.finish()["opens"][:, -1].sum())
            results.count(case, what, "opens", n_opens, n_epochs * len(names))


def _run_kept(command: list, environment: dict, keeper: NodeKeeper | None) -> str:
    """Run a command while a keeper takes its events, if there is one."""
    if keeper is None:
        return run(command, environment)
    has_ended = threading.Event()

    def keep() -> None:
        while not has_ended.is_set():
            keeper.step()

    thread = threading.Thread(target=keep)
    thread.start()
    try:
        return run(command, environment)
    finally:
        has_ended.set()
        thread.join()


def _library(name: str) -> Path:
    return NATIVE / platform.machine() / f"libtierscope_{name}.so"


def _table(own: Path, folder: Path, names: list[str]) -> NodeTable:
    """Make the table of a node: every second file is on the LFS."""
    links = own / "links"
    links.mkdir()
    on_lfs = np.zeros(len(names), bool)
    on_lfs[::2] = True
    return NodeTable.create(
        own / "table",
        TableFolders(
            [VIRTUAL],
            str(folder / "gfs"),
            str(folder / "lfs"),
            str(links),
            is_virtual=True,
        ),
        names=names,
        is_link=np.zeros(len(names), bool),
        on_lfs=on_lfs,
        wants_closes=False,
        library=_library("redirect"),
    )


if __name__ == "__main__":
    run_as_script(measure)
