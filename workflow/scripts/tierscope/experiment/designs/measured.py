"""What a program or an experiment reads and computes, by its results."""

from pathlib import Path
from typing import Any

from tierscope.core.description import Run
from tierscope.core.validation import ConfigError
from tierscope.core.words import count_words
from tierscope.experiment.designs.dlio import read_workload_file, workload_name
from tierscope.experiment.designs.dlio_loaders import LOADERS

_PERCENT = 90  # of the time: MLPerf Storage's goal of most workloads
_ASSUMED = "assumed: on other nodes each rank reads alike, its share of the files"


def read_results(folder: str) -> tuple[str, dict[str, Any]]:
    """Return a workload's name and its values as `resources/workloads.yaml` has them.

    Parameters
    ----------
    folder : str
        Results of `tierscope sweep`, which have a workload file of DLIO, or of an
        experiment, whose runs say it.

    Raises
    ------
    ConfigError
        One line that names the folder, if there is not one workload.
    """
    files = sorted(Path(folder).glob("dlio/workload/*.yaml"))
    found = [read_workload_file(str(path)) for path in files]
    found = found or [_of_run(path) for path in runs_of(folder)]
    if len({name for name, _ in found}) != 1:
        names = "with " + (", ".join(name for name, _ in found) or "no runs")
        names = names if Path(folder).is_dir() else "no such folder"
        raise ConfigError(
            f"config: designs.workloads: got {folder!r}, {names}, expected the "
            "folder of the results of one program or dataset, or a workload file in it"
        )
    name, values = found[0]
    words = ["computation measured; "] * bool(files)
    words += [f"{node_words(path)}; " for path in runs_of(folder)[:1]]
    return name, {**values, "source": f"{values['source']}; {''.join(words)}{_ASSUMED}"}


def node_words(path: Path) -> str:
    """Return in words how many processes a run had on each node."""
    n = Run.read(path).system.processes_per_node
    return f"measured with {count_words(n, 'process')} a node"


def runs_of(folder: str) -> list[Path]:
    """Return the `run.json` of a run of each scenario of some results."""
    scenarios = Path(folder).glob("runs/*")
    runs = [next(one.glob("cache-*/rep-*/run.json"), None) for one in scenarios]
    return sorted(filter(None, runs))


def _of_run(path: Path) -> tuple[str, dict[str, Any]]:
    """Return what a run of an experiment read."""
    run = Run.read(path)
    settings, computation = run.loader, {}
    if (compute := run.training.compute_time).mean_s:
        computation["compute_time_s"] = compute.mean_s
        computation["compute_time_stdev_s"] = compute.stdev_s
    if not (rule := LOADERS.get(run.scenario.loader)) or settings.read_threads > 1:
        raise ConfigError(
            f"{path}: got loader {run.scenario.loader} with {settings.read_threads} "
            f"read threads, expected {' or '.join(LOADERS)} with one, or a program's "
            "dlio/workload/*.yaml beside runs"
        )
    loads = rule.of_program(
        settings.workers, settings.prefetch_factor, settings.prefetch_batches
    )
    return workload_name(run.dataset.name), {
        "n_files": run.dataset.n_files,
        "file_size_bytes": run.dataset.file_size_bytes,
        "batch_size": run.dataset.batch_size,
        **computation,
        "loader": rule.name,
        **loads,
        "buffer_bytes": settings.buffer_bytes,
        "utilisation_percent": _PERCENT,
        "source": f"{run.source} run {path}; assumed: an AU of {_PERCENT} % to reach",
    }
