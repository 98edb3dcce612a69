"""Did the bytes come from a device? A verdict for each tier and epoch of a real run.

The verdicts stand on every figure and page of measured runs
(`tierscope.analysis.origin`).
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tierscope.core.certificate import (
    DEVICE,
    GFS_BYTES,
    LFS_BYTES,
    MIXED,
    NO,
    NONE,
    NOT_MEASURED,
    PAGE_CACHE,
    UNKNOWN,
    YES,
    Interference,
    Statement,
    doubted,
    interference_statements,
    verdict_word,
)
from tierscope.core.columns import RUN_KEYS, TABLES
from tierscope.core.description import Run, run_keys
from tierscope.core.io_class import IOClass
from tierscope.core.machine import (
    BLOCK_DEVICE,
    MEMORY,
    NOTHING,
    RESIDENT_PAGES,
    SERVER,
)
from tierscope.core.words import capitalised, count_words
from tierscope.policies import kind_of

DROPPED, KEPT, IN_MEMORY = "dropped", "kept", "in memory"
_MOST_RATES = 6  # that a note lists
_CONTRADICTION = 0.1  # by which the counters must exceed what the sample says


@dataclass(frozen=True)
class _Seen:
    """The observations of an epoch, over all processes; what is unknown is NaN."""

    n_bytes: Mapping[str, int]  # read, by tier
    device_bytes: float  # read by block devices, of both tiers together
    server_bytes: Mapping[str, float]  # read by servers, by tier
    cached: Mapping[str, float]  # part of sampled pages resident before, by tier
    names_dropped: bool


def verdicts_of(run: Run, epochs: pd.DataFrame, io_time: pd.DataFrame) -> pd.DataFrame:
    """Return the verdicts of a run on real tiers: its rows of table `verdicts`.

    Parameters
    ----------
    run : Run
        The run.
    epochs, io_time : DataFrame
        Tables `run_epochs` and `io_time` of the run.

    Returns
    -------
    DataFrame
        A row for each epoch and tier that was read. ``device``: at least 95 % of the
        bytes left this kernel's page cache (nothing is said of caches below);
        ``page cache``: at most 5 %; ``mixed`` in between, with the part;
        ``unknown``, with the reason.
    """
    rows = []
    for epoch, of_epoch in epochs.groupby("epoch"):
        seen = _seen(of_epoch, io_time[io_time["epoch"] == epoch])
        for tier, n_bytes in seen.n_bytes.items():
            if n_bytes:
                rows.append({"epoch": epoch, **_verdict(run, tier, seen)})
    kinds = {n: one for n, one in TABLES["verdicts"].items() if n not in RUN_KEYS}
    table = pd.DataFrame(rows, columns=list(kinds)).astype(kinds)  # of no rows, too
    return table.assign(**run_keys(run, run.point))


def _seen(epochs: pd.DataFrame, io_time: pd.DataFrame) -> _Seen:
    """Return the observations of an epoch from its rows of the tables."""
    read = io_time.groupby("io_class")["bytes"].sum()
    tiers = {"gfs": IOClass.GFS_READ, "lfs": IOClass.LFS_READ}
    return _Seen(
        {tier: int(read.get(str(one), 0)) for tier, one in tiers.items()},
        epochs["device_bytes"].sum(skipna=False),
        {tier: epochs[f"{tier}_server_bytes"].sum(skipna=False) for tier in tiers},
        {tier: epochs[f"{tier}_resident_percent"].mean() / 100 for tier in tiers},
        bool(epochs["names_dropped"].all()),
    )


def _verdict(run: Run, tier: str, seen: _Seen) -> dict[str, Any]:
    """Return the verdict on a tier's reads of an epoch, and on its names."""
    facts = (run.page_cache or {}).get("tiers", {}).get(tier, {})
    told, fs_type = facts.get("told_by"), facts.get("fs_type")
    # A counter holds copies and whatever else a mount serves, not reads alone. Those of
    # a program's processes hold no copies, which another process makes.
    moves = kind_of(run.scenario).moves_files and not run.program
    alone = not moves and not (run.page_cache or {}).get("one_mount")
    is_database = run.scenario.reads_database
    part, by, reason = math.nan, NOTHING, ""
    if fs_type is None:
        reason = "the run was measured before tierscope looked at the page cache"
    elif told is None:
        reason = f"nothing tells where reads of {fs_type} come from"
    elif told == MEMORY:
        part, by, reason = 0.0, MEMORY, f"{fs_type} keeps its files in memory"
    elif is_database and len([n for n in seen.n_bytes.values() if n]) > 1:
        reason = "reads of one database on two tiers cannot be told apart"
    elif told == SERVER and alone and not math.isnan(seen.server_bytes[tier]):
        part, by = min(1.0, seen.server_bytes[tier] / seen.n_bytes[tier]), SERVER
    elif told == BLOCK_DEVICE and not moves and seen.device_bytes >= 0:
        part, by = _part_of_device(run, tier, seen), BLOCK_DEVICE
        if is_database:  # whose mapped pages the kernel reads ahead of use
            part = np.fmin(part, 1 - seen.cached[tier])
    elif not math.isnan(seen.cached[tier]):
        part, by = 1 - seen.cached[tier], RESIDENT_PAGES
    else:
        silent = f"{fs_type} has no counter here"
        if told == BLOCK_DEVICE and not moves:
            silent = "a process did not tell what it read of block devices"
        reason = f"{silent}, and its pages cannot be looked at"
    names = DROPPED if seen.names_dropped else KEPT
    return {
        "tier": tier,
        "bytes": seen.n_bytes[tier],
        "verdict": verdict_word(part),
        "device_percent": 100 * part,
        "told_by": by,
        "reason": reason,
        "names": IN_MEMORY if told == MEMORY else names,
    }


def _part_of_device(run: Run, tier: str, seen: _Seen) -> float:
    """Return the part of a tier's bytes that block devices read."""
    told = {name: facts["told_by"] for name, facts in run.page_cache["tiers"].items()}
    counted = (BLOCK_DEVICE, SERVER)  # the kernel counts reads over NFS, too
    others = sum(
        n_bytes
        for name, n_bytes in seen.n_bytes.items()
        if name != tier and told.get(name) in counted
    )
    n_bytes = seen.n_bytes[tier]
    most = min(1.0, seen.device_bytes / n_bytes)
    if not others:
        return most
    # Devices may read more than is asked for.
    least = min(1.0, max(0.0, (seen.device_bytes - others) / n_bytes))
    # The counter holds both tiers, so the pages that were resident divide it.
    expected = 1 - seen.cached[tier]
    if math.isnan(expected):
        return most if most - least <= NONE else math.nan
    part = min(expected, most)
    return least if least > part + _CONTRADICTION else part


def certificate_of(run: Run, verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return the certificate of a run of a program: its rows of table `certificate`.

    Parameters
    ----------
    run : Run
        The run.
    verdicts : DataFrame
        Its rows of table `verdicts`.
    """
    said = [
        _tier_statement(name, verdicts[verdicts["tier"] == tier])
        for tier, name in (("gfs", GFS_BYTES), ("lfs", LFS_BYTES))
        if (verdicts["tier"] == tier).any()
    ]
    reason = "The run was measured before tierscope looked at this."
    seen = run.observed.get("interference")
    if seen is None and "interference" in run.observed:
        reason = "A site's Darshan, which has written the logs, does not tell."
    elif seen:
        reason = "No process of the program has loaded the tracer."
    said += interference_statements(Interference(**seen) if seen else None, reason)
    if missing := _missing(run.observed):
        said = [doubted(one, missing) for one in said]
    return pd.DataFrame(said).assign(**run_keys(run, run.point))


def _missing(observed: Mapping[str, Any]) -> str:
    """Return why not all calls of a program are known; empty if they are."""
    counts = [Counter(one) for one in observed["counts"]]
    n_escapes = sum(int(one["escapes"]) for one in counts)
    n_unknown = sum(int(one["unknown_processes"]) for one in counts)
    n_running = observed.get("still_running", 0)
    reasons = []
    if n_escapes:
        starts = count_words(n_escapes, "start")
        reasons.append(f"{starts} of programs could not be followed")
    if n_unknown:
        processes = count_words(n_unknown, "process was", "processes were")
        reasons.append(f"{processes} too many for the node's table")
    if n_running:
        processes = count_words(n_running, "process", "processes")
        reasons.append(f"{processes} still ran at the end")
    seen = observed.get("interference") or {}
    if not reasons and not seen.get("is_whole", True):
        return "the log of the launch says"
    return " and ".join(reasons)


_TOLD = {
    BLOCK_DEVICE: "told by what block devices read",
    SERVER: "told by what servers sent",
    RESIDENT_PAGES: "told by a sample of resident pages",
}
_DIVIDED = "what block devices read cannot be divided between the tiers"


def _tier_statement(name: str, verdicts: pd.DataFrame) -> Statement:
    """Return whether the bytes of a tier came from its devices in all epochs."""
    found = set(verdicts["verdict"])
    answer = YES if found == {DEVICE} else NO
    if not found & {MIXED, PAGE_CACHE} and UNKNOWN in found:
        answer = NOT_MEASURED
    groups = verdicts.groupby(["verdict", "told_by", "reason"]).size()
    parts = [
        f"{verdict} in {count_words(n, 'epoch')} "
        f"({reason or (_DIVIDED if verdict == UNKNOWN else _TOLD[told])})"
        for (verdict, told, reason), n in groups.items()
    ]
    words = "; ".join(parts)
    return Statement(name, answer, f"{capitalised(words)}.")


def verdict_mark(verdicts: pd.DataFrame) -> str:
    """Return what a title must say of some verdicts; empty if all say ``device``."""
    words = set(verdicts["verdict"])
    if not words - {DEVICE}:
        return ""
    if words == {PAGE_CACHE}:
        return "measured, from the page cache"
    if words & {PAGE_CACHE, MIXED}:
        return "measured, partly from the page cache"
    return "measured, from devices or caches"


def verdict_words(verdicts: pd.DataFrame) -> list[str]:
    """Return the verdicts on each tier in words."""
    words = []
    for tier, of_tier in verdicts.groupby("tier"):
        shares = of_tier["verdict"].value_counts()
        said = [
            f"{_FROM[word]}{_where(of_tier, word, shares)}"
            for word in _FROM
            if word in shares
        ]
        by_sample = (of_tier["told_by"] == RESIDENT_PAGES).any()
        how = " (by a sample of resident pages)" if by_sample else ""
        words.append(f"{tier.upper()} reads {', '.join(said)}{how}")
    kept = sorted(set(verdicts.loc[verdicts["names"] == KEPT, "tier"]))
    if kept:
        tiers = " and ".join(map(str.upper, kept))
        words.append(f"names and inodes of the {tiers} stayed in the nodes' caches")
    return words


_FROM = {
    DEVICE: "left the page cache",
    MIXED: "came partly from the page cache",
    PAGE_CACHE: "came from the page cache",
    UNKNOWN: "may have come from a cache",
}


def _where(verdicts: pd.DataFrame, word: str, shares: pd.Series) -> str:
    """Return the cache rates of a verdict that is not the only one, and its reason."""
    found = verdicts[verdicts["verdict"] == word]
    reasons = sorted(set(found["reason"]) - {""})
    because = f" ({'; '.join(reasons)})" if reasons else ""
    if len(shares) == 1:
        return because
    rates = sorted(set(found["cache_rate_percent"]))
    listed = ", ".join(map(str, rates[:_MOST_RATES]))
    more = ", ..." if len(rates) > _MOST_RATES else ""
    return f" in {len(found)} of {len(verdicts)} epochs (at {listed}{more} %){because}"
