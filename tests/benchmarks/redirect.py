"""What redirecting adds to opening and closing a file of a dataset, in memory.

The node's table has 1.3 million names, of which some exist, spread over the table. A
C loop opens and closes those in processes that alternate: with a library that only
passes the calls on (bare_wrapper.c), and with ours. ``other`` files are in no dataset;
the library looks where they lead after the open. The events that the keeper takes say
that each open was redirected.
"""

import os
import platform
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from common import (
    NATIVE,
    CannotMeasure,
    Results,
    build_native,
    progress,
    run,
    run_as_script,
)
from tierscope.benchmark.programs.table import (
    OPENED_GFS,
    OPENED_LFS,
    NodeTable,
    TableFolders,
)

CASE, OTHER = "a file of the dataset", "a file of no dataset"
BARE, OURS, CLOSES = "bare wrapper", "redirected", "redirected with closes"
VIRTUAL = "/tierscope/imagenet"
TABLE_BYTES, EVENT_BYTES = 25e6, 8 * 2**20


def measure(small: bool = False) -> Results:
    """Measure a bare wrapper and the library that redirects in turn."""
    results = Results("redirect", "open and close of a file in memory", small)
    n_names, n_files, n_passes, n_rounds = 1_300_000, 20_000, 4, 10
    if small:
        n_names, n_files, n_passes, n_rounds = 5_000, 500, 1, 2
    build_native()
    if not (compiler := shutil.which("cc")):
        raise CannotMeasure("there is no C compiler (cc).")
    with _memory() as folder:
        here = Path(__file__).parent
        loop, bare = folder / "open_loop", folder / "bare_wrapper.so"
        run([compiler, "-O2", "-o", loop, here / "open_loop.c"])
        flags = ["-O2", "-shared", "-fPIC"]
        run([compiler, *flags, "-o", bare, here / "bare_wrapper.c", "-ldl"])
        progress("redirect", f"a table of {n_names} names")
        names = [f"train/{i // 1300:04d}/{i:08d}.JPEG" for i in range(n_names)]
        existing = random.Random(1).sample(range(n_names), n_files)
        _make_files(folder, [names[i] for i in existing])
        tables = {
            what: _make_table(folder / f"table-{int(closes)}", names, existing, closes)
            for what, closes in ((OURS, False), (CLOSES, True))
        }
        _add_sizes(results, tables[OURS])
        programs = {BARE: None, **tables}
        for number in range(n_rounds):
            for what in list(programs)[:: 1 if number % 2 == 0 else -1]:
                progress("redirect", f"round {number + 1} of {n_rounds}, {what}")
                table = programs[what]
                for case, root in _roots(folder, table).items():
                    command = [loop, root, folder / "names", n_passes]
                    output = run(command, _environment(table, bare))
                    _add(results, case, what, output, n_files)
                    if table:
                        _count_events(results, case, what, table, n_passes, n_files)
    for clock in ("CPU", "wall"):
        under = f"{BARE}, {clock}"
        results.compare(CASE, f"{OURS}, {clock}", under, at_most=1.5)
        results.compare(CASE, f"{CLOSES}, {clock}", under)
        results.compare(OTHER, f"{OURS}, {clock}", under)
    return results


@contextmanager
def _memory() -> Iterator[Path]:
    """Yield a folder in memory, removed at the end."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="tierscope-bench-") as one:
        yield Path(one)


def _make_files(folder: Path, names: Sequence[str]) -> None:
    """Make files on both tiers and beside the dataset, and write down their names."""
    for name in names:
        for root in ("gfs", "lfs", "other"):
            path = folder / root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    (folder / "names").write_text("".join(f"{name}\n" for name in names))


def _make_table(
    path: Path, names: Sequence[str], existing: Sequence[int], wants_closes: bool
) -> NodeTable:
    """Make a table: every second file that exists is on the LFS."""
    folder, links = path.parent, path.with_name(f"{path.name}.links")
    links.mkdir()
    on_lfs = np.zeros(len(names), bool)
    on_lfs[existing[::2]] = True
    return NodeTable.create(
        path,
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
        wants_closes=wants_closes,
        library=NATIVE / platform.machine() / "libtierscope_redirect.so",
    )


def _add_sizes(results: Results, table: NodeTable) -> None:
    """Compare the bytes of a table, and of its events, with their limits."""
    n_files, n_bytes = len(table.names), table.path.stat().st_size
    case = f"table of {n_files:,} files"
    for what, size_bytes, limit in (
        ("all but events", n_bytes - EVENT_BYTES, TABLE_BYTES),
        ("events", EVENT_BYTES, EVENT_BYTES),
    ):
        results.count(case, what, "files", len(table.on_lfs()), n_files)
        results.add(case, what, [float(size_bytes)], "B")
        results.limit(case, what, at_most=limit)


def _roots(folder: Path, table: NodeTable | None) -> dict[str, str]:
    """Return the dataset's path and that of other files, as a program names them."""
    return {CASE: VIRTUAL if table else f"{folder}/gfs", OTHER: f"{folder}/other"}


def _environment(table: NodeTable | None, bare: Path) -> dict[str, str]:
    """Return the environment of the loop, with our library or the bare wrapper."""
    if table is None:
        return {"LD_PRELOAD": str(bare)}
    library = NATIVE / platform.machine() / "libtierscope_redirect.so"
    return {
        "LD_PRELOAD": os.path.relpath(library),
        "TIERSCOPE_REDIRECT": str(table.path),
    }


def _add(results: Results, case: str, what: str, output: str, n_files: int) -> None:
    """Add what the loop printed."""
    for line in output.splitlines():
        wall_ns, cpu_ns, n_opened = line.split()
        results.count(case, what, "files a pass", int(n_opened), n_files)
        results.add(case, f"{what}, wall", [float(wall_ns)], "ns a file")
        results.add(case, f"{what}, CPU", [float(cpu_ns)], "ns a file")


def _count_events(
    results: Results,
    case: str,
    what: str,
    table: NodeTable,
    n_passes: int,
    n_files: int,
) -> None:
    """Count the opens that the library has noted, by tier; none of other files."""
    kinds = table.drain(is_last=True)[0]["kind"]
    if case == CASE:
        n_opens = (n_passes + 1) * n_files
        for tier, kind in (("GFS", OPENED_GFS), ("LFS", OPENED_LFS)):
            found = int((kinds == kind).sum())
            results.count(case, what, f"opens on the {tier}", found, n_opens // 2)
    elif len(kinds):
        raise CannotMeasure(f"{case}: got {len(kinds)} events, expected none.")


if __name__ == "__main__":
    run_as_script(measure)
