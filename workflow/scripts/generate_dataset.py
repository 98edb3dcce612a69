"""Generate a dataset on the global file system and write its manifest."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from tierscope.config import Dataset
from tierscope.dataset import ProgressLine, generate_dataset, make_directory
from tierscope.tables import write_table
from tierscope.tiers import Tier
from tierscope.tiers.lustre import sample_osts, stripe_directory


def make_manifest(dataset: Dataset, n_osts: int, osts: np.ndarray) -> pd.DataFrame:
    """Return the table `manifest` of a dataset whose files lie on these OSTs."""
    file_ids = np.arange(dataset.n_files)
    folder = dataset.directory(n_osts)
    return pd.DataFrame(
        {
            "file_id": file_ids,
            "path": [f"{folder}/{dataset.file_name(i)}" for i in file_ids],
            "size_bytes": dataset.file_size_bytes,
            "ost": osts,
        }
    )


def find_osts(
    tier: Tier,
    folder: Path,
    dataset: Dataset,
    n_osts: int,
    n_object_servers: int | None,
) -> np.ndarray:
    """Return the OST of each file, -1 where it is not known.

    On an emulated GFS that is the object server, to which the device emulator
    deals files in turn.
    """
    osts = np.full(dataset.n_files, -1)
    if tier.kind == "emulated":
        osts = np.arange(dataset.n_files) % n_object_servers
    elif tier.kind == "lustre":
        files = [folder / dataset.file_name(i) for i in range(dataset.n_files)]
        for file_id, ost in sample_osts(files, n_osts).items():
            osts[file_id] = ost
    return osts


if __name__ == "__main__":
    dataset = Dataset(**snakemake.params.dataset)
    tier = Tier(**snakemake.params.tier)
    n_osts = snakemake.params.n_osts
    folder = tier.data_root() / dataset.directory(n_osts)
    make_directory(folder)
    if tier.kind == "lustre" and not any(folder.iterdir()):
        stripe_directory(folder, tier, n_osts)
    generate_dataset(
        folder,
        [dataset.file_name(i) for i in range(dataset.n_files)],
        dataset.file_size_bytes,
        snakemake.threads,
        ProgressLine(folder.name, dataset.file_size_bytes, sys.stderr),
    )
    osts = find_osts(tier, folder, dataset, n_osts, snakemake.params.n_object_servers)
    manifest = make_manifest(dataset, n_osts, osts)
    write_table(manifest, snakemake.output.manifest, "manifest")
