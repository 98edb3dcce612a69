"""The folder of what writes files, as each of its steps leaves it to the next start.

A killed process leaves all files as they are. A power cut leaves what was synced. Of
the rest it may leave nothing, or the names of files that are empty.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

Tree = dict[str, bytes | None]  # content by path, None of a folder
_EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod"}
_SYNC, END = "syncfs", "the end"
_watching: list["Stops"] = []


class Stop(NamedTuple):
    """A place at which what writes files can be stopped, and what is left then."""

    step: str
    killed: Tree
    cut_early: Tree
    cut_late: Tree

    @property
    def left(self) -> dict[str, Tree]:
        """Return what a kill leaves, and what power cuts leave, by words."""
        return {
            f"{how} before {self.step}": tree
            for how, tree in zip(self._fields[1:], self[1:], strict=True)
        }


class Stops:
    """Records what each step leaves in a folder; used as a context."""

    def __init__(self, folder: Path):
        self.folder, self._stops, self.n_syncs = folder, [], 0
        self._is_looking = False

    def __enter__(self) -> "Stops":
        self._sync()
        _watching.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _watching.remove(self)
        self._note(END)

    def __iter__(self) -> Iterator[Stop]:
        return iter(self._stops)

    def see(self, event: str, details: tuple[Any, ...]) -> None:
        """Note what there is before a step."""
        if self._is_looking:
            return
        self._is_looking = True
        try:
            if event == "ctypes.dlsym" and details[1] == _SYNC:
                self.n_syncs += 1
                self._note(_SYNC)
                self._sync()
            elif event in _EVENTS and self._changes(event, details):
                self._note(f"{event} {os.path.basename(str(details[0]))}")
        finally:
            self._is_looking = False

    def _changes(self, event: str, details: tuple[Any, ...]) -> bool:
        is_write = event != "open" or details[2] & (os.O_WRONLY | os.O_RDWR)
        return bool(is_write) and not isinstance(details[0], int)

    def _sync(self) -> None:
        self._synced, self._contents = tree_of(self.folder), self._by_inode()

    def _by_inode(self) -> dict[str, tuple[int, bytes | None]]:
        return {
            name: ((self.folder / name).stat().st_ino, content)
            for name, content in tree_of(self.folder).items()
        }

    def _note(self, step: str) -> None:
        now, on_disk = self._by_inode(), set(self._contents.values())
        whole = {name: content for name, (_, content) in now.items()}
        # Their names have come to the disk, and their contents have not.
        late = {name: b"" for name in now if now[name] not in on_disk}
        late |= {name: None for name, content in whole.items() if content is None}
        self._stops.append(Stop(step, whole, dict(self._synced), whole | late))


def stopped(folder: Path, write: Callable[[], Any]) -> Iterator[tuple[str, bool]]:
    """Let a folder hold what each stop of a function leaves there, and yield which.

    Yields words, and whether the function has ended. What two stops leave comes once.
    """
    with Stops(folder) as stops:
        write()
    seen: list[tuple[Tree, bool]] = []
    for stop in stops:
        for how, tree in stop.left.items():
            if (left := (tree, stop.step == END)) not in seen:
                seen.append(left)
                restore(tree, folder)
                yield how, stop.step == END


def _hook(event: str, details: tuple[Any, ...]) -> None:
    for one in _watching:
        one.see(event, details)


sys.addaudithook(_hook)


def tree_of(folder: Path) -> Tree:
    """Return all that a folder holds."""
    return {
        str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
    }


def restore(tree: Tree, folder: Path) -> None:
    """Let a folder hold what was left."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in tree.items():
        path = folder / name
        if content is None:
            path.mkdir()
        else:
            path.write_bytes(content)
