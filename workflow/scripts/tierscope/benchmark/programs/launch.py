"""One launch of a program of the user: the job runs its points in turn.

For each point the job starts the ranks by the system's launcher. On every node the
first of them prepares the node, all run the command, and the job then writes the run:
its logs, its tables and `run.json`.
"""

import argparse
import dataclasses
import hashlib
import json
import os
import platform
import secrets
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tierscope.benchmark.keeper import LAUNCH_LOCK, inherited
from tierscope.benchmark.observations.launch_facts import by_machine
from tierscope.benchmark.processes import BenchmarkError
from tierscope.benchmark.programs.ended.kept import (
    EndedProgram,
    ended_program,
    mark_begun,
    mark_ended,
    meeting_folder,
    reserved,
)
from tierscope.benchmark.programs.ended.own_changes import (
    changed_by_program,
    own_changes_words,
)
from tierscope.benchmark.programs.ended.results import (
    EPOCH,
    EVALUATION,
    NodeNotes,
    epochs_table,
    hook_faults,
    hook_times,
    marks_table,
    n_marks_back,
    n_unmarked_opens,
    opens_table,
    placing_reports,
    processes_table,
    read_notes,
    with_steps,
)
from tierscope.benchmark.programs.meeting import (
    Meeting,
    OtherFailed,
    folder_in_memory,
    launched_rank,
    node_key,
    remove_folders_of_killed_launches,
)
from tierscope.benchmark.programs.node import NOT_REDIRECTED, Node
from tierscope.benchmark.programs.rank import (
    command_of,
    environment_of,
    fail,
    note_end,
    run_command,
    status_words,
    wait_a_little,
    while_none_fails,
)
from tierscope.benchmark.programs.tracing import (
    make_tracer,
    prepare_tracing,
    refuse_unloadable,
    remove_counts,
    with_preloadable_libraries,
)
from tierscope.benchmark.rank import Terminated, ignore_signals
from tierscope.benchmark.run_folder import (
    are_missing,
    mark_complete,
    scheduler_job,
    software_versions,
    write_decisions,
)
from tierscope.core.columns import TABLES
from tierscope.core.description import RunDescription
from tierscope.core.files import write_text
from tierscope.core.given.secrets import command_words
from tierscope.core.imports import digest_of_modules
from tierscope.core.machine import TierError
from tierscope.core.output.streams import say
from tierscope.core.processes.calls import CallWatch
from tierscope.core.processes.children import end_child
from tierscope.core.scenario import Point, UserDataset
from tierscope.core.tables import read_table, write_table
from tierscope.core.validation import ConfigError
from tierscope.core.words import error_words
from tierscope.data.listing import changed_files
from tierscope.policies import kind_of
from tierscope.policies.pinned_bytes import files_at_start
from tierscope.storage.lease import LeaseError
from tierscope.storage.machine_facts import affinity
from tierscope.storage.own_folder import FolderError
from tierscope.storage.page_cache import CachedTier, tiers_as_json
from tierscope.storage.room import check_room

_SCRIPTS = Path(__file__).parents[3]
_KNOWN = "known.json"  # what the ranks must know of the job
_POLL_S = 0.05
_LEAST_ROOM_BYTES = 16 << 20
_FILE_BYTES = 1024  # of what the tracer counts of a file in an epoch, with its name
_NOTES_BYTES, _OPENED_BYTES = 1 << 20, 128  # of what a rank notes at its end
_PATIENCE_S = 60.0  # for ranks that are told to end, and clean up
_REASONS = (
    BenchmarkError,
    ConfigError,
    FolderError,
    LeaseError,
    TierError,
    ValueError,
    OSError,
)


class ProgramLaunch:
    """A launch of a program.

    Parameters
    ----------
    arguments : argparse.Namespace
        Arguments of `run_program.py`.
    """

    def __init__(self, arguments: argparse.Namespace):
        self.arguments = arguments
        self.description = RunDescription.read(arguments.scenario)
        self.system = self.description.system
        self.dataset = dataset_folder(self.description)
        self._parent = os.getppid()
        native = arguments.native.absolute() / platform.machine()
        self._redirect = native / "libtierscope_redirect.so"
        self._tracer = make_tracer(self.description.runtime, native)

    # ---- the job ------------------------------------------------------------------

    def run(self) -> None:
        """Run the points that have no run yet; write those whose program has ended."""
        given = self.arguments
        folders = given.staging, given.runs
        for point in (missing := are_missing(given.points, folders, self.description)):
            if kept := ended_program(given.staging / point.path):
                say(f"the program has run at {point.path} before: its run is written")
                self._write_run(point, kept)
        points = are_missing(missing, folders, self.description)
        for number, point in enumerate(points, start=1):
            say(
                f"point {number} of {len(points)}: cache rate "
                f"{point.cache_rate_percent} % of the bytes, repetition "
                f"{point.repetition}"
            )
            self._run_point(point, is_last=number == len(points))

    def _refuse_own_changes(self, point: Point) -> None:
        """Refuse a point that would copy what the program has changed in others."""
        folders = {self.arguments.staging.parent, self.arguments.runs.parent}
        dataset = os.path.realpath(self.dataset)
        if not (run_of := changed_by_program(folders, dataset)):
            return
        manifest = read_table(self.arguments.manifest, "user_manifest")
        is_copied = files_at_start(self.description, point, manifest)
        is_copied &= manifest["path"].isin(run_of).to_numpy()
        if names := changed_files(manifest[is_copied], dataset):
            raise BenchmarkError(own_changes_words(dataset, names, run_of[names[0]]))

    def _run_point(self, point: Point, *, is_last: bool) -> None:
        """Run the program at a point, and write the run's folder."""
        self._refuse_own_changes(point)
        folder = self.arguments.staging / point.path
        shutil.rmtree(folder, ignore_errors=True)
        n_bytes = _LEAST_ROOM_BYTES + _FILE_BYTES * self._n_files()
        check_room(self.arguments.staging, n_bytes, "the logs and tables of a run")
        shared = meeting_folder(folder, self.arguments.launch)
        shared.mkdir(mode=0o700, parents=True)  # nobody else may know the token
        known = self._tracer.begin(_logs_of(folder)) | {
            "token": secrets.token_hex(16),
            "most_percent": max(
                one.cache_rate_percent for one in self.arguments.points
            ),
        }
        write_text(shared / _KNOWN, json.dumps(known))
        mark_begun(shared, self._known_before())
        try:
            self._start_ranks(point, shared, is_last=is_last)
        finally:
            remove_folders_of_killed_launches()
        mark_ended(shared)
        self._write_run(point, ended_program(folder))

    def _n_files(self) -> int:
        """Return how many files the dataset has."""
        return len(read_table(self.arguments.manifest, "user_manifest"))

    def _known_before(self) -> dict[str, Any]:
        """Return what `run.json` says of the software, which may change meanwhile."""
        return {
            "scheduler_job": scheduler_job(),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": software_versions(),
            "libraries": {"tracer": _digests([self._redirect, self._tracer.library])},
            "modules": digest_of_modules(_SCRIPTS / "run_program.py"),
        }

    def _start_ranks(self, point: Point, shared: Path, *, is_last: bool) -> None:
        """Start all ranks by the system's launcher, and wait for their end."""
        given = self.arguments
        options = {
            "--manifest": given.manifest,
            "--staging": given.staging,
            "--runs": given.runs,
            "--native": given.native,
            "--launch": given.launch,
            "--tasks": given.tasks,
            "--minutes": given.minutes,
            "--shared": shared,
        }
        ranks = [sys.executable, str(_SCRIPTS / "run_program.py"), str(given.scenario)]
        ranks += [str(word) for option in options.items() for word in option]
        ranks += ["--last", point.path] if is_last else [point.path]
        line = f"exec {given.mpi} -n {given.tasks} {shlex.join(ranks)}"
        # The ranks inherit the lock of the launch, so that the next one waits for them.
        launcher = subprocess.Popen(["bash", "-c", line], close_fds=False)
        try:
            while launcher.poll() is None:
                if os.getppid() != self._parent:
                    raise BenchmarkError("its launch was ended, and so is this run.")
                time.sleep(_POLL_S)
        except BaseException:
            end_child(launcher, _PATIENCE_S)
            raise
        if launcher.returncode:
            raise BenchmarkError(
                f"the run at {point.path} failed "
                f"({status_words(launcher.returncode)} of the launcher)."
            )
        n_ended = sum(not facts["status"] for facts in _ended_ranks(shared))
        if n_ended != given.tasks:
            raise BenchmarkError(
                f"the run at {point.path} failed: the launcher ended without an error, "
                f"but {n_ended} ranks have run the program to its end, expected "
                f"{given.tasks}."
            )

    def _write_run(self, point: Point, ended: EndedProgram) -> None:
        """Write the run of a program that has ended; a failure says what is kept."""
        folder = self.arguments.staging / point.path
        with _saying_what_is_kept(point, folder):
            nodes = read_notes(ended.shared)
        if not any(node.facts["processes"] for node in nodes):
            shutil.rmtree(ended.shared)
            raise BenchmarkError(
                "no process of the program was redirected, so its opens are not known; "
                f"{NOT_REDIRECTED}."
            )
        with _saying_what_is_kept(point, folder):
            self._write_tables(point, folder, ended, nodes)
        remove_counts(_logs_of(folder))
        shutil.rmtree(ended.shared)

    def _write_tables(
        self, point: Point, folder: Path, ended: EndedProgram, nodes: list[NodeNotes]
    ) -> None:
        """Write the tables of a run, then its logs, and `run.json` last."""
        manifest = read_table(self.arguments.manifest, "user_manifest")
        ended_ns = {
            facts["rank"]: facts["ended_ns"] for facts in _ended_ranks(ended.shared)
        }
        opens, marks = opens_table(nodes), marks_table(nodes, ended_ns)
        filled = {node.number: node.facts["filled"] for node in nodes}
        sizes = manifest["size_bytes"].to_numpy()
        epochs = epochs_table(opens, marks, sizes, filled)
        epochs = with_steps(
            _with_page_cache(epochs, nodes),
            hook_times(nodes, "loop"),
            hook_times(nodes, "loader"),
        )
        epochs = epochs[list(TABLES["run_epochs"])]
        write_table(opens, folder / "opens.parquet", "opens")
        write_table(marks, folder / "marks.parquet", "marks")
        processes = processes_table(nodes)
        write_table(
            processes, folder / "program_processes.parquet", "program_processes"
        )
        write_table(epochs, folder / "epochs.parquet", "run_epochs")
        observed = _observed(
            nodes, manifest, changed_files(manifest, self.dataset), marks
        )
        placed = self._write_decisions(folder, nodes, observed["n_epochs"], ended_ns)
        placing = [one.facts for one in nodes if one.decisions is not None]
        own = {tuple(one["copier"]) for one in placing}
        of_logs = self._tracer.end(_logs_of(folder), ended.ended_s, own)
        mark_complete(
            folder,
            {
                "hash": self.description.hash,
                "point": dataclasses.asdict(point),
                **self.description.as_json(),
                "n_processes": 1 + max([0, *epochs["rank"], *opens["rank"]]),
                "hosts": [node.facts["host"] for node in nodes],
                "finished": ended.finished,
                "tier_roots": _tier_roots(nodes),
                "tracer": self._tracer.describe(),
                "page_cache": self._page_cache(),
                "machines": _machines(nodes),
                "observed": observed
                | of_logs
                | {"dataset": os.path.realpath(self.dataset)},
                **placed,
                **ended.facts,
            },
        )

    def _write_decisions(
        self,
        folder: Path,
        nodes: list[NodeNotes],
        n_epochs: int,
        ended_ns: dict[int, int],
    ) -> dict[str, Any]:
        """Write what a policy has decided; return its part of `run.json`."""
        if not kind_of(self.description.scenario).moves_files:
            return {}
        reports = placing_reports(nodes, n_epochs, ended_ns)
        return write_decisions(folder, reports, _tier_roots(nodes), say)

    def _page_cache(self) -> dict[str, Any]:
        """Return what tells where reads of the tiers came from."""
        roots = {"gfs": self.dataset, "lfs": self.system.lfs.data_root().parent.parent}
        cached = {tier: CachedTier(root) for tier, root in roots.items()}
        return {"cold": self.description.training.cold, **tiers_as_json(cached)}

    # ---- a rank -------------------------------------------------------------------

    def run_rank(self, watch: CallWatch) -> None:
        """Run the program as one of the ranks that the launcher has started.

        Its calls on the tiers are watched, too.
        """
        meeting, node = None, None
        for descriptor in inherited(Path(LAUNCH_LOCK)):
            os.set_inheritable(descriptor, False)  # what a program leaves may go on
        try:
            known = json.loads((self.arguments.shared / _KNOWN).read_text())
            meeting = self._meeting(known["token"])
            meeting.join()
            tiers = self.dataset, self.system.lfs.data_root().parent.parent
            watch.roots = (*map(os.path.realpath, tiers), str(meeting.local))
            if meeting.leads:
                node = self._node(meeting)
                libraries = known | {"library": str(self._redirect)}
                given = with_preloadable_libraries(libraries, meeting.local)
                refuse_unloadable(self._command(str(self.dataset)), given)
                given |= node.prepare(self._redirect, known["most_percent"])
                prepare_tracing(given, len(node.manifest))
                node.start_placing(given)
                meeting.go(given)
            prepared = meeting.await_go()
            self._run_command(meeting, node, prepared)
        except OtherFailed:
            sys.exit(1)
        except Terminated as error:
            fail(meeting, f"{error} ended the run.")
        except _REASONS as error:
            fail(meeting, error_words(error))
        except Exception:
            if meeting:
                meeting.fail()
            raise
        finally:
            try:
                ignore_signals()
            finally:  # a signal may have been faster
                if node:
                    is_over = self.arguments.last or sys.exc_info()[0] is not None
                    node.clean_up(empties=is_over)

    def _meeting(self, token: str) -> Meeting:
        """Return the meeting of this rank with the others of its node."""
        given, system = self.arguments, self.system
        rank = launched_rank(os.environ, given.tasks)
        per_node = system.processes_per_node if system.virtual_nodes else None
        key = node_key(os.environ, rank, per_node)
        remove_folders_of_killed_launches()
        local = folder_in_memory(key, token)
        return Meeting(
            local, given.shared, key, rank, system.processes_per_node, system.n_nodes
        )

    def _node(self, meeting: Meeting) -> Node:
        """Return the node that this rank leads."""
        return Node(
            self.description,
            self.arguments.points[0],
            meeting,
            read_table(self.arguments.manifest, "user_manifest"),
            self.dataset,
            self.arguments.launch,
        )

    def _command(self, dataset: str) -> list[str]:
        """Return the command for the path of the dataset."""
        return command_of(list(self.description.program.command), dataset)

    def _run_command(
        self, meeting: Meeting, node: Node | None, prepared: dict[str, Any]
    ) -> None:
        """Run the command of this rank, and keep the node until all ranks end."""
        keep = node.keep if node else wait_a_little
        step = while_none_fails(keep, meeting)
        command = self._command(prepared["dataset"])
        began_ns = time.monotonic_ns()
        most_s = self.arguments.minutes * 60.0
        library = Path(prepared["library"])
        n_bytes = _NOTES_BYTES + (_OPENED_BYTES * len(node.manifest) if node else 0)
        with reserved(meeting.shared / f"room-{meeting.rank}", n_bytes):
            status = run_command(command, environment_of(prepared), most_s, step)
        note_end(meeting, began_ns, status)
        meeting.end(status)
        if status:
            raise BenchmarkError(
                f"rank {meeting.rank} on node {meeting.key}: the program ended with "
                f"{status_words(status)}: {command_words(command)}"
                f"{node.what_escaped(command[0], library) if node else ''}"
            )
        while node and not meeting.all_have_ended():
            step()
        if node:
            node.finish()
            # Who fails later lets all empty their LFS. A killed node says nothing.
            meeting.exchange("finished", None, most_s)


@contextmanager
def _saying_what_is_kept(point: Point, folder: Path) -> Iterator[None]:
    """Let an error say that the program has run, and how to run it again."""
    try:
        yield
    except _REASONS as error:
        raise BenchmarkError(
            f"the program has run at {point.path}, but its run cannot be written: "
            f"{error_words(error).rstrip('.')}. What it did is kept in {folder}: the "
            "next start writes the run, and does not run the program again. To run it "
            "again, delete this folder."
        ) from error


def _logs_of(run: Path) -> Path:
    """Return the folder of a run's logs."""
    return (run / "logs").absolute()


def dataset_folder(description: RunDescription) -> Path:
    """Return the folder of the dataset that a program reads, absolute."""
    dataset = description.dataset
    if isinstance(dataset, UserDataset):
        return Path(os.path.abspath(os.path.expanduser(dataset.path)))
    root = description.system.gfs.data_root()
    return root / dataset.directory(description.scenario.n_osts)


def _ended_ranks(shared: Path) -> list[dict[str, Any]]:
    """Return what the ranks whose program has ended have noted (`note_end`)."""
    return [json.loads(path.read_text()) for path in shared.glob("rank-*.json")]


def _tier_roots(nodes: Sequence[NodeNotes]) -> dict[str, list[str]]:
    """Return the names of the tiers in the logs, before ``.ep<N>``."""
    return {
        tier: list(dict.fromkeys(node.facts["tier_roots"][tier] for node in nodes))
        for tier in ("gfs", "lfs")
    }


def _with_page_cache(epochs: pd.DataFrame, nodes: Sequence[NodeNotes]) -> pd.DataFrame:
    """Return table `run_epochs` with what was seen of the page cache.

    Before the first epoch the nodes have looked, and then as each one began.
    """
    first = epochs["epoch"] == epochs.loc[epochs["epoch"] >= 0, "epoch"].min()
    by_node = {node.number: node.facts["page_cache"] for node in nodes}
    later = {node.number: node.facts["resident"] for node in nodes}
    for tier in ("gfs", "lfs"):
        name = f"{tier}_resident_percent"
        seen = epochs["node"].map({k: one[name] for k, one in by_node.items()})
        then = [
            later[node].get(str(epoch), {}).get(tier, np.nan)
            for node, epoch in zip(epochs["node"], epochs["epoch"], strict=True)
        ]
        epochs[name] = seen.where(first, pd.Series(then, epochs.index)).astype("f8")
        epochs[f"{tier}_server_bytes"] = np.nan
    dropped = {k: one["names_dropped"] for k, one in by_node.items()}
    epochs["names_dropped"] = epochs["node"].map(dropped).astype(bool) & first
    return epochs


def _machines(nodes: Sequence[NodeNotes]) -> list[dict[str, Any]]:
    """Return what can change the speed of the nodes, equal ones together."""
    used = {"affinity": [affinity()]}
    return by_machine({node.number: node.facts["machine"] | used for node in nodes})


def _observed(
    nodes: Sequence[NodeNotes],
    manifest: pd.DataFrame,
    changed: list[str],
    marks: pd.DataFrame,
) -> dict[str, Any]:
    """Return what was seen of the program, for the audit and the report."""
    notes = [note for node in nodes for note in node.facts["notes"]]
    loaders = [
        {k: v for k, v in note.items() if k not in ("kind", "pid", "rank")}
        for note in notes
        if note["kind"] == "loader"
    ]
    frameworks = {
        n["framework"]: n.get("version") for n in notes if n["kind"] == "hook"
    }
    names = manifest["path"].to_numpy()
    written: dict[str, list[int]] = {}
    for node in nodes:
        for name in names[node.facts["written"]].tolist():
            written.setdefault(name, []).append(node.number)
    has_epochs = bool((marks["what"] == EPOCH).any())
    by_framework = any(n["kind"] == "begin" and not n["evaluation"] for n in notes)
    return {
        "epochs_by": ("hook" if by_framework else "mark") if has_epochs else "nobody",
        "n_epochs": int(marks.loc[marks["what"] != EVALUATION, "epoch"].max()) + 1,
        "n_evaluations": int((marks["what"] == EVALUATION).sum()),
        "frameworks": frameworks,
        "hook_faults": hook_faults(notes),
        "loaders": [one for i, one in enumerate(loaders) if one not in loaders[:i]],
        "loop_ends": [
            {"node": node.number, "epochs": node.epochs_after} for node in nodes
        ],
        "loops": hook_times(nodes, "loop"),
        "fetches": hook_times(nodes, "fetch"),
        "n_processes": sum(len(node.facts["processes"]) for node in nodes),
        "lost_events": sum(node.facts["n_lost"] for node in nodes),
        "fell_back": sum(
            int(n) for one in nodes for n in one.facts["fell_back"].values()
        ),
        "reopened_after_drop": sum(node.facts["n_reopened"] for node in nodes),
        "marks_back": n_marks_back(nodes),
        "unmarked_opens": sum(map(n_unmarked_opens, nodes)),
        "still_running": sum(node.facts["n_running"] for node in nodes),
        "escaped": sorted({one for node in nodes for one in node.facts["escaped"]}),
        "counts": [node.facts["counts"] for node in nodes],
        "n_files": len(manifest),
        "n_bytes": int(manifest["size_bytes"].sum()),
        "written": written,
        "altered": sorted({names[i] for n in nodes for i in n.facts["altered"]}),
        "renamed_folders": sum(int(node.facts["renamed_folders"]) for node in nodes),
        "changed": changed,
        "filled": [node.facts["filled"] for node in nodes],
        "lfs_files": [node.facts["held"]["files"] for node in nodes],
        "lfs_bytes": [node.facts["held"]["bytes"] for node in nodes],
        "unused_bytes": [node.facts["held"]["unused_bytes"] for node in nodes],
        "damaged": sorted({one for n in nodes for one in n.facts["held"]["damaged"]}),
    }


def _digests(libraries: Sequence[Path]) -> dict[str, str]:
    """Return the digests of libraries by the names of their files."""
    return {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in libraries}
