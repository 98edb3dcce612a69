"""Check that a preloaded library is loaded: the loader only warns if it is not."""

import os
from contextlib import suppress
from pathlib import Path

from tierscope.core.validation import ConfigError


def is_loaded(library: Path, maps: str | None = None) -> bool:
    """Return whether this process has loaded a library.

    Parameters
    ----------
    library : Path
        The library's file, or a link to it.
    maps : str, optional
        Content of ``/proc/self/maps``.
    """
    maps = Path("/proc/self/maps").read_text() if maps is None else maps
    names = {library.name, library.resolve().name}
    mapped = {line.split(maxsplit=5)[-1] for line in maps.splitlines() if "/" in line}
    for path in mapped:
        if os.path.basename(path) in names:
            with suppress(OSError):
                if os.path.samefile(path, library):
                    return True
    return False


def refuse_unless_loaded(library: Path, processes) -> None:
    """Refuse a launch unless all its processes have loaded a library; all call this.

    Parameters
    ----------
    library : Path
        The library's file.
    processes : Processes
        The MPI processes.

    Raises
    ------
    ConfigError
        On rank 0, with the number of processes without it.
    """
    answers = processes.gather(is_loaded(library))
    if answers and not all(answers):
        raise ConfigError(
            f"{library}: is not loaded in {answers.count(False)} of {len(answers)} "
            "processes; the messages of ld.so above say why."
        )
    processes.barrier()  # the others notice the failure here
