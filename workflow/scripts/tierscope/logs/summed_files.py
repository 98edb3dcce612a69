"""Sum up a log by file and by folder."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from tierscope.core.words import as_text, as_utf8
from tierscope.logs.tiers import OF_THE_MACHINE, ROOT, TierPrefix
from tierscope.trace.darshan.names import Names
from tierscope.trace.log import MPI_IO, AnyLog

MOST_FILES = 1000  # kept of a log, those with the most time
_LEAST_PART = 0.01  # of a log's time: a folder with less is not worth a remark
_OF_THE_SYSTEM = {"/usr", "/etc", "/opt", "/lib", "/lib64", "/bin", "/sbin", "/proc"}
_OF_THE_SYSTEM |= {"/sys", "/dev", "/run", "/boot", "/var", "/tmp", "/"}


def sums_by_name(
    log: AnyLog, names_of: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return time and counts of each name over all processes, without MPI-IO.

    `names_of` has by interface the position of each record's name, the number of names
    if it has none. So the last entry of each sum is of records without a name.
    """
    n_names = len(log.names.ids)
    sums = {
        "time_s": np.zeros(n_names + 1),
        **{
            name: np.zeros(n_names + 1, np.int64)
            for name in ("opens", "reads", "writes", "bytes_read", "bytes_written")
        },
    }
    for kind, records in log.records.items():
        if kind == MPI_IO:
            continue
        columns = records.columns
        times_s = (
            columns["read_time_s"] + columns["write_time_s"] + columns["meta_time_s"]
        )
        for name, total in sums.items():
            values = times_s if name == "time_s" else columns[name]
            np.add.at(total, names_of[kind], values)
    return sums


def top_files(
    names: Names, sums: Mapping[str, np.ndarray], tiers: Sequence[str]
) -> dict[str, list]:
    """Return the files with the most time; `tiers` has the tier of each name."""
    top = _top(sums)
    paths = [as_text(names.raw_path(int(position))) for position in top]
    return _path_rows(paths, [tiers[one] for one in top], sums, top)


def top_folders(
    names: Names, sums: Mapping[str, np.ndarray], tiers: Sequence[str]
) -> dict[str, list]:
    """Return the folders with the most time of their own files."""
    n_folders = len(names.folders)
    folder_of = np.where(names.folder_of < 0, n_folders, names.folder_of)
    by_folder = {
        name: np.zeros(n_folders + 1, values.dtype) for name, values in sums.items()
    }
    for name, values in sums.items():
        np.add.at(by_folder[name], folder_of, values[:-1])
    first = np.zeros(n_folders + 1, np.int64)
    first[folder_of] = np.arange(len(folder_of))
    top = _top(by_folder)
    folders = pa.array(names.folders)
    paths = [(folders[int(one)].as_py() or b"/") for one in top]
    texts = [as_text(path) for path in paths]
    return _path_rows(texts, [tiers[first[one]] for one in top], by_folder, top)


def _top(sums: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the positions of what takes most time, without the last one."""
    time_s = sums["time_s"][:-1]
    used = np.flatnonzero((time_s > 0) | (sums["opens"][:-1] > 0))
    return used[np.argsort(-time_s[used], kind="stable")][:MOST_FILES]


def root_folders(
    folders: Mapping[str, Sequence], tiers: Sequence[TierPrefix]
) -> list[str]:
    """Return the folders of / with noticeable time that may be links to elsewhere.

    They can be that if the mount table has a file system of another machine. `folders`
    are those of `top_folders`.
    """
    if not any(tier.fs_type and tier.name not in OF_THE_MACHINE for tier in tiers):
        return []
    return [one for one in costly_folders(folders, ROOT) if one not in _OF_THE_SYSTEM]


def costly_folders(folders: Mapping[str, Sequence], wanted: str) -> list[str]:
    """Return the folders of / with noticeable time on a tier.

    `folders` are from `top_folders`.
    """
    times_s: dict[str, float] = {}
    for path, tier, time_s in zip(
        folders["path"], folders["tier"], folders["time_s"], strict=True
    ):
        if tier == wanted:
            top = "/" + path.split("/")[1] if path.count("/") else path
            times_s[top] = times_s.get(top, 0.0) + time_s
    least_s = _LEAST_PART * math.fsum(folders["time_s"])
    return [top for top, time_s in times_s.items() if time_s > least_s]


def _path_rows(
    paths: list[str], tiers: list[str], sums: Mapping[str, np.ndarray], top: np.ndarray
) -> dict[str, list]:
    """Return rows of paths; bytes that are no UTF-8 become escapes."""
    rows: dict[str, list] = {"path": list(map(as_utf8, paths)), "tier": tiers}
    return rows | {name: values[top].tolist() for name, values in sums.items()}
