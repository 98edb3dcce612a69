"""Names the known profiles where Snakemake would name folders of the system.

Snakemake looks for a profile before it reads the workflow and before it makes a logger,
but after it has imported its plugins, so this is the only place where we can.
"""

import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path


def unknown_profile(
    arguments: Sequence[str], folder: Path, find: Callable[[str], object]
) -> str:
    """Return the error in the profile of a command line, empty if there is none.

    `find` returns the profile that Snakemake finds for a name, None if it finds none.
    """
    wanted = dict(pairwise(arguments)).get("--profile", "")
    for argument in arguments:
        if argument.startswith("--profile="):
            wanted = argument.partition("=")[2]
    ours = sorted(path.parent.name for path in folder.glob("profiles/*/config*.yaml"))
    if not ours or wanted in ("", "none") or find(wanted) is not None:
        return ""
    if wanted in ours:
        return f"--profile {wanted}: the link {wanted} is missing; type: make setup"
    return f"--profile {wanted}: unknown, expected one of {', '.join(ours)}"


def refuse_unknown_profile(arguments: Sequence[str]) -> None:
    """End Snakemake with one line if its profile is unknown."""
    if Path(arguments[0]).name != "snakemake":
        return
    from snakemake.cli import get_profile_dir

    if line := unknown_profile(arguments[1:], Path.cwd(), get_profile_dir):
        sys.exit(line)
