"""Simulate the paper's sweep in this process; print time, memory and work as JSON."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parse_log import peak_memory_mb
from snakemake.utils import update_config
from tierscope.core.validation import read_yaml
from tierscope.experiment.config import read_experiment
from tierscope.experiment.experiment import Experiment
from tierscope.model.simulator.run import simulate_reads, tables_of

ROOT = Path(__file__).parents[2]


def configured(name: str, changes: Mapping[str, Any] | None = None) -> Experiment:
    """Return the experiment of ``config/<name>.yaml``, with changes to it."""
    config = read_yaml(ROOT / "config" / "config.yaml")
    update_config(config, read_yaml(ROOT / "config" / f"{name}.yaml"))
    update_config(config, changes or {})
    return read_experiment(config, ROOT / "resources")


def main() -> None:
    """Simulate all runs and make their tables."""
    experiment = configured("fugaku-simulated")
    done = dict.fromkeys(("n_runs", "n_samples", "n_expected", "n_events"), 0)
    start = time.perf_counter()
    for scenario, points in experiment.sweep.items():
        description = experiment.description(scenario)
        n_epochs, n_files = description.training.epochs, description.dataset.n_files
        tables = []  # kept for a scenario, as the workflow does
        for point in points:
            reads = list(simulate_reads(description, point))
            tables.append(tables_of(description, point, reads))
            done["n_events"] += sum(one.epoch.n_events for one in reads)
        done["n_samples"] += sum(int(epochs["samples"].sum()) for _, epochs in tables)
        done["n_runs"] += len(tables)
        done["n_expected"] += len(points) * n_epochs * n_files
    done["seconds"] = time.perf_counter() - start
    print(json.dumps(done | {"peak_memory_mb": peak_memory_mb()}), flush=True)


if __name__ == "__main__":
    main()
