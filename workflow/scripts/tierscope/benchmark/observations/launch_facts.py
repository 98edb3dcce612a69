"""What the processes of a launch run with: libraries, modules and machines.

The processes must have loaded the same tracer, devices and modules. Everything else may
differ between nodes, and `run.json` says how.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tierscope.benchmark.processes import Processes
from tierscope.core.imports import digest_of_modules
from tierscope.core.machine import Machine
from tierscope.core.validation import ConfigError
from tierscope.storage.machine_facts import (
    affinity,
    cpu_model,
    governor,
    mount_facts,
    range_words,
)
from tierscope.storage.preloaded import digests_of_loaded

_SCRIPTS = Path(__file__).parents[3]
_LIBRARIES = {  # by role: how their names begin
    "tracer": ("libtierscope_trace.so", "libdarshan.so"),
    "devices": ("libtierscope_device.so",),
}
_DIGITS = 12  # of a digest, in messages


@dataclass(frozen=True)
class RankFacts:
    """What a process runs with.

    `folder` is that of its modules, `libraries` digests of the loaded tracer and
    devices, `affinity` the processors. `modules` (a digest) and `machine` (processor,
    mounts) come from one process of a machine and folder.
    """

    node: int
    host: str
    folder: str
    libraries: Mapping[str, Mapping[str, str]]
    affinity: str
    modules: str | None = None
    machine: Mapping[str, Any] | None = None


def gather_facts(
    processes: Processes, script: str, system: Machine, tracer: Any = None
) -> dict[str, Any]:
    """Return a launch's part of `run.json` on rank 0, nothing elsewhere; all call this.

    Each process reads its own small libraries. One process of each machine reads the
    modules: they are many files, and processes are many. A ConfigError on rank 0 says
    which process has loaded others than rank 0.
    """
    place = (processes.host, str(_SCRIPTS))
    first = processes.comm.allgather(place).index(place)
    modules = machine = None
    if first == processes.rank:
        modules = digest_of_modules(_SCRIPTS / f"{script}.py")
        machine = _machine_facts(system)
    mine = RankFacts(
        processes.node,
        *place,
        _loaded_libraries(tracer.library if tracer else None),
        affinity(),
        modules,
        machine,
    )
    facts = {}
    if gathered := processes.gather(mine):
        ranks = with_facts_of_machines(gathered)
        refuse_other_loads(ranks)
        facts = launch_facts(ranks)
    processes.barrier()  # the others notice a failure here
    return facts


def with_facts_of_machines(gathered: Sequence[RankFacts]) -> list[RankFacts]:
    """Return the facts of all ranks, each with those that one of its place has read."""
    read = {(one.host, one.folder): one for one in gathered if one.modules}
    return [
        replace(one, modules=of_place.modules, machine=of_place.machine)
        for one in gathered
        for of_place in [read[one.host, one.folder]]
    ]


def refuse_other_loads(ranks: Sequence[RankFacts]) -> None:
    """Refuse, by a ConfigError, processes that have loaded something else than rank 0.

    One without a library is not refused here: `refuse_unless_loaded` says why.
    """
    first = ranks[0]
    for rank, one in enumerate(ranks):
        for what, there, here in _loads(one, first):
            if there and sorted(there.values()) != sorted(here.values()):
                raise ConfigError(
                    f"rank {rank} on {one.host}: has loaded {what} {_words(there)}, "
                    f"but rank 0 on {first.host} {_words(here)}; all processes of a "
                    "launch must load the same."
                )


def launch_facts(ranks: Sequence[RankFacts]) -> dict[str, Any]:
    """Return a launch's part of `run.json` from the facts of all ranks."""
    first = ranks[0]
    nodes: dict[int, dict[str, Any]] = {}
    for one in ranks:
        facts = nodes.setdefault(one.node, {**(one.machine or {}), "affinity": []})
        if one.affinity not in facts["affinity"]:
            facts["affinity"].append(one.affinity)
    return {
        "libraries": first.libraries,
        "modules": first.modules,
        "machines": by_machine(nodes),
    }


def by_machine(facts_of: Mapping[int, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the facts of nodes by their numbers, equal ones together."""
    found: list[tuple[list[int], Mapping[str, Any]]] = []
    for node, facts in sorted(facts_of.items()):
        same = (numbers for numbers, known in found if known == facts)
        if (numbers := next(same, None)) is not None:
            numbers.append(node)
        else:
            found.append(([node], facts))
    return [{"nodes": range_words(numbers), **facts} for numbers, facts in found]


def _machine_facts(system: Machine) -> dict[str, Any]:
    """Return what can change the speed of this machine: processor and mounts."""
    mounts = {name: mount_facts(t.data_root()) for name, t in system.tiers.items()}
    return {"cpu_model": cpu_model(), "governor": governor(), "mounts": mounts}


def _loaded_libraries(tracer: Path | None) -> dict[str, dict[str, str]]:
    """Return the digests of the loaded libraries by role."""
    return {
        role: digests_of_loaded(names, tracer if role == "tracer" else None)
        for role, names in _LIBRARIES.items()
    }


def _loads(
    one: RankFacts, first: RankFacts
) -> Iterator[tuple[str, Mapping[str, str], Mapping[str, str]]]:
    """Yield what a rank and rank 0 have loaded: what, and the digests of both."""
    for role in _LIBRARIES:
        yield f"as {role}", one.libraries[role], first.libraries[role]
    yield "modules", {one.folder: one.modules}, {first.folder: first.modules}


def _words(digests: Mapping[str, str]) -> str:
    """Return names with the first digits of their digests."""
    words = [f"{name} ({digest[:_DIGITS]})" for name, digest in digests.items()]
    return " and ".join(words) or "none"
