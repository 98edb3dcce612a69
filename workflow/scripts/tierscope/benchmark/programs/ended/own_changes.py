"""Files of the dataset that the program itself has changed in a run before.

A later run that copies them to the LFS would have another dataset.
"""

from collections.abc import Iterable
from pathlib import Path

from tierscope.core.validation import read_json
from tierscope.core.words import count_words, printable

_RUNS = "*/cache-*/rep-*/run.json"  # below the folders of all scenarios
_NAMED = 3  # files that a line lists


def changed_by_program(folders: Iterable[Path], dataset: str) -> dict[str, str]:
    """Return the files that a program has left changed, each with its first point.

    Parameters
    ----------
    folders : iterable of Path
        Folders that hold those of the scenarios, with their finished runs.
    dataset : str
        Real path of the dataset; runs of another one do not count.
    """
    found: dict[str, str] = {}
    runs = {path for folder in folders for path in folder.glob(_RUNS)}
    for path in sorted(runs, key=lambda path: path.stat().st_mtime_ns):
        observed = read_json(path).get("observed", {})
        if observed.get("dataset") != dataset:
            continue
        by_name = set(observed["written"])
        for name in observed["changed"]:
            if name in by_name or observed.get("renamed_folders"):
                found.setdefault(name, "/".join(path.parts[-3:-1]))
    return found


def own_changes_words(dataset: str, names: list[str], run: str) -> str:
    """Return the reason why a run has no copies of files, and what can be done."""
    some = ", ".join(map(printable, names[:_NAMED]))
    such = f"such as {some}" if len(names) > _NAMED else some
    are = count_words(len(names), "file is", "files are")
    return (
        f"{printable(dataset)}: {are} no longer as listed ({such}), and the LFS needs "
        "copies. The program itself has changed the dataset, first in its run at "
        f"{run}. Finished runs are kept. Let each run change a copy of its own of "
        "these files, or keep them out of the dataset. Put the old files back with "
        "their times (cp -p), and start again."
    )
