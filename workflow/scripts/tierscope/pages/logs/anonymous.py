"""Replace what identifies people, machines and projects in the tables of logged jobs.

Names become short ones that stay the same in all tables: ``user-1``, ``job-3``,
``/gfs/dir-2/file-17.h5``. Tiers, times and counts stay. Texts such as sentences and
reasons keep their own words; names and paths in them are replaced, too.
"""

import posixpath
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

import pandas as pd

from tierscope.analysis.logs.asking import JobTables
from tierscope.core.columns import OPERATIONS, TABLES
from tierscope.core.tables import read_table, table_files, write_table
from tierscope.pages.logs.short_names import (
    SHORT,
    STREAMS,
    Named,
    Numbers,
    ShortNames,
)

_TEXTS = ("sentence", "remarks", "grouped_by", "reason", "outlier")
# Tables with names, in whose order these are numbered; others have names of jobs only.
_NAMED = ("jobs", "logs", "refusals", "tier_prefixes", "fleet", "job_files")
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
Frames = dict[str, pd.DataFrame]


class _Texts:
    """Replaces names and paths in texts."""

    def __init__(self, kept: frozenset[str], numbers: Numbers) -> None:
        self.numbers = numbers
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

    def learn_jobs(self, texts: Iterable[str]) -> None:
        """Replace the names of other jobs that texts have."""
        words = {word for text in set(texts) for word in _TOKEN.findall(text)}
        _learn_names(self, self.numbers.jobs(words - self.tokens.keys()))

    def replaced(self, text: str, job: str) -> str:
        """Return a text of a job without names and paths."""
        phrases = self.phrases.get(job, {})
        if found := [phrase for phrase in phrases if phrase in text]:
            longest = sorted(found, key=len, reverse=True)
            pattern = "|".join(map(re.escape, longest))
            bounded = re.compile(rf"(?<!\w)(?:{pattern})(?!\w)")
            text = bounded.sub(lambda found: phrases[found[0]], text)
        text = _PATH.sub(self._path, text)
        return _TOKEN.sub(lambda found: self.tokens.get(found[0], found[0]), text)

    def _path(self, found: re.Match) -> str:
        """Return a path that is short, or words instead of it."""
        path = found[0].rstrip(_ENDS)
        return found[0] if path in self.paths else "(a path)"


def anonymise(tables: Mapping[str, str | Path], folder: Path) -> None:
    """Write the tables of an analysis without what identifies people or machines.

    Replaced are users, programs, hosts, jobs, logs, paths and prefixes, job numbers of
    the scheduler and digests of logs. Kept are the names of tiers, the kinds of files
    (``.h5``), file system types, times, counts and sizes. A name is replaced alike in
    all tables and files.

    Parameters
    ----------
    tables : mapping of str to path
        Tables of `tierscope.core.columns` that hold logged jobs, by name: all of an
        analysis. A table is a file or a folder of files. Files of one path in several
        folders hold the same jobs.
    folder : Path
        Where to write ``<name>.parquet`` of the same form, with the same rows in the
        same order.
    """
    parts = _parts(tables)
    asked = JobTables(tables)
    programs = frozenset(_distinct(asked, "exe", ["jobs"]))
    tiers = frozenset(_distinct(asked, "tier", tables))
    with tempfile.TemporaryDirectory(prefix="tierscope-") as room:
        numbers = Numbers(Path(room))
        for part, files in enumerate(parts.values()):
            named = _with_programs(_read_named(files), programs)
            for name, frame in named.items():
                numbers.add(part, _NAMED.index(name), _names(frame, name))
        numbers.finish()
        anywhere = numbers.anywhere()
        for part, (place, files) in enumerate(parts.items()):
            short, texts = ShortNames(numbers.of(part)), _Texts(tiers, numbers)
            _learn_names(texts, anywhere)
            replaced = _replaced_named(_read_named(files), programs, short, texts)
            for name, file in files.items():
                frame = replaced.get(name)
                if frame is None:
                    frame = _replaced(read_table(file, name), short, texts)
                write_table(frame, folder / f"{name}.parquet" / place, name)


def _parts(tables: Mapping[str, str | Path]) -> dict[str, dict[str, Path]]:
    """Return the files of each part by table; a part is a path in the folders."""
    parts: dict[str, dict[str, Path]] = defaultdict(dict)
    for name, table in tables.items():
        for file in table_files(table):
            place = "" if file == Path(table) else str(file.relative_to(table))
            parts[place][name] = file
    return parts


def _distinct(asked: JobTables, column: str, tables: Iterable[str]) -> list[str]:
    """Return the distinct values of a column in those tables that have it."""
    found = [name for name in tables if column in TABLES[name]]
    rows = " UNION ".join(f"SELECT {column} AS name FROM {name}" for name in found)
    return asked.ask(rows)["name"].tolist()


def _read_named(files: Mapping[str, Path]) -> Frames:
    """Return the tables of a part that have names of more than jobs."""
    return {name: read_table(files[name], name) for name in _NAMED if name in files}


def _names(frame: pd.DataFrame, name: str) -> Iterator[Named]:
    """Give the names in a table, each with its kind."""
    for kind in SHORT:
        if kind == "host" and kind in frame:
            hosts = frame[kind].drop_duplicates().map(_hosts)
            yield from ((kind, one) for several in hosts for one in several)
        elif kind in frame:
            yield from ((kind, one) for one in frame[kind].drop_duplicates())
    if name == "logs":
        yield from (("job_id", str(one)) for one in frame["job_id"])
    elif name == "refusals":
        for reason in frame["reason"]:
            yield from _quoted_names(reason)
    elif name == "tier_prefixes":
        rows = zip(frame["tier"], frame["prefix"], strict=True)
        yield from ((f"prefix {tier}", prefix) for tier, prefix in rows)
    elif name == "job_files":
        files = frame[["path", "kind"]].drop_duplicates()
        for path, kind in files.to_numpy().tolist():
            if kind == "folder":
                yield "dir", path.rstrip("/")
            elif path not in STREAMS:
                yield "dir", posixpath.dirname(path).rstrip("/")
                yield "file", path


def _replaced_named(
    before: Frames, programs: frozenset[str], short: ShortNames, texts: _Texts
) -> Frames:
    """Return tables without the names of more than jobs, which the texts learn."""
    named = _with_programs(before, programs)
    after = {name: _without_names(frame, short) for name, frame in named.items()}
    for name, frame in before.items():
        _learn(texts, frame, after[name])
    return {
        name: _with_texts(frame, before[name], texts) for name, frame in after.items()
    }


def _replaced(frame: pd.DataFrame, short: ShortNames, texts: _Texts) -> pd.DataFrame:
    """Return a table that has names of jobs only, without them."""
    return _with_texts(_without_names(frame, short), frame, texts)


def _quoted_names(reason: str) -> Iterator[Named]:
    """Give the log or the job that a reason for a refusal names."""
    yield from (("log", found) for found in _COPY.findall(reason))
    yield from (("job", found) for found in _JOB.findall(reason))


def _without_quotes(reason: str, short: ShortNames) -> str:
    """Return why a log is refused, without what it quotes of logs, jobs and paths."""
    if _COPY.search(reason):
        return _COPY.sub(lambda found: short("log", found[0]), reason)
    reason = _JOB.sub(lambda found: short("job", found[0]), reason)
    return _QUOTED.sub("(a text)", reason)


def _with_programs(frames: Frames, known: frozenset[str]) -> Frames:
    """Return tables with programs for commands in ``logs``: names as in ``jobs``."""
    if "logs" not in frames:
        return frames
    logs, of_jobs = frames["logs"], {}
    if "jobs" in frames:
        jobs = frames["jobs"]
        of_jobs = dict(zip(jobs["job"], jobs["exe"], strict=True))
    programs = [
        _program(command, of_jobs.get(job, ""), known)
        for command, job in zip(logs["exe"], logs["job"], strict=True)
    ]
    exe = pd.Series(programs, index=logs.index, dtype="str")
    return {**frames, "logs": logs.assign(exe=exe)}


def _program(command: str, of_job: str, known: frozenset[str]) -> str:
    """Return the program of a command line: its job's, a known one, or its file."""
    if command == of_job:
        return command
    words = [PurePosixPath(word).name for word in command.split()]
    found = [word for word in words if word in known]
    return of_job if of_job in words else next(iter([*found, *words]), "")


def _without_names(frame: pd.DataFrame, short: ShortNames) -> pd.DataFrame:
    """Return a table with short names in the columns that hold nothing else."""
    new = {}
    for kind in filter(frame.columns.__contains__, SHORT):
        new[kind] = [
            ", ".join(short(kind, one) for one in _hosts(name))
            if kind == "host"
            else short(kind, name)
            for name in frame[kind].tolist()
        ]
    if "digest" in frame:
        new["digest"] = [""] * len(frame)
        new["job_id"] = list(map(short.number, frame["job_id"]))
        darshan = frame["darshan"]
        new["darshan"] = darshan.where(darshan.str.fullmatch(_VERSION), "")
    if "path" in frame:
        rows = frame[["path", "tier", "kind"]].to_numpy().tolist()
        new["path"] = [
            (short.folder if kind == "folder" else short.file)(path, tier)
            for path, tier, kind in rows
        ]
    if "prefix" in frame:
        rows = zip(frame["prefix"], frame["tier"], strict=True)
        new["prefix"] = [short.prefix(*row) for row in rows]
    if "reason" in frame:
        new["reason"] = [_without_quotes(one, short) for one in frame["reason"]]
    return frame.assign(
        **{
            column: pd.Series(cells, index=frame.index, dtype=frame[column].dtype)
            for column, cells in new.items()
        }
    )


def _learn_names(texts: _Texts, numbers: Mapping[Named, int]) -> None:
    """Tell texts the names that any of them may have."""
    short = ShortNames(numbers)
    for kind, name in numbers:
        for part in _name_parts(name, kind):
            texts.learn(part, short(kind, name), "")


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
            for part in _name_parts(name, column):
                texts.learn(part, new, of)


def _hosts(names: str) -> list[str]:
    """Return the hosts of a list of them."""
    return re.split(r",\s*", names)


def _name_parts(name: str, column: str) -> list[str]:
    """Return a name and what a text may call it instead."""
    if column in ("user", "job"):
        return [name]
    if column == "exe":
        program, *words = name.split() or [""]
        parts = [part for word in words for part in (word, PurePosixPath(word).name)]
        return [name, program, PurePosixPath(program).name, *_telling(parts)]
    last = posixpath.basename(name.rstrip("/"))
    return [name, *_telling([last, posixpath.splitext(last)[0]])]


def _telling(parts: Iterable[str]) -> list[str]:
    """Return the parts of a name that are no plain words, which any text may have."""
    return [part for part in parts if not part.isalpha()]


def _with_texts(
    frame: pd.DataFrame, before: pd.DataFrame, texts: _Texts
) -> pd.DataFrame:
    """Return a table with the names in its texts replaced."""
    new = {}
    for column in filter(frame.columns.__contains__, _TEXTS):
        keys = before["job"] if "job" in before else before["log"]
        texts.learn_jobs(frame[column])
        cells = [
            texts.replaced(text, job)
            for text, job in zip(frame[column], keys, strict=True)
        ]
        new[column] = pd.Series(cells, index=frame.index, dtype="str")
    return frame.assign(**new)
