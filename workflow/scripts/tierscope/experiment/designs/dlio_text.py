"""A workload as a file of DLIO, which `dlio.read_workload_file` reads as it was."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tierscope.experiment.designs.dlio import LATER_NAMES
from tierscope.experiment.designs.dlio_loaders import LOADERS
from tierscope.experiment.designs.workloads import Workload


def workload_text(
    workload: Workload, head: str, epochs: int, assumed: Mapping[str, str]
) -> str:
    """Return the text of a file that DLIO 2.0.0 and its later versions read.

    Parameters
    ----------
    workload : Workload
        What an accelerator does; DLIO knows no least size of files.
    head : str
        What comments at the top say, in lines.
    epochs : int
        Epochs of a run.
    assumed : mapping of str to str
        What comments say beside values, by key.
    """
    loader = LOADERS[workload.loader]
    loads = (workload.workers, workload.prefetch_factor, workload.buffer_bytes)
    sizes_bytes = (workload.file_size_bytes, workload.file_size_stdev_bytes)
    renamed = dict(zip(LATER_NAMES, sizes_bytes, strict=True))
    content = {
        "model": {"name": workload.name},
        "workflow": {"generate_data": False, "train": True},
        "dataset": {
            "data_folder": f"data/{workload.name}",
            "format": loader.formats[0],
            "num_files_train": workload.n_files,
            "num_samples_per_file": 1,
            **renamed,
            **{LATER_NAMES[old]: n_bytes for old, n_bytes in renamed.items()},
        },
        "reader": {
            "data_loader": loader.name,
            "batch_size": workload.batch_size,
            **loader.written(*loads),
            "file_shuffle": "seed",
            "sample_shuffle": "seed",
        },
        "train": {
            "epochs": epochs,
            "computation_time": workload.compute_time_s,
            "computation_time_stdev": workload.compute_time_stdev_s,
        },
        "metric": {"au": workload.utilisation_percent / 100},
    }
    lines = [*(f"# {line}" for line in head.splitlines())]
    lines += [f"framework: {workload.loader}", *_lines(content, assumed)]
    return "".join(f"{line}\n" for line in lines)


def _lines(
    content: Mapping[str, Mapping[str, Any]], assumed: Mapping[str, str]
) -> Iterator[str]:
    """Yield the lines of sections."""
    for section, keys in content.items():
        yield f"{section}:"
        for key, value in keys.items():
            said = assumed.get(f"{section}.{key}")
            yield f"  {key}: {json.dumps(value)}" + (f"  # {said}" if said else "")
