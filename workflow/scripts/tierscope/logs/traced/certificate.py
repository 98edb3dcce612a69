"""The certificate of a traced command: where its bytes came from, and who interfered.

The kernel counts what block devices read for a process, of all files together. So what
the processes have read of devices since their first traced calls is the most that can
have come from there.
"""

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from tierscope.core.certificate import (
    BYTES,
    DEVICE,
    MIXED,
    NO,
    NOT_MEASURED,
    PAGE_CACHE,
    UNKNOWN,
    YES,
    Statement,
    verdict_word,
)
from tierscope.core.machine import BLOCK_DEVICE, MEMORY, SERVER
from tierscope.core.words import count_words, size_words
from tierscope.storage.mounts import Mount, mount_of
from tierscope.storage.page_cache import told_by

# A file system: what tells whether reads left the page cache, and its type.
FileSystem = tuple[str | None, str]
_UNLISTED = "an unlisted file system"
_READ = re.compile(r"(.+):(\d+)")  # of a file system, in the metadata of a log


@dataclass(frozen=True)
class ProcessReads:
    """What a process read by traced calls, and what devices read for it meanwhile.

    Bytes by file system; bytes of devices are None if the process did not tell. `drops`
    are its calls to drop pages: made, failed and swallowed ones.
    """

    by_file_system: Mapping[FileSystem, int]
    device_bytes: int | None = None
    mapped_bytes: int = 0
    drops: tuple[int, ...] = (0, 0, 0)

    def n_bytes_of(self, *tellers: str) -> int:
        """Return the bytes read on file systems of which these tell."""
        return sum(
            int(n) for (told, _), n in self.by_file_system.items() if told in tellers
        )

    def as_metadata(self) -> dict[str, str]:
        """Return what the log of the process says, as `reads_of_metadata` reads it."""
        read = [f"{fs_type}:{n}" for (_, fs_type), n in self.by_file_system.items()]
        metadata = {"mapped_bytes": str(self.mapped_bytes), "read_on": ",".join(read)}
        if self.device_bytes is not None:
            metadata["device_bytes"] = str(self.device_bytes)
        return metadata | {"fadvise": ",".join(map(str, self.drops))}


def reads_of_metadata(metadata: Mapping[str, str]) -> ProcessReads | None:
    """Return what a process read, None if its log does not tell."""
    if "read_on" not in metadata:
        return None
    found = map(_READ.fullmatch, metadata["read_on"].split(","))
    read = {one[1]: int(one[2]) for one in found if one}
    numbers = (metadata.get(name, "") for name in ("device_bytes", "mapped_bytes"))
    device_bytes, mapped_bytes = (int(n) if n.isdecimal() else None for n in numbers)
    return ProcessReads(
        {
            (told_by(Mount("", fs_type, "", "", (0, 0))), fs_type): n
            for fs_type, n in read.items()
        },
        device_bytes,
        mapped_bytes or 0,
    )


def bytes_by_file_system(
    paths: Sequence[bytes], n_bytes: np.ndarray
) -> Counter[FileSystem]:
    """Return the bytes read of some paths, by the file systems that they are on now.

    Folders are looked at, not files: there may be millions of these.
    """
    folders: Counter[bytes] = Counter()
    for i in np.flatnonzero(n_bytes).tolist():
        folders[os.path.dirname(paths[i])] += int(n_bytes[i])
    mounts = os.fsdecode(Path("/proc/self/mountinfo").read_bytes())
    found: Counter[FileSystem] = Counter()
    for folder, read in folders.items():
        found[_file_system(os.fsdecode(folder), mounts)] += read
    return found


@cache
def _file_system(folder: str, mounts: str) -> FileSystem:
    try:
        mount = mount_of(folder, mounts)
    except ValueError:  # in some chroots
        return None, _UNLISTED
    return told_by(mount), mount.fs_type


def bytes_statement(reads: Sequence[ProcessReads]) -> Statement:
    """Return whether what all processes have read came from devices."""
    found: Counter[FileSystem] = Counter()
    for one in reads:
        found.update(one.by_file_system)
    total = found.total()
    if not total:
        return Statement(BYTES, NOT_MEASURED, "No traced call has read a byte.")
    word = _verdict(reads, total)
    answer = {DEVICE: YES, UNKNOWN: NOT_MEASURED}.get(word, NO)
    parts = [
        f"{size_words(n)} on {fs_type}{_how(told)}"
        for (told, fs_type), n in found.most_common()
    ]
    words = f"{word.capitalize()}: {', '.join(parts)} were read{_meanwhile(reads)}"
    if mapped := sum(one.mapped_bytes for one in reads):
        words += f" {size_words(mapped)} were mapped, whose reads are no calls."
    return Statement(BYTES, answer, words)


def _meanwhile(reads: Sequence[ProcessReads]) -> str:
    """Return what block devices read for the processes, as the end of a sentence."""
    of_devices = [one for one in reads if one.n_bytes_of(BLOCK_DEVICE)]
    known_bytes = [
        one.device_bytes for one in of_devices if one.device_bytes is not None
    ]
    words = "."
    if known_bytes:
        words = (
            "; since the first of these calls, block devices have read "
            f"{size_words(sum(known_bytes))} for the processes."
        )
    if n_silent := len(of_devices) - len(known_bytes):
        each = "process was killed and does", "processes were killed and do"
        words += f" {count_words(n_silent, *each)} not tell what devices read."
    return words


def _verdict(reads: Sequence[ProcessReads], total: int) -> str:
    """Return the verdict by the least and the most that devices can have read."""
    of_devices = [one for one in reads if one.n_bytes_of(BLOCK_DEVICE)]
    known = sum(one.device_bytes or 0 for one in of_devices)
    silent = sum(
        one.n_bytes_of(BLOCK_DEVICE) for one in of_devices if one.device_bytes is None
    )
    # The kernel's counter of a process also has what NFS brings, and page faults.
    others = sum(one.n_bytes_of(SERVER) + one.mapped_bytes for one in of_devices)
    on_devices = sum(one.n_bytes_of(BLOCK_DEVICE) for one in reads)
    in_memory = sum(one.n_bytes_of(MEMORY) for one in reads)
    least = max(0, min(on_devices, known) - others) / total
    most = min(on_devices, known + silent) + total - on_devices - in_memory
    low, high = verdict_word(least), verdict_word(most / total)
    if low == high:
        return low
    return UNKNOWN if high == DEVICE else f"{MIXED} or {PAGE_CACHE}"


def _how(told: str | None) -> str:
    """Return what is known of reads on a file system, as the end of a phrase."""
    if told == MEMORY:
        return " (memory)"
    return "" if told == BLOCK_DEVICE else " (it has no counter of a process)"
