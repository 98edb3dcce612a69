"""Attribute a log's records to epochs, tiers and dataset files."""

import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tierscope.core.tables import check_table, empty_table
from tierscope.storage.tier import COPYING_PREFIX
from tierscope.trace.log import (
    COLUMNS,
    WRITE_COLUMNS,
    JobRecord,
    LogError,
    Names,
    read_posix,
)
from tierscope.trace.placing import Prefix, place_folders

Roots = str | Path | Sequence[str | Path]

_KEYS = ["epoch", "rank", "tier", "file_id"]
_ALIAS = re.compile(rb"\.ep([0-9]+)(?=/|$)")
_NO_EPOCH = -1
_NO_TIER = -1


def read_file_records(
    log: str | Path,
    tiers: Mapping[str, Roots],
    manifest: pd.DataFrame,
    epoch: int | None = None,
    may_be_empty: bool = False,
) -> pd.DataFrame:
    """Read one row per (rank, epoch, tier, file) from a Darshan log.

    A path belongs to a tier if it is below a root of the tier or below the root's alias
    ``<root>.ep<N>``; of nested roots the longest wins. The epoch is the N of the alias.
    The suffix may also be at any component below the root. Records of
    other paths are ignored. The file's id is that of its name in the manifest; an LMDB
    file has the id of its first record.

    Parameters
    ----------
    log : path
        A Darshan log of one run.
    tiers : mapping of str to path or sequence of path
        Root folder or folders by tier; nodes may have different ones.
    manifest : DataFrame
        The table `manifest` of the dataset.
    epoch : int, optional
        The epoch of a log with one epoch and without aliases.
    may_be_empty : bool
        Whether a log without records below the tiers is accepted.

    Returns
    -------
    DataFrame
        The table `file_records`, sorted by epoch, rank, tier and file_id.

    Raises
    ------
    LogError
        If the log is incomplete or damaged, or its dataset records cannot be attributed
        unambiguously.
    """
    job, columns, names = read_posix(log)
    places = _place_names(log, tiers, names, manifest, epoch)
    table = _attribute(log, tiers, job, columns, names, places)
    if table is None:
        if not may_be_empty:
            raise LogError(log, _nothing_found(tiers, names))
        table = empty_table("file_records")
    return check_table(table, "file_records")


def read_background_records(
    log: str | Path, tiers: Mapping[str, Roots], manifest: pd.DataFrame
) -> pd.DataFrame:
    """Read one row per (rank, epoch, tier, file) of a run's background traffic.

    Parameters
    ----------
    log : path
        A Darshan log of one run.
    tiers : mapping of str to path or sequence of path
        Root folders of the background's aliases by tier (`background_root`).
    manifest : DataFrame
        The table `manifest` of the dataset.

    Returns
    -------
    DataFrame
        The table `background_records`, sorted by epoch, rank, tier and file_id; without
        rows if there was no such traffic.

    Raises
    ------
    LogError
        As `read_file_records`.
    """
    job, columns, names = read_posix(log, COLUMNS | WRITE_COLUMNS)
    places = _place_names(log, tiers, names, manifest, None)
    table = _attribute(log, tiers, job, columns, names, places)
    if table is None:
        table = empty_table("background_records")
    return check_table(table, "background_records")


def _attribute(
    log: str | Path,
    tiers: Mapping[str, Roots],
    job: JobRecord,
    columns: dict[str, np.ndarray],
    names: Names,
    places: dict[str, np.ndarray],
) -> pd.DataFrame | None:
    """Return the sums of the records below the tiers by key, None if there are none.

    The arguments are modified.
    """
    found = names.positions(columns["id"])
    nameless = names.ids[found] != columns["id"] if len(names.ids) else columns["id"]
    if np.any(nameless):
        n_nameless = np.count_nonzero(nameless)
        raise LogError(log, f"has {n_nameless} records without a name.")
    below_tier = places["tier"][found] != _NO_TIER
    if not below_tier.any():
        return None
    if not below_tier.all():
        for name in columns:
            columns[name] = columns[name][below_tier]
        found = found[below_tier]
    _check_counters(log, job, columns, names, found)
    keys = {key: places.pop(key)[found] for key in ("epoch", "tier", "file_id")}
    keys["rank"] = columns.pop("rank")
    del columns["id"], found
    table = _sum_by_key(keys, columns)
    tier_names = np.array(list(tiers), object)
    table["tier"] = pd.Series(tier_names[table["tier"]], dtype="str")
    return table


def _place_names(
    log: str | Path,
    tiers: Mapping[str, Roots],
    names: Names,
    manifest: pd.DataFrame,
    epoch: int | None,
) -> dict[str, np.ndarray]:
    """Return tier (a position in `tiers`), epoch and file_id of each name.

    Folders and base names repeat, so each distinct one is examined once.
    """
    tier, alias = _place_folders(log, tiers, names)[names.folder_of].T
    base, base_epoch = _split_aliases(names.bases)
    file_id = _file_ids(base, manifest)[names.base_of]
    base_epoch = base_epoch[names.base_of]
    inside = tier != _NO_TIER

    def refuse(wrong: np.ndarray, reason: str) -> None:
        if wrong.any():
            path = names.path(int(np.argmax(wrong)))
            raise LogError(log, f"{reason}: {path!r}.")

    refuse(
        inside & (alias >= 0) & (base_epoch >= 0) & (alias != base_epoch),
        "a path names two epochs",
    )
    alias = np.maximum(alias, base_epoch)
    if epoch is None:
        refuse(inside & (alias < 0), "a path has no epoch (.ep<N>) and none was given")
    else:
        refuse(
            inside & (alias >= 0) & (alias != epoch),
            f"a path contradicts the given epoch {epoch}",
        )
        alias = np.full_like(alias, epoch)
    refuse(inside & (file_id < 0), "a file is not in the dataset's manifest")
    return {"tier": tier, "epoch": alias, "file_id": file_id}


def _root_folders(roots: Roots) -> list[str]:
    """Return the absolute root folders of a tier."""
    if isinstance(roots, str | Path):
        roots = [roots]
    return [os.path.abspath(root) for root in roots]


def _place_folders(
    log: str | Path, tiers: Mapping[str, Roots], names: Names
) -> np.ndarray:
    """Return tier (a position in `tiers`) and epoch of each folder.

    Shape (n_folders + 1, 2): the last one is no folder.
    """
    roots = [
        (os.fsencode(root).rstrip(b"/"), tier)
        for tier, folders in enumerate(tiers.values())
        for root in _root_folders(folders)
    ]
    if len({root for root, _ in roots}) != len(roots):
        raise ValueError(f"tiers: got {dict(tiers)}, expected different roots.")
    prefixes = [
        Prefix(re.escape(root) + rb"(?:\.ep[0-9]+)?", len(root)) for root, _ in roots
    ]
    found = place_folders(names, prefixes).tolist()
    placed = [(_NO_TIER, _NO_EPOCH)] * len(found)
    for number, folder in enumerate(names.folders.to_pylist()):
        if found[number] < 0:
            continue
        root, tier = roots[found[number]]
        epochs = {int(epoch) for epoch in _ALIAS.findall(folder[len(root) :])}
        if len(epochs) > 1:
            raise LogError(log, f"a path names two epochs: {folder!r}.")
        placed[number] = tier, epochs.pop() if epochs else _NO_EPOCH
    return np.array(placed, np.int64)


def _split_aliases(bases: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Return base names without their alias suffix, and the epochs of the suffixes."""
    if not pc.any(pc.match_substring_regex(bases, r"\.ep[0-9]+$")).as_py():
        return bases, np.full(len(bases), _NO_EPOCH)
    epochs = _extract_integers(bases, r"\.ep(?P<number>[0-9]+)$")
    return pc.replace_substring_regex(bases, r"\.ep[0-9]+$", ""), epochs


def _file_ids(bases: pa.Array, manifest: pd.DataFrame) -> np.ndarray:
    """Return the id of each base name in a manifest, -1 for none.

    Records of a database are in one file; its id is that of the first. A file that is
    being copied has a name of its own.
    """
    files = manifest.drop_duplicates("path")
    paths = pa.array(files["path"], pa.large_string()).cast(pa.large_binary())
    names = pc.replace_substring_regex(paths, r"(?s)^.*/", "").cast(bases.type)
    if len(pc.unique(names)) < len(names):
        listed = pd.Series(names.to_pylist())
        twice = os.fsdecode(listed[listed.duplicated()].iloc[0])
        raise ValueError(f"manifest: got two files with name {twice!r}, expected one.")
    copied = rf"^{re.escape(COPYING_PREFIX)}"
    bases = pc.replace_substring_regex(bases, copied, "")
    found = pc.index_in(bases, names).fill_null(-1).to_numpy()
    return np.append(files["file_id"].to_numpy(np.int64), -1)[found]


def _extract_integers(texts: pa.Array, pattern: str) -> np.ndarray:
    """Return each text's `number`, -1 if it has none or exceeds int64."""
    digits = pc.struct_field(pc.extract_regex(texts, pattern), "number")
    digits = pc.replace_substring_regex(digits, r"^0+([0-9])", r"\1")
    fits = pc.less(pc.binary_length(digits), len(str(np.iinfo(np.int64).max)))
    digits = pc.if_else(fits, digits, pa.scalar(None, digits.type))
    return digits.cast("string").cast("int64").fill_null(-1).to_numpy()


def _nothing_found(tiers: Mapping[str, Roots], names: Names) -> str:
    """Return the reason why no record can be used, with an example."""
    roots = {tier: ", ".join(_root_folders(tiers[tier])) for tier in tiers}
    example = f", the first path is {names.path(0)!r}" if len(names.ids) else ""
    return f"has no record below {roots}{example}."


def _check_counters(
    log: str | Path,
    job: JobRecord,
    columns: dict[str, np.ndarray],
    names: Names,
    found: np.ndarray,
) -> None:
    """Raise a LogError on shared records, foreign ranks and impossible counters."""

    def refuse(wrong: np.ndarray, reason: str) -> None:
        if wrong.any():
            first = int(np.argmax(wrong))
            path = names.path(int(found[first]))
            raise LogError(
                log,
                f"{np.count_nonzero(wrong)} records {reason}, for example "
                f"rank {columns['rank'][first]} of {path!r}.",
            )

    rank = columns["rank"]
    refuse(rank == -1, "are shared by all ranks (the per-process times are lost)")
    refuse(rank < 0, "have a negative rank")
    refuse(
        rank >= job.n_processes, f"have a rank not below {job.n_processes} processes"
    )
    for name in set(columns) - {"id", "rank"}:
        refuse(~(columns[name] >= 0), f"have impossible {name}")
        refuse(~np.isfinite(columns[name]), f"have infinite {name}")


def _order_of(keys: dict[str, np.ndarray]) -> np.ndarray:
    """Return the order of records by their keys; equal ones keep their order.

    Keys that fit together into one number are sorted as one number.
    """
    sizes = {key: int(keys[key].max()) + 1 for key in _KEYS}
    if math.prod(sizes.values()) > np.iinfo(np.int64).max or any(
        keys[key].min() < 0 for key in _KEYS
    ):
        return np.lexsort([keys[key] for key in reversed(_KEYS)])
    joined = np.zeros(len(keys[_KEYS[0]]), np.int64)
    for key in _KEYS:
        joined *= sizes[key]
        joined += keys[key]
    return np.argsort(joined, kind="stable")


def _sum_by_key(
    keys: dict[str, np.ndarray], values: dict[str, np.ndarray]
) -> pd.DataFrame:
    """Return the sums of records with equal keys, sorted by key.

    Each column is replaced at once, because those of a large run fill the memory.
    """
    order = _order_of(keys)
    is_first = np.zeros(len(order), bool)
    is_first[0] = True
    for key in _KEYS:
        keys[key] = keys[key][order]
        is_first[1:] |= keys[key][1:] != keys[key][:-1]
    first = np.flatnonzero(is_first)
    table = {key: keys.pop(key)[first] for key in _KEYS}
    for name in list(values):
        table[name] = np.add.reduceat(values.pop(name)[order], first)
    return pd.DataFrame(table, copy=False)
