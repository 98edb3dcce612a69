"""Write the manifest of a dataset that exists only in simulations."""

import numpy as np
from generate_dataset import make_manifest
from tierscope.core.files import log_to
from tierscope.core.scenario import Dataset
from tierscope.core.tables import write_table

if __name__ == "__main__":
    log_to(snakemake.log[0])
    dataset = Dataset(**snakemake.params.dataset)
    osts = np.arange(dataset.n_files) % snakemake.params.n_object_servers
    manifest = make_manifest(dataset, snakemake.params.n_osts, osts)
    write_table(manifest, snakemake.output.manifest, "manifest")
