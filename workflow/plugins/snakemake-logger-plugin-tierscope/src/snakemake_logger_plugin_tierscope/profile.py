"""Names the profiles there are where Snakemake would name folders of the system.

Snakemake looks for a profile before it reads the workflow and before it makes a logger,
but after it has imported its plugins, so this is the only place where we can.
"""

import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path


def unknown_profile(arguments: Sequence[str], folder: Path) -> str:
    """Return what is wrong with the profile of a command line, empty if nothing is."""
    ours = sorted(path.parent.name for path in folder.glob("profiles/*/config*.yaml"))
    wanted = dict(pairwise(arguments)).get("--profile")
    for argument in arguments:
        if argument.startswith("--profile="):
            wanted = argument.partition("=")[2]
    if not ours or not wanted or wanted == "none" or (folder / wanted).exists():
        return ""
    if wanted in ours:
        return f"--profile {wanted}: the link {wanted} is missing; type: make setup"
    of_user = (Path.home() / ".config/snakemake", Path("/etc/xdg/snakemake"))
    if any((place / wanted).exists() for place in of_user):
        return ""
    return f"--profile {wanted}: unknown, expected one of {', '.join(ours)}"


def refuse_unknown_profile(arguments: Sequence[str]) -> None:
    """End a Snakemake that was given an unknown profile with one line."""
    is_snakemake = Path(arguments[0]).name == "snakemake"
    if is_snakemake and (line := unknown_profile(arguments[1:], Path.cwd())):
        sys.exit(line)
