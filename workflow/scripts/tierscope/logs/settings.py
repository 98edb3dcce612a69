"""The configuration of an analysis of logs: read, check, complete."""

import glob
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tierscope.core.validation import ConfigError, check
from tierscope.logs.tiers import AUTO, TierPrefix, prefixes_of, tiers_of

LOGS = "logs"  # the key that makes a configuration one of logs
_DEFAULTS = {
    "tiers": AUTO,
    "group": AUTO,
    "epochs": None,
    "goal_s": None,
    "filter": {},
    "processes_per_node": None,
    "pages": 5,
    "anonymous": False,
}


@dataclass(frozen=True)
class Settings:
    """A checked configuration; the schema `logs` says what the keys mean."""

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

    def as_json(self) -> dict[str, Any]:
        """Return what determines the tables, for JSON; `settings_of` reads it."""
        values = dict(vars(self))
        if self.tiers != AUTO:
            values["tiers"] = prefixes_of(self.tiers)
        return values | {"logs": list(self.logs)}


def is_of_logs(config: Mapping[str, Any]) -> bool:
    """Return whether a configuration is one of logs, and not of an experiment."""
    return LOGS in config


def read_settings(config: Mapping[str, Any], defaults: Mapping[str, Any]) -> Settings:
    """Check a configuration of logs; a ConfigError names key, value and expectation.

    Snakemake has laid it over `defaults`, an experiment whose keys mean nothing here.
    """
    known = {LOGS, "experiment", *_DEFAULTS}
    own = {
        key: value
        for key, value in config.items()
        if key in known or key not in defaults or value != defaults[key]
    }
    if own.get("experiment") == defaults["experiment"]:
        raise ConfigError(
            f"config: experiment: got {own['experiment']!r}, which is the default "
            "experiment, expected a name for this analysis"
        )
    check(own, LOGS, "config")
    values = {**_DEFAULTS, **own}
    return settings_of(**values)


def settings_of(
    experiment: str,
    logs: Sequence[str],
    tiers: str | Mapping[str, str | Sequence[str]] = AUTO,
    group: str | Mapping[str, str] = AUTO,
    epochs: str | None = None,
    **others: Any,
) -> Settings:
    """Return settings; patterns and prefixes are checked."""
    patterns = {"epochs": epochs}
    if isinstance(group, Mapping):
        patterns |= {f"group.{key}": pattern for key, pattern in group.items()}
    for key, pattern in patterns.items():
        _check_pattern(key, pattern)
    listed = tiers if tiers == AUTO else tuple(tiers_of(tiers))
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


def find_logs(patterns: Sequence[str]) -> list[str]:
    """Return the logs that paths, folders and patterns name, sorted.

    A path that is named without a pattern is returned even if it does not exist: the
    analysis refuses it by name. A ConfigError names a pattern or folder without logs.
    """
    found: set[str] = set()
    for pattern in patterns:
        named = Path(pattern).expanduser()
        try:
            if named.is_dir():
                logs = _matching(named / "**" / "*.darshan")
            elif glob.has_magic(str(named)) and not named.exists():
                logs = _matching(named)
            else:
                logs = [str(named)]
        except ValueError as error:
            raise ConfigError(
                f"config: logs: got {pattern!r}, expected paths, folders or patterns: "
                f"{error}"
            ) from error
        if not logs:
            raise ConfigError(
                f"config: logs: got {pattern!r}, which names no log, expected paths, "
                "folders with *.darshan, or patterns"
            )
        found.update(logs)
    return sorted(found)


def _matching(pattern: Path) -> list[str]:
    """Return the files that a pattern names, and folders that it cannot look into.

    ``**`` follows no links of folders. What is hidden must be named.
    """
    if "**" not in pattern.parts:
        return [one for one in glob.glob(str(pattern)) if not os.path.isdir(one)]
    before = pattern.parts.index("**")
    starts = glob.glob(str(Path(*pattern.parts[:before])))
    parts = pattern.parts[before:] + ("*",) * (pattern.parts[-1] == "**")
    hidden = any(part.startswith(".") for part in parts)
    found: list[str] = []
    for start in starts:
        for folder, folders, files in os.walk(
            start, onerror=lambda error: found.append(error.filename)
        ):
            if not hidden:
                folders[:] = [name for name in folders if not name.startswith(".")]
                files = [name for name in files if not name.startswith(".")]
            for path in (Path(folder, name) for name in files):
                if _fits(path.relative_to(start).parts, parts):
                    found.append(str(path))
    return found


def _fits(names: Sequence[str], parts: Sequence[str]) -> bool:
    """Return whether components of a path fit those of a pattern."""
    if not parts or not names:
        return not names and all(part == "**" for part in parts)
    if parts[0] == "**":
        return _fits(names, parts[1:]) or _fits(names[1:], parts)
    return fnmatchcase(names[0], parts[0]) and _fits(names[1:], parts[1:])


def listing_digest(paths: Sequence[str]) -> str:
    """Return a digest of names, sizes and times of logs: a new log changes it."""
    digest = hashlib.sha256()
    for path in paths:
        try:
            status = os.stat(path)
            state = f"{status.st_size} {status.st_mtime_ns}"
        except OSError:
            state = "missing"
        digest.update(os.fsencode(path) + f"\0{state}\0".encode())
    return digest.hexdigest()
