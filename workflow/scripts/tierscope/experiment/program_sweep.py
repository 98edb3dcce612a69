"""``tierscope sweep``: a program of the user over cache rates, in one command.

It writes the configuration of the experiment and starts Snakemake with it. A second
start measures only what is missing.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from tierscope.core.certificate import certificate_line
from tierscope.core.files import write_text
from tierscope.core.given.secrets import command_words
from tierscope.core.output.streams import say
from tierscope.core.processes.children import run_passing_signals
from tierscope.core.scenario import PROGRAM_LOADER, Scenario
from tierscope.core.validation import (
    ConfigError,
    accepts,
    expectation,
    read_schema,
    read_yaml,
)
from tierscope.experiment.snakemake_internals import refuse_prepared
from tierscope.policies import PROGRAM_POLICIES
from tierscope.storage.own_folder import close_umask

SYSTEM = "one-process"
CACHE_RATES_PERCENT = (0, 25, 50, 75, 100)
REPETITIONS = 2
CONFIG = "sweep.yaml"
CERTIFICATE = "tables/certificate.parquet"
# What a user of `tierscope sweep` types for a key of the configuration.
_OPTIONS = {
    "datasets.{name}.path": "--dataset",
    "experiment": "--name",
    "figures.scenario": "--policies",
    "in_place: true": "--in-place",
    "loader.command": "COMMAND",
    "loader.in_place: true": "--in-place",
    "loader.in_place": "--in-place",
    "loader.minutes": "--minutes",
    "roots.ideal": "--ideal",
    "roots.lfs": "--lfs",
    "sweep.cache_rates_percent": "--rates",
    "sweep.ideal": "--ideal",
    "sweep.policies": "--policies",
    "sweep.repetitions": "--repetitions",
    "system": "--system",
}
_FOLDER = "tierscope"  # below the user's directory, which may hold other files
_ROOT = Path(__file__).parents[4]  # of the clone
_MOST_LETTERS = 60  # of a dataset's name: names of files are made of it
_NOT_IN_DATASETS = re.compile(r"[^a-z0-9_]+")


@dataclass(frozen=True)
class SweepRequest:
    """What the user asked for.

    Parameters
    ----------
    command : sequence of str
        The program; ``{dataset}`` stands for the path of the dataset.
    dataset : Path
        Folder of the dataset.
    lfs : Path, optional
        Directory of the LFS on this machine.
    system : str, optional
        A system, in place of this machine.
    name : str, optional
        Name of the experiment; by default that of the dataset.
    cache_rates_percent : sequence of int
        Cache rates, of the bytes.
    repetitions : int
        How often each rate is run.
    in_place : bool
        Whether the program gets the real path of the dataset.
    minutes : int
        Longest time of a run.
    policies : sequence of str
        Policies of the LFS; the figures are of the first that uses it.
    ideal : Path, optional
        Directory in memory for ideal runs: of this machine, or with `system` of the
        nodes. None for no such runs.
    predicts : bool
        Whether the models are fitted to some rates, and predict the others.
    """

    command: Sequence[str]
    dataset: Path
    lfs: Path | None = None
    system: str | None = None
    name: str | None = None
    cache_rates_percent: Sequence[int] = CACHE_RATES_PERCENT
    repetitions: int = REPETITIONS
    in_place: bool = False
    minutes: int = 60
    policies: Sequence[str] = ("pinning",)
    ideal: Path | None = None
    predicts: bool = False

    @property
    def dataset_name(self) -> str:
        """Return the name of the dataset in the configuration."""
        name = _NOT_IN_DATASETS.sub("_", self.dataset.resolve().name.lower())
        return name.strip("_")[:_MOST_LETTERS] or "dataset"

    @property
    def experiment(self) -> str:
        """Return the name of the experiment, by default that of the dataset."""
        if self.name is not None:
            return self.name
        name = self.dataset_name
        return name if accepts(name, _names()) else f"{name}_sweep"


def sweep_config(asked: SweepRequest) -> dict[str, Any]:
    """Return the configuration of a sweep: differences from the defaults.

    Raises
    ------
    ConfigError
        If there is no LFS, no dataset or no command, or the name cannot be one.
    """
    if (asked.lfs is None) == (asked.system is None):
        got = "neither" if asked.lfs is None else "both"
        raise ConfigError(
            f"got {got} of --lfs DIRECTORY and --system NAME, expected one: the "
            "directory of a fast device of this machine, or a file of resources/systems"
        )
    if not asked.command:
        raise ConfigError("got no command; write it behind --.")
    _refuse_repetitions(asked.repetitions)
    if unknown := [one for one in asked.policies if one not in PROGRAM_POLICIES]:
        raise ConfigError(
            f"--policies: got {unknown[0]}, expected some of "
            f"{', '.join(PROGRAM_POLICIES)}"
        )
    if asked.predicts and asked.ideal is None:
        raise ConfigError(
            "--predict: got no --ideal DIRECTORY, expected one, such as /dev/shm: "
            "ideal runs tell the models what the program computes"
        )
    if asked.predicts and "pinning" not in asked.policies:
        raise ConfigError(
            f"--predict: got --policies {' '.join(asked.policies)}, expected pinning "
            "among them: the models know this policy"
        )
    rates = tuple(asked.cache_rates_percent)
    if {*asked.policies} == {"none"} and rates != CACHE_RATES_PERCENT and any(rates):
        raise ConfigError(
            f"--rates: got {' '.join(map(str, rates))} with --policies none, which "
            "holds nothing on the LFS; expected another policy, or no --rates"
        )
    dataset = asked.dataset.expanduser()
    if not dataset.is_dir():
        raise ConfigError(f"--dataset: got {asked.dataset}, expected a folder")
    config: dict[str, Any] = {
        "experiment": asked.experiment,
        "system": asked.system or SYSTEM,
        "datasets": {asked.dataset_name: {"path": os.path.abspath(dataset)}},
        "sweep": {
            "policies": list(asked.policies),
            "cache_rates_percent": list(asked.cache_rates_percent),
            "repetitions": asked.repetitions,
            "exclude": _repeated_points(asked),
        },
        "figures": {
            "scenario": {"policy": _first_with_lfs(asked.policies)},
        },
        "loader": {
            "command": list(asked.command),
            "in_place": asked.in_place,
            "minutes": asked.minutes,
        },
    }
    if asked.ideal is not None:
        config["sweep"]["ideal"] = True
    if roots := _roots(asked):
        config["roots"] = roots
    if not accepts(asked.experiment, _names()):
        raise ConfigError(
            f"--name: got {asked.experiment!r}, expected {expectation(_names())}"
        )
    return config


@cache
def _names() -> dict[str, Any]:
    """Return the schema of an experiment's name."""
    return read_schema("config")["properties"]["experiment"]


def _refuse_repetitions(repetitions: int) -> None:
    """Refuse a number of repetitions: the option takes none of the key's lists."""
    key = read_schema("config")["properties"]["sweep"]["properties"]["repetitions"]
    numbers = {"type": "integer"} | {one: key[one] for one in ("minimum", "maximum")}
    if not accepts(repetitions, numbers):
        raise ConfigError(
            f"--repetitions: got {repetitions}, expected {expectation(numbers)}"
        )


def _first_with_lfs(policies: Sequence[str]) -> str:
    """Return the first policy that uses the LFS, if there is one."""
    return next((one for one in policies if one != "none"), policies[0])


def _repeated_points(asked: SweepRequest) -> dict[str, Any]:
    """Return what to exclude, as all policies do the same with nothing on the LFS."""
    reference = "none" if "none" in asked.policies else asked.policies[0]
    others = [policy for policy in asked.policies if policy != reference]
    if not others or 0 not in asked.cache_rates_percent:
        return {}
    return {"nothing on the LFS": {"policy": others, "cache_rate_percent": 0}}


def _roots(asked: SweepRequest) -> dict[str, str]:
    """Return the directories to fill; not the GFS's, as the dataset lies there."""
    given = {"lfs": asked.lfs, "ideal": asked.ideal}
    roots = {
        name: str(path) if asked.system else _root(f"--{name}", path, asked.dataset)
        for name, path in given.items()
        if path is not None
    }
    if asked.lfs is not None:
        roots["gfs"] = os.path.abspath(f"results/{asked.experiment}/gfs")
    if not asked.system and (wrong := [one for one in roots.values() if "$" in one]):
        raise ConfigError(
            f"got {wrong[0]}, expected folders without $, which would be a variable"
        )
    return roots


def _root(option: str, given: Path, dataset: Path) -> str:
    """Return our folder in a directory of the user."""
    path = given.expanduser()
    if not path.is_dir():
        raise ConfigError(f"{option}: got {given}, expected a directory")
    if path.resolve().is_relative_to(dataset.expanduser().resolve()):
        raise ConfigError(
            f"{option}: got {given}, which is in the dataset, expected another one"
        )
    # All users share a directory in memory, such as /dev/shm.
    folder = _FOLDER if option == "--lfs" else f"{_FOLDER}-{os.getuid()}"
    return os.path.abspath(path / folder)


def _refuse_another_sweep(path: Path, config: Mapping[str, Any]) -> None:
    """Refuse a folder of something else, or with runs of another program or system."""
    if not path.is_file():
        if path.parent.is_dir() and next(path.parent.iterdir(), None):
            raise ConfigError(
                f"--name: got {config['experiment']}, but {path.parent} holds results "
                f"of something else (it has no {CONFIG}), expected another name"
            )
        return
    if next(path.parent.glob("runs/*/cache-*/rep-*/run.json"), None) is None:
        return
    before = read_yaml(path)
    for section in ("system", "datasets", "loader"):
        was, wanted = (_settings(one.get(section)) for one in (before, config))
        if was != wanted:
            raise ConfigError(
                f"--name: got {config['experiment']}, whose runs are of {section} "
                f"{_in_words(was)}, expected another name for {_in_words(wanted)}, or "
                f"no {path.parent}/runs"
            )


def _in_words(section: Any) -> str:
    """Return a section as a user writes it: a command as typed, else JSON."""
    if isinstance(section, Mapping) and isinstance(section.get("command"), list):
        words = command_words(section["command"])
        return f"{words} (--in-place)" if section.get("in_place") else words
    return section if isinstance(section, str) else json.dumps(section)


def _settings(section: Any) -> Any:
    """Return what runs depend on of a section: not on how long one may take."""
    if not isinstance(section, Mapping):
        return section
    return {name: one for name, one in section.items() if name != "minutes"}


def sweep(asked: SweepRequest, profile: str, further: Sequence[str] = ()) -> int:
    """Write the configuration and run Snakemake; return its exit status.

    A ConfigError says why that cannot be done.
    """
    if not (_ROOT / "Snakefile").is_file():
        raise ConfigError(
            f"{_ROOT} has no Snakefile, expected a clone of tierscope (an "
            "installed package has no workflow)"
        )
    config = sweep_config(asked)
    path = Path("results", asked.experiment, CONFIG)
    close_umask()
    refuse_prepared(Path.cwd())
    _refuse_another_sweep(path, config)
    _write_config(path, config)
    start = partial(_run_snakemake, profile=profile, dataset=asked.dataset_name)
    if "-n" in further:
        return start(path, [*(["all", "predict"] * asked.predicts), *further])
    status, refusal = _look_ahead(asked, path, start) if asked.predicts else (0, "")
    if status or (status := start(path, ["all"])):
        return status
    _certify(path.parent / CERTIFICATE)
    if refusal:
        say(f"tierscope sweep: --predict: {refusal}")
        return 1
    # A start of its own, so that its failure leaves the report.
    return start(path, ["predict"]) if asked.predicts else 0


def _write_config(path: Path, config: Mapping[str, Any]) -> None:
    """Write a configuration for Snakemake."""
    import yaml

    head = "# Written by `tierscope sweep`; a later start writes it anew.\n"
    write_text(path, head + yaml.safe_dump(dict(config), sort_keys=False))


def _look_ahead(
    asked: SweepRequest, path: Path, start: Callable[[Path, Sequence[str]], int]
) -> tuple[int, str]:
    """Return why a sweep cannot be predicted, as its first run says, or a status."""
    if status := start(path, ["all", "predict", "-n", "--quiet", "all"]):
        return status, ""
    first = path.with_name("first-run.yaml")
    _write_config(first, _first_run(asked))
    name = Scenario(asked.dataset_name, 0, "pinning", PROGRAM_LOADER).name
    refusal = path.parent / "refusals" / f"{name}.txt"
    if status := start(first, [str(refusal)]):
        return status, ""
    return 0, refusal.read_text(encoding="utf-8").strip()


def _first_run(asked: SweepRequest) -> dict[str, Any]:
    """Return the configuration of one run of the sweep, of the least that is copied."""
    rates = [min(filter(None, asked.cache_rates_percent))]
    config = sweep_config(
        replace(asked, policies=["pinning"], cache_rates_percent=rates, repetitions=1)
    )
    config["sweep"]["ideal"] = False
    return config


def _run_snakemake(path: Path, words: Sequence[str], profile: str, dataset: str) -> int:
    """Run Snakemake with the configuration of a sweep; return its exit status."""
    own = _ROOT / "profiles" / profile
    start = _ROOT / "workflow" / "scripts" / "start_snakemake.py"
    command = [sys.executable, "-X", "utf8", start, *words]
    command += ["--snakefile", _ROOT / "Snakefile"]
    command += ["--profile", own if own.is_dir() else profile]
    command += ["--configfile", path]
    options = {key.format(name=dataset): one for key, one in _OPTIONS.items()}
    named = {"TIERSCOPE_OPTIONS": json.dumps(options)}  # for our logger
    return run_passing_signals(command, os.environ | named)


def _certify(table: Path) -> None:
    """Print the certificate of a sweep that has ended."""
    from tierscope.core.tables import read_table

    if table.exists():  # not if Snakemake was told to make something else
        line = certificate_line(read_table(table, "certificate"))
        say(f"tierscope sweep: {line} (in words: report, {table}).")
