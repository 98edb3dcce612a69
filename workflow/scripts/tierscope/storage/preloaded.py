"""Check that a preloaded library is loaded: the loader only warns if it is not."""

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from tierscope.core.validation import ConfigError

REPLACED = "replaced since it was loaded"
_DELETED = " (deleted)"  # after the path of a mapped file that is no longer there


def is_loaded(library: Path, maps: str | None = None) -> bool:
    """Return whether this process has loaded a library, given by its file or a link."""
    names = {library.name, library.resolve().name}
    for path in _mapped_files(maps):
        if os.path.basename(path) in names:
            with suppress(OSError):
                if os.path.samefile(path, library):
                    return True
    return False


def is_replaced(library: Path) -> bool:
    """Return whether this process has loaded a file that is no longer at this path."""
    return f"{library.resolve()}{_DELETED}" in _mapped_files(None)


def digests_of_loaded(
    names: tuple[str, ...], library: Path | None = None, maps: str | None = None
) -> dict[str, str]:
    """Return the libraries of some names that this process has loaded, with digests.

    Parameters
    ----------
    names : tuple of str
        How the names of their files begin, such as ``libdarshan.so``.
    library : Path, optional
        Another library to look for; its name may be any.
    maps : str, optional
        Content of ``/proc/self/maps``.

    Returns
    -------
    dict of str to str
        SHA-256, as hexadecimal, by name of the file. `REPLACED` if it is no longer the
        file that was loaded.
    """
    also = {library.name, library.resolve().name} if library else set()
    return {
        name: _digest(path)
        for path in sorted(_mapped_files(maps))
        if (name := os.path.basename(path)) in also or name.startswith(names)
    }


def _mapped_files(maps: str | None) -> set[str]:
    """Return the paths of all files that this process has mapped."""
    if maps is None:
        maps = os.fsdecode(Path("/proc/self/maps").read_bytes())
    return {line.split(maxsplit=5)[-1] for line in maps.splitlines() if "/" in line}


def _digest(path: str) -> str:
    """Return the SHA-256 of a mapped file; the kernel marks one that was replaced."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return REPLACED


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
    answers = processes.gather((is_loaded(library), is_replaced(library)))
    if answers and (others := [replaced for loaded, replaced in answers if not loaded]):
        if any(others):
            reason = "it was replaced or removed while they started. Start again."
        else:
            reason = "the messages of ld.so above say why."
        raise ConfigError(
            f"{library}: is not loaded in {len(others)} of {len(answers)} processes; "
            f"{reason}"
        )
    processes.barrier()  # the others notice the failure here
