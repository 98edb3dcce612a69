"""What the processes of a launch run with."""

from dataclasses import replace

import pytest
from descriptions import describe_scenario
from tierscope.benchmark.observations import launch_facts
from tierscope.benchmark.observations.launch_facts import (
    RankFacts,
    gather_facts,
    refuse_other_loads,
    with_facts_of_machines,
)
from tierscope.core.validation import ConfigError

TRACER = {"libtierscope_trace.so": "a" * 64}
DARSHAN = {"libdarshan.so.0": "b" * 64}
MACHINE = {"cpu_model": "EPYC", "governor": "none", "mounts": {}}


def rank_of(node, affinity="0-1", tracer=TRACER, **changes):
    """Return the facts of a process that has read its modules and its machine."""
    libraries = {"tracer": tracer, "devices": {}}
    one = RankFacts(node, f"n{node}", "/code", libraries, affinity, "c" * 64, MACHINE)
    return replace(one, **changes)


def test_same_loads_are_accepted_whatever_the_machines_are():
    refuse_other_loads([rank_of(0), rank_of(1, "2", machine={})])


def test_rank_with_another_tracer_is_named_with_both():
    with pytest.raises(ConfigError) as error:
        refuse_other_loads([rank_of(0), rank_of(0), rank_of(1, tracer=DARSHAN)])
    assert str(error.value) == (
        "rank 2 on n1: has loaded as tracer libdarshan.so.0 (bbbbbbbbbbbb), but rank 0 "
        "on n0 libtierscope_trace.so (aaaaaaaaaaaa); all processes of a launch must "
        "load the same."
    )


def test_rank_with_other_modules_is_named():
    other = rank_of(1, modules="d" * 64, folder="/other")
    words = (
        r"^rank 1 on n1: has loaded modules /other \(dddddddddddd\), but .*/code \(c"
    )
    with pytest.raises(ConfigError, match=words):
        refuse_other_loads([rank_of(0), other])


def test_rank_with_two_tracers_is_refused():
    with pytest.raises(ConfigError, match=r"trace\.so \(a+\) and libdarshan\.so\.0 \("):
        refuse_other_loads([rank_of(0), rank_of(1, tracer=TRACER | DARSHAN)])


def test_rank_without_the_library_is_left_to_the_tracer():
    refuse_other_loads([rank_of(0), rank_of(1, tracer={})])


def test_name_of_a_file_does_not_matter():
    refuse_other_loads([rank_of(0), rank_of(1, tracer={"libother.so": "a" * 64})])


def test_ranks_take_the_facts_that_the_first_of_their_machine_has_read():
    later = {"modules": None, "machine": None}
    other = {"modules": "d" * 64, "machine": {"cpu_model": "ARM"}}
    given = [
        rank_of(0),
        rank_of(0, **later),
        rank_of(1, **other),
        rank_of(1, **later),
        rank_of(0, folder="/x", modules="e"),
        rank_of(0, folder="/x", **later),
    ]
    ranks = with_facts_of_machines(given)
    assert [one.modules[0] for one in ranks] == list("ccddee")
    assert ranks[3].machine == {"cpu_model": "ARM"}


def test_nodes_with_equal_facts_share_an_entry():
    ranks = [rank_of(0, "0"), rank_of(0, "1"), rank_of(1, "0"), rank_of(1, "1")]
    ranks += [rank_of(2, "0-1"), rank_of(2, "0-1"), rank_of(3, "0"), rank_of(3, "1")]
    facts = launch_facts.launch_facts(ranks)
    assert facts == {
        "libraries": {"tracer": TRACER, "devices": {}},
        "modules": "c" * 64,
        "machines": [
            {"nodes": "0-1,3", **MACHINE, "affinity": ["0", "1"]},
            {"nodes": "2", **MACHINE, "affinity": ["0-1"]},
        ],
    }


class Processes:
    """Four processes of one machine, of which this is one."""

    host, node = "here", 0

    def __init__(self, rank):
        self.rank, self.comm, self.gathered = rank, self, []

    def allgather(self, value):
        return [value] * 4

    def gather(self, value):
        self.gathered.append(value)
        return [value] if self.rank == 0 else None

    def barrier(self):
        pass


def test_only_the_first_process_of_a_machine_reads_the_modules(monkeypatch):
    read = []
    monkeypatch.setattr(
        launch_facts, "digest_of_modules", lambda path: read.append(path.name) or "f"
    )
    # Other tests may have loaded the libraries into this process.
    monkeypatch.setattr(launch_facts, "digests_of_loaded", lambda names, _: {})
    system = describe_scenario().system
    assert gather_facts(Processes(1), "run_probes", system) == {}
    assert read == []
    facts = gather_facts(Processes(0), "run_probes", system)
    assert read == ["run_probes.py"]
    assert facts["modules"] == "f"
    assert facts["libraries"] == {"tracer": {}, "devices": {}}
    assert facts["machines"][0]["mounts"].keys() == {"gfs", "lfs"}
