"""Workload files of DLIO and MLPerf Storage, read as `resources/workloads.yaml` is.

`tierscope.experiment.keys.dlio` has the keys, `dlio_loaders` the loaders.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from tierscope.core.validation import ConfigError, check, read_schema, read_yaml
from tierscope.experiment.designs.dlio_loaders import LOADERS
from tierscope.experiment.keys.dlio import ComputationTime, DlioKeys

LATER_NAMES = {  # of keys of DLIO 2.0.0
    "record_length": "record_length_bytes",
    "record_length_stdev": "record_length_bytes_stdev",
}
NO_WORKLOAD = "# The program: no workload file for DLIO: "  # in place of one, and why
_ROOT = "workload"  # where Hydra puts the keys
_MOST_BYTES = 1 << 20
_MOST_STEPS = 20  # from one ${...} to another
_MOST_NAMED = 10  # keys that are not simulated
_NONE_OF = ("workers", "prefetch_factor")  # DLIO's process may read by itself
_INTERPOLATION = re.compile(r"\$\{(\.*)([\w-]+(?:\.[\w-]+)*)\}")
_EXPONENT = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")  # a number of Hydra's
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


def read_workload_file(path: str) -> tuple[str, dict[str, Any]]:
    """Return a workload's name and its values as `resources/workloads.yaml` has them.

    The name is that of the file. Without a computation time there is none.

    Raises
    ------
    ConfigError
        One line that names file, key, value and expectation, if the file is not one of
        DLIO or says what the simulator cannot do, or what no workload may have.
    """
    workload = _DlioWorkload(path)
    name, values = workload_name(Path(path).stem), workload.values()
    at_least_one = {key: max(values[key], 1) for key in _NONE_OF}
    check({name: values | at_least_one}, "workloads", path)
    return name, values


def workload_name(words: str) -> str:
    """Return the name of a workload that is called so elsewhere."""
    name = _NOT_IN_NAMES.sub("_", words.lower()).strip("_")
    return name if name[:1].isalpha() else f"dlio_{name}"


class _DlioWorkload:
    """A file, and the keys that decide what is read and computed."""

    def __init__(self, path: str) -> None:
        self._path, self._content = path, _content_of(path)
        self._lacking: dict[str, Any] = {}  # as DLIO has them by default
        schema = read_schema("dlio")
        known, no_matter = schema["properties"], schema["no_matter"].split()
        given: dict[str, Any] = {}
        self._others = []
        for section, key, value in self._keys(known):
            name = f"{section}.{key}" if key else section
            if key in known.get(section, {}).get("properties", ()):
                given.setdefault(section, {})[key] = self._resolved(section, key)
            elif not key and section in known:
                given[section] = self._resolved(section)
            elif value and not {name, section} & {*no_matter}:
                self._others.append(_shown(f"{name} {value}"))
        if not given:
            self._refuse("top level", ", ".join(self._others), f"{_ROOT} or its keys")
        check(given, "dlio", path)
        self._take_later_names(given.get("dataset", {}))
        found = DlioKeys()
        for section, keys in given.items():
            if isinstance(keys, Mapping):
                keys = replace(getattr(found, section), **keys)
            found = replace(found, **{section: keys})
        self._found, self._loader = found, LOADERS[found.reader.data_loader]
        self._lacking = {
            f"{section}.{key}": value
            for section, keys in vars(DlioKeys()).items()
            if keys is not None
            for key, value in vars(keys).items()
            if key not in given.get(section, {}) and value not in (None, ())
        }

    def values(self) -> dict[str, Any]:
        """Return what `resources/workloads.yaml` says of a workload."""
        samples, batch_size, n_files, words = self._files()
        dataset, computation = self._found.dataset, self._computation()
        if stdev_s := computation.get("compute_time_stdev_s"):
            words += f"; computation varies by {stdev_s:g} s"
        return {
            "n_files": n_files,
            "file_size_bytes": round(samples * dataset.record_length_bytes),
            "file_size_stdev_bytes": round(samples * dataset.record_length_bytes_stdev),
            "batch_size": batch_size,
            **self._loading(batch_size),
            **computation,
            "utilisation_percent": round(100 * self._found.metric.au, 9),
            "source": f"{self._path}, workload file of DLIO{words}{self._words}",
        }

    @property
    def _words(self) -> str:
        """Return what is DLIO's default, and what is not simulated, in words."""
        lacking = ", ".join(f"{key} {one}" for key, one in self._lacking.items())
        words = f"; defaults of DLIO: {lacking}" if lacking else ""
        if self._others:
            named, n_more = self._others[:_MOST_NAMED], len(self._others) - _MOST_NAMED
            more = [f"{n_more} more"] * (n_more > 0)
            words += f"; not simulated: {', '.join(named + more)}"
        return words

    def _files(self) -> tuple[int, int, int, str]:
        """Return samples of a file, files of a batch, files, and what is assumed."""
        key, batch_size = "dataset.num_samples_per_file", self._found.reader.batch_size
        dataset = self._found.dataset
        n, samples = dataset.num_files_train, dataset.num_samples_per_file
        if samples == 1:
            return 1, batch_size, n, ""
        if not self._loader.reads_in_a_row:
            self._refuse(key, samples, f"1 with loader {self._loader.name}")
        if batch_size % samples == 0:
            return samples, batch_size // samples, n, ""
        if samples < batch_size:
            self._refuse(key, samples, f"a divisor of batch_size {batch_size}, or more")
        words = f"; assumed: {batch_size} samples in a row, a batch, are a file"
        return batch_size, 1, n * samples // batch_size, words

    def _loading(self, batch_size: int) -> dict[str, Any]:
        """Return how batches of so many files are read."""
        loader, found = self._loader, self._found
        for key, value, known in (
            ("framework", found.framework or loader.name, (loader.name,)),
            ("dataset.format", found.dataset.format, loader.formats),
        ):
            if value not in known:
                names = ", ".join(known)
                self._refuse(key, value, f"{names} with loader {loader.name}")
        loads = loader.read(found.reader)
        if why := loader.why_not(loads["workers"], batch_size):
            self._refuse("reader.read_threads", loads["workers"], why)
        return {"loader": loader.name, **loads}

    def _computation(self) -> dict[str, float]:
        """Return what a step computes, nothing if that takes no time."""
        train = self._found.train
        given, stdev_s = train.computation_time, train.computation_time_stdev
        time = ComputationTime(
            **given if isinstance(given, Mapping) else {"mean": given}
        )
        if not time.mean:  # then DLIO draws no time
            return {}
        stdev_s = time.stdev if stdev_s is None else stdev_s
        return {"compute_time_s": time.mean, "compute_time_stdev_s": stdev_s}

    def _take_later_names(self, dataset: dict[str, Any]) -> None:
        """Take the names of DLIO 2.0.0 for the later ones."""
        for old, new in LATER_NAMES.items():
            value = dataset.pop(old, None)
            if value is not None and dataset.setdefault(new, value) != value:
                self._refuse(f"dataset.{old}", value, f"the same as {new}")

    def _keys(self, known: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
        """Yield section, key and value as written; a value may have no section."""
        for section, keys in self._content[_ROOT].items():
            if isinstance(keys, Mapping):
                for key, value in keys.items():
                    if value is not None:
                        yield str(section), str(key), value
            elif "properties" in known.get(section, {}) and keys is not None:
                self._refuse(section, keys, "mapping")
            elif keys is not None:
                yield str(section), "", keys

    def _resolved(self, *key: str) -> Any:
        """Return the value of a key, and those of a mapping, without `${...}`."""
        name = ".".join(key)
        at, value = self._followed(name, (_ROOT, *key))
        if not isinstance(value, Mapping):
            return value
        return {one: self._followed(f"{name}.{one}", (*at, one))[1] for one in value}

    def _followed(self, key: str, at: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
        """Return the place that another one refers to, if it does, and its value."""
        value: Any = None
        for _ in range(_MOST_STEPS):
            before, value = value, self._content
            for part in at:
                if not isinstance(value, Mapping) or part not in value:
                    self._refuse(key, before, "${key} of a value in this file")
                value = value[part]
            if not isinstance(value, str) or "${" not in value:
                is_number = isinstance(value, str) and _EXPONENT.fullmatch(value)
                return at, float(value) if is_number else value
            if not (found := _INTERPOLATION.fullmatch(value.strip())):
                break
            dots, keys = found.groups()
            at = (*at[: -len(dots or at)], *keys.split("."))
        self._refuse(key, value, "a value, or ${key} of one in this file")

    def _refuse(self, key: str, got: Any, expected: str) -> NoReturn:
        default = " (default of DLIO)" if key in self._lacking else ""
        raise ConfigError(
            f"{self._path}: {key}: got {_shown(got)}{default}, expected {expected}"
        )


def _shown(value: Any) -> str:
    """Return the begin of a value in one line."""
    return repr(str(value)[:60])[1:-1]


def _content_of(path: str) -> dict[str, Any]:
    """Return what a file holds, below key `workload` as Hydra puts it."""
    wanted = f"expected a workload file of DLIO of at most {_MOST_BYTES} bytes"
    if not Path(path).is_file():
        raise ConfigError(f"config: designs.workloads: got {path!r}, {wanted}")
    if (n_bytes := Path(path).stat().st_size) > _MOST_BYTES:
        raise ConfigError(f"{path}: got {n_bytes} bytes, {wanted}")
    if Path(path).read_bytes().startswith(NO_WORKLOAD.encode()):
        reason = Path(path).read_text(encoding="utf-8", errors="replace")
        raise ConfigError(f"{path}: {' '.join(reason.removeprefix('# ').split())}")
    content = read_yaml(path)
    if "defaults" in content:
        raise ConfigError(
            f"{path}: defaults: got a list by which Hydra adds other files, expected "
            "all keys in one file, as in .hydra/config.yaml of a run"
        )
    keys = content.get(_ROOT, content)
    if not isinstance(keys, Mapping) or not keys:
        raise ConfigError(f"{path}: {_ROOT}: got {_shown(keys)}, expected keys")
    older = {"reader": keys["data_reader"]} if "data_reader" in keys else {}
    return {**content, _ROOT: {**keys, **older}}
