"""What runs were measured with, and whether their tables may be joined.

Runs whose tracer, libraries or modules differ are joined only if the configuration
allows it (`allow_mixed`). The rest of the facts only goes into table `run_facts`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import pandas as pd

from tierscope.core.machine import UNKNOWN
from tierscope.core.words import count_words

TRACER, LIBRARIES, MODULES = "tracer", "libraries", "modules"
TOOLS = (TRACER, LIBRARIES, MODULES)  # must not differ, unless allowed
MACHINE, SOFTWARE = "machine", "software"  # may differ
_DIGITS = 12  # of a digest


class MixedRunsError(RuntimeError):
    """Runs were measured with different tools; the message names them."""


def list_facts(contents: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Return what each run was measured with, the newest run first.

    Parameters
    ----------
    contents : mapping of str to mapping
        The content of each run's `run.json`, or of probes' `probes.json`, by its
        folder. Files written before these facts were noted give ``unknown``.

    Returns
    -------
    DataFrame
        One row for each fact of each run; columns: part, fact, value, run.
    """

    def age(run: str) -> tuple[bool, str]:
        """Return a key that is higher for newer runs; the oldest note no modules."""
        return "modules" in contents[run], contents[run].get("finished", "")

    newest = sorted(contents, key=age, reverse=True)
    rows = [(*fact, run) for run in newest for fact in _facts(contents[run])]
    return pd.DataFrame(rows, columns=["part", "fact", "value", "run"])


def run_facts(listed: pd.DataFrame) -> pd.DataFrame:
    """Return table `run_facts`: one row for each value of a fact.

    Parameters
    ----------
    listed : DataFrame
        What `list_facts` returns. Of the runs with a value, the newest one is named,
        and values are in the order of these runs.
    """
    values = listed.groupby(["part", "fact", "value"], sort=False)["run"]
    facts = values.agg(n_runs="size", run="first").reset_index()
    # By the place at which each fact is first listed.
    return facts.sort_values(
        "fact", key=lambda one: pd.factorize(one)[0], kind="stable"
    )


def differing(facts: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of table `run_facts` whose facts have several values."""
    return facts[facts.groupby("fact")["value"].transform("size") > 1]


def to_measure_again(listed: pd.DataFrame, allowed: Collection[str] = ()) -> list[str]:
    """Return the runs whose tools differ from those of the newest run.

    Parameters
    ----------
    listed : DataFrame
        What `list_facts` returns.
    allowed : collection of str
        The parts that may differ: some of `TOOLS`.
    """
    tools = listed[listed["part"].isin(set(TOOLS) - set(allowed))]
    newest = tools.groupby("fact")["value"].transform("first")
    return sorted(set(tools.loc[tools["value"] != newest, "run"]))


def refuse_mixed_runs(listed: pd.DataFrame, allowed: Collection[str] = ()) -> None:
    """Refuse to join runs that were measured with different tools.

    Parameters
    ----------
    listed, allowed
        As for `to_measure_again`.

    Raises
    ------
    MixedRunsError
        One line that names two runs, what differs with both values, and what to do.
    """
    if not (again := to_measure_again(listed, allowed)):
        return
    found = differing(run_facts(listed))
    refused = found[found["part"].isin(set(TOOLS) - set(allowed))]
    fact = refused["fact"].iloc[0]
    newest, other, *_ = refused[refused["fact"] == fact].itertuples()
    n_more = refused["fact"].nunique() - 1
    more = f" (other facts that differ: {n_more})" if n_more else ""
    why = ""
    if UNKNOWN in f"{newest.value} {other.value}":
        why = " (unknown: measured by a version of tierscope that did not note it)"
    parts = [part for part in TOOLS if part in set(refused["part"])]
    runs = count_words(len(again), "run differs", "runs differ", separator="")
    raise MixedRunsError(
        f"{other.run} and {newest.run}: cannot be joined into one table: {fact} "
        f"{other.value}, but {newest.value}{more}{why}. {runs} from the newest one: "
        "delete the folders that the log lists to measure these points again, or set "
        f"allow_mixed: [{', '.join(sorted({*parts, *allowed}, key=TOOLS.index))}]."
    )


def _facts(content: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the facts of a run or of probes: part, fact, value."""
    is_run = "point" in content
    libraries = content.get("libraries", {})
    if is_run:
        tracer = content.get("tracer") or {}
        version = tracer.get("version") or UNKNOWN
        yield TRACER, "tracer", f"{tracer.get('runtime', UNKNOWN)} {version}"
        yield LIBRARIES, "library of the tracer", _digests(libraries.get("tracer"))
    if content.get("emulation"):
        yield LIBRARIES, "library of the devices", _digests(libraries.get("devices"))
    script = "benchmark" if is_run else "probes"
    modules = content.get("modules") or UNKNOWN
    yield MODULES, f"modules of the {script}", modules[:_DIGITS]
    yield MACHINE, "hosts", _joined(content.get("hosts", ()))
    machines = content.get("machines", ())
    for name in ("cpu_model", "governor"):
        yield MACHINE, name, _joined(one[name] for one in machines)
    affinities = _joined(" and ".join(one["affinity"]) for one in machines)
    yield MACHINE, "affinity", affinities
    for tier in ("gfs", "lfs"):
        mounts = (one["mounts"][tier] for one in machines)
        words = _joined(
            f"{one['type']} {one.get('source', '')} {one.get('options', '')}".strip()
            for one in mounts
        )
        yield MACHINE, f"mount of the {tier.upper()}", words
    for name, version in content.get("versions", {}).items():
        yield SOFTWARE, name, str(version)


def _digests(libraries: Mapping[str, str] | None) -> str:
    """Return the first digits of the digests of libraries."""
    if not libraries:
        return UNKNOWN
    return " and ".join(sorted(digest[:_DIGITS] for digest in libraries.values()))


def _joined(words: Iterable[str]) -> str:
    """Return words without duplicates, or that they are unknown."""
    return "; ".join(dict.fromkeys(words)) or UNKNOWN
