"""Tables that datasets, launches and trainings leave."""

import math

from tierscope.core.columns.column import (
    FLAG,
    INTEGER,
    NUMBER,
    Column,
    Columns,
    count,
    flag,
    if_known,
    path_below,
    percent,
    seconds,
    size,
    text,
)
from tierscope.core.columns.shared import (
    EPOCH_OR_AFTER,
    PAGE_CACHE,
    RUN_KEYS,
    WAITS,
    common,
)

# Why computation is known only as a least: "" if it is not.
UNSEEN_STREAMS, NEVER_BEHIND, NO_EVENTS = "other streams", "never behind", "no events"

# What a process did in an epoch; missing unless files lie on their tiers before it.
STEPS: Columns = {
    "compute_time_s": if_known.seconds(
        "Part of `execution_time_s` in which the process computed, or its device if "
        "that was seen, without `warmup_s`."
    ),
    "warmup_s": if_known.seconds(
        "What the computation of the loop's first step took longer than a usual one, "
        "the mean of all others; missing for loaders of ours, which have none."
    ),
    "stall_s": if_known.seconds(
        "Part of it in which the process waited for a batch; of a device, in which it "
        "had no work of the loop."
    ),
    "loader_end_s": if_known.seconds(
        "What passed from the loop's last request to the loader's answer that it has "
        "no more, or the end of its workers if it was left; missing for ours."
    ),
    "rest_s": if_known.seconds(
        "Rest of it, measured: the start of workers, waits for other processes, and "
        "what passes outside of the loop."
    ),
    "utilisation_percent": if_known.percent(
        "Accelerator utilisation (AU) as in MLPerf Storage: computation, of a device "
        "if seen, over execution time (programs: loop), both without the first step; "
        "missing of a single step."
    ),
    "loop_utilisation_percent": if_known.percent(
        "The same as the loop of a program saw it, which goes on while a device "
        "computes; missing for loaders of ours."
    ),
    "device_busy_s": if_known.seconds(
        "Time in which a device had work of the loop, by its own clock, mean over the "
        "devices of the process; missing if no device was seen."
    ),
    "device_idle_s": if_known.seconds(
        "Time between the first and the last work of the loop in which a device had "
        "none; missing as `device_busy_s` is."
    ),
    "device_behind_s": if_known.seconds(
        "How far the device ran behind the program when this asked for a batch, mean; "
        "missing as well if the clocks of both could not be joined."
    ),
    "least_because": text(
        "Why computation and AU are a least and stall a most: work on streams that "
        "were not seen, a device that was never behind the program, or one without "
        "events; empty if exact.",
        words=("", UNSEEN_STREAMS, NEVER_BEHIND, NO_EVENTS),
    ),
}
# Columns that older tables lack, as tables without such observations do.
_LATER = PAGE_CACHE | STEPS
LATER = {name: math.nan for name, one in _LATER.items() if one.kind == NUMBER}
LATER |= {name: False for name, one in _LATER.items() if one.kind == FLAG}
# What older tables hold in columns that they lack.
LATER_VALUES = {
    "opens": {"for_writing": False},
    "user_manifest": {"same_as": -1},
    **{one: {"least_because": ""} for one in ("run_epochs", "epochs", "utilisation")},
}

# Written by the launch itself, with the log: only a whole run can be repeated.
OF_A_LAUNCH = {
    "run_epochs",
    "decisions",
    "opens",
    "marks",
    "program_processes",
    "peer_reads",
    "read_calls",
    "record_reads",
    "faults",
}

NETWORK = text(
    "Which normalisation the trained network has.",
    words=("plain", "batch-norm", "sync-batch-norm"),
)
SHUFFLE = text(
    "How samples are shared out to the processes: anew in every epoch (`global`), once "
    "(`local`), or once in the order of their classes (`biased`).",
    words=("global", "local", "biased"),
)
N_RANKS = count("Number of processes that train together.")

_RUN_EPOCHS: Columns = {
    **common("rank", "node"),
    "epoch": EPOCH_OR_AFTER,
    "execution_time_s": seconds(
        "Time of the epoch from barrier to barrier, on the process's clock; of a "
        "program until its next epoch begins, or its last loop ends."
    ),
    "samples": count("Number of samples that the process got in the epoch."),
    "bytes": size("Bytes of `samples`, as the loader counts them."),
    "lfs_files": count("Number of `samples` that came from the node's own LFS."),
    "gfs_files": count("Number of `samples` that came from the GFS."),
    "lfs_fill_time_s": seconds(
        "Time that it took to fill the LFS of all nodes before the first epoch; 0 in "
        "virtual time and in simulations, where filling costs nothing."
    ),
    **PAGE_CACHE,
    **STEPS,
}

_PID = count("Number of the process on its node.")
_BEGAN = seconds("When it began, since the first process of the node did.")
_OPENS: Columns = {
    **common("rank", "node"),
    "epoch": EPOCH_OR_AFTER,
    **common("tier", "file_id"),
    "opens": count("How often the file was opened on the tier."),
    "for_writing": flag(
        "Whether it was opened for writing, or to be made; the GFS serves that, and "
        "all opens on the node from then on."
    ),
}
_MARKS: Columns = {
    **common("rank", "node"),
    "what": text(
        "What the rank began: an epoch, an evaluation inside of one, what follows the "
        "last loop of a process, or all of a program that marks no epochs.",
        words=("epoch", "evaluation", "after training", "whole run"),
    ),
    "epoch": EPOCH_OR_AFTER,
    "pid": _PID,
    "began_s": _BEGAN,
    "ended_s": if_known.seconds(
        "When the rank's next epoch began, or the last loop of the process ended; of "
        "what follows it and of a whole run, when the process ended; missing for an "
        "evaluation."
    ),
    "device_bytes": if_known.number(
        "Bytes that block devices read meanwhile for the processes of the rank; "
        "missing for an evaluation, and if a process did not tell.",
        unit="bytes",
    ),
}
_UNKNOWN_IO = "; -1 if it is unknown"
_PROGRAM_PROCESSES: Columns = {
    **common("rank", "node"),
    "pid": _PID,
    "began_s": _BEGAN,
    "ended_s": if_known.seconds("When it ended; missing if its end was not seen."),
    "rchar": Column(
        INTEGER, f"Bytes that its read calls returned{_UNKNOWN_IO}.", "bytes", -1
    ),
    "wchar": Column(
        INTEGER, f"Bytes that its write calls took{_UNKNOWN_IO}.", "bytes", -1
    ),
    "read_bytes": Column(
        INTEGER, f"Bytes that block devices read for it{_UNKNOWN_IO}.", "bytes", -1
    ),
    "write_bytes": Column(
        INTEGER,
        f"Bytes that it caused block devices to write{_UNKNOWN_IO}.",
        "bytes",
        -1,
    ),
    "io_is_last_seen": flag(
        "Whether these bytes are what was last seen of a process that was killed."
    ),
}
_ANSWER: Columns = {
    "answer": text("Whether it is so.", words=("yes", "no", "not measured")),
    "words": text("The statement in a sentence, with numbers."),
}
_STATEMENTS: Columns = {
    "epoch": count("Number of the epoch, or -1 for the whole run.", least=-1),
    "statement": text(
        "What is stated, such as `tier`: each open was on the tier that was decided; "
        "docs/statements.md explains all.",
        words=(
            "tier",
            "seen",
            "rate",
            "copies",
            "in time",
            "epochs",
            "after",
            "read only",
            "unchanged",
            "listed",
            "cold",
            "cover",
            "once",
            "other io",
            "whole",
            "time",
        ),
    ),
    **_ANSWER,
}
_CERTIFICATE: Columns = {
    "statement": text(
        "What is stated: bytes came from the tier's devices, no process had a preload "
        "library of others, each `posix_fadvise` to drop pages was made.",
        words=("gfs bytes", "lfs bytes", "libraries", "advice"),
    ),
    **_ANSWER,
}

_WHY_FAILED = ("full", "changed", "error")  # LFS, file, or anything else
_DECISIONS: Columns = {
    **common("node"),
    "step": count("Number of the row among those of its node, counted from 0."),
    "time_s": seconds(
        "Time since the first epoch began; with a program of the user since the first "
        "process of the node began, and of the begin of a read when its tier was "
        "decided."
    ),
    "event": text(
        "What happens: a read begins or ends, a copy to the LFS is ordered (`copy`), "
        "complete (`placed`) or lost (`failed`), or a file is removed from the LFS.",
        words=("begin", "end", "copy", "placed", "failed", "evict"),
    ),
    "epoch": EPOCH_OR_AFTER,
    "rank": count(
        "Process that reads; of copies and removals the process with the node's server."
    ),
    **common("file_id"),
    "place": text(
        "Where the file is read, to where it is copied, from where it is removed, or "
        "where it stays (`failed`).",
        words=("gfs", "lfs", "peer"),
    ),
    "detail": text(
        "How a copy got its bytes (`handed over`, `read again`), why it failed, that a "
        "read was decided before a row above (`late`), or its close was `unseen`.",
        words=("", "handed over", "read again", *_WHY_FAILED, "late", "unseen"),
    ),
}

_READ_CALLS: Columns = {
    **common("rank", "epoch", "tier"),
    "kind": text(
        "What the call gets: pages of the database's tree, records (`data`), or pages "
        "that an emulated device charges for a page fault (`fault`).",
        words=("tree", "data", "fault"),
    ),
    "mapped": flag("Whether mapped memory is touched, rather than a read call made."),
    "offset": size("Place in the file where the bytes begin."),
    "bytes": size("Bytes that the call got."),
    "time_s": seconds("Time of the call, or of touching the memory."),
    "faults": count(
        "Number of page faults of the thread in `time_s`; on emulated tiers 1 if the "
        "call is of kind `fault`, and 0 otherwise."
    ),
}

_PROBES: Columns = {
    **common("source", "system", "dataset", "n_osts"),
    "probe": text("Name of the micro-probe."),
    **common("tier"),
    "operation": text("System call that the probe makes.", ("open", "read", "close")),
    "n_clients": count("Number of processes that make the calls at the same time."),
    "repeat": count("Number of the repeat, counted from 0."),
    "operations": count("Number of calls of all processes."),
    "bytes": size("Bytes that all calls read."),
    "time_s": seconds(
        "Time from the first start to the last end of a process; on several machines "
        "the longest time of a process."
    ),
    "mean_call_s": seconds("Mean time of a call."),
}

_MANIFEST: Columns = {
    "file_id": count("Number of the file, or of the record in a database."),
    "path": path_below("Path of the file below the root of the GFS."),
    "size_bytes": size("Size of the file, or of the record."),
    "ost": count(
        "OST, brick of GlusterFS (in the order of host and folder), or emulated object "
        "server with the file; -1 if unknown or several.",
        least=-1,
    ),
}

_USER_MANIFEST: Columns = _MANIFEST | {
    "path": path_below("Path of the file below the user's folder."),
    "mtime_ns": Column(
        INTEGER,
        "When the file was last changed, since 1970; of a link, the file behind it.",
        "ns",
    ),
    "is_link": flag("Whether the path is a link to a file."),
    "same_as": count(
        "Number of the first path that leads to the same file, as a link and its "
        "target do; -1 for this one itself.",
        least=-1,
    ),
}

# Tables that may be read as another one, which lacks some of their columns.
WIDER = {"manifest": "user_manifest"}

TABLES: dict[str, Columns] = {
    "manifest": _MANIFEST,
    "user_manifest": _USER_MANIFEST,
    "run_epochs": _RUN_EPOCHS,
    "epochs": RUN_KEYS | _RUN_EPOCHS,
    "utilisation": RUN_KEYS
    | common("rank", "node", "epoch")
    | {"execution_time_s": _RUN_EPOCHS["execution_time_s"], **STEPS},
    "decisions": _DECISIONS,
    "opens": _OPENS,
    "marks": _MARKS,
    "program_processes": _PROGRAM_PROCESSES,
    "run_statements": _STATEMENTS,
    "statements": RUN_KEYS | _STATEMENTS,
    "certificate": RUN_KEYS | _CERTIFICATE,
    "peer_reads": {
        **common("rank", "epoch", "file_id"),
        "owner": count(
            "Node that owns the file and serves it; -1 if only the mounted file system "
            "knows it.",
            least=-1,
        ),
        "bytes": size("Bytes of the file that were received."),
        "time_s": seconds("Time from the request to the last byte."),
        "lfs_read_time_s": seconds(
            "Part of `time_s` in which the owner read its LFS, as it reports; 0 if "
            "the owner is unknown."
        ),
        "lfs_meta_time_s": seconds(
            "Part of `time_s` in which the owner's LFS did metadata operations, as it "
            "reports; 0 if the owner is unknown."
        ),
    },
    "read_calls": _READ_CALLS,
    "record_reads": {
        "rank": count("MPI rank of the process that got the record."),
        **common("epoch", "tier"),
        "file_id": count("Number of the record in the database."),
        "reader": count("MPI rank of the process that read the record from the file."),
    },
    "faults": common("rank", "epoch") | WAITS,
    "probes": _PROBES,
    "accuracy": {
        **common("source"),
        "network": NETWORK,
        "shuffle": SHUFFLE,
        "n_ranks": N_RANKS,
        "n_classes": count("Number of classes that the network tells apart."),
        **common("repetition", "epoch"),
        "accuracy_percent": percent(
            "Part of the test samples that the network classifies right after the "
            "epoch."
        ),
    },
}
