"""Tables that are made from a run's log and from what it notes beside it."""

from tierscope.core.columns.column import (
    Columns,
    count,
    flag,
    if_known,
    seconds,
    size,
    text,
)
from tierscope.core.columns.shared import (
    COPIES,
    EPOCH_OF_COPY,
    EPOCH_OR_AFTER,
    RUN_KEYS,
    common,
)

_BYTES_READ = size("Bytes that were read.")
_BYTES_WRITTEN = size("Bytes that were written.")
_META_TIME = seconds(
    "Time of metadata operations: open and close, but also stat and seek."
)
_FILE_ID = count("Number of the file in its dataset; 0 for the file of a database.")

_OTHER_IO: Columns = {
    **common("rank"),
    "what": text(
        "Which files: those of the dataset that the program opened for writing or "
        "changed, others below the dataset's folder, or all others that were traced.",
        words=("written", "other below the dataset", "other"),
    ),
    "opens": count("Number of opens."),
    "bytes_read": _BYTES_READ,
    "bytes_written": _BYTES_WRITTEN,
    "read_time_s": seconds("Time in read calls."),
    "write_time_s": seconds("Time in write calls."),
    "meta_time_s": seconds("Time in all other calls."),
}

_OTHER_TIME: Columns = {
    **common("rank"),
    "epoch": EPOCH_OR_AFTER,
    "mount": text("Where the file system of the files is mounted."),
    "fs_type": text("Its type, such as `ext4`."),
    "holds": text(
        "Which tiers lie on it.", words=("none", "gfs", "lfs", "gfs and lfs")
    ),
    "call": text(
        "What the calls do: read, write, make written bytes durable, map into memory, "
        "after which reads are no calls (`time_s` is 0), or anything else, such as "
        "open, close and rename.",
        words=("read", "write", "fsync", "other", "map"),
    ),
    "in_loop": flag(
        "Whether the thread of the training loop made them; if not, other threads and "
        "processes did, such as workers."
    ),
    "operations": count("Number of calls."),
    "bytes": size("Bytes that they moved."),
    "time_s": if_known.seconds(
        "Time in these calls, of which those of other threads of a process count once "
        "where they overlap; missing if the tracer does not see them."
    ),
}

_RUN_STAGE_IN: Columns = {
    **common("node"),
    **COPIES,
    "stage_in_time_s": seconds(
        "Time of the stage-in from barrier to barrier, the same on all nodes."
    ),
}

_RUN_PEERS: Columns = {
    **common("rank", "node", "epoch"),
    "peer_files": count("Number of files that the process read from other nodes."),
    "peer_bytes": size("Bytes of `peer_files`."),
    "net_read_time_s": seconds(
        "Time from request to last byte, summed over `peer_files`: that of class "
        "NET-READ."
    ),
    "peer_lfs_read_time_s": seconds(
        "Part of `net_read_time_s` in which the owners read their LFS."
    ),
    "peer_lfs_meta_time_s": seconds(
        "Part of `net_read_time_s` in which the owners' LFS did metadata operations."
    ),
    "network_time_s": seconds(
        "Rest of `net_read_time_s`: the network, and waiting for owners."
    ),
}

_RUN_BACKGROUND: Columns = {
    **common("node"),
    "epoch": EPOCH_OF_COPY,
    **common("placed_files"),
    "handed_over_files": count(
        "Number of `placed_files` whose bytes a reader had read and handed over."
    ),
    **common("failed_files", "evicted_files"),
    **COPIES,
    "drain_time_s": seconds(
        "Time that the node waited for its copies after the epoch; part of no epoch."
    ),
}

TABLES: dict[str, Columns] = {
    "file_records": {
        **common("rank"),
        "epoch": EPOCH_OR_AFTER,
        **common("tier"),
        "file_id": _FILE_ID,
        "opens": count("Number of opens; a read from another node counts as one."),
        "reads": count("Number of read calls; one from another node counts as one."),
        "bytes_read": _BYTES_READ,
        "read_time_s": seconds(
            "Time of the read calls; of a read from another node, from the request to "
            "the last byte."
        ),
        "meta_time_s": _META_TIME,
    },
    "background_records": {
        "rank": count("MPI rank of the process that made the calls."),
        "epoch": EPOCH_OF_COPY,
        **common("tier"),
        "file_id": _FILE_ID,
        "opens": count("Number of opens of the file."),
        "reads": count("Number of read calls."),
        "bytes_read": _BYTES_READ,
        "read_time_s": seconds("Time of the read calls."),
        "writes": count("Number of write calls."),
        "bytes_written": _BYTES_WRITTEN,
        "write_time_s": seconds("Time of the write calls."),
        "meta_time_s": _META_TIME,
    },
    "run_other_io": _OTHER_IO,
    "other_io": RUN_KEYS | _OTHER_IO,
    "run_other_time": _OTHER_TIME,
    "other_time": RUN_KEYS | _OTHER_TIME,
    "run_stage_in": _RUN_STAGE_IN,
    "stage_in": RUN_KEYS | _RUN_STAGE_IN,
    "run_peers": _RUN_PEERS,
    "peers": RUN_KEYS | _RUN_PEERS,
    "run_background": _RUN_BACKGROUND,
    "background": RUN_KEYS | _RUN_BACKGROUND,
}
