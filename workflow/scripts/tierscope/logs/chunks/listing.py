"""Which logs there are, and in which chunk each is read.

A chunk holds the logs of a year, a month, a day, or a part of a day: the longest of
these with at most `LOGS_PER_CHUNK` logs, a year with fewer, so that several processors
have work. So no chunk is so small that the start of its process counts. The day of a
log is in its name as Darshan writes it; else it is that of its last change.

A log that is listed stays in its chunk, so chunks are never merged, divided or renamed.
A new log goes to the longest period that is small enough with all logs that are listed
and new. So a new day is added to the chunk of its month while the month is small
enough; then it is a chunk of its own, beside that of the month's first days.
"""

import glob
import json
import os
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import UTC, date, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path

from tierscope.core.files import write_text
from tierscope.core.validation import ConfigError, parse_json

LOGS_PER_CHUNK, LOGS_PER_YEAR = 20_000, 4000
MISSING = -1  # size of a log that is named and does not exist
_PERIODS = {"%Y": LOGS_PER_YEAR, "%Y-%m": LOGS_PER_CHUNK, "%Y-%m-%d": LOGS_PER_CHUNK}
_SUFFIX = ".list"
_DAY = re.compile(r"_id-?\d+(?:-\d+)?_(\d{1,2})-(\d{1,2})-\d+-\d+")  # in a log's name
_FOLDER = re.compile(r"(?:^|/)(\d{4})/0?(\d{1,2})/0?(\d{1,2})/[^/]*$")
_USER = re.compile(r"([^/]*?)_[^/]*_id(-?\d+)[-_][^/]*$")


@dataclass(frozen=True)
class ListedLog:
    """A log as it was found; one that was written since then has other values.

    `n_tries` counts how often it was refused for a reason that may pass, or its chunk
    was damaged: so the list of the chunk changes, and the chunk is made again.
    """

    path: str
    size_bytes: int  # or MISSING
    mtime_ns: int
    n_tries: int = 0


@dataclass(frozen=True)
class Listing:
    """The logs by chunk, which chunks have changed, and how many logs are gone."""

    chunks: Mapping[str, list[ListedLog]]
    changed: frozenset[str]
    n_vanished: int


def list_logs(
    patterns: Sequence[str],
    folder: Path,
    *,
    keep_vanished: bool = True,
    again: Collection[str] = (),
    damaged: Collection[str] = (),
    logs_per_chunk: int = LOGS_PER_CHUNK,
) -> Listing:
    """Find logs, and write the list of each chunk that is new or has changed.

    Parameters
    ----------
    patterns : sequence of str
        Paths, folders and patterns.
    folder : Path
        Where the lists are; `listed_logs` reads them.
    keep_vanished : bool
        Whether logs that were listed before and do not exist any more stay listed.
    again : collection of str
        The paths of logs that are to be read again though they have not changed.
    damaged : collection of str
        Chunks that are to be made again though their logs have not changed.
    logs_per_chunk : int
        The most logs of a new chunk, as far as users and jobs allow.

    Raises
    ------
    ConfigError
        If a pattern or a folder names no log, and no vanished log is kept.
    """
    lists = {path.stem: path for path in folder.glob(f"*{_SUFFIX}")}
    listed_in = {name: listed_logs(path) for name, path in lists.items()}
    chunk_of = {log.path: name for name, some in listed_in.items() for log in some}
    before = {log.path: log for some in listed_in.values() for log in some}
    known = before if keep_vanished else {}
    found = {path: _listed(path) for path in find_logs(patterns, may_be_none=known)}
    vanished = {
        path: log
        for path, log in known.items()
        if log.size_bytes != MISSING
        and (found[path].size_bytes == MISSING if path in found else is_gone(path))
    }
    logs = [
        _tried(log, before.get(path), path in again)
        for path, log in sorted((found | vanished).items())
    ]
    chunks, changed = _in_chunks(logs, chunk_of, logs_per_chunk), set()
    for name in chunks.keys() & set(damaged):
        chunks[name] = [replace(log, n_tries=log.n_tries + 1) for log in chunks[name]]
    for name, listed in chunks.items():
        text = "".join(f"{json.dumps(astuple(log))}\n" for log in listed)
        path = list_path(folder, name)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            write_text(path, text)
            changed.add(name)
    for name in lists.keys() - chunks.keys():
        lists[name].unlink()
    return Listing(chunks, frozenset(changed), len(vanished))


def list_path(folder: Path, chunk: str) -> Path:
    """Return the file of a chunk's list."""
    return folder / f"{chunk}{_SUFFIX}"


def listed_logs(path: Path) -> list[ListedLog]:
    """Return the logs of a list, sorted by path."""
    lines = path.read_text(encoding="utf-8").splitlines() or [""]  # none is damaged
    return [ListedLog(*parse_json(line, path)) for line in lines]


def _listed(path: str) -> ListedLog:
    """Return a log with its size and the time of its last change."""
    try:
        status = os.stat(path)
    except OSError:
        return ListedLog(path, MISSING, 0)
    return ListedLog(path, status.st_size, status.st_mtime_ns)


def _tried(log: ListedLog, before: ListedLog | None, again: bool) -> ListedLog:
    """Return a log with the number of its tries, if it is the same as before."""
    if not before or replace(before, n_tries=log.n_tries) != log:
        return log
    return replace(before, n_tries=before.n_tries + again)


def is_gone(path: str) -> bool:
    """Return whether a file is there no more."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


# ---- Chunks


def _in_chunks(
    logs: Iterable[ListedLog], chunk_of: Mapping[str, str], logs_per_chunk: int
) -> dict[str, list[ListedLog]]:
    """Return the logs by chunk; those that are listed, by path, stay in theirs."""
    days = defaultdict(list)
    for log in logs:
        days[day_of(log)].append(log)
    counts = Counter()
    for day, found in days.items():
        for period in _PERIODS:
            counts[f"{day:{period}}"] += len(found)
    chunks: dict[str, list[ListedLog]] = defaultdict(list)
    for day, found in sorted(days.items()):
        fits = (
            name
            for period, most in _PERIODS.items()
            if counts[name := f"{day:{period}}"] <= min(most, logs_per_chunk)
        )
        name = next(fits, None)
        placed = (
            ((name, log) for log in found) if name else _parts(found, logs_per_chunk)
        )
        for new, log in placed:
            chunks[chunk_of.get(log.path, new)].append(log)
    return {
        name: sorted(found, key=lambda log: log.path) for name, found in chunks.items()
    }


def _parts(
    logs: Sequence[ListedLog], logs_per_chunk: int
) -> Iterator[tuple[str, ListedLog]]:
    """Yield the logs of a day with the chunk of the part in which they are."""
    day = f"{day_of(logs[0]):%Y-%m-%d}"
    n_parts = 1
    while n_parts * logs_per_chunk < len(logs):
        n_parts *= 2  # so it seldom changes for new logs
    keys = [_user_and_id(log.path) for log in logs]
    of_user = Counter(user for user, _ in keys)
    for log, (user, job_id) in zip(logs, keys, strict=True):
        key = user if of_user[user] <= logs_per_chunk else f"{user} {job_id}"
        part = zlib.crc32(os.fsencode(key)) % n_parts
        yield f"{day}_{part + 1}of{n_parts}", log


def _user_and_id(path: str) -> tuple[str, str]:
    """Return the user and the job id in a log's name, else its folder and nothing."""
    if found := _USER.search(path):
        return found[1], found[2]
    return os.path.dirname(path), ""


def day_of(log: ListedLog) -> date:
    """Return the day of a log.

    Names as Darshan writes them lack the year: it is that of the log's folder, such as
    ``2026/11/5``, else the latest at which the log was not yet changed.
    """
    changed = datetime.fromtimestamp(log.mtime_ns * 1e-9, UTC).date()
    found = _DAY.search(os.path.basename(log.path))
    if not found:
        return changed
    month, day = int(found[1]), int(found[2])
    folder = _FOLDER.search(log.path)
    if folder and (int(folder[2]), int(folder[3])) == (month, day):
        return _date(int(folder[1]), month, day) or changed
    for year in (changed.year + 1, changed.year, changed.year - 1):
        named = _date(year, month, day)
        if named and named <= changed + timedelta(days=1):  # another time zone
            return named
    return changed


def _date(year: int, month: int, day: int) -> date | None:
    """Return a date, None if there is no such day."""
    try:
        return date(year, month, day)
    except ValueError:
        return None


# ---- Paths and patterns


def find_logs(patterns: Sequence[str], may_be_none: object = False) -> list[str]:
    """Return the logs that paths, folders and patterns name, sorted.

    A log that is named without a pattern is returned even if it does not exist: the
    analysis refuses it by name. A ConfigError names a folder that does not exist, and a
    pattern or folder without logs, unless there may be none.
    """
    found: set[str] = set()
    for pattern in patterns:
        named = Path(pattern).expanduser()
        try:
            if named.is_dir():
                logs = _matching(named / "**" / "*.darshan")
            elif glob.has_magic(str(named)) and not named.exists():
                logs = _matching(named)
            else:
                logs = [str(named)]
            is_missing = not named.exists() and logs == [str(named)]
        except ValueError as error:
            raise ConfigError(
                f"config: logs: got {pattern!r}, expected paths, folders or patterns: "
                f"{error}"
            ) from error
        if is_missing and ".darshan" not in named.name:
            raise ConfigError(  # perhaps a folder that is not mounted
                f"config: logs: got {pattern!r}, which does not exist, expected paths, "
                "folders or patterns"
            )
        if not logs and not may_be_none:
            raise ConfigError(
                f"config: logs: got {pattern!r}, which names no log, expected paths, "
                "folders with *.darshan, or patterns"
            )
        found.update(logs)
    return sorted(found)


def _matching(pattern: Path) -> list[str]:
    """Return the files that a pattern names, and folders that it cannot look into."""
    if "**" not in pattern.parts:
        return [one for one in glob.glob(str(pattern)) if not os.path.isdir(one)]
    before = pattern.parts.index("**")
    starts = glob.glob(str(Path(*pattern.parts[:before])))
    parts = pattern.parts[before:] + ("*",) * (pattern.parts[-1] == "**")
    hidden = any(part.startswith(".") for part in parts)
    found: list[str] = []
    for start in starts:
        for folder, folders, files in os.walk(  # follows no links of folders
            start, onerror=lambda error: found.append(error.filename)
        ):
            if not hidden:
                folders[:] = [name for name in folders if not name.startswith(".")]
                files = [name for name in files if not name.startswith(".")]
            for path in (Path(folder, name) for name in files):
                if _fits(path.relative_to(start).parts, parts):
                    found.append(str(path))
    return found


def _fits(names: Sequence[str], parts: Sequence[str]) -> bool:
    """Return whether components of a path fit those of a pattern."""
    if not parts or not names:
        return not names and all(part == "**" for part in parts)
    if parts[0] == "**":
        return _fits(names, parts[1:]) or _fits(names[1:], parts)
    return fnmatchcase(names[0], parts[0]) and _fits(names[1:], parts[1:])
