"""The configuration of an analysis of logs: read, check, complete."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any

from tierscope.core.given.keys import from_to
from tierscope.core.validation import ConfigError, check, without_defaults
from tierscope.logs.tiers import AUTO, TierPrefix, prefixes_of, tiers_of
from tierscope.trace.darshan.inflation import USUAL, Inflation

LOGS = "logs"  # the key that makes a configuration one of logs
KEEP, DROP = "keep", "drop"  # logs that vanished
LOG_TIMEOUT_S = 60.0
# The folders of an analysis, below that of its results.
LISTING, READ_LOGS, CHUNKS, TABLES = "listing", "read-logs", "chunks", "tables"
# Of a worker that reads a log: what Python and its libraries need, and per byte of log.
_WORKER_BYTES = 200 << 20
_BYTES_PER_LOG_BYTE = 40  # 36 were measured: records of one process compress well


@dataclass(frozen=True)
class Settings:
    """A checked configuration; the schema `logs` says what other keys mean."""

    experiment: str
    logs: tuple[str, ...]
    tiers: str | tuple[TierPrefix, ...] = AUTO
    group: str | Mapping[str, str] = AUTO
    epochs: str | None = None
    goal_s: float | None = None
    filter: Mapping[str, Any] = field(default_factory=dict)
    processes_per_node: int | None = None
    pages: int = 5
    anonymous: bool = False
    vanished: str = KEEP
    log_timeout_s: Annotated[
        float,
        from_to(1, 86400),
        "A log is refused if its file system does not answer for so many seconds.",
    ] = LOG_TIMEOUT_S
    inflation: Annotated[
        Inflation,
        "A log is refused if its names inflate to more than 1 MiB, or its records to "
        "more than 4 MiB, plus so many bytes for each that they take in the log.",
    ] = USUAL

    def as_json(self) -> dict[str, Any]:
        """Return what determines the tables, for JSON; `settings_of` reads it."""
        values = dict(vars(self))
        del values["log_timeout_s"]  # how long to wait is not in them
        values["inflation"] = dict(vars(self.inflation))
        if self.tiers != AUTO:
            values["tiers"] = prefixes_of(self.tiers)
        return values | {"logs": list(self.logs)}

    @property
    def wanted(self) -> dict[str, str]:
        """Return what jobs that are kept must have, by key of the filter."""
        return {key: str(one) for key, one in self.filter.items() if one is not None}

    def filter_words(self) -> str:
        """Return which jobs are kept, nothing if all are."""
        if self.anonymous:
            return f"filtered by {' and '.join(self.wanted)}" if self.wanted else ""
        return ", ".join(f"{key} {one} only" for key, one in self.wanted.items())

    def provenance(self, name: str) -> str:
        """Return where the numbers of an analysis of this name come from, in words."""
        words = ["Darshan logs, measured", f"analysis {name}", self.filter_words()]
        return "; ".join(filter(None, words))

    def of_chunks(self) -> dict[str, Any]:
        """Return what determines the tables of a chunk, as `as_json` does.

        That is neither which logs there are, nor what is made of all chunks.
        """
        others = {"logs": [], "vanished": KEEP, "anonymous": False}
        return self.as_json() | others | {"pages": 0, "goal_s": None}


def is_of_logs(config: Mapping[str, Any]) -> bool:
    """Return whether a configuration is one of logs, and not of an experiment."""
    return LOGS in config


def read_settings(config: Mapping[str, Any], defaults: Mapping[str, Any]) -> Settings:
    """Check a configuration of logs; a ConfigError names key, value and expectation.

    Snakemake has laid it over `defaults`, an experiment whose keys mean nothing here.
    """
    known = {one.name for one in fields(Settings)}
    own = without_defaults(config, known, defaults, "analysis")
    check(own, LOGS, "config")
    return settings_of(**own)


def settings_of(
    experiment: str,
    logs: Sequence[str],
    tiers: str | Mapping[str, str | Sequence[str]] = AUTO,
    group: str | Mapping[str, str] = AUTO,
    epochs: str | None = None,
    inflation: Mapping[str, int] | None = None,
    **others: Any,
) -> Settings:
    """Return settings; patterns and prefixes are checked."""
    patterns = {"epochs": epochs}
    if isinstance(group, Mapping):
        patterns |= {f"group.{key}": pattern for key, pattern in group.items()}
    for key, pattern in patterns.items():
        _check_pattern(key, pattern)
    listed = tiers if tiers == AUTO else tuple(tiers_of(tiers))
    others["inflation"] = Inflation(**(inflation or {}))
    return Settings(experiment, tuple(logs), listed, group, epochs, **others)


def _check_pattern(key: str, pattern: str | None) -> None:
    """Refuse a regular expression that is wrong, or has not one group."""
    if pattern is None:
        return
    try:
        n_groups = re.compile(pattern).groups
    except re.error as error:
        raise ConfigError(
            f"config: {key}: got {pattern!r}, expected a regular expression: {error}"
        ) from error
    if n_groups != 1:
        raise ConfigError(
            f"config: {key}: got {pattern!r} with {n_groups} groups, expected 1"
        )


def worker_bytes(log_bytes: int) -> int:
    """Return how much memory a process needs that reads a log of this size."""
    return _WORKER_BYTES + _BYTES_PER_LOG_BYTE * max(log_bytes, 0)
