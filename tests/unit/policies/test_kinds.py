from tierscope.audit.run import CHECKS
from tierscope.benchmark.sources import SOURCES
from tierscope.benchmark.sources.files import FileSource
from tierscope.core.columns import TABLES
from tierscope.core.scenario import Scenario
from tierscope.model.simulator.runs import SIMULATIONS
from tierscope.policies import POLICIES, kind_of, of_kind
from tierscope.policies.kinds import (
    DATABASE,
    FILES,
    KINDS,
    PEERS,
    PLACED,
    PLACED_PROGRAM,
    PROGRAM,
)

OURS = set(KINDS) - {PROGRAM, PLACED_PROGRAM}  # of our loaders


def test_every_kind_of_our_loaders_is_measured_audited_and_simulated():
    for registry in (SOURCES, CHECKS, SIMULATIONS):
        assert set(registry) == OURS


def test_every_kind_has_a_source_of_its_own():
    classes = {load() for load in SOURCES.values()}
    assert len(classes) == len(OURS)
    assert all(issubclass(one, FileSource) for one in classes)


def test_tables_of_kinds_have_contracts_and_no_two_kinds_share_one():
    kinds = [*OURS, PROGRAM]
    names = [name for kind in kinds for name in (*kind.tables, *kind.sums)]
    assert set(names) <= set(TABLES)
    assert len(set(names)) == len(names)
    placed = {*PLACED_PROGRAM.tables, *PLACED_PROGRAM.sums}
    assert placed == {*PROGRAM.tables, *PROGRAM.sums, *PLACED.tables, *PLACED.sums}


def test_every_policy_is_of_one_kind_and_databases_are_their_own():
    assert sorted(name for kind in KINDS for name in of_kind(kind)) == sorted(POLICIES)
    kinds = {
        (policy, loader): kind_of(Scenario("small", 60, policy, loader))
        for policy, loader in (
            ("pinning", "posix"),
            ("monarch", "tensorflow"),
            ("adhoc", "posix"),
            ("pinning", "lmdbio"),
            ("pinning", "program"),
            ("lru", "program"),
        )
    }
    wanted = [FILES, PLACED, PEERS, DATABASE, PROGRAM, PLACED_PROGRAM]
    assert list(kinds.values()) == wanted
