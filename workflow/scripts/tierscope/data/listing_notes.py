"""Notes of a listing that runs, from which a killed one goes on: a line for each part.

The first line names the dataset. A line that is not whole does not count, nor what
follows it: a process was killed while it wrote.
"""

import json
import os
from array import array
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tierscope.core.files import os_errors_as
from tierscope.data.tfrecord import DatasetError

_VERSION = 2
_NUMBERS = {"size_bytes": "q", "mtimes_ns": "q", "devices": "Q", "inodes": "Q"}

_NO_LINE = (AttributeError, KeyError, TypeError, ValueError, OverflowError)
_NO_LINE += (RecursionError,)


@dataclass
class FolderContent:
    """The content of a folder, or a part of it.

    Parameters
    ----------
    mtime_ns : int
        When the folder was last changed.
    names : list of str
        Names of its files.
    size_bytes, mtimes_ns, is_link : arrays, shape (n_files,)
        Of each file its size, when it was last changed, and whether it is a link.
    devices, inodes : arrays, shape (n_files,)
        By which several names of a file are recognised.
    folders, links : list of str
        Names of its folders, and of links to folders.
    left_out : list of pairs of str
        Names of what is neither, with the reason.
    is_whole : bool
        Whether the folder was listed to its end.
    """

    mtime_ns: int
    names: list[str] = field(default_factory=list)
    size_bytes: array = field(default_factory=lambda: array("q"))
    mtimes_ns: array = field(default_factory=lambda: array("q"))
    is_link: bytearray = field(default_factory=bytearray)
    devices: array = field(default_factory=lambda: array("Q"))
    inodes: array = field(default_factory=lambda: array("Q"))
    folders: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    is_whole: bool = False

    def add(self, part: Self) -> None:
        """Add another part of the folder."""
        self.names += part.names
        self.size_bytes += part.size_bytes
        self.mtimes_ns += part.mtimes_ns
        self.is_link += part.is_link
        self.devices += part.devices
        self.inodes += part.inodes
        self.folders += part.folders
        self.links += part.links
        self.left_out += part.left_out
        self.is_whole |= part.is_whole

    def as_json(self) -> dict[str, Any]:
        """Return what `from_json` understands."""
        return {
            name: value if isinstance(value, int) else list(value)
            for name, value in vars(self).items()
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """Return the content that a line holds; a ValueError if it is none."""
        numbers = {name: array(kind, content[name]) for name, kind in _NUMBERS.items()}
        is_link = bytearray(bool(one) for one in content["is_link"])
        part = cls(**content | numbers | {"is_link": is_link})
        lengths = {len(getattr(part, name)) for name in ("names", "is_link", *_NUMBERS)}
        names = [*part.names, *part.folders, *part.links]
        names += [name for name, _ in part.left_out]
        has_types = all(
            type(content[name]) is (type(one) if isinstance(one, int) else list)
            for name, one in cls(0).as_json().items()
        )
        if len(lengths) > 1 or not all(map(_is_name, names)) or not has_types:
            raise ValueError
        return part


def _is_name(name: object) -> bool:
    """Return whether this may be the name of an entry of a folder."""
    return isinstance(name, str) and "/" not in name and name not in ("", ".", "..")


class ListingNotes:
    """The file with the notes; `folders` has what an earlier process noted, by path.

    Parameters
    ----------
    path : Path
        The file. It is made if it does not exist, and emptied if it is of another
        dataset.
    root : str
        The dataset's folder.

    Raises
    ------
    DatasetError
        If it cannot be read or written.
    """

    def __init__(self, path: Path, root: str):
        self._path = path
        self._head = {"root": os.fsencode(root).hex(), "version": _VERSION}
        self.folders: dict[str, FolderContent] = {}
        with self._writing():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(path, "a+b")
            self._file.truncate(self._read())
        if not self._file.tell():
            self._write(self._head)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._writing():
            self._file.close()

    def add(self, path: str, part: FolderContent) -> None:
        """Note a part of the folder at a path."""
        self._write({"path": path} | part.as_json())

    def _write(self, content: dict[str, Any]) -> None:
        with self._writing():
            self._file.write(json.dumps(content).encode() + b"\n")
            self._file.flush()

    def _read(self) -> int:
        """Read the folders, and return where the last whole line ends."""
        end = 0
        self._file.seek(0)
        for line in self._file:
            try:
                content = json.loads(line) if line.endswith(b"\n") else None
                if end:
                    path = content.pop("path")
                    self._join(path, FolderContent.from_json(content))
                elif content != self._head:
                    break
            except _NO_LINE:
                break
            end += len(line)
        self._file.seek(end)
        return end

    def _join(self, path: str, part: FolderContent) -> None:
        """Add a part to a folder, or begin anew if the folder has changed since."""
        known = self.folders.get(path)
        if known is None or known.is_whole or known.mtime_ns != part.mtime_ns:
            self.folders[path] = part
        else:
            known.add(part)

    def _writing(self) -> AbstractContextManager[None]:
        """Return what says of the notes that they cannot be written."""
        return os_errors_as(DatasetError, f"{self._path}: cannot write it")
