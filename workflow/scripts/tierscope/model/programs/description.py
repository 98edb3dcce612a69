"""The description of a program for the models: that of the loader that loads alike.

The order of a program's files is not known in advance, so the models draw one from the
seed. All files have the mean size, and lie on all OSTs that the system's devices have.
What else a run takes its time for comes from ideal runs, whose files are all in memory:

- computation a step: from when the program got a batch to when it asked for the next,
  or the time of its device, if that was seen; without the first step;
- processor time a sample: fetching a batch as PyTorch's `DataLoader` does it, less its
  I/O time, without the first fetch of each process; or from the open of a file to the
  next open, less the I/O time between;
- the warm-up of an epoch: what its first step takes longer than a usual one;
- the rest of an epoch: what passes outside of the loop, such as validation, and what
  the first batch takes longer than its samples, such as the start of workers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from tierscope.core.description import (
    EPOCH,
    PYTORCH,
    STEP,
    LoaderSettings,
    ProbedStorage,
    RunDescription,
)
from tierscope.core.machine import Machine
from tierscope.core.scenario import Dataset
from tierscope.core.validation import read_json
from tierscope.core.words import size_words
from tierscope.model.programs.facts import (
    ProgramFacts,
    SeenRun,
    program_facts,
    refuse,
)
from tierscope.model.programs.ideal_times import IdealTimes, ideal_times
from tierscope.storage.probes import choose_files, why_not_probed
from tierscope.storage.queueing_network import ModelError

_VARY_PERCENT = 10  # sizes that differ less are not worth a sentence


@dataclass(frozen=True)
class ModelledProgram:
    """A program as the models know it.

    Parameters
    ----------
    description : RunDescription
        Settings of its runs, with the loader of ours that loads alike.
    rest_s : tuple of float
        What each epoch takes in addition to what is simulated, in seconds.
    words : str
        What the models take it for.
    """

    description: RunDescription
    rest_s: tuple[float, ...]
    words: str

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Return what a file of `as_json` holds."""
        content = read_json(path)
        description = RunDescription.from_json(content["description"])
        return cls(description, tuple(content["rest_s"]), content["words"])

    def as_json(self) -> dict[str, Any]:
        """Return the content of a file, ready for JSON."""
        return vars(self) | {"description": self.description.as_json()}

    def whole_epochs(self, predicted: pd.DataFrame) -> pd.DataFrame:
        """Return predictions with the rest of each epoch, and with its warm-up.

        `predicted` is what `tierscope.model.predict.predict` returns.
        """
        warmup_s = self.description.training.compute_time.warmup_s
        rest_s, warmup_s = (
            predicted["epoch"].map(dict(enumerate(times_s)))
            for times_s in (self.rest_s, warmup_s)
        )
        execution_s = predicted["execution_time_s"] + rest_s
        return predicted.assign(
            execution_time_s=execution_s, warmup_s=warmup_s.where(execution_s.notna())
        )

    def measured(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return a table of runs or probes, as of the loader that loads alike."""
        keys = self.description.scenario.keys
        return table.assign(
            **{key: keys[key] for key in ("loader", "n_osts") if key in table}
        )


def model_program(
    described: RunDescription,
    runs: Sequence[SeenRun],
    ideal: Sequence[SeenRun],
    sizes: np.ndarray,
    between_s: np.ndarray,
) -> ModelledProgram:
    """Return a program as the models know it.

    Parameters
    ----------
    described : RunDescription
        Settings of its runs, with the devices of the system.
    runs, ideal : sequence of SeenRun
        Runs of its sweep, and its ideal runs.
    sizes : ndarray of int, shape (n_files,)
        Bytes of each file of the dataset.
    between_s : ndarray of float, shape (n_times,)
        Times between reads of the ideal runs (`times_between_reads`), in seconds.

    Raises
    ------
    ModelError
        If the models do not know how the program loads, or a time is not known.
    """
    facts = program_facts([*runs, *ideal], sizes)
    times = ideal_times(ideal, between_s, facts.batch_size)
    loads, sample_s, overlaps = _beside_devices(facts, times)
    dataset = Dataset(
        described.dataset.name, len(sizes), round(sizes.mean()), facts.batch_size
    )
    system = _machine(described.system, facts, sample_s, ideal[0])
    probed, not_probed = _probed(described, sizes)
    n_osts = system.devices["gfs"]["n_osts"]
    description = replace(
        described,
        system=system,
        dataset=dataset,
        scenario=replace(described.scenario, loader=facts.loader, n_osts=n_osts),
        training=replace(
            described.training,
            epochs=facts.n_epochs,
            shuffle="global",
            compute_time_s=times.compute_time,
            synchronise=STEP if facts.in_steps and facts.n_ranks > 1 else EPOCH,
        ),
        loader=LoaderSettings(
            prefetch_batches=loads.prefetch_batches,
            workers=loads.workers,
            prefetch_factor=loads.prefetch_factor,
        ),
        program=None,
        probed=probed,
    )
    words = f"The program {facts.words}. {times.words}{overlaps}"
    words += f"{_size_words(sizes)}{not_probed}"
    return ModelledProgram(description, times.rest_s, words)


def _beside_devices(
    facts: ProgramFacts, times: IdealTimes
) -> tuple[ProgramFacts, float, str]:
    """Return how it loads, its processor time of a sample, and what it overlaps."""
    if facts.loader != PYTORCH or facts.workers or not times.launch_s:
        return facts, times.sample_s, ""
    words = " It fetches a batch while its device computes the one before."
    launch_s = times.launch_s / facts.batch_size
    # It fetches as one worker would, and launches a step before each fetch.
    alike = replace(facts, workers=1, prefetch_factor=1)
    return alike, times.sample_s + launch_s, words


def _machine(
    system: Machine, facts: ProgramFacts, sample_s: float, seen: SeenRun
) -> Machine:
    """Return the machine with the ranks of a program, and its processor time."""
    if system.devices is None:
        raise ModelError(
            f"system {system.name} has no devices, expected them in its file: they "
            "describe its storage."
        )
    if facts.n_ranks % system.n_nodes:
        refuse(
            seen, f"{facts.n_ranks} ranks", f"as many on {system.n_nodes} nodes each"
        )
    devices = {**system.devices, "processor": {"sample_s": sample_s}}
    per_node = facts.n_ranks // system.n_nodes
    if per_node != system.processes_per_node:  # as ranks of torchrun: all of a node
        devices["lfs"] = {**devices["lfs"], "processes_per_server": per_node}
    return replace(system, processes_per_node=per_node, devices=devices)


def _probed(
    described: RunDescription, sizes: np.ndarray
) -> tuple[ProbedStorage | None, str]:
    """Return what the storage is probed with, or a sentence that it cannot be."""
    system = described.system
    chosen = choose_files(described.dataset.name, sizes, system.n_processes)
    if chosen is None:
        reason = why_not_probed(sizes, system.n_processes)
        return None, f" The storage is not probed: {reason}."
    in_group = system.devices["lfs"]["processes_per_server"]
    return ProbedStorage(chosen.dataset, system.processes_per_node, in_group), ""


def _size_words(sizes: np.ndarray) -> str:
    """Return a sentence on files of different sizes."""
    vary_percent = 100 * sizes.std() / sizes.mean()
    if vary_percent < _VARY_PERCENT:
        return ""
    return (
        f" Sizes of files vary by {vary_percent:.0f} %; the models take their mean, "
        f"{size_words(sizes.mean())}."
    )


def read_model_description(
    content: Mapping[str, Any], program: Sequence[str]
) -> tuple[RunDescription, ModelledProgram | None]:
    """Return the description of a scenario for models, and its program if it has one.

    Parameters
    ----------
    content : mapping
        The description (`RunDescription.as_json`).
    program : sequence of path
        The file of a `ModelledProgram` that replaces it, or none.
    """
    if not program:
        return RunDescription.from_json(content), None
    modelled = ModelledProgram.read(program[0])
    return modelled.description, modelled
