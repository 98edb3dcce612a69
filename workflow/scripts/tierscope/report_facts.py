"""Say what was run, as groups of names and words: settings with their units."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.ticker import EngFormatter

_NAMES = {"ost": "OST", "osts": "OSTs", "mpi": "MPI"}


@dataclass(frozen=True)
class Run:
    """A run's `run.json` and its `audit.json`, None if it was not audited."""

    run: Mapping[str, Any]
    audit: Mapping[str, Any] | None


def distinct(words: Iterable[Any]) -> str:
    """Return the different words in their order, without empty ones."""
    return ", ".join(dict.fromkeys(str(word) for word in words if word))


def count_words(number: int, noun: str, ending: str = "s") -> str:
    """Return ``1 run`` or ``2 runs``; `ending` makes several of one."""
    return f"{number} {noun}" + ("" if number == 1 else ending)


def facts(
    experiment: str,
    description: str,
    runs: Sequence[Run],
    keys: pd.DataFrame,
    dataset_titles: Mapping[str, str],
) -> dict[str, dict[str, str]]:
    """Return what was run, as groups of names and words.

    Parameters
    ----------
    experiment, description : str
        Name of the experiment, and what its system is.
    runs : sequence of Run
        Where a setting differs between runs, all its values are given.
    keys : DataFrame
        The keys of all runs.
    dataset_titles : mapping of str to str
        What to call each dataset.
    """
    contents = [run.run for run in runs]
    rates = sorted(keys["cache_rate_percent"].unique())
    groups = {
        "Experiment": {
            "name": experiment,
            "system": f"{distinct(keys['system'])} ({description})",
            "source of the numbers": distinct(keys["source"]),
            "processes": distinct(map(_process_words, contents)),
        },
        "Sweep": {
            "datasets": distinct(_dataset_words(c, dataset_titles) for c in contents),
            "OSTs": distinct(number for number in keys["n_osts"]),
            "cache rates": ", ".join(map(str, rates)) + " %",
            "repetitions": str(keys["repetition"].nunique()),
            "cache policy": distinct(keys["policy"]),
            "loader": distinct(keys["loader"]),
        },
        "Training": _settings(run["training"] for run in contents),
        "Data loader": _settings(run["loader"] for run in contents),
        "Global file system": _settings(_tier(run, "gfs") for run in contents),
        "Local file system": _settings(_tier(run, "lfs") for run in contents),
        "Tracer": _settings({"runtime": run["tracer"]["runtime"]} for run in contents),
        "Versions": _settings(run["versions"] for run in contents),
    }
    return {
        group: kept
        for group, words in groups.items()
        if (kept := {name: text for name, text in words.items() if text})
    }


def _process_words(run: Mapping[str, Any]) -> str:
    """Return the processes of a run and where they were."""
    system = run["system"]
    nodes = count_words(system["n_nodes"], "node")
    if system["virtual_nodes"]:
        nodes = f"{count_words(system['n_nodes'], 'virtual node')} (on one machine)"
    return f"{count_words(run['n_processes'], 'MPI process', 'es')} on {nodes}"


def _dataset_words(run: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """Return number, size and name of the files of a run."""
    dataset = run["dataset"]
    size = _size_words(dataset["n_files"] * dataset["file_size_bytes"])
    title = titles.get(dataset["name"], f"files of dataset {dataset['name']}")
    return f"{dataset['n_files']} \N{MULTIPLICATION SIGN} {title} ({size})"


def _tier(run: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return what tells where and what a tier of a run was."""
    return {key: run["system"][name][key] for key in ("kind", "root", "n_osts")}


def devices_table(runs: Sequence[Run]) -> pd.DataFrame:
    """Return the properties of the modelled devices behind emulated tiers.

    They are those of the whole machine, before scaling it to the processes of the runs.
    Empty if nothing was emulated.
    """
    rows = {}
    for run in runs:
        devices = run.run["system"].get("devices") or {}
        for tier in ("gfs", "lfs"):
            for name, text in _settings([devices.get(tier, {})]).items():
                rows[tier.upper(), name, text] = None
    return pd.DataFrame(list(rows), columns=["Tier", "Property", "Modelled as"])


def _settings(mappings: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return settings by name, in words with units; all values where runs differ."""
    words: dict[str, dict[str, None]] = {}
    for mapping in mappings:
        for key, value in mapping.items():
            if value is not None:
                name, text = setting_words(key, value)
                words.setdefault(name, {})[text] = None
    return {name: ", ".join(texts) for name, texts in words.items()}


def setting_words(key: str, value: Any) -> tuple[str, str]:
    """Return a setting's name without its unit, and its value with it.

    ``open_s``, 0.000029 is ``open time``, ``29 µs``; ``request_bytes``, 131072 is
    ``request size``, ``128 KiB``.
    """
    for suffix, noun, in_words in _UNITS:
        if key.endswith(suffix):
            name = key.removesuffix(suffix)
            if not name.endswith((noun, "latency")):
                name = f"{name}_{noun}"
            return _name_words(name), in_words(value)
    return _name_words(key), str(value)


def _name_words(key: str) -> str:
    """Return a key as words: ``n_osts`` is ``number of OSTs``."""
    key = f"number_of_{key[2:]}" if key.startswith("n_") else key
    return " ".join(_NAMES.get(word, word) for word in key.split("_"))


def _time_with_unit(time_s: float) -> str:
    """Return a time such as ``29 µs``."""
    return EngFormatter(unit="s")(time_s)


def _size_words(n_bytes: float) -> str:
    """Return a size such as ``128 KiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n_bytes < 1024 or unit == "GiB":
            break
        n_bytes /= 1024
    return f"{n_bytes:.4g} {unit}"


def _bandwidth_words(bytes_per_s: float) -> str:
    """Return a bandwidth such as ``1.5 GiB/s``."""
    return f"{_size_words(bytes_per_s)}/s"


_UNITS = (
    ("_bytes_per_s", "bandwidth", _bandwidth_words),
    ("_bytes", "size", _size_words),
    ("_s", "time", _time_with_unit),
)
