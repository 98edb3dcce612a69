"""Tables that compare policies, loaders and numbers of nodes."""

from tierscope.core.columns.column import (
    ANY_NUMBER,
    Columns,
    count,
    ends,
    if_known,
    number,
    percent,
    seconds,
    size,
    text,
)
from tierscope.core.columns.shared import (
    CLASS_TIMES,
    RUN_KEYS,
    SCENARIO_KEYS,
    TIME_CUTS,
    WAITS,
    common,
)
from tierscope.core.io_class import NET_READ

_N_NODES = count("Number of nodes of the run.")
_N_EPOCHS = count("Number of epochs, from the first one on, that the row adds up.")
_STAGING = text(
    "How the LFS is filled: not at all, `while training`, or before it, in a time that "
    "the `run` took, that the rate of the `copies` made tells, or that is `estimated`.",
    words=("none", "while training", "estimated", "copies", "run"),
)
_LAW = (
    "Part of the reads that Monarch is expected to serve from the LFS: min(f, 1 - (1 - "
    "1/n)^e) in epoch e, if each of n nodes has room for a part f"
)

_POLICY_EPOCHS: Columns = {
    **common("epoch"),
    "execution_time_s": seconds("The largest execution time of a process."),
    "drain_time_s": seconds(
        "The longest time that a node waited for its copies after the epoch; part of "
        "no epoch."
    ),
    "io_time_s": seconds("I/O time of the slowest process."),
    **CLASS_TIMES,
    f"{NET_READ}_s": seconds(f"Part of `io_time_s` in class {NET_READ.label}."),
    "gfs_opens": count("Number of opens on the GFS by all processes."),
    "gfs_reads": count("Number of reads on the GFS by all processes."),
    "lfs_opens": count("Number of opens on the LFS by all processes."),
    "background_gfs_opens": count("Number of opens on the GFS for copies."),
    "background_gfs_reads": count("Number of read calls on the GFS for copies."),
    "background_bytes": size("Bytes that copies wrote to the LFS of all nodes."),
    **common("placed_files", "evicted_files", "failed_files"),
}

_POLICY_TOTALS: Columns = {
    "n_nodes": _N_NODES,
    "n_epochs": _N_EPOCHS,
    "staging": _STAGING,
    "staging_time_s": seconds("Time of the staging before the first epoch."),
    "staging_gfs_operations": count("Number of opens and reads on the GFS to stage."),
    "time_s": seconds("Sum of staging, execution times and drains of these epochs."),
    "once_time_s": seconds(
        "Part of `time_s` that no further epoch takes: staging, and waits for copies "
        "that are made once."
    ),
    "reference_time_s": seconds(
        "Sum of execution times and drains of these epochs of the reference: the run "
        "of this loader and repetition with nothing on the LFS."
    ),
    "io_time_s": seconds("Sum of I/O times of the slowest processes in these epochs."),
    "reference_io_time_s": seconds(
        "Sum of I/O times of the reference's slowest processes in these epochs."
    ),
    "gfs_operations": count(
        "Number of opens and reads on the GFS by the processes in these epochs."
    ),
    "background_gfs_operations": count(
        "Number of opens and reads on the GFS for copies in these epochs."
    ),
    "background_bytes": size(
        "Bytes that copies wrote to the LFS of all nodes in these epochs."
    ),
    "reference_gfs_operations": count(
        "Number of opens and reads on the GFS by the reference's processes in these "
        "epochs."
    ),
}

_POLICY_SUMMARY: Columns = {
    **common("cache_rate_percent", "n_repetitions"),
    "n_epochs": count("Number of epochs of the runs."),
    "staging": _STAGING,
    "staging_time_s": seconds("Time of the staging, mean over the repetitions."),
    "last_epoch_time_s": seconds(
        "Time of the last epoch without `once_time_s`, mean over the repetitions."
    ),
    "reference_last_epoch_time_s": seconds(
        "Time of the reference's last epoch: that of the run of this loader and "
        "repetition with nothing on the LFS, mean likewise."
    ),
    **TIME_CUTS,
    "gfs_operations_cut_percent": percent(
        "By how much opens and reads on the GFS, those of staging and copies included, "
        "are fewer than the reference's.",
        ANY_NUMBER,
    ),
    "background_bytes": number(
        "Bytes that copies wrote to the LFS of all nodes, mean over the repetitions.",
        unit="bytes",
    ),
    "pays_after_epochs": if_known.number(
        "Number of epochs from which on the time with staging stays below the "
        "reference's, if further epochs are like the last; missing if it never does."
    ),
}

TABLES: dict[str, Columns] = {
    "policy_epochs": RUN_KEYS | _POLICY_EPOCHS,
    "policy_totals": RUN_KEYS | _POLICY_TOTALS,
    "policy_summary": SCENARIO_KEYS | _POLICY_SUMMARY,
    "node_epochs": SCENARIO_KEYS
    | {
        **common("cache_rate_percent"),
        "n_nodes": _N_NODES,
        **common("epoch", "n_repetitions"),
        "gfs_reads": count(
            "Number of reads on the GFS, those of copies included, summed over the "
            "repetitions."
        ),
        "reference_gfs_reads": count(
            "Number of reads on the GFS by the reference, policy `none`, summed "
            "likewise."
        ),
        "saved_percent": percent(
            "Part of the reference's reads that the policy saves.", ANY_NUMBER
        ),
        **ends("saved_{}_percent", "`saved_percent`"),
        "law_percent": percent(f"{_LAW}."),
    },
    "node_savings": SCENARIO_KEYS
    | {
        **common("cache_rate_percent"),
        "n_nodes": _N_NODES,
        "n_epochs": _N_EPOCHS,
        **common("n_repetitions"),
        **TIME_CUTS,
        "gfs_operations_cut_percent": percent(
            "By how much opens and reads on the GFS, those of copies included, are "
            "fewer than the reference's.",
            ANY_NUMBER,
        ),
        "law_percent": percent(f"{_LAW}; mean over the epochs."),
    },
    "node_switches": RUN_KEYS
    | {
        "n_nodes": _N_NODES,
        "processes_per_node": count("Number of processes of a node."),
        "records": count("Number of records that all processes got in all epochs."),
        **WAITS,
    },
}
