"""A node with a small dataset, half of it on the LFS, on which programs run."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import sessions
from tierscope.benchmark.programs.table import NodeTable, TableFolders

VIRTUAL = "/tierscope/set"
NAMES = [*[f"train/{i}.png" for i in range(6)], "link.png", "deep/one/a b"]
ON_LFS = [True, False, True, False, True, False, True, True]
PRELUDE = """
import ctypes, os, sys
data, real, lfs, beside = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)

def place(fd):
    '''Return the tier and the name of an open file.'''
    path = os.readlink(f"/proc/self/fd/{fd}")
    for tier, folder in (("gfs", real), ("lfs", lfs)):
        if path == folder or path.startswith(folder + "/"):
            return tier + path[len(folder):]
    return path

def opened(path, flags=os.O_RDONLY, **options):
    '''Open a file and say where it is, or why it cannot be opened.'''
    try:
        fd = os.open(path, flags, **options)
    except OSError as error:
        return error.strerror
    try:
        return place(fd)
    finally:
        os.close(fd)

libc.fopen.restype = ctypes.c_void_p
def stream(path, mode):
    return libc.fopen(path.encode(), mode.encode())
"""


@dataclass
class ProgramNode:
    """A node: folders, its table, and programs that run on it."""

    folder: Path
    table: NodeTable
    library: Path
    is_virtual: bool

    @property
    def data(self) -> str:
        """Return the path of the dataset that a program gets."""
        return VIRTUAL if self.is_virtual else str(self.folder / "given")

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of a program, beside that of the tests."""
        return {
            "LD_PRELOAD": str(self.library),
            "TIERSCOPE_REDIRECT": str(self.table.path),
        }

    def command(self, code: str) -> list[str]:
        """Return the command that runs code in Python, with `PRELUDE` before."""
        folders = self.data, *(str(self.folder / one) for one in ("set", "lfs", ""))
        return [sys.executable, "-I", "-S", "-c", PRELUDE + code, *folders]

    def run(self, code: str, **environment: str) -> str:
        """Run code and return what it printed."""
        return self.execute(self.command(code), **environment).stdout

    def execute(
        self, command: list[str], *, check: bool = True, **environment: str
    ) -> subprocess.CompletedProcess:
        """Run a command on the node."""
        return subprocess.run(
            command,
            env=os.environ | self.environment | environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=None if check else subprocess.PIPE,
            check=check,
            timeout=sessions.HANG_S,
        )

    def events(self, *kinds: int) -> list[tuple[int, str, int]]:
        """Return kind, name and epoch of the events so far, of some kinds or all."""
        events, n_lost = self.table.drain(is_last=True)
        assert n_lost == 0
        return [
            (int(one["kind"]), NAMES[one["file_id"]] if one["file_id"] >= 0 else "", e)
            for one in events
            for e in [int(one["epoch"])]
            if not kinds or one["kind"] in kinds
        ]


def fill(folder: Path) -> None:
    """Make a dataset, copies of half of it on the LFS, and links that lead to it."""
    for name, on_lfs in zip(NAMES, ON_LFS, strict=True):
        for tier in ["set", *["lfs"] * on_lfs]:
            path = folder / tier / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if tier == "set" and name == "link.png":
                path.symlink_to("train/1.png")
            else:
                path.write_text(f"{tier} {name}")
    (folder / "set" / "linked").symlink_to("train")
    (folder / "set" / "later").write_text("made after the table")
    (folder / "set-of-another").mkdir()
    (folder / "set-of-another" / "a").touch()
    (folder / "links").mkdir()
    (folder / "given").symlink_to("set")
    (folder / "other").symlink_to("set")
    (folder / "file").symlink_to("set/train/2.png")


@pytest.fixture
def make_node(tmp_path, redirect_library):
    """Return a function that makes a node."""

    def make(is_virtual=True, drops=(), **changes):
        fill(tmp_path)
        given = [VIRTUAL] if is_virtual else []
        table = NodeTable.create(
            tmp_path / "table",
            TableFolders(
                [*given, str(tmp_path / "given")],
                *(str(tmp_path / name) for name in ("set", "lfs", "links")),
                is_virtual,
            ),
            names=NAMES,
            is_link=np.array([name == "link.png" for name in NAMES]),
            on_lfs=np.array(ON_LFS),
            library=redirect_library,
            **{"wants_closes": False} | changes,
        )
        for tier in drops:
            table.drop_from_now_on(tier)
        return ProgramNode(tmp_path, table, redirect_library, is_virtual)

    return make


@pytest.fixture
def node(make_node):
    """Return a node whose programs get a path that does not exist."""
    return make_node()


@pytest.fixture(params=[True, False], ids=["virtual", "in place"])
def any_node(make_node, request):
    """Return a node of either kind."""
    return make_node(is_virtual=request.param)
