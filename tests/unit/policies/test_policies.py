import numpy as np
import pytest
from descriptions import changed, describe_scenario
from hypothesis import given
from hypothesis import strategies as st
from tierscope.benchmark.loaders import FILE_LOADERS
from tierscope.core.lmdb_loaders import LOADERS as DATABASE_LOADERS
from tierscope.core.scenario import PROGRAM_LOADER, Point
from tierscope.core.validation import read_schema
from tierscope.data.shuffle import RunOrder, epoch_files
from tierscope.policies import (
    PLACED,
    POLICIES,
    Copy,
    Evict,
    Pinning,
    Place,
    held_files,
    node_policy,
    of_kind,
    policy_options,
    strata,
)
from tierscope.policies.clairvoyant import Clairvoyant, files_to_fetch, node_accesses
from tierscope.policies.lru import LeastRecentlyUsed
from tierscope.policies.monarch import Monarch
from tierscope.policies.node import NodeStore
from tierscope.policies.view import NodeView

GFS, LFS = Place.GFS, Place.LFS
SETTINGS = {
    "copy_threads": 2,
    "drain": True,
    "hand_over": True,
    "stop": "first-misfit",
}


def describe(policy, n_files=12, n_nodes=2, processes_per_node=2, epochs=3):
    return describe_scenario(
        **{
            "scenario": {"policy": policy},
            "dataset": {"n_files": n_files, "file_size_bytes": 100},
            "training": {"shuffle": "global", "seed": 1, "epochs": epochs},
            "system": {"n_nodes": n_nodes, "processes_per_node": processes_per_node},
            "policy": policy_options(policy, SETTINGS),
        }
    )


def store(*sizes, quota):
    return NodeStore(np.array(sizes), quota)


def read(policy, file_id):
    """Read a file, carry out all actions at once, and return place and actions."""
    place = policy.begin_read(file_id)
    actions = policy.end_read(file_id, place)
    for action in actions:
        if isinstance(action, Copy):
            assert policy.placed(action.file_id) == []
    return place, actions


def run_nodes(description, cache_rate_percent, repetition=0):
    """Return the LFS reads of every epoch, all nodes; copies end within their epoch."""
    point = Point(cache_rate_percent, repetition)
    system, training = description.system, description.training
    per_node = system.processes_per_node
    n_processes = system.n_nodes * per_node
    hits = np.zeros(training.epochs, int)
    for node in range(system.n_nodes):
        ranks = range(node * per_node, (node + 1) * per_node)
        policy = node_policy(description, point, ranks)
        assert policy.start() == [] or description.scenario.policy not in (
            "monarch",
            "lru",
        )
        for epoch in range(training.epochs):
            for rank in ranks:
                for file_id in epoch_files(
                    description.dataset.n_files,
                    rank,
                    n_processes,
                    shuffle=training.shuffle,
                    seed=training.seed,
                    repetition=repetition,
                    epoch=epoch,
                ):
                    hits[epoch] += read(policy, int(file_id))[0] == LFS
    return hits


# ---- static policies ------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "n_on_lfs"), [("none", 0), ("pinning", 6), ("stratified-pinning", 6)]
)
def test_static_policy_reads_what_is_held_from_the_lfs(policy, n_on_lfs):
    point = Point(50, 0)
    decide = node_policy(describe(policy), point, [0, 1])
    places = [decide.begin_read(file_id) for file_id in range(12)]
    assert places.count(LFS) == n_on_lfs
    assert decide.start() == decide.end_read(0, GFS) == decide.placed(0) == []
    if n_on_lfs:
        on_lfs = Pinning(12, 50, seed=1).on_lfs()
        assert [place == LFS for place in places] == on_lfs.tolist()


def test_only_stratified_pinning_deals_strata_apart():
    on_lfs = held_files(describe("pinning"), Point(50, 0))
    assert strata("pinning", on_lfs) is None
    assert strata("none", on_lfs) is None
    assert strata("stratified-pinning", on_lfs) is on_lfs


def test_options_are_those_that_the_policy_uses():
    assert policy_options("pinning", SETTINGS) == {}
    assert set(policy_options("lru", SETTINGS)) == {
        "copy_threads",
        "drain",
        "hand_over",
    }
    assert policy_options("monarch", SETTINGS) == SETTINGS


# ---- Monarch --------------------------------------------------------------------


@pytest.mark.parametrize("cache_rate_percent", [0, 25, 50, 100])
@pytest.mark.parametrize("epochs", [1, 3, 5])
def test_monarch_on_one_node_saves_f_times_all_epochs_but_the_first(
    cache_rate_percent, epochs
):
    n_files = 96
    description = describe("monarch", n_files, n_nodes=1, epochs=epochs)
    hits = run_nodes(description, cache_rate_percent)
    f = cache_rate_percent / 100
    # GFS reads saved of E n reads: the share f (E - 1) / E, with h = 0 and q = 1
    assert hits.sum() == f * (epochs - 1) / epochs * (epochs * n_files)
    assert hits[0] == 0
    assert (hits[1:] == f * n_files).all()


@pytest.mark.parametrize("n_nodes", [2, 4, 8])
@pytest.mark.parametrize("cache_rate_percent", [20, 50, 100])
def test_monarch_on_several_nodes_hits_by_the_law_of_what_nodes_have_seen(
    n_nodes, cache_rate_percent
):
    n_files, epochs = 4096, 5
    description = describe("monarch", n_files, n_nodes, 2, epochs)
    hit_rate = run_nodes(description, cache_rate_percent) / n_files
    f = cache_rate_percent / 100
    seen = 1 - (1 - 1 / n_nodes) ** np.arange(epochs)
    law = np.minimum(f, seen)
    # A read hits or not; what nodes have seen varies as well, by less than as much.
    error = np.sqrt(2 * law * (1 - law) / n_files)
    assert (np.abs(hit_rate - law) <= 3.5 * error + 1e-12).all()


def test_monarch_places_after_the_first_read_once_and_evicts_nothing():
    monarch = Monarch(store(1, 1, 1, quota=2), "first-misfit")
    assert monarch.begin_read(0) == GFS
    assert monarch.end_read(0, GFS) == [Copy(0)]
    assert monarch.begin_read(0) == GFS  # by another process, the copy under way
    assert monarch.end_read(0, GFS) == []
    monarch.placed(0)
    assert read(monarch, 0) == (LFS, [])
    assert read(monarch, 1) == (GFS, [Copy(1)])
    assert read(monarch, 2) == (GFS, [])
    assert set(monarch.store.held) == {0, 1}


@pytest.mark.parametrize(
    ("stop", "held"), [("first-misfit", {0}), ("first-fit", {0, 2})]
)
def test_monarch_stops_at_the_first_misfit_or_when_nothing_fits(stop, held):
    monarch = Monarch(store(3, 4, 2, quota=5), stop)
    for file_id in (0, 1, 2):
        read(monarch, file_id)
    assert set(monarch.store.held) == held


def test_monarch_reserves_room_before_the_copy():
    monarch = Monarch(store(3, 3, quota=5), "first-fit")
    assert monarch.end_read(0, GFS) == [Copy(0)]
    assert monarch.end_read(1, GFS) == []
    assert monarch.store.used_bytes == 3


def test_monarch_leaves_a_file_whose_copy_failed_on_the_gfs():
    monarch = Monarch(store(1, 1, quota=1), "first-misfit")
    assert monarch.end_read(0, GFS) == [Copy(0)]
    assert monarch.failed(0, full=False) == []
    assert read(monarch, 0) == (GFS, [])
    assert read(monarch, 1) == (GFS, [Copy(1)])


@pytest.mark.parametrize("stop", ["first-misfit", "first-fit"])
def test_monarch_on_a_full_lfs_keeps_what_it_has_and_goes_on_from_the_gfs(stop):
    monarch = Monarch(store(1, 1, 1, 1, quota=4), stop)
    read(monarch, 0)
    monarch.end_read(1, GFS)
    monarch.failed(1, full=True)
    assert [read(monarch, file_id) for file_id in (0, 1, 2, 3)] == [
        (LFS, []),
        (GFS, []),
        (GFS, []),
        (GFS, []),
    ]


def test_unknown_stop_rule_is_refused():
    with pytest.raises(ValueError, match="got 'never', expected one of"):
        Monarch(store(1, quota=1), "never")


# ---- LRU ------------------------------------------------------------------------


def test_lru_evicts_what_was_not_used_for_longest():
    lru = LeastRecentlyUsed(store(1, 1, 1, quota=2))
    read(lru, 0)
    read(lru, 1)
    assert read(lru, 0) == (LFS, [])
    assert read(lru, 2) == (GFS, [Evict(1), Copy(2)])
    assert set(lru.store.held) == {0, 2}


def test_lru_does_not_evict_what_is_being_read_or_copied():
    lru = LeastRecentlyUsed(store(1, 1, 1, quota=1))
    read(lru, 0)
    assert lru.begin_read(0) == LFS
    assert read(lru, 1) == (GFS, [])
    lru.end_read(0, LFS)
    assert lru.end_read(1, GFS) == [Evict(0), Copy(1)]
    assert lru.end_read(2, GFS) == []  # the copy of 1 is under way


def test_lru_tries_a_failed_copy_again_within_what_the_lfs_holds():
    lru = LeastRecentlyUsed(store(1, 1, 1, quota=3))
    read(lru, 0)
    assert lru.end_read(1, GFS) == [Copy(1)]
    lru.failed(1, full=True)
    assert lru.end_read(1, GFS) == [Evict(0), Copy(1)]


def test_lru_under_a_cyclic_scan_never_hits_below_the_whole_dataset():
    lru = LeastRecentlyUsed(store(*[1] * 10, quota=9))
    assert all(read(lru, file_id)[0] == GFS for file_id in [*range(10)] * 3)
    lru = LeastRecentlyUsed(store(*[1] * 10, quota=10))
    hits = [read(lru, file_id)[0] == LFS for file_id in [*range(10)] * 3]
    assert sum(hits) == 20


# ---- clairvoyant ----------------------------------------------------------------


def test_clairvoyant_fetches_the_most_used_in_the_order_of_first_use():
    accesses = np.array([5, 3, 1, 3, 1, 4, 1])
    sizes = np.ones(6, int)
    assert files_to_fetch(accesses, sizes, 2).tolist() == [3, 1]
    assert files_to_fetch(accesses, sizes, 3).tolist() == [5, 3, 1]
    assert files_to_fetch(accesses, sizes, 0).tolist() == []


def test_clairvoyant_keeps_so_many_fetches_under_way():
    nosy = Clairvoyant(store(*[1] * 6, quota=4), np.array([0, 1, 2, 3] * 2), n_ahead=2)
    assert nosy.start() == [Copy(0), Copy(1)]
    assert nosy.placed(0) == [Copy(2)]
    assert nosy.begin_read(0) == LFS
    assert nosy.failed(1, full=False) == [Copy(3)]
    assert nosy.begin_read(1) == GFS
    assert nosy.placed(2) == nosy.placed(3) == []


def test_clairvoyant_takes_what_a_reader_got_first_and_skips_what_nobody_will_read():
    accesses = np.array([0, 1, 2, 1])
    nosy = Clairvoyant(store(*[1] * 3, quota=3), accesses, n_ahead=1)
    assert nosy.start() == [Copy(0)]
    assert nosy.end_read(1, GFS) == [Copy(1)]  # will be read again
    assert nosy.end_read(2, GFS) == []  # will not
    nosy.placed(1)
    assert nosy.placed(0) == []
    assert set(nosy.store.held) == {0, 1}


def test_clairvoyant_ends_on_a_full_lfs():
    nosy = Clairvoyant(store(*[1] * 4, quota=4), np.arange(4), n_ahead=1)
    assert nosy.start() == [Copy(0)]
    assert nosy.failed(0, full=True) == []


def test_accesses_of_a_node_are_those_of_its_processes_in_turn():
    arguments = {"shuffle": "global", "seed": 1, "repetition": 0}
    accesses = node_accesses(RunOrder(8, 4, **arguments), [2, 3], n_epochs=2)
    parts = [epoch_files(8, rank, 4, epoch=1, **arguments) for rank in (2, 3)]
    assert accesses[4:].tolist() == np.column_stack(parts).ravel().tolist()


# ---- all dynamic ones -------------------------------------------------------------


@given(data=st.data(), policy=st.sampled_from(of_kind(PLACED)))
def test_no_order_of_events_breaks_quota_or_reads_what_is_not_there(data, policy):
    description = describe(policy, n_files=12, n_nodes=1)
    rate = data.draw(st.integers(0, 100))
    decide = node_policy(description, Point(rate, 0), [0])
    accesses = node_accesses(RunOrder(12, 1, "global", 1, 0), [0], n_epochs=3)
    quota, on_lfs, copying, reading = round(12 * rate / 100), set(), set(), []

    def carry_out(actions):
        for action in actions:
            if isinstance(action, Evict):
                assert action.file_id not in [f for f, place in reading if place == LFS]
                on_lfs.remove(action.file_id)
            else:
                assert action.file_id not in copying | on_lfs
                copying.add(action.file_id)
            assert len(copying | on_lfs) <= quota

    carry_out(decide.start())
    for file_id in accesses.tolist():
        place = decide.begin_read(file_id)
        assert (place == LFS) == (file_id in on_lfs)
        reading.append((file_id, place))
        while reading and data.draw(st.booleans()):
            one = reading.pop(0)
            carry_out(decide.end_read(*one))
        while copying and data.draw(st.booleans()):
            one = data.draw(st.sampled_from(sorted(copying)))
            copying.remove(one)
            if data.draw(st.booleans()):
                on_lfs.add(one)
                carry_out(decide.placed(one))
            else:
                carry_out(decide.failed(one, full=data.draw(st.booleans())))


def words_of(key):
    """Return the words that a list of the sweep may have."""
    sweep = read_schema("config")["properties"]["sweep"]
    return sweep["properties"][key]["items"]["enum"]


def test_configuration_takes_the_policies_of_the_registry():
    assert words_of("policies") == list(POLICIES)


def test_configuration_takes_the_loaders_of_the_registries():
    known = words_of("loaders")
    assert sorted(known) == sorted([PROGRAM_LOADER, *FILE_LOADERS, *DATABASE_LOADERS])


def test_generator_of_a_policy_differs_by_node_repetition_and_seed():
    def draws(ranks=(0, 1), repetition=0, seed=1):
        description = changed(describe("lru"), training={"seed": seed})
        point = Point(50, repetition)
        return NodeView(description, point, ranks).generator().integers(1 << 30, size=4)

    views = [{}, {"ranks": (2, 3)}, {"repetition": 1}, {"seed": 2}]
    assert len({tuple(draws(**view)) for view in views}) == 4
    assert (draws() == draws()).all()
