"""A node of a program's run: the first of its ranks fills the LFS and makes the table.

The LFS keeps its files until the last point of the launch, so that the next one copies
only what it adds.
"""

import json
import math
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tierscope.benchmark.node_storage import why_no_room
from tierscope.benchmark.processes import BenchmarkError
from tierscope.benchmark.programs.copier import Copier
from tierscope.benchmark.programs.keeper import TIERS, NodeKeeper
from tierscope.benchmark.programs.meeting import Meeting
from tierscope.benchmark.programs.page_cache import begin_run
from tierscope.benchmark.programs.placing import Placer
from tierscope.benchmark.programs.staging import StagedFiles
from tierscope.benchmark.programs.table import NodeTable, TableFolders
from tierscope.benchmark.programs.tracing import tracing_environment
from tierscope.core.description import RunDescription
from tierscope.core.files import write_array, write_text
from tierscope.core.machine import TierError
from tierscope.core.output.streams import say
from tierscope.core.scenario import Point
from tierscope.logs.traced.escapes import reason_of
from tierscope.policies import kind_of, node_policy
from tierscope.policies.decisions import NO_GROUP, Decisions
from tierscope.policies.pinned_bytes import files_at_start, held_bytes
from tierscope.storage.local_folder import LocalStorage
from tierscope.storage.machine_facts import cpu_model, governor, mount_facts
from tierscope.storage.room import check_memory
from tierscope.trace.program_records import HANDED

_UNSEEN_S = 600.0  # in which a static starter has started something else
NOT_REDIRECTED = (
    "expected a program that is linked dynamically, keeps its environment and runs in "
    "no container"
)


@dataclass
class Node:
    """A node and what it holds at a point.

    Parameters
    ----------
    description : RunDescription
        The settings of the runs.
    point : Point
        The point of this run.
    meeting : Meeting
        The ranks of the node.
    manifest : DataFrame
        Table `user_manifest`.
    dataset : Path
        The real folder of the dataset.
    launch : str
        Name of the launch.
    """

    description: RunDescription
    point: Point
    meeting: Meeting
    manifest: pd.DataFrame
    dataset: Path
    launch: str

    def __post_init__(self):
        self.number = 0
        self._held = np.zeros(len(self.manifest), bool)
        self.table: NodeTable | None = None
        self.keeper: NodeKeeper | None = None
        self.facts: dict[str, Any] = {}
        self._looks_at_s: float | None = None

    @property
    def storage(self) -> LocalStorage:
        """Return the node's part of the LFS."""
        root = self.description.system.lfs.data_root()
        return LocalStorage(root, self.number, 0, self.launch)

    @property
    def _moves_files(self) -> bool:
        """Return whether a policy moves files while the program reads."""
        return kind_of(self.description.scenario).moves_files

    @property
    def _staged(self) -> StagedFiles:
        """Return the copies on the node's LFS."""
        name = self.description.dataset.name
        return StagedFiles(self.storage, name, self.dataset, self.manifest)

    @property
    def _folders(self) -> dict[str, str]:
        """Return the real folder of each tier."""
        return {"gfs": str(self.dataset), "lfs": str(self._staged.folder)}

    def prepare(self, library: Path, most_percent: int) -> dict[str, Any]:
        """Fill the LFS and make the table; return what its ranks must know.

        `most_percent` is the highest cache rate of this launch, which must fit, too.
        """
        self.number = self.meeting.meet_nodes()
        on_lfs = files_at_start(self.description, self.point, self.manifest)
        highest = replace(self.point, cache_rate_percent=most_percent)
        most = files_at_start(self.description, highest, self.manifest)
        filled = self._fill(on_lfs, most)
        self._held = on_lfs
        resident = self._drop_pages(on_lfs)
        paths = self._make_table(on_lfs, library)
        is_virtual = self.description.system.virtual_nodes
        self.facts = {
            "node": self.number,
            "key": self.meeting.key,
            "host": os.uname().nodename if is_virtual else self.meeting.key,
            "ranks": self.meeting.ranks(),
            "filled": filled,
            "page_cache": resident,
            "tier_roots": {tier: f"{paths['links']}/{tier}" for tier in TIERS},
            "machine": self._machine(),
        }
        self.meeting.all_nodes_are_ready()
        return paths

    def _fill(self, on_lfs: np.ndarray, most: np.ndarray) -> dict[str, Any]:
        """Make the LFS hold these files; return what that took.

        There must be room for `most` files: a later point may need it.
        """
        staged, cold = self._staged, self.description.training.cold
        staged.claim()
        if self.description.system.is_ideal:
            check_memory(self.storage.data_root.parent)
        if self.meeting.n_nodes == 1:
            staged.check_room(most)
        else:
            claim = staged.difference(most).claim
            claims = self.meeting.exchange("claim", claim)
            if reason := why_no_room((tuple(place), *n) for place, *n in claims):
                raise TierError(f"{self.storage.data_root.parent}: {reason}")
        return asdict(staged.fill(on_lfs, cold=cold))

    def _drop_pages(self, on_lfs: np.ndarray) -> dict[str, Any]:
        """Let the tiers leave the page cache; return columns that say what stays."""
        names, folders = self.manifest["path"].to_numpy(), self._folders
        paths = {
            "gfs": [f"{folders['gfs']}/{name}" for name in names[~on_lfs]],
            "lfs": [f"{folders['lfs']}/{name}" for name in names[on_lfs]],
        }
        roots = {tier: Path(folder) for tier, folder in folders.items()}
        return begin_run(roots, paths, cold=self.description.training.cold)

    def _make_table(self, on_lfs: np.ndarray, library: Path) -> dict[str, Any]:
        """Make the table in the node's memory, and the folders of links and notes."""
        local, program = self.meeting.local, self.description.program
        links, notes = local / "links", local / "notes"
        for folder in (links, notes):
            folder.mkdir()
        handed = links / f"lfs.{HANDED}"  # by which the tracer names copies
        handed.symlink_to(self._folders["lfs"])
        given = str(self.dataset)
        virtual = program.virtual_path(self.description.dataset.name)
        real, is_cold = os.path.realpath(given), self.description.training.cold
        roots = dict.fromkeys(filter(None, [virtual, given, real]))
        self.table = NodeTable.create(
            local / "table",
            TableFolders(
                list(roots),
                real=real,
                lfs=self._folders["lfs"],
                links=str(links),
                is_virtual=virtual is not None,
            ),
            names=self.manifest["path"].tolist(),
            is_link=self.manifest["is_link"].to_numpy(),
            on_lfs=on_lfs,
            wants_closes=is_cold or self._moves_files,
            library=library,
        )
        # A copy may need the pages of what was read from the GFS.
        for tier in () if not is_cold else ("lfs",) if self._moves_files else TIERS:
            self.table.drop_from_now_on(tier)
        self.keeper = NodeKeeper(self.table, self._folders if is_cold else None)
        return {
            "table": str(local / "table"),
            "settings": str(local / "darshan.conf"),
            "links": str(links),
            "notes": str(notes),
            "dataset": virtual or given,
            "traced": [str(links), real, str(handed)],
        }

    def start_placing(self, prepared: Mapping[str, Any]) -> None:
        """Let the policy move files from now on, if it is one that does."""
        if not self._moves_files:
            return
        description, ranks = self.description, self.meeting.ranks()
        copier = Copier(
            prepared["links"],
            self._folders | {"copying": str(self._staged.copying)},
            self.manifest,
            description.policy_options["copy_threads"],
            cold=description.training.cold,
            environment=tracing_environment(prepared),
        )
        self.facts["copier"] = copier.identity
        self.keeper.placer = Placer(
            node_policy(description, self.point, ranks, manifest=self.manifest),
            self.table,
            copier,
            Decisions(self.number, NO_GROUP),
            lambda line: say(f"tierscope: node {self.number}: {line}"),
        )

    def keep(self) -> None:
        """Keep the node for a moment; refuse to go on with a program that is not seen.

        In place it may run for hours, and none of its opens would be known.
        """
        self.keeper.step()
        if self._looks_at_s is None:
            in_place = self.description.program.in_place
            self._looks_at_s = time.monotonic() + (_UNSEEN_S if in_place else math.inf)
        if time.monotonic() < self._looks_at_s:
            return
        self._looks_at_s = math.inf
        if not len(self.table.processes()):
            raise BenchmarkError(
                f"no process of the program was redirected in {_UNSEEN_S / 60:g} "
                f"minutes, so its opens are not known; {NOT_REDIRECTED}."
            )

    def _machine(self) -> dict[str, Any]:
        """Return what can change the speed of this machine."""
        mounts = {tier: mount_facts(Path(one)) for tier, one in self._folders.items()}
        return {"cpu_model": cpu_model(), "governor": governor(), "mounts": mounts}

    def what_escaped(self, name: str, library: Path) -> str:
        """Return who found no virtual path: the end of a line on a failed program.

        `library` is what redirects; program `name` may stop as it cannot be loaded.
        """
        program, dataset = self.description.program, self.description.dataset.name
        reason, path = reason_of(name, library), program.virtual_path(dataset)
        if not path:
            return f"; {name} {reason}" if reason else ""
        if not len(self.table.processes()):
            why = f"{name} {reason}" if reason else NOT_REDIRECTED
            return (
                f"; no process of it was redirected, so {path} does not exist for it: "
                f"{why}"
            )
        return program.out_of_reach_words(dataset, self.table.escaped())

    def finish(self) -> None:
        """Write down what the keeper and the hooks have noted, for all nodes.

        A BenchmarkError says that the node's folder did not last: then the library
        found no tier, and the hooks could note nothing.
        """
        for name in ("links", "notes"):
            if not (folder := self.meeting.local / name).is_dir():
                raise BenchmarkError(
                    f"{folder}: is gone, expected it until the program has ended: "
                    "something on this node removes what is in its memory."
                )
        shared, rank = self.meeting.shared, self.meeting.rank
        noted = self.keeper.finish()
        opens = noted.pop("opens")
        if placer := self.keeper.placer:
            self._held = np.zeros(len(self.manifest), bool)
            self._held[placer.held_files] = True
            decisions = placer.decisions.table()
            write_array(shared / f"decisions-{rank}.npy", decisions)
        notes = [
            json.loads(line)
            for path in sorted((self.meeting.local / "notes").glob("*.jsonl"))
            for line in path.read_text(encoding="utf-8").splitlines()
        ]
        write_array(shared / f"opens-{rank}.npy", opens)
        facts = {**self.facts, **noted, "notes": notes, "held": self._what_is_held()}
        write_text(shared / f"node-{rank}.json", json.dumps(facts))

    def _what_is_held(self) -> dict[str, Any]:
        """Return what the LFS holds, and copies that are not as they were made.

        Unused are the copies of files that the program has opened for writing, or
        changed: the GFS serves these.
        """
        unused = self._held & self.table.written()
        damaged = self._staged.difference(self._held).copied
        return {
            "files": int(self._held.sum()),
            "bytes": held_bytes(self.manifest, self._held),
            "unused_bytes": held_bytes(self.manifest, unused),
            "damaged": self.manifest["path"].iloc[damaged].tolist(),
        }

    def clean_up(self, *, empties: bool) -> None:
        """Remove the node's folder in memory, and empty the LFS if nothing follows."""
        if self.keeper and self.keeper.placer:
            self.keeper.placer.stop()
        with suppress(OSError):
            shutil.rmtree(self.meeting.local)
        if empties:
            self.storage.release()
