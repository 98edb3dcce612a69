"""Columns that mean the same in many tables; a table uses them by name."""

from tierscope.core.columns.column import (
    ANY_NUMBER,
    Columns,
    count,
    ends,
    flag,
    if_known,
    percent,
    seconds,
    size,
    text,
    whole_percent,
)
from tierscope.core.io_class import ALL_CLASSES, IOClass

RULE, MODEL = "rule", "model"  # how an estimate is made: column `method`
TOGETHER = "together"  # stall that goes only if several classes cost nothing
NOT_STORAGE = "computation and processor"  # what limits if no part of the stall does
STATUSES = ("holds", "does not hold", "undecided", "not measurable here")

# In place of an epoch: in tables, and in paths of a program's logs the first of the
# numbers that each stand for what follows an end of its loops.
AFTER_TRAINING, AFTER = -1, 1 << 30
_AFTER_WORDS = (
    "; -1 for what followed the last loop of a program until it ended, which is no "
    "training."
)
EPOCH_OR_AFTER = count(
    f"Number of the epoch, counted from 0{_AFTER_WORDS}", least=AFTER_TRAINING
)
EPOCH_OF_COPY = count(
    f"Epoch in which the copy began, counted from 0{_AFTER_WORDS}", least=AFTER_TRAINING
)
_COMMON: Columns = {
    "source": text(
        "Whether the numbers were measured on real tiers, measured on emulated "
        "devices, simulated, or are of trained networks.",
        words=("measured", "emulated", "simulated", "trained"),
    ),
    "system": text("Name of the system, as its file is called without `.yaml`."),
    "dataset": text("Name of the dataset, as in `datasets.yaml`."),
    "n_osts": count("Number of OSTs over which the GFS spreads the dataset's files."),
    "cache_rate_percent": whole_percent(
        "Part of the dataset that the LFS of a node may hold: of its files, with "
        "loader `program` of its bytes; under policy `adhoc`, that all nodes together "
        "may hold."
    ),
    "repetition": count("Number of the repetition, counted from 0."),
    "n_repetitions": count("Number of repetitions that the row rests on."),
    "epoch": count("Number of the epoch, counted from 0."),
    "rank": count("MPI rank of the process."),
    "node": count("Number of the node, counted from 0."),
    "file_id": count("Number of the file in its dataset."),
    "tier": text(
        "Tier that was used; `net` is the LFS of another node.",
        words=("gfs", "lfs", "net"),
    ),
    "io_class": text(
        "I/O class: a tier and whether it is read or asked for metadata.",
        words=map(str, ALL_CLASSES),
    ),
    "slowest_rank": count(
        "Rank of the slowest process, of equally slow ones the lowest; -1 for a "
        "model, which knows no ranks.",
        least=-1,
    ),
    "parameter": text("Tier and key of `devices` that was fitted."),
    "unit": text("Unit of the value: seconds, bytes a second or bytes."),
    "method": text(
        "Whether the paper's rule or a model makes the estimate.", words=(RULE, MODEL)
    ),
    "status": text("Whether the claim holds here.", words=STATUSES),
    "cv": if_known.number(
        "Standard deviation over the repetitions divided by their mean; missing if "
        "there is one repetition."
    ),
    "placed_files": count("Number of copies that came to the LFS of a node."),
    "evicted_files": count("Number of files that were removed from the LFS of a node."),
    "failed_files": count("Number of copies that failed."),
}


def common(*names: str) -> Columns:
    """Return columns that mean the same in many tables, by their names."""
    return {name: _COMMON[name] for name in names}


SCENARIO_KEYS = common("source", "system", "dataset", "n_osts") | {
    "policy": text("Policy that says which files are on the LFS."),
    "loader": text("Loader that reads the samples."),
}
POINT_KEYS = common("cache_rate_percent", "repetition")
RUN_KEYS = SCENARIO_KEYS | POINT_KEYS

IMPROVEMENTS: Columns = {
    f"{one}_improvement_percent": whole_percent(
        f"Additional throughput of {one.label} in the improvement; 100 halves its time."
    )
    for one in IOClass
}
CLASS_TIMES: Columns = {
    f"{one}_s": seconds(f"Part of `io_time_s` in class {one.label}.") for one in IOClass
}

_CUTS = {
    "time_cut": "`time_s` of table `policy_totals`",
    "io_time_cut": "`io_time_s` of table `policy_totals`",
}
TIME_CUTS: Columns = {}
for _cut, _of in _CUTS.items():
    TIME_CUTS[f"{_cut}_percent"] = percent(
        f"By how much {_of} is below that of the reference over these epochs, mean "
        "over the repetitions.",
        ANY_NUMBER,
    )
    TIME_CUTS |= ends(f"{_cut}_{{}}_percent", f"`{_cut}_percent`")

# What copies to the LFS take, during epochs or before them.
COPIES: Columns = {
    "gfs_opens": count("Number of opens of GFS files for the node's copies."),
    "gfs_reads": count("Number of read calls on the GFS for the copies."),
    "gfs_bytes": size("Bytes that were read from the GFS for the copies."),
    "gfs_read_time_s": seconds(
        "Time of read calls on the GFS, summed over copies that may overlap."
    ),
    "gfs_meta_time_s": seconds(
        "Time of metadata operations on the GFS, summed over copies that may overlap."
    ),
    "lfs_opens": count("Number of opens of LFS files for the copies."),
    "lfs_writes": count("Number of write calls on the LFS for the copies."),
    "lfs_bytes": size("Bytes that the copies wrote to the LFS."),
    "lfs_write_time_s": seconds(
        "Time of write calls on the LFS, summed over copies that may overlap."
    ),
    "lfs_meta_time_s": seconds(
        "Time of metadata operations on the LFS, summed over copies that may overlap."
    ),
}

# What a thread waited for while it read a database.
WAITS: Columns = {
    "access_time_s": seconds(
        "Time in which threads read: calls, and the first touch of mapped pages."
    ),
    "major_faults": count("Number of page faults in `access_time_s` that needed I/O."),
    "minor_faults": count("Number of page faults in `access_time_s` without I/O."),
    "voluntary_switches": count(
        "Number of context switches in `access_time_s` because a thread waited."
    ),
    "involuntary_switches": count(
        "Number of context switches in `access_time_s` because the kernel ran another "
        "thread."
    ),
}

PAGE_CACHE: Columns = {
    "device_bytes": if_known.number(
        "Bytes that block devices read for the process in the epoch; missing on "
        "emulated tiers, in simulations, and where the kernel does not count them.",
        unit="bytes",
    ),
    "gfs_server_bytes": if_known.number(
        "Bytes that servers of the GFS sent to the machine in the epoch, in the row "
        "of one of its processes and 0 in the others; missing if not counted.",
        unit="bytes",
    ),
    "lfs_server_bytes": if_known.number(
        "Bytes that servers of the LFS sent to the machine in the epoch, in the row "
        "of one of its processes and 0 in the others; missing if not counted.",
        unit="bytes",
    ),
    "gfs_resident_percent": if_known.percent(
        "Part of a sample of the process's GFS files that was in the page cache "
        "before the epoch; missing if no page could be looked at."
    ),
    "lfs_resident_percent": if_known.percent(
        "Part of a sample of the process's LFS files that was in the page cache "
        "before the epoch; missing if no page could be looked at."
    ),
    "names_dropped": flag(
        "Whether names and inodes were dropped from the machines' caches before the "
        "epoch."
    ),
}
