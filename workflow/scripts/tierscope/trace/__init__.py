"""Trace set-up, Darshan logs and what they say per epoch, tier and file."""

from tierscope.trace.file_records import read_file_records
from tierscope.trace.log import Job, LogError, read_job
from tierscope.trace.log_writer import write_log
from tierscope.trace.posix_records import POSIX_RECORD
from tierscope.trace.runtime import (
    darshan_environment,
    darshan_settings,
    find_darshan_runtime,
)
from tierscope.trace.spool import write_log_from_spools

__all__ = [
    "POSIX_RECORD",
    "Job",
    "LogError",
    "darshan_environment",
    "darshan_settings",
    "find_darshan_runtime",
    "read_file_records",
    "read_job",
    "write_log",
    "write_log_from_spools",
]
