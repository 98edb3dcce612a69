"""Nothing of ours deletes a file that it did not make.

Each call that deletes is listed with why the file is ours. Where others may have files
beside ours, a test puts some there.
"""

import ast
import os
import shutil
import time
from pathlib import Path

import pytest
from launch import move_finished
from tierscope.benchmark.shared_memory import (
    hold_note,
    remove_what_killed_launches_left,
)
from tierscope.core.files import LONGEST_S, remove_left
from tierscope.core.machine import TierError
from tierscope.data.lmdb.file import generate_database, provenance_here
from tierscope.data.tfrecord import DatasetError, generate_dataset
from tierscope.logs.chunks.folders import remove_others
from tierscope.logs.chunks.listing import list_logs
from tierscope.storage.local_folder import LocalStorage

SCRIPTS = Path(__file__).parents[2] / "workflow" / "scripts"
DELETES, OF_MODULES = {"rmtree", "unlink", "rmdir"}, {"remove", "removedirs", "move"}
NEW = "its name is random or of this process, or this process has just made it"
NAMED = "it has a name of ours in a folder of ours"
CLAIMED = "it is in the folder of a node, which a launch has made and holds by a lease"
STAGED = "it is in the folder of an unfinished run, which a launch has made"
EMPTY = "only an empty folder goes"
OURS = {
    "launch.py": {STAGED, NAMED, EMPTY},
    "list_dataset.py": {NAMED},
    "tierscope/benchmark/driver.py": {STAGED},
    "tierscope/benchmark/keeper.py": {NAMED},
    "tierscope/benchmark/node_storage.py": {CLAIMED},
    "tierscope/benchmark/observations/sentinel.py": {CLAIMED},
    "tierscope/benchmark/peers/mount.py": {CLAIMED},
    "tierscope/benchmark/placement/copies.py": {CLAIMED},
    "tierscope/benchmark/programs/copier.py": {CLAIMED},
    "tierscope/benchmark/programs/ended/kept.py": {NEW},
    "tierscope/benchmark/programs/launch.py": {STAGED},
    "tierscope/benchmark/programs/meeting.py": {NAMED, NEW},
    "tierscope/benchmark/programs/node.py": {NEW},
    "tierscope/benchmark/programs/staging.py": {CLAIMED},
    "tierscope/benchmark/programs/tracing.py": {NEW, EMPTY},
    "tierscope/benchmark/shared_memory.py": {"a note of ours has its name and inode"},
    "tierscope/core/files.py": {NEW, NAMED},
    "tierscope/data/lmdb/file.py": {"its provenance is ours", NAMED},
    "tierscope/data/tfrecord.py": {"it has a temporary name, or a list of ours has it"},
    "tierscope/experiment/slurm.py": {NAMED},
    "tierscope/experiment/start.py": {EMPTY},
    "tierscope/logs/chunks/datasets.py": {NEW},
    "tierscope/logs/chunks/folders.py": {NEW, NAMED},
    "tierscope/logs/chunks/gather.py": {NEW},
    "tierscope/logs/chunks/listing.py": {NAMED},
    "tierscope/logs/traced/command.py": {NEW},
    "tierscope/storage/emulated/library.py": {NAMED},
    "tierscope/storage/lease.py": {"it is the lease of this process, or a dead one's"},
    "tierscope/storage/local_folder.py": {CLAIMED, "a link or marker of ours", EMPTY},
    "tierscope/storage/parallel/lustre.py": {NAMED, EMPTY},
    "tierscope/trace/tracer.py": {STAGED},
}


def test_each_module_that_deletes_says_why_the_file_is_ours():
    found = set()
    for path in SCRIPTS.rglob("*.py"):
        calls = (n for n in ast.walk(ast.parse(path.read_text())) if is_deletion(n))
        found |= {str(path.relative_to(SCRIPTS)) for _ in calls}
    assert found == OURS.keys()


def is_deletion(node):
    """Return whether a node of a module deletes files; lists have `remove`, too."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    whose, what = ast.unparse(node.func.value), node.func.attr
    return what in DELETES or (what in OF_MODULES and whose in ("os", "shutil"))


MINE = ("mine.txt", "mine/only copy.bin", ".mine", ".mine.0123456789ABCDEF")


@pytest.fixture
def folder(tmp_path):
    """Return a folder in which somebody has files."""
    put_mine(tmp_path / "folder")
    return tmp_path / "folder"


def put_mine(folder):
    """Put files of somebody into a folder."""
    for name in MINE:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def use_lfs(folder):
    """Use an empty folder as LFS, to which somebody adds files; then try it again."""
    shutil.rmtree(folder)
    node = LocalStorage(folder / "data", 0, 1, "launch")
    node.claim()
    put_mine(folder)
    node.release()
    with pytest.raises(TierError, match="expected an empty directory for the LFS"):
        node.claim()


def clean_memory(folder):
    """Remove what a killed launch has left."""
    os.close(hold_note(f"{os.getuid()}-1-a", folder))
    remove_what_killed_launches_left(folder)


def remove_unfinished(folder):
    """Remove what killed processes have left a day ago."""
    later_s = time.time() + LONGEST_S + 99
    (folder / "mine" / ".table.parquet.0123456789abcdef").touch()
    with pytest.MonkeyPatch.context() as later:
        later.setattr(time, "time", lambda: later_s)
        assert remove_left(folder) == 1


CLEANERS = {
    "LFS": use_lfs,
    "shared memory": clean_memory,
    "chunks of logs": lambda folder: remove_others(folder, {"2026"}),
    "dataset": lambda folder: generate_dataset(folder, ["0.tfrecord"], 600, 1),
    "database": lambda folder: generate_database(folder, provenance_here(4, 600, 4)),
    "lists of logs": lambda folder: list_logs([str(folder / MINE[1])], folder),
    "unfinished files": remove_unfinished,
    "staged runs": lambda folder: move_finished(folder, folder / "mine"),
}


@pytest.mark.parametrize("cleaner", CLEANERS)
def test_files_of_others_beside_ours_stay(folder, cleaner):
    CLEANERS[cleaner](folder)
    assert {name: (folder / name).read_text() for name in MINE} == {n: n for n in MINE}


@pytest.mark.parametrize("has_provenance", [False, True])
def test_database_of_others_is_refused_and_stays(folder, has_provenance):
    (folder / "data.mdb").write_text("the only copy")
    if has_provenance:
        (folder / "provenance.json").write_text("{}")
    with pytest.raises(DatasetError, match=r"data.mdb: is not of tierscope .* Move it"):
        generate_database(folder, provenance_here(4, 600, 4))
    assert (folder / "data.mdb").read_text() == "the only copy"


def test_sample_of_others_is_refused_and_stays(folder):
    (folder / "0.tfrecord").write_text("the only copy")
    with pytest.raises(DatasetError, match=r"0.tfrecord: got 13 bytes, expected 600;"):
        generate_dataset(folder, ["0.tfrecord"], 600, 1)
    assert (folder / "0.tfrecord").read_text() == "the only copy"
