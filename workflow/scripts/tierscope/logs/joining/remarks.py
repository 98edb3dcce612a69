"""Say in sentences what a reader must know of a job's logs."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tierscope.core.columns import INTERFACES
from tierscope.core.words import count_words, number_words, size_words
from tierscope.logs.grouping import NO_PROCESS, LogGroup
from tierscope.logs.summary import (
    CUT_EXE,
    CUT_MOUNTS,
    NO_EXE,
    NO_MOUNTS,
    NO_RUN_TIME,
    STILL_RUNNING,
    UNCOUNTED,
    Summary,
)
from tierscope.logs.summed_files import MOST_FILES
from tierscope.logs.tiers import OTHER, ROOT, UNNAMED
from tierscope.logs.traced.certificate import bytes_statement, reads_of_metadata
from tierscope.trace.log import MPI_IO

MOST_RANKS_NAMED = 10
_DROPS = re.compile(r"([0-9]+),([0-9]+),([0-9]+)")  # made, failed and swallowed calls
_AT_LEAST = "so times are at least those that are listed."
_COUNTED = (
    (
        "n_shared_records",
        "record holds",
        "records hold",
        "sums over all processes, so times of processes are bounds.",
    ),
    (
        "n_nameless_records",
        "record has",
        "records have",
        f"no name (tier {UNNAMED}).",
    ),
)
_FLAWS = (
    (
        "negative_times",
        "time is",
        "times are",
        "below 0 in the logs and counted as 0",
    ),
    (
        "negative_counters",
        "counter is",
        "counters are",
        "below 0 in the logs and counted as 0",
    ),
    ("bytes_alone", "record has", "records have", "bytes but no reads or writes"),
    ("calls_alone", "record has", "records have", "reads or writes but no time"),
)
_LACKING = (
    (NO_EXE, "log has", "logs have", "no command line, so its program is unknown."),
    (
        CUT_EXE,
        "log has",
        "logs have",
        "the beginning of its command line only; programs are told by it.",
    ),
    (
        NO_MOUNTS,
        "log has",
        "logs have",
        f"no mount table, so paths are tier {OTHER}: name the tiers.",
    ),
)


def remarks_of(group: LogGroup, parts: Sequence[Summary], most_s: float) -> str:
    """Return what a reader must know of a job's logs, in sentences.

    `most_s` is the most that its slowest process can have spent; infinite: unknown.
    """
    found = [
        *_of_times(parts),
        *_of_places(parts),
        *_of_span(parts),
        *_of_certificate([part.facts["metadata"] for part in parts]),
        *_of_mpi_io(group, parts, most_s),
        *_of_missing_logs(group),
    ]
    return " ".join(found)


def _of_times(parts: Sequence[Summary]) -> Iterator[str]:
    """Yield why times may be bounds."""
    lost = {module for part in parts for module in part.facts["partial"]}
    if partial := sorted(lost & set(INTERFACES)):
        yield f"The runtime lost records of {', '.join(partial)}, {_AT_LEAST}"
    for fact, one, several, words in _COUNTED:
        if number := sum(int(part.facts[fact]) for part in parts):
            yield f"{count_words(number, one, several)} {words}"
    for flaw, one, several, words in _FLAWS:
        number = sum(
            int(flaws.get(flaw, 0))
            for part in parts
            for interface, flaws in part.facts["flaws"].items()
            if interface != MPI_IO
        )
        if number:
            yield f"{count_words(number, one, several)} {words}, {_AT_LEAST}"
    if any(part.facts["hides_calls"] for part in parts):
        yield (
            f"The logs have MPI-IO calls without the POSIX calls that they make, "
            f"{_AT_LEAST}"
        )
    modules = {module for part in parts for module in part.facts["modules"]}
    if uncounted := sorted(modules & UNCOUNTED):
        yield (
            f"Calls of {' and '.join(uncounted)} are not counted and reach no POSIX "
            f"call, {_AT_LEAST}"
        )
    if n_mappings := sum(part.facts["n_mappings"] for part in parts):
        sizes = [part.facts["mapped_bytes"] for part in parts]
        size = "" if None in sizes else f" ({size_words(sum(sizes))})"
        maps = count_words(n_mappings, "mapping of a file", "mappings of files")
        yield f"What went through {maps}{size} is not measured."
    if modules and not modules & {"POSIX", MPI_IO}:
        yield (
            "No log has records of POSIX: there were no such calls, or the module of "
            "Darshan was off."
        )


def _of_places(parts: Sequence[Summary]) -> Iterator[str]:
    """Yield why programs and tiers may be unknown."""
    for lack, one, several, words in _LACKING:
        if number := sum(lack in part.facts["lacks"] for part in parts):
            yield f"{count_words(number, one, several)} {words}"
    if any(part.facts["n_files"] > MOST_FILES for part in parts):
        yield (
            f"The sums of files and folders count the {MOST_FILES:,} with the most "
            "time of each log."
        )
    if folders := _folders(parts, "root_folders"):
        yield (
            f"Only / of the mount table holds {folders}, so this is tier {ROOT}. If "
            "a link leads to another file system, name the tiers."
        )
    with_table = [part for part in parts if NO_MOUNTS not in part.facts["lacks"]]
    if others := _folders(with_table, "other_folders"):
        yield (
            f"No entry of the mount table holds {others}, so this is tier {OTHER}: "
            "name the tiers."
        )
    tiers = {cell[1] for part in parts for cell in part.cells}
    if with_table and not others and OTHER in tiers <= {OTHER, UNNAMED}:
        yield f"No path is below a prefix of a tier, so all is tier {OTHER}."
    is_cut = any(CUT_MOUNTS in part.facts["lacks"] for part in parts)
    if is_cut and (folders or others):
        yield "A mount table may be cut: a log has room for some mounts only."


def _folders(parts: Sequence[Summary], fact: str) -> str:
    """Return folders of logs in words, at most `MOST_RANKS_NAMED`."""
    folders = sorted({one for part in parts for one in part.facts[fact]})
    return ", ".join(folders[:MOST_RANKS_NAMED])


def _of_span(parts: Sequence[Summary]) -> Iterator[str]:
    """Yield what is unknown of when and where processes ran."""
    if any(NO_RUN_TIME in part.facts["lacks"] for part in parts):
        yield "A log does not tell when it began or ended, so its run time is unknown."
    hosts = [part.facts["metadata"].get("host") for part in parts]
    if any(hosts) and not all(hosts):
        yield "A log names no host, so the number of nodes is unknown."
    ends = [part.facts["metadata"].get("end") for part in parts]
    if n_killed := ends.count("last call"):
        yield count_words(
            n_killed,
            "process was killed; its log ends with its last call.",
            "processes were killed; their logs end with their last calls.",
        )
    if n_running := ends.count(STILL_RUNNING):
        each = "process was", "processes were"
        yield (
            f"{count_words(n_running, *each)} still running when the log was written, "
            f"{_AT_LEAST}"
        )


def _of_certificate(logs: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Yield where the bytes of traced commands came from, and who interfered."""
    reads = [one for one in map(reads_of_metadata, logs) if one and one.by_file_system]
    if reads:
        yield bytes_statement(reads).words
    if n_logs := sum(log.get("n_preloaded", "0") != "0" for log in logs):
        # Libraries are not named: names of files can tell who has run a job.
        each = "process has", "processes have"
        yield (
            f"{count_words(n_logs, *each)} preload libraries of others, which may "
            "change what is read (`preloaded` in the metadata of the logs)."
        )
    escaped = (log.get("n_escaped", "") for log in logs)
    if n_escaped := max((int(n) for n in escaped if n.isdecimal()), default=0):
        each = "program that the job started was", "programs that the job started were"
        yield (
            f"{count_words(n_escaped, *each)} not traced, so what was read there is in "
            "no log."
        )
    drops = [_DROPS.fullmatch(log.get("fadvise", "")) for log in logs]
    failed, swallowed = (sum(int(one[i]) for one in drops if one) for i in (2, 3))
    if n_calls := failed + swallowed:
        yield (
            f"{count_words(n_calls, 'call')} of posix_fadvise had no effect "
            f"({failed:,} failed, {swallowed:,} swallowed by another library), so "
            "files may have stayed in the page cache."
        )


def _of_mpi_io(
    group: LogGroup, parts: Sequence[Summary], most_s: float
) -> Iterator[str]:
    """Yield that MPI-IO does not count, and that it took longer than POSIX calls."""
    if any(cell[2] == MPI_IO for part in parts for cell in part.cells):
        yield "MPI-IO makes POSIX calls, so its times are not counted."
    mean_s = math.fsum(
        sum_s
        for part in parts
        for cell, sum_s in zip(part.cells, part.sums["sum_s"], strict=True)
        if cell[2] == MPI_IO
    )
    mean_s /= group.n_processes
    if mean_s > most_s:
        yield (
            f"A process spent {number_words(mean_s)} s on average in MPI-IO calls, "
            "more than any process spent in POSIX and STDIO calls. In collective calls "
            "processes wait for each other and exchange data; no class counts that."
        )


def _of_missing_logs(group: LogGroup) -> Iterator[str]:
    """Yield which processes have no log, if each process should have one."""
    known = set(group.processes) - {NO_PROCESS}
    if len(group.logs) > 1 and len(known) < group.n_processes:
        missing = np.setdiff1d(np.arange(group.n_processes), sorted(known))
        yield (
            f"No log is of rank {rank_words(missing, group.n_processes)}: without I/O "
            "there is none, or it is missing."
        )


def rank_words(ranks: np.ndarray, n_processes: int) -> str:
    """Return ranks in words: a list, cut if it is long."""
    if len(ranks) == n_processes > 1:
        return f"any of {n_processes}"
    named = ", ".join(map(str, ranks[:MOST_RANKS_NAMED].tolist()))
    left = len(ranks) - MOST_RANKS_NAMED
    return f"{named} and {left} more" if left > 0 else named
