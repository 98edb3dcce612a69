"""Short names for names: their kind and a number, alike in all tables and files."""

import posixpath
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd

from tierscope.analysis.logs.asking import connection

# Suffixes that tell the kind of a file, and nothing else.
_KINDS = frozenset(
    re.findall(
        r"\w+",
        """
        avi bin bz2 ckpt csv dat db gz h5 hdf5 idx jpeg jpg json lmdb log mdb mp4 nc
        npy npz onnx out parquet pdb png pkl pt pth py safetensors so tar tfrecord
        tif tiff txt wav xml xtc xz yaml zarr zip zst
        """,
    )
)
# What short names begin with, by the kind of a name.
SHORT = {"job": "job", "user": "user", "exe": "program", "host": "host", "log": "log"}
_ANYWHERE = ("user", "exe", "host")  # kinds of names that are replaced in all texts
STREAMS = frozenset(["<STDIN>", "<STDOUT>", "<STDERR>", "<stdin>", "<stdout>"])

Named = tuple[str, str]  # a kind and a name


class Numbers:
    """Numbers of names by their kind, which a database on the disk holds.

    First `add` the names of all parts, then ask for those `of` a part.
    """

    def __init__(self, room: Path) -> None:
        self._known = connection(room, room / "names.duckdb")
        self._known.execute(
            "CREATE TABLE seen (part INT, place BIGINT, kind TEXT, name TEXT)"
        )

    def add(self, part: int, table: int, named: Iterable[Named]) -> None:
        """Add names of a table of a part; earlier tables and parts count first."""
        rows = pd.DataFrame(list(dict.fromkeys(named)), columns=["kind", "name"])
        rows = rows[rows["name"] != ""].astype(str)
        rows["place"] = (table << 56) + (part << 32) + rows.index
        self._known.register("rows", rows)
        command = "INSERT INTO seen SELECT ?, place, kind, name FROM rows"
        self._known.execute(command, [part])

    def finish(self) -> None:
        """Give each name its number."""
        self._known.execute("""
            CREATE TABLE numbers AS
            WITH firsts AS (
                SELECT kind, name, min(place) AS place FROM seen GROUP BY ALL
            ), numbered AS (
                SELECT kind, name, row_number() OVER (PARTITION BY kind ORDER BY place)
                    AS number FROM firsts
            )
            SELECT DISTINCT part, kind, name, number
            FROM seen JOIN numbered USING (kind, name) ORDER BY part
        """)

    def of(self, part: int) -> dict[Named, int]:
        """Return the numbers of the names of a part."""
        question = "SELECT kind, name, number FROM numbers WHERE part = ?"
        return self._mapping(question, [part])

    def anywhere(self) -> dict[Named, int]:
        """Return the numbers of users, programs and hosts of all parts."""
        question = """
            SELECT DISTINCT kind, name, number FROM numbers
            WHERE list_contains(?, kind) ORDER BY kind, number
        """
        return self._mapping(question, [list(_ANYWHERE)])

    def jobs(self, words: Iterable[str]) -> dict[Named, int]:
        """Return the numbers of those words that are names of jobs of any part."""
        question = """
            SELECT DISTINCT kind, name, number FROM numbers
            WHERE kind = 'job' AND list_contains(?, name)
        """
        return self._mapping(question, [list(words)])

    def _mapping(self, question: str, values: list) -> dict[Named, int]:
        """Return an answer by kind and name."""
        rows = self._known.execute(question, values).fetchall()
        return {(kind, name): number for kind, name, number in rows}


class ShortNames:
    """Short names of the names of a part; any other name is an error."""

    def __init__(self, numbers: Mapping[Named, int]) -> None:
        self._numbers = numbers

    def __call__(self, kind: str, name: str) -> str:
        """Return the short name of a name; an empty one stays empty."""
        return f"{SHORT[kind]}-{self._numbers[kind, name]}" if name else ""

    def folder(self, path: str, tier: str) -> str:
        """Return the short path of a folder of a tier."""
        name = path.rstrip("/")
        return f"/{tier}/dir-{self._numbers['dir', name]}" if name else f"/{tier}"

    def file(self, path: str, tier: str) -> str:
        """Return the short path of a file of a tier."""
        if path in STREAMS or not path:
            return path
        suffix = posixpath.splitext(path)[1].removeprefix(".").lower()
        ending = f".{suffix}" if suffix in _KINDS else ""
        folder = self.folder(posixpath.dirname(path), tier)
        return f"{folder}/file-{self._numbers['file', path]}{ending}"

    def prefix(self, prefix: str, tier: str) -> str:
        """Return the short prefix of a tier."""
        number = self._numbers.get((f"prefix {tier}", prefix), 1)
        return f"/{tier}" if number == 1 else f"/{tier}-{number}"

    def number(self, job_id: int) -> int:
        """Return another number for that of a scheduler."""
        return self._numbers["job_id", str(job_id)]
