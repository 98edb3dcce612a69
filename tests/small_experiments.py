"""Small experiments: emulated ones, and those of directories, simulators, programs."""

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

from snakemake.iocontainers import Wildcards
from snakemake.utils import update_config
from tierscope.core.validation import read_yaml
from tierscope.experiment.config import (
    defaults_of_programs,
    read_experiment,
    with_own_datasets,
)
from tierscope.experiment.experiment import Experiment
from tierscope.experiment.launches import missing_launches
from tierscope.experiment.planned.runs import Runs

ROOT = Path(__file__).parents[1]
SWEEP = {"datasets": ["small"], "cache_rates_percent": [0, 50], "repetitions": 1}
OF_SYSTEM = {"scale-model": 60, "scale-model-4x2": 60, "cluster": 1}
PROGRAM = {"command": ["python", "train.py", "{dataset}"]}


@cache
def _defaults() -> dict[str, Any]:
    return read_yaml(ROOT / "config" / "config.yaml")


def small_experiment(system="scale-model-4x2", sweep=(), **sections: Any) -> Experiment:
    """Return an experiment of one dataset at two cache rates, with these changes."""
    n_osts = OF_SYSTEM.get(system, 0)
    sweep = {**SWEEP, "n_osts": [n_osts], **dict(sweep)}
    shown = {"dataset": "small", "n_osts": n_osts}
    own = {"system": system, "sweep": sweep, "figures": {"scenario": shown}}
    update_config(own, sections)
    whole = deepcopy(_defaults())
    for one in (defaults_of_programs([own]), own):
        update_config(whole, one)
    return read_experiment(with_own_datasets(whole, [own]), ROOT / "resources")


def of_program(*policies: str, **sections: Any) -> Experiment:
    """Return an experiment of a program on two directories, under some policies."""
    sweep = {"policies": list(policies)} | sections.pop("sweep", {})
    sections = {"loader": PROGRAM} | sections
    if "pinning" not in policies:
        sections["figures"] = {"scenario": {"policy": policies[0]}}
    return small_experiment("one-process", sweep, **sections)


def runs_of(experiment: Experiment, results: Path | str = "results/x") -> Runs:
    """Return the runs of an experiment, of which those in a folder are not missing."""
    missing = missing_launches(experiment, Path(results))
    return Runs(experiment, str(results), missing)


def wildcards(**given: Any) -> Wildcards:
    """Return the wildcards of a rule."""
    return Wildcards(fromdict={name: str(one) for name, one in given.items()})
