"""What an accelerator, which is one process, reads and computes."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from tierscope.core.description import (
    PYTORCH,
    STEP,
    FileSizes,
    LoaderSettings,
    RunDescription,
    Training,
)
from tierscope.core.given.keys import Seconds, above, from_to, rules
from tierscope.core.machine import Machine
from tierscope.core.scenario import Dataset, Scenario
from tierscope.core.validation import ConfigError, read_presets
from tierscope.experiment.designs.dlio import read_workload_file
from tierscope.experiment.designs.dlio_loaders import TF_DATA
from tierscope.experiment.designs.measured import read_results

_MOST_BYTES = 1 << 40
_Some = Annotated[int, from_to(1, 1024)]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A workload of `resources/workloads.yaml`, of a file of DLIO, or measured."""

    name: str
    n_files: Annotated[
        int,
        from_to(1, 1_000_000_000),
        "Files of the dataset with `dataset fixed`; one sample a file.",
    ]
    file_size_bytes: Annotated[
        int, from_to(64, _MOST_BYTES), "Size of a file, or its mean, in bytes."
    ]
    file_size_stdev_bytes: Annotated[
        int,
        from_to(0, _MOST_BYTES),
        "Standard deviation of the sizes, which are normally distributed, in bytes. "
        "Default 0.",
    ] = 0
    file_size_least_bytes: Annotated[
        int,
        from_to(1, _MOST_BYTES),
        "Smallest size; it replaces smaller ones that are drawn. Default 1.",
    ] = 1
    batch_size: Annotated[
        int, from_to(1, 1_000_000), "Samples that an accelerator takes per step."
    ]
    compute_time_s: Annotated[
        float,
        above(0, 86400),
        "Time that an accelerator computes per step, in seconds. A workload without it "
        "needs `designs.compute_time_s` of the configuration.",
    ] = 0.0
    compute_time_stdev_s: Annotated[
        Seconds,
        "Standard deviation of that time from step to step and from accelerator to "
        "accelerator, which is normally distributed; a time below 0 counts as 0. "
        "Default 0.",
    ] = 0.0
    buffer_bytes: Annotated[
        int,
        from_to(0, _MOST_BYTES),
        "Largest read call, which is cut into requests of the storage; 0, the default, "
        "reads a file in one call.",
    ] = 0
    loader: Annotated[
        Literal["pytorch", "tensorflow"],
        "`pytorch` reads by the rule of PyTorch's `DataLoader`. `tensorflow` with one "
        "worker reads by that of `tf.data` with one reader. `tensorflow` with several "
        "and batches of one sample is the interleave of `tf.data`: sample s is read by "
        "thread s mod `workers`, which is the rule of the `DataLoader`, too.",
    ]
    workers: Annotated[_Some, "Workers, or read threads, of a process."]
    prefetch_factor: Annotated[
        _Some, "Batches that each worker may have read before they are taken."
    ]
    utilisation_percent: Annotated[
        float, from_to(1, 100), "Accelerator utilisation (AU) to reach, in percent."
    ]
    source: Annotated[
        str,
        rules(minLength=1),
        "Where these numbers come from, and what is assumed.",
    ]

    @property
    def compute_time(self) -> float | dict[str, Any]:
        """Return the time of a step, in seconds, or its distribution."""
        if not self.compute_time_stdev_s:
            return self.compute_time_s
        return {
            "distribution": "normal",
            "mean_s": self.compute_time_s,
            "stdev_s": self.compute_time_stdev_s,
        }

    @property
    def computed(self) -> str:
        """Return how that time is known, by the last words of the source on it."""
        words = re.findall("; computation (measured|declared)", self.source)
        return ["declared", *words][-1]

    @property
    def sizes(self) -> FileSizes | None:
        """Return how the sizes of files vary, None if they do not."""
        if not self.file_size_stdev_bytes:
            return None
        return FileSizes(
            self.file_size_bytes, self.file_size_stdev_bytes, self.file_size_least_bytes
        )

    @property
    def depth(self) -> int:
        """Return how many batches may be ready, or read, before one is taken."""
        return self.workers * self.prefetch_factor

    def description(self, machine: Machine, seed: int) -> RunDescription:
        """Return what processes of a machine read, for the simulator.

        The interleave of `tf.data`, of batches of one sample, has the rule of PyTorch's
        `DataLoader`: sample s is read by thread s mod `workers`.
        """
        loader = PYTORCH if self.workers > 1 else self.loader
        return RunDescription(
            source="simulated",
            system=machine,
            dataset=Dataset(
                self.name, self.n_files, self.file_size_bytes, self.batch_size
            ),
            scenario=Scenario(
                self.name, machine.devices["gfs"]["n_osts"], "pinning", loader
            ),
            training=Training(
                epochs=1,
                shuffle="global",
                seed=seed,
                compute_time_s=self.compute_time,
                synchronise=STEP,
            ),
            loader=LoaderSettings(
                prefetch_batches=self.depth,
                buffer_bytes=self.buffer_bytes,
                workers=self.workers,
                prefetch_factor=self.prefetch_factor,
            ),
            runtime="auto",
        )


def read_workloads(
    names: Iterable[str],
    compute_time_s: Mapping[str, float],
    folders: Iterable[str | Path],
) -> tuple[Workload, ...]:
    """Return workloads of files `workloads.yaml` in some folders, of DLIO, or measured.

    Parameters
    ----------
    names : iterable of str
        Their names, paths of workload files of DLIO, or folders of results.
    compute_time_s : mapping of str to float
        Compute times of steps, of any workloads, that replace those of the files.
    folders : iterable of path
        Earlier folders take precedence.

    Raises
    ------
    ConfigError
        If a workload is not known, or reads by a rule that the simulator does not know.
    """
    names, known = list(names), read_presets(folders, "workloads")
    for place, path in enumerate(names):
        if path not in known and (read := _reader_of(path)):
            names[place], values = read(path)
            known[names[place]] = values
            if names.count(names[place]) > 1:
                raise ConfigError(
                    f"config: designs.workloads: got {path!r}, whose name is that "
                    "of another workload, expected a file of another name"
                )
    for where, given in (("workloads", names), ("compute_time_s", compute_time_s)):
        if unknown := [name for name in given if name not in known]:
            raise ConfigError(
                f"config: designs.{where}: got {unknown[0]!r}, expected some of "
                f"{', '.join(known)}"
            )
    return tuple(_workload(name, known[name], compute_time_s) for name in names)


def _reader_of(path: str) -> Callable[[str], tuple[str, dict[str, Any]]] | None:
    """Return what reads a file or folder as a workload; None: it is a name."""
    if path.endswith((".yaml", ".yml")):
        return read_workload_file
    return read_results if Path(path).is_dir() or "/" in path else None


def _workload(
    name: str, values: Mapping[str, Any], compute_time_s: Mapping[str, float]
) -> Workload:
    """Return a workload of a file, with the configuration's compute time."""
    values = dict(values)
    if name in compute_time_s:
        values |= {"compute_time_s": compute_time_s[name], "compute_time_stdev_s": 0}
        values["source"] += "; computation declared"
    workload = Workload(name=name, **values)
    if workload.file_size_least_bytes > workload.file_size_bytes:
        raise ConfigError(
            f"workload {name}: file_size_least_bytes: got "
            f"{workload.file_size_least_bytes}, expected at most the mean size "
            f"{workload.file_size_bytes}"
        )
    is_interleave = workload.loader == TF_DATA and workload.workers > 1
    if is_interleave and workload.batch_size > 1:
        raise ConfigError(
            f"workload {name}: got loader tensorflow with {workload.workers} workers "
            f"and batches of {workload.batch_size}, expected one worker or batches of "
            "1: the simulator knows no other interleave"
        )
    return workload
