"""The files that probes use: those of a generated dataset, or some of a user's."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tierscope.benchmark.node_storage import check_apart, check_is_there
from tierscope.core.description import ProbeDescription
from tierscope.core.files import opened
from tierscope.core.machine import TierError
from tierscope.core.scenario import UserDataset
from tierscope.core.words import printable
from tierscope.data.tfrecord import generate_files, write_all
from tierscope.storage.probes import choose_files


@dataclass(frozen=True)
class GeneratedFiles:
    """The files of a generated dataset, which are made anew on the LFS.

    Parameters
    ----------
    description : ProbeDescription
        What is probed, with this dataset.
    """

    description: ProbeDescription

    @property
    def title(self) -> str:
        """Return the name of the dataset's folder."""
        return self.description.dataset.directory(self.description.n_osts)

    @property
    def root(self) -> Path:
        """Return the dataset's folder on the GFS."""
        return self.description.system.gfs.data_root() / self.title

    def check(self) -> None:
        """Refuse a dataset that is not there."""
        check_is_there(self.root)

    def name(self, tier: str, file_id: int) -> str:
        """Return the name of a file in its folder, the same on both tiers."""
        return self.description.dataset.file_name(file_id)

    def fill(self, folder: Path, file_ids: Sequence[int]) -> None:
        """Make files in a folder on the LFS."""
        dataset = self.description.dataset
        names = [dataset.file_name(file_id) for file_id in file_ids]
        generate_files(folder, names, file_ids, dataset.file_size_bytes)


@dataclass(frozen=True)
class UserFiles:
    """Some files of a user's dataset, which is only read; parts are copied to the LFS.

    Parameters
    ----------
    description : ProbeDescription
        What is probed; its dataset is as if these files were generated.
    root : Path
        The dataset's folder.
    names : sequence of str
        Path of each file below the folder.
    """

    description: ProbeDescription
    root: Path
    names: Sequence[str]

    @property
    def title(self) -> str:
        """Return the name of the dataset."""
        return self.description.dataset.name

    def check(self) -> None:
        """Refuse a dataset that is not there, or that overlaps with the LFS."""
        if not self.root.is_dir():
            raise TierError(
                f"{printable(str(self.root))}: got no folder, expected one."
            )
        check_apart(self.root, self.description.system.lfs.data_root().parent)

    def name(self, tier: str, file_id: int) -> str:
        """Return the name of a file in its folder; copies have numbers as names."""
        return self.names[file_id] if tier == "gfs" else str(file_id)

    def fill(self, folder: Path, file_ids: Sequence[int]) -> None:
        """Copy what is read of some files to a folder on the LFS."""
        size = self.description.dataset.file_size_bytes
        for file_id in file_ids:
            source = self.root / self.names[file_id]
            target = folder / self.name("lfs", file_id)
            try:
                _copy_begin(source, target, size)
            except OSError as error:
                raise TierError(
                    f"{printable(str(source))}: cannot be copied to {target}: "
                    f"{error.strerror or error}."
                ) from error


def _copy_begin(source: Path, target: Path, n_bytes: int) -> None:
    """Copy the first bytes of a file."""
    with open(source, "rb") as original:
        content = original.read(n_bytes)
    if len(content) < n_bytes:
        raise OSError(f"got {len(content)} bytes, expected {n_bytes} or more")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with opened(target, flags) as descriptor:
        write_all(descriptor, content)


def probed_files(
    description: ProbeDescription, manifest: Path
) -> GeneratedFiles | UserFiles | None:
    """Return the files that are probed, None if the user's dataset has too few.

    Parameters
    ----------
    description : ProbeDescription
        What is probed, with the dataset as it is configured.
    manifest : Path
        The manifest of the dataset; that of a user's is read.
    """
    if not isinstance(description.dataset, UserDataset):
        return GeneratedFiles(description)
    from tierscope.core.tables import read_table

    name, path = description.dataset.name, description.dataset.path
    listed = read_table(manifest, "user_manifest")
    sizes, n_processes = listed["size_bytes"], description.system.n_processes
    if (chosen := choose_files(name, sizes.to_numpy(), n_processes)) is None:
        return None
    return UserFiles(
        replace(description, dataset=chosen.dataset),
        Path(os.path.abspath(os.path.expanduser(path))),
        listed["path"].iloc[chosen.file_ids].tolist(),
    )
