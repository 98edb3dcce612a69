"""Tables of the Darshan logs of any job: a class is a tier, interface, operation."""

from tierscope.core.columns.column import (
    ANY_NUMBER,
    INTEGER,
    Column,
    Columns,
    count,
    flag,
    hours,
    if_known,
    number,
    seconds,
    size,
    text,
    whole_percent,
)
from tierscope.core.columns.shared import common

INTERFACES = ["POSIX", "STDIO", "MPI-IO"]
OPERATIONS = ["read", "meta", "write", "write meta", "read-write meta"]
JOB_CLASS = ["tier", "interface", "operation"]
EXACT, BOUNDS, LOWER_BOUNDS = "exact", "bounds", "lower bounds"  # column `times_are`

_JOB = text("Name of the job, which its folder has, too.")
_EPOCH = count("Number of the epoch, as paths say it; -1 for the whole job.", least=-1)
_FILES_EPOCH = count(
    "Number of the epoch of the files, as paths say it; -1 for files of no epoch.",
    least=-1,
)
_RANK = count("Number of the process in the job, counted from 0.")
_TIER = text(
    "Tier of the files, by the prefixes of paths; `other` of no prefix, `unnamed` if "
    "the log has no path."
)
_INTERFACE = text("Interface of the calls.", words=INTERFACES)
_OPERATION = text(
    "Kind of call: read, write, or metadata, those of files that were written (`write "
    "meta`) or read and written (`read-write meta`) apart.",
    words=OPERATIONS,
)
_CLASS: Columns = {"tier": _TIER, "interface": _INTERFACE, "operation": _OPERATION}
_TIMES_ARE = text(
    "Whether the I/O times are exact, known within bounds because processes share "
    "records, or only lower bounds because records were lost.",
    words=(EXACT, BOUNDS, LOWER_BOUNDS),
)
_EXE = text("Name of the program; of an interpreter that of its script.")
_USER = text(
    "User: what most logs of this number have in their names, else the number."
)
_STARTED = seconds("When it began, since 1970.")
_RUN_TIME = if_known.seconds(
    "Time from begin to end; missing if a log lacks one of them."
)
_N_PROCESSES = count("Number of processes of the job, those without I/O included.")
_HOURS_OF = text(
    "Whether hours are those of nodes, or of processes as the number of nodes is "
    "unknown.",
    words=("nodes", "processes"),
)
_COUNTED = flag(
    "Whether the class counts in I/O times; MPI-IO does not, as its calls reach POSIX."
)
_BOTTLENECK = text(
    "Class that takes most of the slowest process's I/O time; several if bounds leave "
    "it open, `none` without I/O time, `unknown` if none is recorded."
)


def _bounds(of: str) -> Columns:
    """Return the columns of the bounds of a time."""
    return {
        "least_s": seconds(f"{of}, at least."),
        "most_s": if_known.seconds(
            f"{of}, at most; missing if no upper bound is known."
        ),
    }


_LOGS: Columns = {
    "log": text("Path of the log."),
    "digest": text("SHA-256 of the log's content."),
    "job": _JOB,
    "process": count(
        "Number of the job's process that left the log; -1 for a log of several "
        "processes or of a helper.",
        least=-1,
    ),
    "log_format": text("Version of the log's format."),
    "darshan": text("Version of the Darshan library; empty if the log lacks it."),
    "exe": text("Command line, as far as the log has it."),
    "user": _USER,
    "job_id": Column(INTEGER, "Number of the job, as the log has it.", "", ANY_NUMBER),
    "host": text("Name of the process's machine; empty if the log lacks it."),
    "n_processes": count("Number of processes that the log is of."),
    "started_s": _STARTED,
    "run_time_s": _RUN_TIME,
    "modules": text("Modules of Darshan with data, with commas between."),
    "partial": text("Modules that lost records, with commas between."),
    "n_records": count("Number of records of POSIX, STDIO and MPI-IO."),
    "n_shared_records": count("Number of records that all processes share."),
    "n_nameless_records": count("Number of records without a path."),
    "n_mappings": count(
        "Number of mappings of files into memory; reads through them are in no record."
    ),
    "mapped_bytes": if_known.number(
        "Bytes of the files that were mapped; missing if the log does not tell.",
        unit="bytes",
    ),
}

_JOBS: Columns = {
    "job": _JOB,
    "exe": _EXE,
    "user": _USER,
    "host": text("Names of the machines, with commas between; those that logs have."),
    "started_s": _STARTED,
    "run_time_s": _RUN_TIME,
    "n_processes": _N_PROCESSES,
    "n_logs": count("Number of logs of the job."),
    "n_nodes": if_known.number(
        "Number of nodes, by `processes_per_node` or the names of machines; missing if "
        "unknown."
    ),
    "grouped_by": text("Why these logs are taken for one job, in words."),
    "times_are": _TIMES_ARE,
    "remarks": text("What a reader must know of these logs, in sentences."),
}

_JOB_TIMES: Columns = {
    "job": _JOB,
    "epoch": _FILES_EPOCH,
    "rank": count(
        "Number of the process in the job, counted from 0; -1 for all helpers.",
        least=-1,
    ),
    **_CLASS,
    "counted": _COUNTED,
    **_bounds("Time of the process in this class"),
    "largest_s": seconds("The largest `least_s` of a single log of the process."),
    "operations": if_known.number(
        "Number of reads, writes or opens; missing if processes share records of this "
        "class."
    ),
    "bytes": if_known.number(
        "Bytes that were read or written; missing if processes share records of this "
        "class.",
        unit="bytes",
    ),
}

_JOB_SLOWEST: Columns = {
    "job": _JOB,
    "epoch": _EPOCH,
    "times_are": _TIMES_ARE,
    "n_slowest": count("Number of processes that can be the slowest, as recorded."),
    "slowest_ranks": text(
        "Numbers of the processes that can be the slowest, in words."
    ),
    **_bounds("I/O time of the slowest process"),
    "run_least_percent": if_known.percent(
        "Part of the job's run time that the slowest process's I/O time is, at least; "
        "missing if the run time is unknown."
    ),
    "run_most_percent": if_known.percent(
        "Part of the job's run time that the slowest process's I/O time is, at most; "
        "missing if the run time or an upper bound is unknown."
    ),
    "bottleneck": _BOTTLENECK,
    "sentence": text("The slowest process and its bottleneck in a sentence or two."),
}

_JOB_BREAKDOWN: Columns = {
    "job": _JOB,
    "epoch": _EPOCH,
    **_CLASS,
    "counted": _COUNTED,
    **_bounds("Time of the slowest process in this class"),
    "sum_s": seconds("Time of all processes together in this class, as recorded."),
    "operations": count("Number of reads, writes or opens of all processes."),
    "bytes": size("Bytes that all processes read or wrote."),
    "files": count("Number of different files of this class."),
}

_JOB_FILES: Columns = {
    "job": _JOB,
    "kind": text(
        "Whether the path is a file, or a folder with its own files, without those of "
        "its folders.",
        words=("file", "folder"),
    ),
    "position": count("Place among the job's files or folders by time, from 0 on."),
    "path": text("Path of the file or folder."),
    "tier": _TIER,
    "time_s": seconds("Time of all processes in all operations, without MPI-IO."),
    "opens": count("Number of opens of all processes."),
    "reads": count("Number of read calls of all processes."),
    "writes": count("Number of write calls of all processes."),
    "bytes_read": size("Bytes that all processes read."),
    "bytes_written": size("Bytes that all processes wrote."),
}

_JOB_ESTIMATES: Columns = {
    "job": _JOB,
    "epoch": _EPOCH,
    **common("method"),
    "improvement": text("The improved classes and their improvement, in words."),
    "n_classes": count("Number of classes that are improved."),
    "improvement_percent": whole_percent(
        "Additional throughput of each improved class; 100 halves its time."
    ),
    **_bounds("I/O time of the process that is the slowest with this improvement"),
    "saved_least_s": seconds(
        "By how much the I/O time of the slowest process falls, at least."
    ),
    "saved_most_s": if_known.seconds(
        "By how much the I/O time of the slowest process falls, at most; missing if no "
        "upper bound is known."
    ),
}

_JOB_COMBINATIONS: Columns = {
    "job": _JOB,
    "epoch": _EPOCH,
    **common("method"),
    "goal_s": seconds("The largest I/O time of the slowest process that is wanted."),
    "position": count("Place of the combination by cost, from 1 on."),
    "improvement": text("The improved classes and their improvements, in words."),
    "cost": number("Sum of the improvements in percent."),
    "certain": flag(
        "Whether the goal is met whatever the times are within their bounds."
    ),
    **_bounds("I/O time of the process that is the slowest with this combination"),
}

_FLEET: Columns = {
    "job": _JOB,
    "exe": _EXE,
    "user": _USER,
    "month": text("Month of the begin in UTC, such as 2026-11."),
    "started_s": _STARTED,
    "run_time_s": _RUN_TIME,
    "n_processes": _N_PROCESSES,
    "times_are": _TIMES_ARE,
    "io_least_s": seconds("I/O time of the slowest process, at least."),
    "io_most_s": if_known.seconds(
        "I/O time of the slowest process, at most; missing if no upper bound is known."
    ),
    "io_least_percent": if_known.percent(
        "Part of the job's run time that the slowest process's I/O time is, at least; "
        "missing if the run time is unknown."
    ),
    "io_most_percent": if_known.percent(
        "Part of the job's run time that the slowest process's I/O time is, at most; "
        "missing if the run time or an upper bound is unknown."
    ),
    "bottleneck": _BOTTLENECK,
    "hours_of": _HOURS_OF,
    "io_hours": hours(
        "Hours that all nodes or processes wait for the slowest process: `io_least_s` "
        "times their number."
    ),
    "meta_tier": text(
        "Tier whose metadata server, if twice as fast, would save most; empty if the "
        "job has no metadata time."
    ),
    "meta_saved_least_hours": hours(
        "Hours that a metadata server of `meta_tier` of twice the speed would save, "
        "at least."
    ),
    "meta_saved_most_hours": if_known.hours(
        "Hours that a metadata server of `meta_tier` of twice the speed would save, "
        "at most; missing if no upper bound is known."
    ),
    "outlier": text(
        "How the job differs from others of its program and number of processes, in "
        "words; empty if it does not."
    ),
}

TABLES: dict[str, Columns] = {
    "logs": _LOGS,
    "refusals": {
        "log": text("Path of the log that could not be used."),
        "reason": text("Why it could not be used, in words."),
    },
    "tier_prefixes": {
        "tier": _TIER,
        "prefix": text("Prefix of the tier's paths."),
        "fs_type": text(
            "Type of the file system in the log's mount table; empty if the prefix was "
            "given."
        ),
        "n_logs": count("Number of logs with paths of this prefix."),
    },
    "jobs": _JOBS,
    "job_times": _JOB_TIMES,
    "job_processes": {
        "job": _JOB,
        "epoch": _EPOCH,
        "rank": _RANK,
        **_bounds("I/O time of the process"),
        "can_be_slowest": flag("Whether the process can be the slowest."),
    },
    "job_slowest": _JOB_SLOWEST,
    "job_breakdown": _JOB_BREAKDOWN,
    "job_files": _JOB_FILES,
    "job_sizes": {
        "job": _JOB,
        "tier": _TIER,
        "operation": text("Whether the calls read or wrote.", words=("read", "write")),
        "position": count("Place of the range of sizes, from 0 on."),
        "size": text("Range of sizes in bytes, such as 1K-10K."),
        "calls": count("Number of calls of all processes with such sizes."),
    },
    "job_estimates": _JOB_ESTIMATES,
    "job_combinations": _JOB_COMBINATIONS,
    "fleet": _FLEET,
    "fleet_classes": {
        "job": _JOB,
        **_CLASS,
        "hours_of": _HOURS_OF,
        "least_hours": hours(
            "Hours that all nodes or processes wait for this class of the slowest "
            "process, at least."
        ),
        "most_hours": if_known.hours(
            "Hours that all nodes or processes wait for this class of the slowest "
            "process, at most; missing if no upper bound is known."
        ),
    },
}
