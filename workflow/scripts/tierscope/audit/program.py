"""Check the run of a program of the user, and say what the program did.

Only what concerns us may refuse a run: each open was on the tier that was decided, in
the events and in the logs, and no read was of a stale copy. How often the program opens
which files, and how much of them it reads, are facts of the program. They are stated.
If a policy moved files, a new one decides again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import pandas as pd

from tierscope.analysis.training.after_training import is_worth_telling
from tierscope.analysis.training.other_io import other_words, slowest_rows
from tierscope.analysis.training.stalls import LEAST_PERCENT
from tierscope.audit.check import Check, equal
from tierscope.audit.copies import copies_in_time, copies_made
from tierscope.audit.decisions import check_again, check_traffic, room_of
from tierscope.core.certificate import NO, NOT_MEASURED, YES
from tierscope.core.columns import AFTER_TRAINING, TABLES
from tierscope.core.description import Run
from tierscope.core.tables import check_table, empty_table
from tierscope.core.words import count_words, in_seconds, number_words, size_words
from tierscope.policies import node_policy
from tierscope.policies.pinned_bytes import (
    files_at_start,
    first_names,
    own_sizes,
)
from tierscope.trace.other_time import (
    MAP,
    other_time,
    sees_others,
    unmeasured_time,
)
from tierscope.trace.program_records import (
    BELOW,
    HANDED_EPOCH,
    WRITTEN,
    LoopEnds,
    ProgramRecords,
)

_WHOLE_RUN = -1  # as the epoch of a statement
_NAMED = 3  # names that a line lists
_MET_POINTS = 1.0  # percent of the bytes that may be missing, or read otherwise
_KEYS = ["epoch", "tier", "file_id"]

Said = tuple[str, str]  # an answer, and words


@dataclass(frozen=True)
class ProgramEvidence:
    """What a run of a program left.

    Parameters
    ----------
    run : Run
        The run; `observed` is what its launch saw.
    records : ProgramRecords
        What its logs say.
    opens, epochs, manifest : DataFrame
        Tables `opens`, `run_epochs` and `user_manifest`.
    decisions : DataFrame, optional
        Table `decisions`, if a policy moved files.
    marks : DataFrame, optional
        Table `marks`.
    opens_to_write : DataFrame
        Table `opens` of the opens for writing, which `opens` is without.
    loop_ends : LoopEnds
        The ends of the program's loops.
    """

    run: Run
    records: ProgramRecords
    opens: pd.DataFrame
    epochs: pd.DataFrame
    manifest: pd.DataFrame
    decisions: pd.DataFrame | None = None
    marks: pd.DataFrame | None = None
    opens_to_write: pd.DataFrame = field(default_factory=partial(empty_table, "opens"))
    loop_ends: LoopEnds = field(default_factory=LoopEnds)

    @cached_property
    def other_time(self) -> pd.DataFrame:
        """Return table `run_other_time`: calls on files of no tier."""
        if not sees_others(self.run.tracer):
            return unmeasured_time(self.epochs)
        mounts = [machine["mounts"] for machine in self.run.machines]
        points = {
            tier: {one[tier].get("point") for one in mounts} for tier in ("gfs", "lfs")
        }
        return other_time(
            self.records.sums, self.marks, points, self.loop_ends.epoch_of
        )

    @property
    def sizes(self) -> np.ndarray:
        """Return the bytes of the files, by id."""
        return self.manifest["size_bytes"].to_numpy()

    @property
    def names(self) -> np.ndarray:
        """Return the paths of the files, by id."""
        return self.manifest["path"].to_numpy()

    @property
    def file_records(self) -> pd.DataFrame:
        """Return table `file_records`: reads of the logs, and opens of the events.

        Logs lack what libc opens in a child of posix_spawn, and old ones count more.
        """
        keys = ["epoch", "rank", "tier", "file_id"]
        opens = self.asked.groupby(keys)["opens"].sum()
        logged = self.records.file_records.set_index(keys)
        index = opens.index.union(logged.index)
        table = logged.reindex(index, fill_value=0)
        table["opens"] = opens.reindex(index, fill_value=0)
        return check_table(table.reset_index(), "file_records")

    @property
    def asked(self) -> pd.DataFrame:
        """Return table `opens` of the files that the program only reads."""
        return self.opens[~self.opens["file_id"].isin(self.written)]

    @property
    def on_lfs(self) -> np.ndarray:
        """Return which files each LFS held before the start: bool, (n_files,)."""
        return files_at_start(self.run, self.run.point, self.manifest)

    @property
    def epochs_with_opens(self) -> list[int]:
        """Return the epochs of which there are I/O times.

        What a program reads of files that it opened before counts to the epoch of the
        open, so an epoch without opens has no time, and not 0 s.
        """
        return sorted(set(self.opens["epoch"].tolist()))

    @property
    def written(self) -> set[int]:
        """Return the files that the program opened for writing, or changed."""
        wanted = set(self.run.observed["written"])
        return {i for i, name in enumerate(self.names) if name in wanted}

    @property
    def n_epochs(self) -> int:
        """Return the number of epochs, or of phases, that were begun or read."""
        read = self.records.file_records["epoch"].max() + 1
        return int(np.nanmax([self.run.observed["n_epochs"], read]))


def audit_program(evidence: ProgramEvidence) -> list[Check]:
    """Return all checks of a run of a program, passed and failed."""
    observed = evidence.run.observed
    return [
        _check_opens(evidence),
        equal("events of opens that were lost", observed["lost_events"], 0),
        equal(
            "opens of dataset files that the library left as they were",
            sum(int(counts["undirected"]) for counts in observed["counts"]),
            0,
        ),
        equal("logs that are whole", observed["logs_are_whole"], True),
        equal("copies on an LFS that could not be opened", observed["fell_back"], 0),
        _none_of("copies that are no longer as they were made", observed["damaged"]),
        *_check_marks(evidence),
        *(
            _check_pinned(evidence)
            if evidence.decisions is None
            else _check_decisions(evidence)
        ),
        *_check_logs(evidence),
        *_check_stale(evidence),
    ]


def _check_opens(evidence: ProgramEvidence) -> Check:
    """Check that the program read something of the dataset."""
    n_opens = int(evidence.opens["opens"].sum())
    expected = f"at least 1{'' if n_opens else _why_no_open(evidence)}"
    return Check("opens of dataset files", n_opens > 0, str(n_opens), expected)


def _why_no_open(evidence: ProgramEvidence) -> str:
    """Return why a program may have read nothing, as the end of a phrase."""
    if n_to_write := int(evidence.opens_to_write["opens"].sum()):
        return (
            f" for reading; {count_words(n_to_write, 'open was', 'opens were')} for "
            "writing, which the GFS serves: let the program open its files for reading "
            "only, such as np.memmap(..., mode='r')"
        )
    run = evidence.run
    escaped = run.observed["escaped"]
    words = run.program.out_of_reach_words(run.dataset.name, escaped)
    return words or f": does the command use {{dataset}}?{_started(escaped)}"


def _check_marks(evidence: ProgramEvidence) -> Iterator[Check]:
    """Check that each open counts to the epoch in which it was made.

    All that a rank reads without a begin would count to the first epoch.
    """
    observed = evidence.run.observed
    began = set(evidence.epochs["rank"].tolist())
    lost = sorted(set(evidence.opens["rank"].tolist()) - began)
    n_nodes = evidence.opens.groupby("rank")["node"].nunique()
    for name, ranks in (
        ("ranks that open files and begin no epoch, while others do", lost),
        ("ranks that open files on more than one node", n_nodes.index[n_nodes > 1]),
    ):
        yield _none_of(name, [f"rank {rank}" for rank in ranks])
    yield equal(
        "begins of an epoch that failed",
        sum(int(counts["failed_marks"]) for counts in observed["counts"]),
        0,
    )
    yield equal(
        "begins of an epoch before the one under way", observed["marks_back"], 0
    )
    yield equal(
        "opens during later epochs by processes that neither begin one nor descend "
        "from one that does",
        observed["unmarked_opens"],
        0,
    )


def _none_of(name: str, found: Sequence[str]) -> Check:
    """Return the check that there is none of something, with examples."""
    return Check(name, not found, f"{len(found)}{_such_as(found)}", "0")


def _check_decisions(evidence: ProgramEvidence) -> Iterator[Check]:
    """Check the decisions of a policy that moved files, and its copies."""
    run, decisions = evidence.run, evidence.decisions
    begun = decisions[decisions["event"] == "begin"].rename(columns={"place": "tier"})
    keys = ["node", "rank", *_KEYS]
    decided = begun.groupby(keys).size()
    opens = evidence.opens.set_index(keys)["opens"]
    both = pd.concat([decided, opens], axis="columns").fillna(0)
    both = both[~both.index.get_level_values("file_id").isin(evidence.written)]
    differ = int((both[0] != both["opens"]).sum())
    yield equal("opens that no decision is for, or the other way round", differ, 0)
    ranks = {node["node"]: [node["rank"]] for node in run.placement}
    policies = {
        node: node_policy(run, run.point, some, manifest=evidence.manifest)
        for node, some in ranks.items()
    }
    room = room_of(run, run.point, evidence.manifest)
    yield from check_again(decisions, policies, room)
    yield from check_traffic(decisions, evidence.records.background, room.sizes)
    lost = [node["node"] for node in run.placement if node["status"]]
    yield equal("nodes whose process that copies did not end well", len(lost), 0)


def _check_pinned(evidence: ProgramEvidence) -> Iterator[Check]:
    """Check that each open was on the tier that was decided before the start."""
    opens = evidence.opens
    decided = np.where(evidence.on_lfs[opens["file_id"]], "lfs", "gfs")
    # A file that was written to is read from the GFS from then on.
    may_be_gfs = opens["file_id"].isin(evidence.written) & (opens["tier"] == "gfs")
    right = (opens["tier"] == decided) | may_be_gfs
    yield equal(
        "opens on the tier that was decided",
        int(opens.loc[right, "opens"].sum()),
        int(opens["opens"].sum()),
    )


def _check_logs(evidence: ProgramEvidence) -> Iterator[Check]:
    """Check that the logs have the opens of the events, on the same tiers.

    An old log may count more: of a duplicated descriptor, too. It has none of what
    libc opens in a child of posix_spawn.
    """
    counts = evidence.run.observed["counts"]
    n_spawned = sum(int(one.get("spawned", 0)) for one in counts)
    asked = evidence.asked.groupby(_KEYS)["opens"].sum()
    seen = evidence.records.file_records.groupby(_KEYS)["opens"].sum()
    index = asked.index.union(seen.index)
    asked, seen = asked.reindex(index, fill_value=0), seen.reindex(index, fill_value=0)
    missing = (asked - seen).clip(lower=0)
    yield equal(
        "files, epochs and tiers with fewer opens in the logs than in the events",
        int((seen < asked).sum()) if missing.sum() > n_spawned else 0,
        0,
    )
    yield equal(
        "files, epochs and tiers that the logs have and the events lack",
        int(((asked == 0) & (seen > 0)).sum()),
        0,
    )
    originals = evidence.records.originals
    n_opens = sum(map(int, originals.values()))
    yield Check(
        "opens of dataset files by their real names",
        not originals,
        f"{n_opens}{_such_as(originals)}"
        f"{_still_running(evidence.run) if originals else ''}",
        "0",
    )


def _check_stale(evidence: ProgramEvidence) -> Iterator[Check]:
    """Check that no node read a copy of a file that has changed meanwhile."""
    changed = set(evidence.run.observed["changed"])
    names = evidence.names
    changed_ids = [i for i, name in enumerate(names) if name in changed]
    from_lfs = evidence.opens[evidence.opens["tier"] == "lfs"]
    read = from_lfs[from_lfs["file_id"].isin(changed_ids)]
    # A node that writes to a file itself reads no copy from then on.
    writers = evidence.run.observed["written"]
    pairs = read[["file_id", "node"]].drop_duplicates().itertuples(index=False)
    stale = {file for file, node in pairs if writers.get(names[file]) != [node]}
    name = "files that changed during the run and were read from an LFS"
    yield _none_of(name, names[sorted(stale)].tolist())


def _still_running(run: Run) -> str:
    """Return how many processes outlived the program, as the end of a phrase."""
    if not (n_running := run.observed.get("still_running")):
        return ""
    left = count_words(n_running, "process", "processes", separator=",")
    return f"; {left} of the program still ran at its end"


def _started(escaped: Sequence[str]) -> str:
    """Return which programs were started that cannot be redirected: a sentence."""
    names = dict.fromkeys(one.rpartition("/")[2] for one in escaped)
    words = f" It started what cannot be redirected: {', '.join(names)}."
    return words if names else ""


def _such_as(names: Iterable[str]) -> str:
    """Return names, or examples of many, as the end of a phrase."""
    all_names = list(names)
    some = ", ".join(all_names[:_NAMED])
    if len(all_names) > _NAMED:
        some = f"such as {some}"
    return f" ({some})" if some else ""


def statements(evidence: ProgramEvidence) -> pd.DataFrame:
    """Return table `run_statements`: what is true of the run, in words.

    The epoch is -1 for statements on the whole run.
    """
    said = [(_WHOLE_RUN, name, say(evidence)) for name, say in OF_RUN.items()]
    for epoch in range(evidence.n_epochs):
        said += [(epoch, name, say(evidence, epoch)) for name, say in OF_EPOCH.items()]
    rows = [(epoch, name, *words) for epoch, name, words in said if words]
    return pd.DataFrame(rows, columns=list(TABLES["run_statements"]))


def _tier(evidence: ProgramEvidence) -> Said:
    n_opens = int(evidence.opens["opens"].sum())
    return YES, (
        f"All {n_opens:,} opens of dataset files for reading were on the tier that was "
        "decided, in the events and in the logs."
    )


def _escapes(evidence: ProgramEvidence) -> Said:
    """Return whether reads can have escaped us."""
    run = evidence.run
    named = _started(run.observed["escaped"])
    if left := _still_running(run):
        words = f"{left}, and what is read later is not seen.{named}"
        return NO, words.removeprefix("; ")
    if run.program.in_place:
        return NO, (
            "The program has the real path of the dataset, so opens that tierscope "
            f"does not see cannot be excluded.{named}"
        )
    return YES, (
        "The program has a virtual path, so an open that tierscope does not see fails."
        f"{named}{' By its real path that reads the GFS unseen.' * bool(named)}"
    )


def _copies(evidence: ProgramEvidence) -> Said | None:
    decisions = evidence.decisions
    return None if decisions is None else copies_made(decisions, evidence.sizes)


def _in_time(evidence: ProgramEvidence) -> Said | None:
    decisions = evidence.decisions
    return None if decisions is None else copies_in_time(decisions)


def _epochs(evidence: ProgramEvidence) -> Said:
    """Return whether epochs are told, and by whom."""
    observed = evidence.run.observed
    by = {
        "hook": "The framework's loops mark the epochs.",
        "mark": "The program marks its epochs itself.",
        "nobody": "The program marks no epochs: the run is one phase.",
    }
    faults = observed["hook_faults"]
    is_told = observed["epochs_by"] != "nobody" and not faults
    return YES if is_told else NO, " ".join([by[observed["epochs_by"]], *faults])


def _listed(evidence: ProgramEvidence) -> Said | None:
    """Return how much was read of files below the dataset that no list has."""
    other = evidence.records.other_io
    below = int(other.loc[other["what"] == BELOW, "bytes_read"].sum())
    if not (unlisted := below - evidence.records.handed_bytes):
        return None
    return NO, (
        f"The program read {size_words(unlisted)} of files below the dataset that "
        "are not in its list: their I/O is in no class."
    )


def _cold(evidence: ProgramEvidence) -> Said | None:
    """Return how often a file came from its device again in a cold epoch."""
    if not (n_again := evidence.run.observed["reopened_after_drop"]):
        return None
    return NO, (
        f"{count_words(n_again, 'open', separator=',')} came after tierscope had "
        "dropped the pages of the file in the same epoch, as epochs are cold: the "
        "device served the file again."
    )


def _after_training(evidence: ProgramEvidence) -> Said | None:
    """Return whether a program used files after its last loop, if its end was seen."""
    epochs = evidence.epochs.groupby("epoch")["execution_time_s"].max()
    if AFTER_TRAINING not in epochs:
        return None
    time_s, epoch_s = epochs[AFTER_TRAINING], epochs.iloc[-1]
    words = (
        "After training, between the end of the last loop and that of the program, "
        f"{in_seconds(time_s)} passed; the last epoch took {in_seconds(epoch_s)}."
    )
    other = evidence.other_time[evidence.other_time["epoch"] == AFTER_TRAINING]
    used = [*_opened_after(evidence), *_calls_after(evidence, other, epoch_s)]
    if used:
        answer, words = NO, " ".join([words, *used])
    elif other["time_s"].isna().any() and is_worth_telling(time_s, epoch_s):
        answer = NOT_MEASURED
        words += " No file of the dataset was opened. The tracer sees no other files."
    else:
        answer = YES
        words += (
            " No file of the dataset was opened, and calls on other files took less "
            f"than {LEAST_PERCENT} % of an epoch."
        )
    return answer, f"{words} None of it is in an epoch."


def _opened_after(evidence: ProgramEvidence) -> Iterator[str]:
    """Yield which files of the dataset a program opens after its training."""
    opens = pd.concat([evidence.opens, evidence.opens_to_write])
    opens = opens[opens["epoch"] == AFTER_TRAINING]
    if len(opens):
        n_files = count_words(opens["file_id"].nunique(), "file", separator=",")
        n_opens = count_words(int(opens["opens"].sum()), "time", separator=",")
        yield f"The program opened {n_files} of the dataset, {n_opens} in all."


def _calls_after(
    evidence: ProgramEvidence, other: pd.DataFrame, epoch_s: float
) -> Iterator[str]:
    """Yield which calls on other files a program makes after its training."""
    for in_loop, who in ((True, "Calls"), (False, "Calls beside the loop")):
        calls = slowest_rows(other, in_loop)
        if is_worth_telling(calls["time_s"].sum(), epoch_s):
            yield f"{who} on {_other_files(evidence)}: {other_words(calls)}."


def _read_only(evidence: ProgramEvidence) -> Said | None:
    """Return how the program may have changed files, and what is known of that."""
    observed, names = evidence.run.observed, evidence.names
    if not (written := observed["written"]):
        return None
    opened = names[np.unique(evidence.opens_to_write["file_id"])].tolist()
    ways = [
        f"{way} {count_words(len(some), 'file', separator=',')}{_such_as(some)}"
        for way, some in (
            ("opened for writing", opened),
            ("renamed, removed or changed by name", observed.get("altered", ())),
        )
        if some
    ]
    if not ways:  # of a run that does not tell them apart
        n_files = count_words(len(written), "file", separator=",")
        ways = [f"opened for writing, or changed, {n_files}{_such_as(written)}"]
    other = evidence.records.other_io
    n_bytes = int(other.loc[other["what"] == WRITTEN, "bytes_written"].sum())
    how_much = f"Calls wrote {size_words(n_bytes)}" if n_bytes else "No call wrote"
    n_changed = len(written.keys() & set(observed["changed"]))
    differ = count_words(n_changed, "of them is", "of them are", separator=",")
    state = f"{differ} no longer as listed" if n_changed else "all are as listed"
    return NO, (
        f"The program {' and '.join(ways)} of the dataset: the GFS serves these from "
        f"then on, and their I/O is in no class. {how_much} to them; {state}."
    )


def _unchanged(evidence: ProgramEvidence) -> Said | None:
    """Return which files have changed that the program has not opened for writing."""
    observed = evidence.run.observed
    unwritten = [one for one in observed["changed"] if one not in observed["written"]]
    if not unwritten:
        return None
    are = count_words(len(unwritten), "file is", "files are", separator=",")
    how = "the program is not known to have changed them"
    if n_folders := observed.get("renamed_folders", 0):
        how = f"the program has renamed {count_words(n_folders, 'folder')}"
    return NO, f"{are} no longer as listed{_such_as(unwritten)}, and {how}."


def _rate(evidence: ProgramEvidence) -> Said:
    """Return whether the LFS of each node held, and served, the bytes asked for."""
    observed, asked = evidence.run.observed, evidence.run.point.cache_rate_percent
    held_bytes = observed["lfs_bytes"]
    unused_bytes = observed.get("unused_bytes", [0] * len(held_bytes))
    left_bytes = [a - b for a, b in zip(held_bytes, unused_bytes, strict=True)]
    held, left = (
        100 * min(some) / max(1, int(own_sizes(evidence.manifest).sum()))
        for some in (held_bytes, left_bytes)
    )
    which = "Each" if evidence.decisions is None else "At the end each"
    least = "at least " * (len(set(held_bytes)) > 1)
    what = f"{least}{number_words(held)} % of the bytes, not {asked} %"
    if asked - held <= _MET_POINTS:
        what = f"what was asked for, to {_MET_POINTS:g} % of the bytes"
    words = f"{which} LFS held {what}."
    if asked - left <= _MET_POINTS:
        return YES, words
    if any(unused_bytes):
        words += (
            f" It served {number_words(left)} % after the program had opened files of "
            "it for writing, or changed them."
        )
    return NO, words


def _other_io(evidence: ProgramEvidence, epoch: int) -> Said:
    """Return whether the training loop waits for calls on no other files."""
    other = evidence.other_time[evidence.other_time["epoch"] == epoch]
    if other["time_s"].isna().any():
        return NOT_MEASURED, (
            "The tracer sees no calls on files outside of the dataset, such as those "
            "of checkpoints."
        )
    times = evidence.epochs.loc[evidence.epochs["epoch"] == epoch, "execution_time_s"]
    least_s = times.max() * LEAST_PERCENT / 100
    loop, beside = (slowest_rows(other, in_loop) for in_loop in (True, False))
    words = ""
    if beside["time_s"].sum() >= least_s:
        words = f" Threads and processes beside it: {other_words(beside)}."
    loop_s = loop["time_s"].sum()
    mapped = _mapped_words(evidence, epoch)
    words += mapped
    if not loop_s >= least_s:
        if mapped:
            return NOT_MEASURED, words.strip()
        return YES, (
            f"Less than {LEAST_PERCENT} % of the epoch are calls of the training loop "
            f"on {_other_files(evidence)}.{words}"
        )
    return NO, (
        f"The training loop of rank {loop['rank'].iloc[0]} spent {in_seconds(loop_s)} "
        f"in calls on {_other_files(evidence)}: {other_words(loop)}.{words}"
    )


def _other_files(evidence: ProgramEvidence) -> str:
    """Return which files are of no tier; those that the GFS serves for writing are."""
    writing = " or opened for writing" * bool(evidence.written)
    return f"files outside of the dataset{writing}"


def _mapped_words(evidence: ProgramEvidence, epoch: int) -> str:
    """Return how much of other files the loop has mapped so far; empty if nothing."""
    other = evidence.other_time
    is_map = (other["call"] == MAP) & other["in_loop"]
    is_map &= other["epoch"].between(0, epoch)
    if not is_map.any():
        return ""
    size = size_words(int(other.loc[is_map, "bytes"].sum()))
    return (
        f" The training loop has mapped {size} of {_other_files(evidence)} into "
        "memory: what is read through a mapping is no call, so its time is not known."
    )


def _opens_of(evidence: ProgramEvidence, epoch: int) -> list[pd.Series]:
    """Return how often an epoch opened files for reading, and at all, by first name."""
    first = first_names(evidence.manifest)  # by any name a file is the same one
    here = (
        table[table["epoch"] == epoch]
        for table in (evidence.opens, evidence.opens_to_write)
    )
    read, to_write = (
        some.groupby(first[some["file_id"]])["opens"].sum() for some in here
    )
    return [read, read.add(to_write, fill_value=0)]


def _cover(evidence: ProgramEvidence, epoch: int) -> Said:
    """Return how many files an epoch opened."""
    read, opens = _opens_of(evidence, epoch)
    n_files, n_opened = len(set(first_names(evidence.manifest))), len(opens)
    if not n_opened:
        return NO, (
            "No file was opened. Reads of files that were open before count to the "
            "epoch of their open, so this epoch has no I/O time."
        )
    n_only = n_opened - len(read)
    how = f", {n_only:,} of them only for writing" * bool(n_only)
    how += ", so this epoch has no I/O time" * (not len(read))
    if n_opened == n_files:
        return YES, f"All {n_files:,} files were opened{how}."
    return NO, f"{n_opened:,} of {n_files:,} files were opened{how}."


def _once(evidence: ProgramEvidence, epoch: int) -> Said | None:
    """Return how often an epoch opened its files, if it did."""
    _, opens = _opens_of(evidence, epoch)
    if n_more := int((opens > 1).sum()):
        return NO, (
            f"{count_words(n_more, 'file was', 'files were')} opened more than once, "
            f"at most {int(opens.max())} times."
        )
    return (YES, "No file was opened more than once.") if len(opens) else None


def _whole(evidence: ProgramEvidence, epoch: int) -> Said | None:
    """Return whether what an epoch opened was read as a whole."""
    if epoch not in evidence.epochs_with_opens:
        return None
    sizes, here = evidence.sizes, evidence.asked
    here = here[here["epoch"] == epoch]
    wanted_bytes = (here["opens"] * sizes[here["file_id"]]).groupby(here["file_id"])
    records = evidence.records.file_records
    read_bytes = records[records["epoch"] == epoch].groupby("file_id")["bytes_read"]
    off_bytes = read_bytes.sum().sub(wanted_bytes.sum(), fill_value=0).abs()
    differ, off = off_bytes > 0, int(off_bytes.sum())
    wanted, read = int(wanted_bytes.sum().sum()), int(read_bytes.sum().sum())
    if {epoch, HANDED_EPOCH} & evidence.records.mapped_epochs and differ.any():
        return NOT_MEASURED, (
            "Files are mapped into memory. What is read through a mapping is no call, "
            "so its time is not measured."
        )
    if evidence.records.handed_bytes and read < wanted:
        return NOT_MEASURED, (
            "Open files are handed to other programs, as by `cat < FILE`. What these "
            "read is in no class, as nothing says for which epoch."
        )
    if wanted and not read:
        return NOT_MEASURED, (
            "Nothing was read by a call that tierscope sees: the program uses "
            "io_uring, or reads nothing of what it opens."
        )
    if not differ.any():
        without = ", without those opened for writing or changed"
        words = "The bytes read are the sizes of the opened files"
        return YES, f"{words}{without * bool(evidence.written)}."
    if not wanted:
        return NO, f"{read:,} bytes were read of files of size 0."
    if off <= _MET_POINTS / 100 * wanted:
        return YES, (
            "The bytes read are the sizes of the opened files, to "
            f"{_MET_POINTS:g} % of the bytes: {int(differ.sum()):,} of "
            f"{len(differ):,} files differ, by {size_words(off)} together."
        )
    return NO, (
        f"Not each open read its file once as a whole: {int(differ.sum()):,} of "
        f"{len(differ):,} files differ, and all bytes read are "
        f"{number_words(read / wanted)} times the sizes of the opened files."
    )


def _time(evidence: ProgramEvidence, epoch: int) -> Said | None:
    """Return how I/O time, a sum over workers, compares with execution time."""
    if epoch not in evidence.epochs_with_opens:
        return None
    records = evidence.records.file_records
    here = records[records["epoch"] == epoch].groupby("rank")
    io_s = here[["read_time_s", "meta_time_s"]].sum().sum(axis="columns")
    times = evidence.epochs[evidence.epochs["epoch"] == epoch].set_index("rank")
    ratios = (io_s / times["execution_time_s"].reindex(io_s.index)).dropna()
    if ratios.empty:
        return NOT_MEASURED, "No rank began this epoch."
    readers = evidence.records.readers
    n_workers = max(1, workers(evidence.run.observed))
    most = {
        rank: max(n_workers, readers.get((rank, epoch), 1)) for rank in ratios.index
    }
    fits = (ratios <= pd.Series(most)).all()
    times_words = f"{max(most.values()) if fits else number_words(ratios.max())} times "
    words = (
        "The I/O time of a rank, a sum over its workers, is at most "
        f"{'' if times_words == '1 times ' else times_words}the execution time."
    )
    return YES if fits else NO, words


def workers(observed: Mapping) -> int:
    """Return the largest number of workers of a loader, as the hook saw it."""
    return max((one.get("workers") or 0 for one in observed["loaders"]), default=0)


# What is said of a run, and of each epoch, in this order: what answers a statement, or
# has nothing to say.
OF_RUN = {
    "tier": _tier,
    "seen": _escapes,
    "rate": _rate,
    "copies": _copies,
    "in time": _in_time,
    "after": _after_training,
    "epochs": _epochs,
    "read only": _read_only,
    "unchanged": _unchanged,
    "listed": _listed,
    "cold": _cold,
}
OF_EPOCH = {
    "other io": _other_io,
    "cover": _cover,
    "once": _once,
    "whole": _whole,
    "time": _time,
}
