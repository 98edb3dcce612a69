"""Trace set-up, Darshan logs and what they say per epoch, tier and file.

Names are loaded when they are first used: the ranks of a benchmark need the set-up
only, not the libraries that read logs.
"""

from importlib import import_module

_HOMES = {
    "POSIX_RECORD": "posix_records",
    "Job": "log",
    "LogError": "log",
    "darshan_environment": "runtime",
    "darshan_settings": "runtime",
    "find_darshan_runtime": "runtime",
    "read_background_records": "file_records",
    "read_file_records": "file_records",
    "read_job": "log",
    "write_log": "log_writer",
    "write_log_from_spools": "spool",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    """Return a public name from the module that defines it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
