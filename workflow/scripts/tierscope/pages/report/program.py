"""Say what a program of the user did: what it is, and what its audits state."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from tierscope.analysis.origin import is_whole_run
from tierscope.analysis.training.other_io import MOUNT_NAMES
from tierscope.core.certificate import ADVICE, LIBRARIES
from tierscope.core.certificate import NAMES as CERTIFIED
from tierscope.core.columns import SCENARIO
from tierscope.core.given.secrets import command_words
from tierscope.core.words import (
    FAILED,
    PASSED,
    UNKNOWN,
    WHOLE_RUN,
    count_words,
    size_words,
)

_NO_EPOCH = -1  # of a statement on the whole run
_MARKS = {"yes": PASSED, "no": FAILED, "not measured": UNKNOWN}
_NAMES = CERTIFIED | {
    "tier": "opens on the decided tier",
    "seen": "nothing escapes",
    "rate": "the cache rate is met",
    "copies": "all copies were made",
    "in time": "copies ended in time",
    "epochs": "epochs are marked",
    "after": "nothing follows the training",
    "read only": "the dataset is only read",
    "unchanged": "the dataset did not change",
    "listed": "only listed files are read",
    "cold": "pages were dropped once",
    "cover": "every file opened",
    "once": "no file opened twice",
    "whole": "files read whole",
    "time": "I/O time fits the workers",
    "other io": "only the dataset makes the loop wait",
}
_EPOCHS_BY = {
    "hook": "marked by the loops of the framework",
    "mark": "marked by the program",
    "nobody": "not marked, so the run is one phase",
}
# What words of a statement name: files of the dataset, programs that escaped,
# libraries, and mount points.
_NAMED = {
    LIBRARIES: re.compile(r": .*(?=\.)", re.DOTALL),
    ADVICE: re.compile(r" \(.*?processes\)", re.DOTALL),
    "read only": re.compile(r" \(.*\)", re.DOTALL),
    "unchanged": re.compile(r" \(.*\)", re.DOTALL),
    "seen": re.compile(r"(?<=redirected): .*(?=\.)", re.DOTALL),
    "after": MOUNT_NAMES,
    "other io": MOUNT_NAMES,
}
_OTHER_WORDS = "other runs or epochs: other numbers, see table"


def certificate_table(
    certificate: pd.DataFrame | None, anonymous: bool
) -> pd.DataFrame | None:
    """Return table ``certificate`` as `statements_table` does, without epochs."""
    if certificate is None:
        return None
    said = certificate.assign(epoch=_NO_EPOCH)
    return statements_table(said, anonymous, "certificate").drop(columns="Epochs")


def statements_table(
    statements: pd.DataFrame | None, anonymous: bool = False, table: str = "statements"
) -> pd.DataFrame | None:
    """Return what is stated of the runs of a program, a row for each answer.

    Parameters
    ----------
    statements : DataFrame or None
        Table ``statements``; None without a program of the user.
    anonymous : bool
        Whether to leave out names of files, of programs that escaped and of libraries.
    table : str
        Which table it is.

    Returns
    -------
    DataFrame of str
        In the order of `_NAMES`. Words that differ, as by a number, are those of the
        first run. None without statements.
    """
    if statements is None:
        return None
    is_one_phase = is_whole_run(statements)
    rows = []
    for (statement, answer), said in statements.groupby(["statement", "answer"]):
        epochs = sorted(set(said["epoch"]) - {_NO_EPOCH})
        words, *others = said["words"].unique()
        if anonymous and statement in _NAMED:
            words = _NAMED[statement].sub("", words)
        runs = said[[*SCENARIO, "cache_rate_percent", "repetition"]].drop_duplicates()
        rates = sorted(set(said["cache_rate_percent"]))
        row = {
            "Statement": _NAMES[statement],
            "Answer": f"{_MARKS[answer]} {answer}",
            "In words": words + f" ({_OTHER_WORDS} {table})" * bool(others),
            "Epochs": WHOLE_RUN if is_one_phase or not epochs else _span(epochs),
            "Runs": str(len(runs)),
            "Cache rates (%)": ", ".join(map(str, rates)),
        }
        rows.append((list(_NAMES).index(statement), epochs[:1], row))
    rows.sort(key=lambda one: one[:2])
    return pd.DataFrame(row for *_, row in rows)


def _span(epochs: Sequence[int]) -> str:
    """Return epochs, which count from 0, in words that count from 1."""
    first, last = epochs[0] + 1, epochs[-1] + 1
    if len(epochs) > 2 and last - first == len(epochs) - 1:
        return f"{first} to {last}"
    return ", ".join(str(epoch + 1) for epoch in epochs)


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
        "command": command_words(program["command"]),
        "path of the dataset": "the real one"
        if program["in_place"]
        else "a virtual one",
        "epochs": f"{observed['n_epochs']}, {_EPOCHS_BY[observed['epochs_by']]}",
        "evaluations": _evaluation_words(observed["n_evaluations"]),
        "frameworks": ", ".join(
            f"{name} {version or ''}" for name, version in versions
        ),
        "loaders": ", ".join(map(_loader_words, observed["loaders"])),
        "processes": count_words(
            observed["n_processes"], "process", "processes", separator=""
        ),
    }


def _evaluation_words(n_evaluations: int) -> str:
    """Return how many evaluations lie in the epochs; nothing if there are none."""
    if not n_evaluations:
        return ""
    return f"{n_evaluations}, which count to the epochs that they lie in (table marks)"


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
