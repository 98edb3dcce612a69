"""Replace what identifies people, machines and projects in the tables of logged jobs.

Names become short ones that stay the same in all tables: ``user-1``, ``job-3``,
``/gfs/dir-2/file-17.h5``. Tiers, times and counts stay. Texts such as sentences and
reasons keep their own words; names and paths in them are replaced, too.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath

import pandas as pd

from tierscope.core.columns import OPERATIONS, TABLES

_TEXTS = ("sentence", "remarks", "grouped_by", "reason", "outlier")
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
_FIRST = {"jobs": 0, "logs": 1}  # tables in whose order names are numbered
_STREAMS = frozenset(["<STDIN>", "<STDOUT>", "<STDERR>", "<stdin>", "<stdout>"])
_PATH = re.compile(r"(?<![\w<])~?/[^\s\"'`,;]+")
_TOKEN = re.compile(r"[^\W_](?:[\w.@+-]*\w)?")
_VERSION = re.compile(r"\d[\w.+-]{0,20}")
# What reasons for refusals name: a log, which may be a relative path, a job, or a text.
_COPY = re.compile(r"(?<=has the same content as ).+(?=\.$)", re.DOTALL)
_JOB = re.compile(r"(?<=^its job )\S+")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"", re.DOTALL)
_ENDS = ".:)]}"  # of a path in a text, and not part of it
_LEAST_LETTERS = 2  # of a name that is looked for in texts
_PLAIN = frozenset(word for operation in OPERATIONS for word in operation.split())


class _Names:
    """Short names of one kind, numbered as they come."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.known: dict[str, str] = {}

    def __call__(self, name: str) -> str:
        """Return the short name of a name; an empty one stays empty."""
        if name and name not in self.known:
            self.known[name] = f"{self.kind}-{len(self.known) + 1}"
        return self.known.get(name, "")


class _Paths:
    """Short paths of files and folders."""

    def __init__(self) -> None:
        self.folders, self.files = _Names("dir"), _Names("file")

    def folder(self, path: str, tier: str) -> str:
        """Return the short path of a folder of a tier."""
        if not path.rstrip("/"):
            return f"/{tier}"
        return f"/{tier}/{self.folders(path.rstrip('/'))}"

    def file(self, path: str, tier: str) -> str:
        """Return the short path of a file of a tier."""
        if path in _STREAMS or not path:
            return path
        parent = str(PurePosixPath(path).parent)
        suffix = PurePosixPath(path).suffix.removeprefix(".").lower()
        ending = f".{suffix}" if suffix in _KINDS else ""
        return f"{self.folder(parent, tier)}/{self.files(path)}{ending}"


class _Texts:
    """Replaces names and paths in texts."""

    def __init__(self, kept: frozenset[str]) -> None:
        self.kept = kept | _PLAIN  # words that are no names here
        self.tokens: dict[str, str] = {}  # single words
        self.phrases: dict[str, dict[str, str]] = {}  # by job: names of any letters
        self.paths: set[str] = set()

    def learn(self, name: str, short: str, job: str) -> None:
        """Replace a name in all texts, or in those of a job if it is no single word.

        A number is a name only after a word such as ``user``.
        """
        if len(name) < _LEAST_LETTERS or name in self.kept:
            return
        phrases = self.phrases.setdefault(job, {})
        if not any(map(str.isalpha, name)):
            phrases |= {f"{word} {name}": short for word in ("user", "uid", "job")}
            return
        if _TOKEN.fullmatch(name):
            self.tokens.setdefault(name, short)
        phrases.setdefault(name, short)
        self.paths.add(short)

    def replaced(self, text: str, job: str) -> str:
        """Return a text of a job without names and paths."""
        if phrases := self.phrases.get(job):
            longest = sorted(phrases, key=len, reverse=True)
            pattern = "|".join(map(re.escape, longest))
            bounded = re.compile(rf"(?<!\w)(?:{pattern})(?!\w)")
            text = bounded.sub(lambda found: phrases[found[0]], text)
        text = _PATH.sub(self._path, text)
        return _TOKEN.sub(lambda found: self.tokens.get(found[0], found[0]), text)

    def _path(self, found: re.Match) -> str:
        """Return a path that is short, or words instead of it."""
        path = found[0].rstrip(_ENDS)
        return found[0] if path in self.paths else "(a path)"


def anonymise(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the tables of an analysis without what identifies people or machines.

    Replaced are users, programs, hosts, jobs, logs, paths and prefixes, job numbers of
    the scheduler and digests of logs. Kept are the names of tiers, the kinds of files
    (``.h5``), file system types, times, counts and sizes.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Tables of `tierscope.core.columns` that hold logged jobs, by name. Give all of
        an analysis at once, so that a name is replaced alike in them.

    Returns
    -------
    dict of str to DataFrame
        The same tables with the same rows in the same order.
    """
    shorten = {
        "job": _Names("job"),
        "user": _Names("user"),
        "exe": _Names("program"),
        "host": _Names("host"),
        "log": _Names("log"),
    }
    named = _with_programs(tables)
    for kind in ("job", "log", "exe"):  # numbered in the order of jobs, then of logs
        for name in sorted(named, key=lambda name: _FIRST.get(name, len(_FIRST))):
            if kind in named[name]:
                named[name][kind].drop_duplicates().map(shorten[kind])
    tiers = {
        tier
        for name, frame in tables.items()
        if "tier" in TABLES[name]
        for tier in frame["tier"].unique()
    }
    texts, paths = _Texts(frozenset(tiers)), _Paths()
    replaced = {
        name: _without_names(frame, shorten, paths) for name, frame in named.items()
    }
    if "refusals" in tables:
        reasons = tables["refusals"]["reason"].map(
            lambda reason: _without_quotes(reason, shorten)
        )
        replaced["refusals"] = replaced["refusals"].assign(reason=reasons)
    for name, frame in tables.items():
        _learn(texts, frame, replaced[name])
    for name, frame in replaced.items():
        for column in _TEXTS:
            if column in frame:
                replaced[name] = frame = _with_texts(frame, column, tables[name], texts)
    return replaced


def _without_quotes(reason: str, shorten: Mapping[str, Callable[[str], str]]) -> str:
    """Return why a log is refused, without what it quotes of logs, jobs and paths."""
    if _COPY.search(reason):
        return _COPY.sub(lambda found: shorten["log"](found[0]), reason)
    reason = _JOB.sub(lambda found: shorten["job"](found[0]), reason)
    return _QUOTED.sub("(a text)", reason)


def _with_programs(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the tables with programs in table ``logs`` instead of command lines.

    So a program has the same short name as in table ``jobs``.
    """
    if not {"jobs", "logs"} <= tables.keys():
        return dict(tables)
    jobs, logs = tables["jobs"], tables["logs"]
    of_jobs = dict(zip(jobs["job"], jobs["exe"], strict=True))
    programs = [
        _program(command, of_jobs.get(job, ""), of_jobs.values())
        for command, job in zip(logs["exe"], logs["job"], strict=True)
    ]
    exe = pd.Series(programs, index=logs.index, dtype="str")
    return {**tables, "logs": logs.assign(exe=exe)}


def _program(command: str, of_job: str, known: Iterable[str]) -> str:
    """Return the program of a command line: its job's, a known one, or its file."""
    if command == of_job:
        return command
    words = [PurePosixPath(word).name for word in command.split()]
    found = [word for word in words if word in known]
    return of_job if of_job in words else next(iter([*found, *words]), "")


def _without_names(
    frame: pd.DataFrame, shorten: Mapping[str, Callable[[str], str]], paths: _Paths
) -> pd.DataFrame:
    """Return a table with short names in the columns that hold nothing else."""
    new = {}
    for column in frame:
        if column == "host":
            new[column] = frame[column].map(
                lambda hosts: ", ".join(map(shorten["host"], _hosts(hosts)))
            )
        elif column in shorten:
            new[column] = frame[column].map(shorten[column])
    if "digest" in frame:
        new["digest"] = pd.Series("", index=frame.index)
        new["job_id"] = frame["job_id"].factorize()[0] + 1
        new["darshan"] = frame["darshan"].where(
            frame["darshan"].str.fullmatch(_VERSION), ""
        )
    if "path" in frame:
        rows = zip(frame["path"], frame["tier"], frame["kind"], strict=True)
        new["path"] = [
            (paths.folder if kind == "folder" else paths.file)(path, tier)
            for path, tier, kind in rows
        ]
    if "prefix" in frame:
        of_tier = frame.groupby("tier").cumcount() + 1
        new["prefix"] = [
            f"/{tier}" if number == 1 else f"/{tier}-{number}"
            for tier, number in zip(frame["tier"], of_tier, strict=True)
        ]
    typed = {
        column: pd.Series(cells, index=frame.index) for column, cells in new.items()
    }
    return frame.assign(**typed)


def _learn(texts: _Texts, frame: pd.DataFrame, short: pd.DataFrame) -> None:
    """Tell texts the names of a table's rows, whole and by their last part."""
    names = ("job", "user", "host", "exe", "log", "path", "prefix")  # the first counts
    columns = [name for name in names if name in frame]
    jobs = frame["job"] if "job" in frame else frame.get("log", pd.Series(dtype=str))
    for column in columns:
        keys = jobs if len(jobs) == len(frame) else [""] * len(frame)
        rows = pd.DataFrame({"of": keys, "name": frame[column], "new": short[column]})
        for of, name, new in rows.drop_duplicates().itertuples(index=False):
            if column == "host":
                for one, short_one in zip(_hosts(name), _hosts(new), strict=True):
                    texts.learn(one, short_one, of)
                continue
            for part in _parts(name, column):
                texts.learn(part, new, of)


def _hosts(names: str) -> list[str]:
    """Return the hosts of a list of them."""
    return re.split(r",\s*", names)


def _parts(name: str, column: str) -> list[str]:
    """Return a name and what a text may call it instead."""
    if column in ("user", "job"):
        return [name]
    if column == "exe":
        program, *words = name.split() or [""]
        parts = [part for word in words for part in (word, PurePosixPath(word).name)]
        return [name, program, PurePosixPath(program).name, *_telling(parts)]
    last = PurePosixPath(name)
    return [name, *_telling([last.name, last.stem])]


def _telling(parts: Iterable[str]) -> list[str]:
    """Return the parts of a name that are no plain words, which any text may have."""
    return [part for part in parts if not part.isalpha()]


def _with_texts(
    frame: pd.DataFrame, column: str, before: pd.DataFrame, texts: _Texts
) -> pd.DataFrame:
    """Return a table with the names in one column of texts replaced."""
    keys = before["job"] if "job" in before else before["log"]
    cells = [
        texts.replaced(text, job) for text, job in zip(frame[column], keys, strict=True)
    ]
    return frame.assign(**{column: pd.Series(cells, index=frame.index, dtype="str")})
