"""Striping of a Lustre folder by the `lfs` command of the Lustre client.

Each file has one stripe, so it lies on one OST. The OSTs of a folder's files are chosen
by Lustre (from all OSTs), by a pool that the site has made, or by us (a list of OST
indices). In the last case each OST has a hidden folder whose new files lie on it. A
file written there is renamed to its place, which does not change its OST.
"""

import os
import random
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tierscope.core.files import os_errors_as
from tierscope.core.machine import Tier, TierError
from tierscope.data.tfrecord import TEMPORARY_PREFIX, make_directory

SAMPLE_SIZE = 64  # paths of one command line, which takes at most 256 KiB
SPREAD_SAMPLE_SIZE = 16  # fewer files may all lie on one of several OSTs by chance
TIMEOUT_S = 60
OST_FOLDER_PREFIX = ".ost-"
_FIELD = re.compile(r"\b(?:lmm_)?(stripe_count|stripe_offset|pool): +(\S+)")


@dataclass(frozen=True)
class Layout:
    """A plain layout, of a file or of a folder for its new files.

    `ost` has the first stripe; -1 for a folder whose files Lustre distributes.
    """

    stripe_count: int
    ost: int
    pool: str | None = None

    def __str__(self):
        ost = "any OST" if self.ost == -1 else f"OST {self.ost}"
        pool = f"pool {self.pool}" if self.pool else "no pool"
        return f"stripe count {self.stripe_count}, {ost}, {pool}"


class StripedFolder:
    """A dataset folder on Lustre and the OSTs of its files.

    Parameters
    ----------
    folder : Path
        Existing folder.
    tier : Tier
        Tier of kind `lustre` with `n_osts` and `pools`.
    n_osts : int
        Number of OSTs over which the files must be spread.
    """

    def __init__(self, folder: Path, tier: Tier, n_osts: int):
        self._folder, self._n_osts = folder, n_osts
        target = {str(count): osts for count, osts in (tier.pools or {}).items()}
        defaults = {"1": [0], str(tier.n_osts): None}
        if str(n_osts) not in (known := defaults | target):
            raise TierError(
                f"{n_osts} OSTs need an OST pool or a list of OSTs: add it to "
                f"gfs.pools of the system file (now: {target or 'none'})."
            )
        osts = known[str(n_osts)]
        self._pool = osts if isinstance(osts, str) else None
        self._osts = None if osts is None or self._pool else tuple(osts)

    def prepare(self, file_names: Sequence[str]) -> list[Path]:
        """Set the striping if there are no files yet; check that of existing files.

        Parameters
        ----------
        file_names : sequence of str
            Name of each file; its position is its id.

        Returns
        -------
        list of Path
            Folders in which files are written before they are renamed to their place,
            file i in folder i modulo their number; empty if no such folders are needed.

        Raises
        ------
        TierError
            With the message of the command, for example if this is not Lustre; or if
            the existing files have another layout.
        """
        self.remove_ost_folders()
        present = set(os.listdir(self._folder))
        file_ids = [i for i, name in enumerate(file_names) if name in present]
        if file_ids:
            self._check_sample(file_names, file_ids)
        if self._osts and len(self._osts) > 1:
            folders = [self._folder / f"{OST_FOLDER_PREFIX}{ost}" for ost in self._osts]
            for ost, folder in zip(self._osts, folders, strict=True):
                make_directory(folder)
                _set_layout(folder, Layout(1, ost))
            return folders
        layout = Layout(1, self._osts[0] if self._osts else -1, self._pool)
        if file_ids:
            _check_layout(self._folder, layout)
        else:
            _set_layout(self._folder, layout)
        return []

    def stripe_files(self) -> None:
        """Stripe each new file of the folder over all its OSTs.

        Raises
        ------
        TierError
            With the message of the command; or if the OSTs are a list of several,
            because only a pool can name them, not a stripe count.
        """
        if self._osts and len(self._osts) > 1:
            raise TierError(
                f"{self._folder}: one file over the OSTs {list(self._osts)} needs an "
                "OST pool in gfs.pools of the system file."
            )
        ost = self._osts[0] if self._osts else -1
        _set_layout(self._folder, Layout(self._n_osts, ost, self._pool))

    def remove_ost_folders(self) -> None:
        """Remove the folders that `prepare` made, including those of a killed run."""
        for folder in self._folder.glob(f"{OST_FOLDER_PREFIX}*"):
            with os_errors_as(TierError, f"{folder}: cannot remove it"):
                for temporary in folder.glob(f"{TEMPORARY_PREFIX}*"):
                    temporary.unlink()
                folder.rmdir()

    def find_osts(self, file_names: Sequence[str]) -> list[int]:
        """Return the OST of each file, -1 where it is not known, and check a sample.

        Raises
        ------
        TierError
            If a file of the sample has another layout than requested, or the sample
            lies on too many or too few OSTs.
        """
        sample = self._check_sample(file_names, range(len(file_names)))
        if self._osts:
            return [self._wanted_ost(i) for i in range(len(file_names))]
        return [sample.get(i, -1) for i in range(len(file_names))]

    def _wanted_ost(self, file_id: int) -> int:
        """Return the OST that a list of OSTs gives a file."""
        return self._osts[file_id % len(self._osts)]

    def _check_sample(
        self, file_names: Sequence[str], file_ids: Sequence[int]
    ) -> dict[int, int]:
        """Check the layouts of a sample of these files; return their OSTs by id."""
        size = min(len(file_ids), SAMPLE_SIZE)
        sample = sorted(random.Random(0).sample(file_ids, size))
        paths = [self._folder / file_names[i] for i in sample]
        osts = {}
        for file_id, path, layout in zip(
            sample, paths, _read_layouts(paths), strict=True
        ):
            ost = self._wanted_ost(file_id) if self._osts else layout.ost
            _compare(path, layout, Layout(1, ost, self._pool))
            osts[file_id] = layout.ost
        if not self._osts:
            self._check_spread(len(set(osts.values())), size)
        return osts

    def _check_spread(self, n_found: int, n_files: int) -> None:
        """Refuse a sample on more OSTs than requested, or on far fewer."""
        fewest = 1
        if self._n_osts > 1 and n_files >= SPREAD_SAMPLE_SIZE:
            by_chance = self._n_osts * (1 - (1 - 1 / self._n_osts) ** n_files)
            fewest = max(2, round(by_chance / 2))
        if not fewest <= n_found <= self._n_osts:
            raise TierError(
                f"{self._folder}: a sample of {n_files} files lies on {n_found} OSTs, "
                f"expected {fewest} to {self._n_osts}."
            )


def _set_layout(folder: Path, layout: Layout) -> None:
    """Set the layout of a folder's new files and check that it took effect."""
    where = ["-p", layout.pool] if layout.pool else ["-i", str(layout.ost)]
    _lfs("setstripe", "-c", str(layout.stripe_count), *where, paths=[folder])
    _check_layout(folder, layout)


def _check_layout(folder: Path, expected: Layout) -> None:
    """Refuse a folder whose new files would have another layout."""
    text = _lfs("getstripe", "-d", paths=[folder])
    _compare(folder, _parse_layout(text, folder), expected)


def _compare(path: Path, layout: Layout, expected: Layout) -> None:
    """Refuse another layout than expected."""
    if layout != expected:
        raise TierError(
            f"{path}: lfs getstripe reports {layout}; expected {expected}. If this "
            "dataset was made with other striping, remove its folder."
        )


def _read_layouts(paths: Sequence[Path]) -> list[Layout]:
    """Return the layout of each of some files."""
    blocks = {str(path): [] for path in paths}
    lines = []
    for line in _lfs("getstripe", paths=paths).splitlines():
        if line in blocks:
            lines = blocks[line]
        else:
            lines.append(line)
    return [_parse_layout("\n".join(blocks[str(path)]), path) for path in paths]


def _parse_layout(text: str, path: Path) -> Layout:
    """Return the layout that `lfs getstripe` printed of one file or folder."""
    fields = _FIELD.findall(text)
    values = dict(fields)
    try:
        if len(values) < len(fields):  # once for each component
            raise ValueError
        return Layout(
            int(values["stripe_count"]),
            int(values["stripe_offset"]),
            values.get("pool"),
        )
    except (KeyError, ValueError):
        words = " ".join(text.split())[:400]
        raise TierError(
            f"{path}: lfs getstripe reports {words!r}, expected one plain layout "
            "(stripe_count, stripe_offset)."
        ) from None


def _lfs(*arguments: str, paths: Sequence[Path]) -> str:
    """Run `lfs` and return its output; raise its message as a TierError if it fails."""
    command = f"lfs {' '.join(arguments)} {paths[0]}"
    if len(paths) > 1:
        command += f" (and {len(paths) - 1} more)"
    try:
        process = subprocess.Popen(
            ["lfs", *arguments, *map(str, paths)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
    except FileNotFoundError:
        raise TierError(
            f"{command}: command lfs not found; kind lustre needs the Lustre client."
        ) from None
    except OSError as error:
        raise TierError(f"{command}: cannot run it: {error.strerror}.") from error
    try:
        output, errors = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()  # not waited for: it may hang in the kernel
        raise TierError(f"{command}: no answer for {TIMEOUT_S} s.") from None
    if process.returncode:
        words = " ".join((errors or output).split())
        raise TierError(f"{command}: exit code {process.returncode}: {words}")
    return output
