"""Describe the runs as groups of names and words: settings with their units.

A content is what the `run.json` of a measured or a simulated run holds.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

import pandas as pd
from matplotlib.ticker import EngFormatter

from tierscope.analysis.run_facts import MACHINE, differing
from tierscope.core.columns import RUN_KEYS
from tierscope.core.description import PYTORCH
from tierscope.core.words import count_words, size_words
from tierscope.pages.report.program import dataset_words, program_facts

_NAMES = {
    "ost": "OST",
    "osts": "OSTs",
    "mpi": "MPI",
    "gfs": "GFS",
    "lfs": "LFS",
    "cv": "coefficient of variation",
}
SIMULATED = "simulated"
_MOST_VALUES, _MOST_LETTERS = 5, 200  # of what differs between runs
_IDENTIFYING = (
    "hosts",
    "scheduler_job",
    "tier_roots",
    "background_roots",
    "peer_roots",
    "peer_interfaces",
    "machines",
)


@dataclass(frozen=True)
class ReportedRun:
    """A run's `run.json` and its `audit.json`, None if it was not audited."""

    run: Mapping[str, Any]
    audit: Mapping[str, Any] | None

    @property
    def keys(self) -> dict[str, Any]:
        """Return the key columns of the run's tables."""
        own = {"source": self.run["source"], "system": self.run["system"]["name"]}
        return {**own, **self.run["scenario"], **self.run["point"]}


def without_identities(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return a `run.json` without the facts that identify user and machine.

    Left out are the paths of the tiers and of libraries, hosts, jobs of the scheduler,
    the kernel and a program's command. Names that the user has chosen stay: experiment,
    system, datasets.
    """
    kept = {key: run[key] for key in run if key not in _IDENTIFYING}
    system = dict(run["system"])
    for tier in ("gfs", "lfs"):
        system[tier] = {key: system[tier][key] for key in system[tier] if key != "root"}
    versions = {key: run["versions"][key] for key in run["versions"] if key != "kernel"}
    if "mpi" in versions:  # Open MPI's says who built it, and where
        versions["mpi"] = versions["mpi"].split(", package:")[0]
    tracer = {key: run["tracer"].get(key) for key in ("runtime", "version")}
    if run.get("observed"):  # a command holds paths
        kept["observed"] = run["observed"] | {"dataset": None, "escaped": []}
        kept["program"] = run["program"] | {"command": []}
    return kept | {"system": system, "versions": versions, "tracer": tracer}


def distinct(words: Iterable[Any]) -> str:
    """Return the words in their order, without duplicates and empty ones."""
    return ", ".join(dict.fromkeys(str(word) for word in words if word))


def facts(
    experiment: str,
    description: str,
    contents: Sequence[Mapping[str, Any]],
    keys: pd.DataFrame,
    dataset_titles: Mapping[str, str],
) -> dict[str, dict[str, str]]:
    """Return the facts of the runs, as groups of names and words.

    Parameters
    ----------
    experiment, description : str
        Name of the experiment, and what its system is.
    contents : sequence of mapping
        The contents. If a setting differs between them, all its values are given.
    keys : DataFrame
        The keys of all runs.
    dataset_titles : mapping of str to str
        What to call each dataset.
    """
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
            "repetitions": _repetition_words(keys),
            "cache policy": distinct(keys["policy"]),
            "loader": distinct(keys["loader"]),
        },
        "Program": program_facts(contents),
        "Training": _settings(content["training"] for content in contents),
        "Data loader": _settings(content.get("loader", {}) for content in contents),
        "Global file system": _settings(_tier(c, "gfs") for c in contents),
        "Local file system": _settings(_tier(c, "lfs") for c in contents),
        "Tracer": _settings(map(_tracer, contents)),
        "Versions": _settings(content["versions"] for content in contents),
    }
    return {
        group: kept
        for group, words in groups.items()
        if (kept := {name: text for name, text in words.items() if text})
    }


def is_simulated(content: Mapping[str, Any]) -> bool:
    """Return whether a content describes simulated runs, which used no tier."""
    return content["source"] == SIMULATED


def has_workers(content: Mapping[str, Any]) -> bool:
    """Return whether several workers read for a process, so I/O time is their sum."""
    is_pytorch = content["scenario"]["loader"] == PYTORCH
    return is_pytorch and content["loader"]["workers"] > 1


def _repetition_words(keys: pd.DataFrame) -> str:
    """Return how often points were run, such as ``1 to 5``; `keys` of all runs."""
    numbers = keys.groupby([key for key in RUN_KEYS if key != "repetition"]).size()
    return " to ".join(dict.fromkeys([str(numbers.min()), str(numbers.max())]))


def _process_words(content: Mapping[str, Any]) -> str:
    """Return the processes of a run and where they were."""
    system = content["system"]
    n_processes = system["n_nodes"] * system["processes_per_node"]
    kind, of, where = "MPI process", "node", ""
    if is_simulated(content) or content.get("observed"):
        kind = "process"
    if is_simulated(content):
        where = ", simulated"
    elif system["virtual_nodes"]:
        of, where = "virtual node", " (on one machine)"
    processes = count_words(n_processes, kind, f"{kind}es", separator="")
    return f"{processes} on {count_words(system['n_nodes'], of, separator='')}{where}"


def _dataset_words(content: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """Return number, size and name of the files of a run."""
    dataset = content["dataset"]
    if content.get("observed"):
        return dataset_words(content)
    size = size_words(dataset["n_files"] * dataset["file_size_bytes"])
    title = titles.get(dataset["name"], f"files of dataset {dataset['name']}")
    return f"{dataset['n_files']} \N{MULTIPLICATION SIGN} {title} ({size})"


def _tier(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return kind, root and number of OSTs of a tier."""
    if is_simulated(content):
        return {}
    tier = content["system"][name]
    if name == "gfs" and content.get("observed"):  # where the dataset is
        tier = {**tier, "root": content["observed"].get("dataset")}
    return {key: tier.get(key) for key in ("kind", "root", "n_osts")}


def _tracer(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tracer of a run."""
    tracer = {} if is_simulated(content) else content["tracer"]
    return {key: tracer.get(key) for key in ("runtime", "version")}


def devices_table(contents: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the properties of the devices behind emulated and simulated tiers.

    They are those of the whole machine, before scaling it to the processes of the runs.
    The last column says where each number comes from, if the system file does. Empty if
    nothing was emulated or simulated.
    """
    rows = {}
    for content in contents:
        devices = content["system"].get("devices") or {}
        sources = devices.get("sources", {})
        for part in ("gfs", "lfs", "simulation", "network", "processor"):
            for key, value in devices.get(part, {}).items():
                tier, property_ = _tier_and_property(part, key)
                source = sources.get(part, {}).get(key, devices.get("origin", ""))
                rows[tier, *setting_words(property_, value), source] = None
    columns = ["Tier", "Property", "Modelled as", "Source"]
    table = pd.DataFrame(list(rows), columns=columns)
    return table if table["Source"].any() else table.drop(columns="Source")


def differences_table(
    run_facts: pd.DataFrame | None, anonymous: bool = False
) -> pd.DataFrame:
    """Return what differs between runs, one row for each value; empty if nothing does.

    Parameters
    ----------
    run_facts : DataFrame or None
        Table ``run_facts``; None if no process ran.
    anonymous : bool
        Whether to leave out the facts that identify a machine.
    """
    if run_facts is None:
        return pd.DataFrame()
    found = differing(run_facts)
    if anonymous:
        found = found[(found["part"] != MACHINE) & (found["fact"] != "kernel")]
    rows = []
    for fact, values in found.groupby("fact", sort=False):
        name, shown = _name_words(fact), values.iloc[:_MOST_VALUES]
        for value, n_runs in zip(shown["value"], shown["n_runs"], strict=True):
            rows.append((name, shorten(value, _MOST_LETTERS), str(n_runs)))
        if n_more := len(values) - len(shown):
            rest = values["n_runs"].iloc[_MOST_VALUES:].sum()
            more = count_words(n_more, "more value", separator="")
            rows.append((name, f"{more}, in table run_facts", str(rest)))
    return pd.DataFrame(rows, columns=["What differs", "Value", "Runs"])


def _tier_and_property(part: str, key: str) -> tuple[str, str]:
    """Return the tier of a number of a system's devices, and the rest of its name."""
    tier, _, rest = key.partition("_")
    if part != "simulation":
        tier, rest = part, key
    elif tier not in ("gfs", "lfs"):
        return "GFS and LFS", key
    return tier.upper(), rest


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


def _time_with_unit(time_s: float | Mapping[str, Any]) -> str:
    """Return a time such as ``29 µs``, or how it varies: ``normal, 300 ms ± 50 ms``."""
    words = EngFormatter(unit="s")
    if isinstance(time_s, Mapping):
        mean, stdev = words(time_s["mean_s"]), words(time_s["stdev_s"])
        return f"{time_s['distribution']}, {mean} ± {stdev}"
    return words(time_s)


def _percent_words(percent: float) -> str:
    """Return a percentage such as ``2.4 %``."""
    return f"{percent:g} %"


def _bandwidth_words(bytes_per_s: float) -> str:
    """Return a bandwidth such as ``1.5 GiB/s``."""
    return f"{size_words(bytes_per_s)}/s"


_UNITS = (
    ("_bytes_per_s", "bandwidth", _bandwidth_words),
    ("_bytes", "size", size_words),
    ("_s", "time", _time_with_unit),
    ("_percent", "", _percent_words),
)
