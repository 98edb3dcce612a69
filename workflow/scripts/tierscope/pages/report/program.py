"""Say what a program of the user did: what it is, and what its audits state."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from tierscope.core.words import FAILED, PASSED, UNKNOWN, count_words, size_words

_WHOLE_RUN = -1  # as the epoch of a statement
_MARKS = {"yes": PASSED, "no": FAILED, "not measured": UNKNOWN}
_NAMES = {
    "tier": "the decided tier",
    "seen": "nothing escapes",
    "rate": "the cache rate is met",
    "epochs": "epochs are marked",
    "read only": "the dataset is only read",
    "unchanged": "the dataset did not change",
    "cold": "pages were dropped once",
    "cover": "every file opened",
    "once": "no file opened twice",
    "whole": "files read whole",
    "time": "I/O time fits the workers",
}
_EPOCHS_BY = {
    "hook": "loops of the framework",
    "mark": "marks of the program",
    "nobody": "none: the run is one phase",
}


def statements_table(statements: pd.DataFrame) -> pd.DataFrame:
    """Return what is stated of the runs of a program, equal statements in one row.

    Parameters
    ----------
    statements : DataFrame
        Table ``statements``.

    Returns
    -------
    DataFrame of str
        In the order of `_NAMES`, those on whole runs first.
    """
    keys = ["epoch", "statement", "answer", "words"]
    groups = statements.groupby(keys, sort=False)["cache_rate_percent"]
    found = groups.agg(["size", lambda rates: sorted(set(rates))]).reset_index()
    found.columns = [*keys, "n_runs", "rates"]
    places = {name: i for i, name in enumerate(_NAMES)}
    found["place"] = found["statement"].map(places)
    found = found.sort_values(["epoch", "place"], kind="stable")
    return pd.DataFrame(
        {
            "Epoch": "all" if row["epoch"] == _WHOLE_RUN else str(row["epoch"] + 1),
            "Statement": _NAMES[row["statement"]],
            "Answer": f"{_MARKS[row['answer']]} {row['answer']}",
            "In words": row["words"],
            "Runs": str(row["n_runs"]),
            "Cache rates (%)": ", ".join(map(str, row["rates"])),
        }
        for row in found.to_dict("records")
    )


def program_facts(contents: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return what the program is, as names and words; empty without a program."""
    seen = [one for one in contents if one.get("observed")]
    if not seen:
        return {}
    words: dict[str, dict[str, None]] = {}
    for content in seen:
        for name, text in _words_of(content).items():
            words.setdefault(name, {})[text] = None
    return {name: "; ".join(filter(None, texts)) for name, texts in words.items()}


def _words_of(content: Mapping[str, Any]) -> dict[str, str]:
    """Return what one run says of its program."""
    program, observed = content["program"], content["observed"]
    versions = observed["frameworks"].items()
    return {
        "command": shlex.join(program["command"]),
        "path of the dataset": "the real one"
        if program["in_place"]
        else "a virtual one",
        "epochs": f"{observed['n_epochs']}, by {_EPOCHS_BY[observed['epochs_by']]}",
        "frameworks": ", ".join(
            f"{name} {version or ''}" for name, version in versions
        ),
        "loaders": ", ".join(map(_loader_words, observed["loaders"])),
        "processes": count_words(
            observed["n_processes"], "process", "processes", separator=""
        ),
    }


def _loader_words(loader: Mapping[str, Any]) -> str:
    """Return a loader that a framework's hook has seen."""
    parts = [
        f"{name.replace('_', ' ')} {loader[name]}"
        for name in ("workers", "prefetch_factor", "batch_size")
        if loader.get(name) is not None
    ]
    return (
        f"{loader['framework']} ({', '.join(parts)})" if parts else loader["framework"]
    )


def dataset_words(content: Mapping[str, Any]) -> str:
    """Return name, files and size of a dataset of the user."""
    observed = content["observed"]
    files = count_words(observed["n_files"], "file")
    return f"{content['dataset']['name']}: {files} ({size_words(observed['n_bytes'])})"
