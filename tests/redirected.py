"""Programs under redirection and our tracer: what they opened, and in which epoch."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sessions import HANG_S
from tierscope.benchmark.programs.table import (
    OPENED_GFS,
    OPENED_LFS,
    NodeTable,
    TableFolders,
)
from tierscope.trace.log import read_any_log

SCRIPTS = Path(__file__).parents[1] / "workflow" / "scripts"
HOOK = SCRIPTS / "tierscope" / "benchmark" / "programs" / "hook"
VIRTUAL = "/tierscope/data"  # what a program gets as its dataset
# Its children find the tracer, and before it the library that redirects.
_PRELOAD = 'export LD_PRELOAD="$0:$LD_PRELOAD"; exec "$@"'


@dataclass(frozen=True)
class Redirected:
    """What a program did.

    `opens` counts opens by (process id, name, epoch), `logged` those of the tracer's
    logs and `decided` those of the table by (tier, epoch, name).
    """

    status: int
    output: str
    opens: Counter[tuple[int, str, int]]
    decided: Counter[tuple[str, int, str]]
    logged: Counter[tuple[str, int, str]]
    notes: list[dict]
    counts: dict[str, int]

    def of_epochs(self, part: str = "") -> list[tuple[int, int]]:
        """Return (files, opens) of each epoch, of the names that begin with a part."""
        found: dict[int, Counter[str]] = {}
        for (_, name, epoch), n in self.opens.items():
            if name.startswith(part):
                found.setdefault(epoch, Counter())[name] += n
        return [(len(found[e]), found[e].total()) for e in sorted(found)]

    def sums(self, kind: str, name: str) -> Counter[int]:
        """Return the sum of a value of the hook's notes of a kind, by epoch."""
        found: Counter[int] = Counter()
        for one in self.notes:
            if one["kind"] == kind:
                found[one["epoch"]] += one[name]
        return found


def run_redirected(
    command: Sequence[str | Path],
    dataset: Path,
    folder: Path,
    library: Path,
    environ: Mapping[str, str] | None = None,
) -> Redirected:
    """Run a program on a dataset of which every second file is on the LFS."""
    names = sorted(
        str(path.relative_to(dataset)) for path in dataset.rglob("*") if path.is_file()
    )
    is_on_lfs = np.arange(len(names)) % 2 == 0
    lfs, links, notes = folder / "lfs", folder / "links", folder / "notes"
    for path in (lfs, links, notes):
        path.mkdir(parents=True)
    for name in np.array(names)[is_on_lfs]:
        copy = lfs / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((dataset / name).read_bytes())
    table = NodeTable.create(
        folder / "table",
        TableFolders(
            [VIRTUAL, str(dataset)],
            os.path.realpath(dataset),
            str(lfs),
            str(links),
            is_virtual=True,
        ),
        names=names,
        is_link=np.zeros(len(names), bool),
        on_lfs=is_on_lfs,
        wants_closes=False,
        library=library,
    )
    trace = [sys.executable, "-m", "tierscope", "trace"]
    inner = ["sh", "-c", _PRELOAD, library, "env", f"PYTHONPATH={HOOK}", *command]
    done = subprocess.run(
        [*trace, "--logs", folder / "logs", "--paths", links, "--", *inner],
        env=os.environ
        | {
            "PYTHONPATH": str(SCRIPTS),
            "TIERSCOPE_REDIRECT": str(folder / "table"),
            "TIERSCOPE_HOOK_NOTES": str(notes),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            **(environ or {}),
        },
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    events, n_lost = table.drain()
    assert n_lost == 0
    opened = events[np.isin(events["kind"], [OPENED_GFS, OPENED_LFS])]
    opens, decided = Counter(), Counter()
    for event in opened.tolist():
        one = dict(zip(opened.dtype.names, event, strict=True))
        name = names[one["file_id"]]
        opens[one["pid"], name, one["epoch"]] += 1
        tier = "lfs" if is_on_lfs[one["file_id"]] else "gfs"
        assert one["kind"] == {"lfs": OPENED_LFS, "gfs": OPENED_GFS}[tier], name
        decided[tier, one["epoch"], name] += 1
    return Redirected(
        done.returncode,
        done.stdout + done.stderr,
        opens,
        decided,
        _logged(folder / "logs", links),
        [
            json.loads(line)
            for path in sorted(notes.iterdir())
            for line in path.read_text().splitlines()
        ],
        table.counts(),
    )


def _logged(logs: Path, links: Path) -> Counter[tuple[str, int, str]]:
    """Return the opens of all logs below a folder of links."""
    found: Counter[tuple[str, int, str]] = Counter()
    for path in logs.glob("*.darshan"):
        log = read_any_log(path)
        for records in log.records.values():
            for i, record in enumerate(records.ids):
                place = int(np.searchsorted(log.names.ids, record))
                below = os.path.relpath(os.fsdecode(log.names.path(place)), links)
                alias, _, name = below.partition("/")
                tier, _, epoch = alias.partition(".ep")
                if n := int(records.columns["opens"][i]):
                    found[tier, int(epoch), name] += n
    return found
