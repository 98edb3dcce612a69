"""Write a dataset as one LMDB file on the global file system, and its manifest."""

import numpy as np
import pandas as pd
from tierscope.benchmark.rank import Terminated, terminate_by_exception
from tierscope.benchmark.sources.database import database_folder
from tierscope.core.files import log_to, write_back
from tierscope.core.machine import Tier, TierError
from tierscope.core.output.streams import ending_on
from tierscope.core.scenario import Dataset
from tierscope.core.tables import write_table
from tierscope.data.lmdb.file import DATA_FILE, generate_database, provenance_here
from tierscope.data.lmdb.layout import Provenance
from tierscope.data.tfrecord import (
    DatasetError,
    ProgressLine,
    make_directory,
)
from tierscope.experiment.slurm import note_job
from tierscope.storage.lease import NAME, LeaseError, held
from tierscope.storage.own_folder import FolderError, check_way
from tierscope.storage.page_cache import drop_pages
from tierscope.storage.parallel.lustre import StripedFolder


def make_manifest(
    dataset: Dataset, n_osts: int, provenance: Provenance
) -> pd.DataFrame:
    """Return the table `manifest` of a database; a record's id is its number."""
    path = f"{database_folder(dataset, n_osts)}/{DATA_FILE}"
    return pd.DataFrame(
        {
            "file_id": np.arange(dataset.n_files),
            "path": path,
            "size_bytes": provenance.value_bytes,
            "ost": -1,
        }
    )


def generate(
    dataset: Dataset, tier: Tier, n_osts: int, records_per_commit: int
) -> pd.DataFrame:
    """Write a dataset as a database, unless it exists, and return its manifest.

    On Lustre the file is striped over as many OSTs as hold the files of other loaders.
    """
    folder = tier.data_root() / database_folder(dataset, n_osts)
    provenance = provenance_here(
        dataset.n_files, dataset.file_size_bytes, records_per_commit
    )
    make_directory(folder)
    check_way(folder)  # the root may be a folder of all users
    with held(folder / NAME, "the generation of this dataset"):
        if tier.kind == "lustre":
            StripedFolder(folder, tier, n_osts).stripe_files()
        progress = ProgressLine(folder.name, provenance.value_bytes, "records")
        generate_database(folder, provenance, progress)
    if tier.kind != "emulated":  # whose device charges for cached files, too
        write_back(folder)
        drop_pages([str(folder / DATA_FILE)])
    return make_manifest(dataset, n_osts, provenance)


if __name__ == "__main__":
    log_to(snakemake.log[0])
    note_job(snakemake.resources.get("batch_jobs"))
    terminate_by_exception()
    with ending_on(DatasetError, FolderError, LeaseError, Terminated, TierError):
        manifest = generate(
            Dataset(**snakemake.params.dataset),
            Tier(**snakemake.params.tier),
            snakemake.params.n_osts,
            snakemake.params.records_per_commit,
        )
    write_table(manifest, snakemake.output.manifest, "manifest")
