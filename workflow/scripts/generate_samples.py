"""Generate the labelled samples of the accuracy study, one file per sample."""

from pathlib import Path

from tierscope.core.files import log_to
from tierscope.core.output.streams import ending_on
from tierscope.data.labelled_samples import PARTS, Distribution, write_samples
from tierscope.data.tfrecord import DatasetError

if __name__ == "__main__":
    log_to(snakemake.log[0])
    distribution = Distribution(snakemake.params.n_classes, snakemake.params.seed)
    with ending_on(DatasetError):
        for part in PARTS:
            n_files = snakemake.params.n_files[part]
            features, labels = distribution.draw(n_files, part)
            write_samples(Path(snakemake.output.samples, part), features, labels)
            print(f"{part}: {n_files} files of {distribution.n_classes} classes")
