"""Made-up descriptions of runs, for tests: what differs from a default is named."""

from dataclasses import is_dataclass, replace
from typing import Any

from tierscope.core.description import Run, RunDescription

DEFAULTS = {
    "source": "measured",
    "system": {
        "name": "made-up",
        "n_nodes": 1,
        "processes_per_node": 1,
        "virtual_nodes": False,
        "gfs": {"name": "gfs", "kind": "directory", "root": "/gfs"},
        "lfs": {"name": "lfs", "kind": "directory", "root": "/lfs"},
    },
    "dataset": {"name": "tiny", "n_files": 8, "file_size_bytes": 100, "batch_size": 2},
    "scenario": {
        "dataset": "tiny",
        "n_osts": 1,
        "policy": "pinning",
        "loader": "posix",
    },
    "training": {"epochs": 2, "shuffle": "global", "seed": 1, "compute_time_s": 0},
    "loader": {"read_threads": 1, "prefetch_batches": 2, "buffer_bytes": 0},
    "darshan": {"runtime": "builtin"},
}
# A scenario in a table of results.
SCENARIO = {
    "source": "simulated",
    "system": "pencil",
    "dataset": "small",
    "n_osts": 60,
    "policy": "pinning",
    "loader": "tensorflow",
}
# What differs if a program of the user reads.
OF_PROGRAMS = {
    "dataset": {"name": "mine", "path": "/mine"},
    "scenario": {
        "dataset": "mine",
        "n_osts": 0,
        "policy": "pinning",
        "loader": "program",
    },
    "training": {"seed": 1, "cold": False},
    "program": {"command": ["train", "{dataset}"], "in_place": False},
}
RUN = {"point": {"cache_rate_percent": 0, "repetition": 0}, "tier_roots": {}}


def describe_scenario(**sections: Any) -> RunDescription:
    """Return a description; sections have the form of `scenario.json`."""
    return RunDescription.from_json(_content(sections))


def describe_run(**sections: Any) -> Run:
    """Return a run of the default's one process; sections as in `run.json`."""
    content = RUN | _content(sections)
    system = content["system"]
    n_processes = system["n_nodes"] * system["processes_per_node"]
    return Run.from_json({"n_processes": n_processes} | content)


def changed(description: RunDescription, **sections: Any) -> RunDescription:
    """Return a description with other values of some keys of its sections."""
    parts = {}
    for name, values in sections.items():
        part = getattr(description, name)
        if is_dataclass(part):
            parts[name] = replace(part, **values)
        else:
            merges = isinstance(part, dict) and isinstance(values, dict)
            parts[name] = {**part, **values} if merges else values
    return replace(description, **parts)


def _content(sections: dict[str, Any]) -> dict[str, Any]:
    """Return the defaults with other values of some keys."""
    defaults = DEFAULTS | (OF_PROGRAMS if "program" in sections else {})
    content = defaults | sections
    for name, values in sections.items():
        if isinstance(values, dict):
            content[name] = defaults.get(name, {}) | values
    return content
