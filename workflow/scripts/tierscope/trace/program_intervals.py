"""The times between reads of a program, from the logs of its processes."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tierscope.core.columns import AFTER
from tierscope.trace.darshan.inflation import OURS
from tierscope.trace.log import read_any_log, read_posix

_COLUMNS = {
    "id": "id",
    "opened_s": "POSIX_F_OPEN_START_TIMESTAMP",
    "read_time_s": "POSIX_F_READ_TIME",
    "meta_time_s": "POSIX_F_META_TIME",
}


def times_between_reads(
    folder: Path, tier_roots: Mapping[str, Sequence[str]], batch_size: int
) -> np.ndarray:
    """Return the time from each file's open to the next one, without its I/O time.

    It is of processes that read one file after the other. Between two batches a process
    may have to wait until there is room for more, so the last file of each is left out.
    So is the first batch of each process, which may load modules, if it has others, and
    what is read outside of loops.

    Parameters
    ----------
    folder : Path
        Folder of the logs of a run, by our tracer.
    tier_roots : mapping of str to sequence of str
        Names of each tier in the logs, before ``.ep<N>``.
    batch_size : int
        Files of a batch; of batches of one file no last one is left out.

    Returns
    -------
    ndarray of float, shape (n_times,)
        Seconds, 0 where calls overlapped.

    Raises
    ------
    LogError
        If a log is damaged.
    """
    roots = [re.escape(root) for some in tier_roots.values() for root in some]
    alias = re.compile(rf"(?:{'|'.join(roots)})\.ep([0-9]+)/.*", re.DOTALL)
    found = [np.zeros(0)]
    for path in sorted(folder.glob("*.darshan")):
        if "POSIX" not in read_any_log(path, OURS, may_be_empty=True).records:
            continue
        _, columns, names = read_posix(path, _COLUMNS)
        places = names.positions(columns["id"]).tolist()
        matches = [alias.fullmatch(names.path(place)) for place in places]
        epochs = np.array([int(one[1]) if one else -1 for one in matches])
        io_s = columns["read_time_s"] + columns["meta_time_s"]
        here = [
            _between(columns["opened_s"][mine], io_s[mine], batch_size)
            for epoch in np.unique(epochs[(epochs >= 0) & (epochs < AFTER)])
            for mine in [epochs == epoch]
        ]
        times_s = np.concatenate([np.zeros(0), *here])
        found.append(_without_first_batch(times_s, batch_size))
    return np.concatenate(found)


def _without_first_batch(between_s: np.ndarray, batch_size: int) -> np.ndarray:
    """Return the times of a process without its first batch, unless it has no other."""
    later_s = between_s[max(batch_size - 1, 1) :]
    return later_s if len(later_s) else between_s


def _between(opened_s: np.ndarray, io_s: np.ndarray, batch_size: int) -> np.ndarray:
    """Return the times between the files of a process in an epoch."""
    order = np.argsort(opened_s)
    between_s = np.diff(opened_s[order]) - io_s[order][:-1]
    is_last = np.arange(1, len(opened_s)) % batch_size == 0
    inside = between_s if batch_size == 1 else between_s[~is_last]
    return np.maximum(inside, 0.0)
