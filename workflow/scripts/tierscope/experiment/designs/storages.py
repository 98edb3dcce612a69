"""The storages that a configuration of designs leaves to choose from."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from tierscope.core.validation import ConfigError
from tierscope.data.designs import NO_COPIES, Plan, Storage

MOST_DESIGNS = 20_000
_RATES = {"cache_rate_percent": "cache_rates_percent"}  # key of the configuration
_NEAR = 1e-9  # of a step: the end of a range


def values_of(key: str, choice: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
    """Return the values of a choice: of a list, or {from, to, step}.

    Raises
    ------
    ConfigError
        If a range ends before it begins, or is too long.
    """
    if not isinstance(choice, Mapping):
        return list(choice)
    first, last, step = (choice[word] for word in ("from", "to", "step"))
    n_steps = (last - first) / step + _NEAR
    if not 0 <= n_steps < MOST_DESIGNS:
        raise ConfigError(
            f"config: designs.choices.{key}: got {first} to {last} by {step}, expected "
            f"1 to {MOST_DESIGNS} values"
        )
    return [first + i * step for i in range(int(n_steps) + 1)]


def storages_of(choices: Mapping[str, Any]) -> tuple[Storage, ...]:
    """Return all combinations of what may be chosen of a storage, each once.

    Without copies on the LFS, its devices are the fewest and smallest.
    """
    values = {}
    for field in fields(Storage):
        key = _RATES.get(field.name, field.name)
        given = sorted(values_of(key, choices.get(key, ())))
        values[field.name] = given or [field.default]
    n_storages = math.prod(map(len, values.values()))
    if n_storages > MOST_DESIGNS:
        raise ConfigError(
            f"config: designs.choices: got {n_storages} storages, expected at most "
            f"{MOST_DESIGNS}"
        )
    devices = {name: values[name][0] for name in ("lfs_devices", "lfs_gib")}
    found = []
    for one in itertools.starmap(Storage, itertools.product(*values.values())):
        if one.placement == NO_COPIES:
            one = replace(one, cache_rate_percent=0)
        found.append(replace(one, **devices) if one.cache_rate_percent == 0 else one)
    return tuple(dict.fromkeys(found))


def within_limits(
    storages: Sequence[Storage],
    plan: Plan,
    limits: Mapping[str, float],
    usable_tib: float,
) -> tuple[Storage, ...]:
    """Return the storages that limits of pieces and of room allow.

    Limits of money, watts and rack units are left to those who choose: prices change.

    Parameters
    ----------
    storages : sequence of Storage
        What may be chosen.
    plan : Plan
        Any workload on the machine.
    limits : mapping of str to float
        Limits by quantity; of usable room it is the least.
    usable_tib : float
        Usable room of an object server.

    Raises
    ------
    ConfigError
        If none is left.
    """
    needed_tib = limits.get("usable_tib", 0)
    found = [
        one
        for one in storages
        if plan.object_servers(one) <= limits.get("object_servers", math.inf)
        and (one.links or 1) <= limits.get("links", math.inf)
        and plan.n_lfs_devices(1, one) <= limits.get("lfs_devices", math.inf)
        and plan.object_servers(one) * usable_tib >= needed_tib
    ]
    if not found:
        names = {"object_servers", "links", "lfs_devices", "usable_tib"} & {*limits}
        given = ", ".join(f"{name} {limits[name]:g}" for name in sorted(names))
        raise ConfigError(
            f"config: designs.limits: got {given}, limits that none of {len(storages)} "
            "storages meets, expected other choices"
        )
    return tuple(found)
