"""Generate a dataset on the global file system and write its manifest."""

import os

import numpy as np
import pandas as pd
from tierscope.benchmark.rank import Terminated, terminate_by_exception
from tierscope.core.files import log_to, write_back
from tierscope.core.machine import Tier, TierError
from tierscope.core.output.streams import ending_on
from tierscope.core.scenario import Dataset
from tierscope.core.tables import write_table
from tierscope.data.tfrecord import (
    DatasetError,
    ProgressLine,
    generate_dataset,
    make_directory,
)
from tierscope.experiment.slurm import note_job
from tierscope.storage.lease import NAME, LeaseError, held
from tierscope.storage.own_folder import FolderError, check_way
from tierscope.storage.page_cache import drop_pages
from tierscope.storage.parallel.glusterfs import find_bricks
from tierscope.storage.parallel.lustre import StripedFolder


def make_manifest(dataset: Dataset, n_osts: int, osts: np.ndarray) -> pd.DataFrame:
    """Return the table `manifest` of a dataset with files on these OSTs."""
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


def generate(
    dataset: Dataset,
    tier: Tier,
    n_osts: int,
    n_object_servers: int | None,
    n_workers: int,
) -> pd.DataFrame:
    """Write the missing files of a dataset and return its table `manifest`.

    On an emulated GFS a file's OST is its object server; the device emulator assigns
    files to object servers in turn. On GlusterFS it is the brick (`find_bricks`).
    """
    folder = tier.data_root() / dataset.directory(n_osts)
    names = [dataset.file_name(i) for i in range(dataset.n_files)]
    make_directory(folder)
    check_way(folder)  # the root may be a folder of all users
    striped = StripedFolder(folder, tier, n_osts) if tier.kind == "lustre" else None
    with held(folder / NAME, "the generation of this dataset"):
        try:
            generate_dataset(
                folder,
                names,
                dataset.file_size_bytes,
                n_workers,
                ProgressLine(folder.name, dataset.file_size_bytes),
                striped.prepare(names) if striped else (),
            )
        finally:
            if striped:
                striped.remove_ost_folders()
    write_back(folder)
    if tier.kind != "emulated":  # whose device charges for cached files, too
        drop_pages(os.path.join(folder, name) for name in names)
    osts = np.full(dataset.n_files, -1)
    if striped:
        osts = np.array(striped.find_osts(names))
    elif tier.kind == "emulated":
        osts = np.arange(dataset.n_files) % n_object_servers
    elif tier.kind == "directory":
        osts = np.array(find_bricks(folder, names, n_osts))
    return make_manifest(dataset, n_osts, osts)


if __name__ == "__main__":
    log_to(snakemake.log[0])
    note_job(snakemake.resources.get("batch_jobs"))
    terminate_by_exception()
    with ending_on(DatasetError, FolderError, LeaseError, Terminated, TierError):
        manifest = generate(
            Dataset(**snakemake.params.dataset),
            Tier(**snakemake.params.tier),
            snakemake.params.n_osts,
            snakemake.params.n_object_servers,
            snakemake.threads,
        )
    write_table(manifest, snakemake.output.manifest, "manifest")
