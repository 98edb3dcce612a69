"""Simulated runs whose files get to the LFS meanwhile, or are read from other nodes."""

import numpy as np
import pytest
from descriptions import changed, describe_scenario
from tierscope.analysis.breakdown import break_down
from tierscope.audit.decisions import n_broken_rules, n_differences, room_of
from tierscope.core.scenario import Point
from tierscope.core.tables import check_table
from tierscope.model.simulator.decisions import Placement
from tierscope.model.simulator.epoch import first_reads, simulate_epoch
from tierscope.model.simulator.placed_epoch import PlacedStorage
from tierscope.model.simulator.placed_run import AdHocRun, DynamicRun
from tierscope.model.simulator.reader_steps import (
    FROM_GFS,
    FROM_LFS,
    STAGED,
    UNDECIDED,
)
from tierscope.model.simulator.runs import simulate_run
from tierscope.policies import PLACED, Place, node_policy, of_kind
from tierscope.policies.decisions import Decisions
from tierscope.storage.queueing_network import (
    ModelError,
    Network,
    Service,
    TierModel,
    Workload,
)

GFS = TierModel(open_s=1, request_s=4)
LFS = TierModel(open_s=0.5, request_s=1, group_size=1)


def describe(
    policy="monarch", n_nodes=4, per_node=2, n_files=64, epochs=3, cv=1.0, **options
):
    """Return what a scenario depends on; service times are lognormal."""
    service = {"service_distribution": "lognormal", "service_cv": cv}
    gfs = {
        "open_s": 0.001,
        "close_s": 0.0001,
        "metadata_latency_s": 0.002,
        "ost_bandwidth_bytes_per_s": 1e6,
        "read_latency_s": 0.001,
        "link_bytes_per_s": 1e7,
        "request_bytes": 1 << 20,
    }
    lfs = {
        "request_bytes": 1 << 17,
        "request_s": 0.001,
        "latency_s": 0.0005,
        "processes_per_server": per_node,
    }
    peers = {"server_threads": 2, "mount": None}
    placing = {
        "copy_threads": 2,
        "drain": True,
        "hand_over": True,
        "stop": "first-misfit",
    }
    return describe_scenario(
        **{
            "source": "simulated",
            "system": {
                "name": "test",
                "n_nodes": n_nodes,
                "processes_per_node": per_node,
                "emulation": None,
                "devices": {
                    "gfs": gfs,
                    "lfs": lfs,
                    "simulation": service,
                    "network": {"latency_s": 1e-6, "bandwidth_bytes_per_s": 1e9},
                },
            },
            "dataset": {
                "name": "tiny",
                "n_files": n_files,
                "file_size_bytes": 1000,
                "batch_size": 2,
            },
            "scenario": {
                "dataset": "tiny",
                "n_osts": 3,
                "policy": policy,
                "loader": "tensorflow",
            },
            "training": {
                "epochs": epochs,
                "shuffle": "global",
                "seed": 1,
                "compute_time_s": 0,
            },
            "loader": {"buffer_bytes": 0, "prefetch_batches": 2, "read_threads": 1},
            "policy": (peers if policy == "adhoc" else placing) | options,
        }
    )


def at(cache_rate_percent, repetition=0):
    return Point(cache_rate_percent, repetition)


def hit_rates(policy, cache_rate_percent, **changes):
    """Return which part of an epoch's reads the LFS served."""
    run = DynamicRun(describe(policy, **changes), at(cache_rate_percent))
    return np.array([reads.on_lfs.mean() for reads in run.epochs()])


class Never:
    """Decides from a list and never copies."""

    def __init__(self, files, on_lfs):
        self.on_lfs = dict(zip(files.tolist(), on_lfs.tolist(), strict=True))

    def begins(self, rank, file_id):
        return FROM_LFS if self.on_lfs[file_id] else FROM_GFS

    def ended(self, rank, file_id, place):
        assert place == self.begins(rank, file_id)


# ---- the same simulator ----------------------------------------------------------


@pytest.mark.parametrize(
    "service", [Service(), Service("exponential"), Service("lognormal", 1.2)]
)
@pytest.mark.parametrize("lfs_open_s", [0, 0.3])
@pytest.mark.parametrize("asks", [False, True])
def test_where_nothing_is_copied_all_instants_are_those_of_the_static_simulator(
    service, lfs_open_s, asks
):
    kinds = {"metadata_service": service, "object_service": service}
    gfs = TierModel(
        open_s=1e-3,
        close_s=1e-4,
        open_latency_s=0.01,
        n_metadata_servers=2,
        n_object_servers=3,
        request_s=0.01,
        request_bytes=50,
        n_links=2,
        link_bytes_per_s=1e4,
        **kinds,
    )
    lfs = TierModel(
        group_size=8,
        open_s=lfs_open_s,
        open_latency_s=0.01,
        request_s=0.02,
        close_latency_s=0.1,
        **kinds,
    )
    network = Network(16, gfs, lfs)
    workload = Workload(165, 130, batch_size=4, prefetch_batches=2, compute_time_s=0.05)
    storage = PlacedStorage(network, workload, n_nodes=4, n_copiers=2, n_epochs=2)
    for epoch in range(2):  # the second one begins as if there had been no first one
        draws = np.random.default_rng(epoch)
        files, on_lfs = draws.permutation(165), draws.random(165) < 0.5
        static = simulate_epoch(
            network, workload, files, on_lfs, np.random.default_rng(7)
        )
        place = on_lfs.astype(np.int8)
        if asks:
            place[:] = UNDECIDED
        placed = storage.run_epoch(
            files,
            first_reads(165, 16),
            place,
            np.random.default_rng(7),
            Never(files, on_lfs),
        )
        assert np.array_equal(placed.instants_ns, static.instants_ns)
        assert np.array_equal(placed.finished_ns, static.finished_ns)
        assert np.array_equal(placed.busy_ns, static.busy_ns)
        assert placed.n_events == static.n_events
        assert np.array_equal(place == FROM_LFS, on_lfs)


# ---- copies that one can follow with a pencil --------------------------------------


def place_all(n_files, n_copiers=1, hand_over=True, drain=True, n_epochs=2, lfs=LFS):
    """Simulate Monarch on one node of one rank with room for all files."""
    description = describe(n_nodes=1, per_node=1, n_files=n_files, epochs=n_epochs)
    network, workload = Network(1, GFS, lfs), Workload(n_files, 100)
    storage = PlacedStorage(network, workload, 1, n_copiers, n_epochs)
    placement = Placement(
        [node_policy(description, at(100), [0])],
        storage,
        n_epochs,
        drain=drain,
        hand_over=hand_over,
    )
    placement.begin()
    epochs, places = [], np.full((n_epochs, n_files), UNDECIDED, np.int8)
    for epoch, place in enumerate(places):
        placement.begin_epoch(epoch)
        one = storage.run_epoch(
            np.arange(n_files),
            np.array([0, n_files]),
            place,
            np.random.default_rng(1),
            placement,
            placement.end_epoch,
        )
        placement.note_drain(int(one.finished_ns.max()))
        epochs.append(one)
    return epochs, placement, storage, places


def test_file_that_was_handed_over_is_written_as_it_would_be_read():
    (first, second), placement, storage, _ = place_all(n_files=1)
    assert first.instants_s.tolist() == [[0, 1, 5, 5, 5]]
    assert storage.copy_s[0].tolist() == [[0, 0, 0.5, 1], [0, 0, 0, 0]]
    assert placement.drain_s.tolist() == [[1.5, 0]]
    assert second.instants_s.tolist() == [[0, 0.5, 1.5, 1.5, 1.5]]


def test_file_that_was_not_handed_over_is_read_once_more():
    _, placement, storage, _ = place_all(n_files=1, hand_over=False)
    assert storage.copy_s[0, 0].tolist() == [1, 4, 0.5, 1]
    assert placement.drain_s.tolist() == [[6.5, 0]]


def test_copies_wait_in_the_queues_of_the_reads_and_reads_in_theirs():
    lfs = TierModel(open_s=1, request_s=4)
    (first, _), placement, storage, _ = place_all(3, hand_over=False, lfs=lfs)
    # At 5 the copy of file 0 opens, as the rank only then asks where file 1 is. So that
    # is opened at 7 after waiting 1, and read 10 to 14 after waiting 3.
    assert first.instants_s[1].tolist() == [5, 7, 14, 14, 14]
    # The copy of file 0 ends at 15. Then file 2 is being read until 19, so that of file
    # 1 waits 3 after its open. That of file 2 begins as it ends, at 23 + 5.
    assert first.instants_s[2].tolist() == [14, 15, 19, 19, 19]
    assert storage.copy_s[0, 0].tolist() == [1 + 1 + 1, 4 + (3 + 4) + 4, 3, 12]
    assert placement.drain_s[0, 0] == (28 + 5 + 5) - 19


def test_node_copies_so_many_files_at_a_time():
    _, _, one, _ = place_all(n_files=4, n_copiers=1)
    _, _, two, _ = place_all(n_files=4, n_copiers=2)
    assert one.copy_s.sum() == two.copy_s.sum() == 4 * 1.5  # none waits


@pytest.mark.parametrize("drain", [True, False])
def test_copies_that_are_not_awaited_go_on_in_the_next_epoch(drain):
    _, placement, _, places = place_all(n_files=1, drain=drain)
    # The copy takes until 1.5 after the epoch; without it the GFS has the file.
    assert places[1].tolist() == [FROM_LFS if drain else FROM_GFS]
    assert placement.drain_s[0, 0] == (1.5 if drain else 0)
    assert placement.counts[0].tolist() == [[1, 0]]


# ---- policies ---------------------------------------------------------------------


@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize("cache_rate_percent", [0, 25, 50, 100])
def test_monarch_on_one_node_saves_f_times_all_epochs_but_the_first(
    cache_rate_percent, epochs
):
    hits = hit_rates("monarch", cache_rate_percent, n_nodes=1, epochs=epochs)
    f = cache_rate_percent / 100
    assert hits.tolist() == [0] + [f] * (epochs - 1)
    assert hits.mean() == pytest.approx(f * (epochs - 1) / epochs, abs=1e-15)


@pytest.mark.parametrize(("n_nodes", "n_files"), [(4, 4096), (768, 7680)])
def test_monarch_on_several_nodes_hits_by_the_law_of_what_nodes_have_seen(
    n_nodes, n_files
):
    hits = hit_rates("monarch", 50, n_nodes=n_nodes, per_node=1, n_files=n_files)
    law = np.minimum(0.5, 1 - (1 - 1 / n_nodes) ** np.arange(3))
    error = np.sqrt(2 * law * (1 - law) / n_files)
    assert (np.abs(hits - law) <= 3.5 * error).all()


def test_lru_below_the_whole_dataset_hits_less_than_monarch():
    monarch = hit_rates("monarch", 50, n_nodes=1)
    assert hit_rates("lru", 50, n_nodes=1).sum() < monarch.sum()
    assert hit_rates("lru", 100, n_nodes=1).tolist() == [0, 1, 1]


@pytest.mark.parametrize("policy", of_kind(PLACED))
def test_simulated_decisions_are_checked(policy, monkeypatch):
    simulate_run(describe(policy), at(50))
    add = Decisions.add

    def wrong(self, event, epoch, file_id, place, *more, **options):
        place = Place.LFS if event == "begin" else place
        add(self, event, epoch, file_id, place, *more, **options)

    monkeypatch.setattr(Decisions, "add", wrong)
    with pytest.raises(ModelError, match="that the policy would not make"):
        simulate_run(describe(policy), at(50))


@pytest.mark.parametrize("drain", [True, False])
@pytest.mark.parametrize("hand_over", [True, False])
@pytest.mark.parametrize("policy", of_kind(PLACED))
def test_policy_asked_anew_decides_the_same_and_no_rule_is_broken(
    policy, hand_over, drain
):
    description = describe(policy, hand_over=hand_over, drain=drain)
    run = DynamicRun(description, at(50), with_decisions=True)
    epochs = list(run.epochs())
    decisions = check_table(run.placement.decisions(), "decisions")
    for node, rows in decisions.groupby("node"):
        rows = rows.sort_values("step").to_dict("records")
        ranks = [2 * node, 2 * node + 1]
        fresh = node_policy(description, at(50), ranks)
        assert n_differences(rows, fresh) == 0
        assert n_broken_rules(rows, room_of(description, at(50))) == 0
    for epoch, reads in enumerate(epochs):
        here = decisions[decisions["epoch"] == epoch]
        for event in ("begin", "end"):  # every file once an epoch
            files = here.loc[here["event"] == event, "file_id"]
            assert sorted(files) == list(range(64))
        begun = here[(here["event"] == "begin") & (here["place"] == "lfs")]
        assert sorted(begun["file_id"]) == sorted(reads.files[reads.on_lfs])
    summed = run.tables()["background"]
    counted = decisions[decisions["event"] == "placed"]
    counted = counted.groupby(["node", "epoch"]).size()
    placed = summed.set_index(["node", "epoch"])["placed_files"]
    assert (placed.reindex(counted.index) == counted).all()
    assert placed.sum() == counted.sum()
    assert summed["lfs_bytes"].sum() == 1000 * counted.sum()
    again = summed["placed_files"] - summed["handed_over_files"]
    assert (summed["gfs_opens"] == again).all()
    assert (summed["gfs_reads"] == 2 * again).all()  # the second one finds the end
    if policy != "clairvoyant":
        assert (again.sum() == 0) == hand_over
    waited = summed.groupby("epoch")["drain_time_s"].max() > 0
    assert waited[0] == drain
    assert waited[1] <= drain


def test_tables_of_a_run_keep_their_contracts_and_copies_are_in_no_class():
    tables = simulate_run(describe("clairvoyant"), at(50))
    assert set(tables) == {"io_time", "epochs", "background"}
    for name, table in tables.items():
        check_table(table, name)
    io_time = tables["io_time"]
    opens = io_time[io_time["io_class"].isin(["gfs_meta", "lfs_meta"])]
    assert (opens.groupby("epoch")["operations"].sum() == 64).all()
    assert (io_time.groupby("epoch")["bytes"].sum() == 64 * 1000).all()
    assert tables["background"]["gfs_opens"].sum() > 0


def test_static_policies_have_the_tables_they_had():
    tables = simulate_run(describe("pinning"), at(50))
    assert set(tables) == {"io_time", "epochs"}


def test_repetitions_differ_and_a_run_is_the_same_again():
    first, again, other = (
        simulate_run(describe("lru"), at(50, repetition))["io_time"]["time_s"]
        for repetition in (0, 0, 1)
    )
    assert (first == again).all()
    assert (first != other).any()


# ---- ad hoc file system ------------------------------------------------------------


def test_stage_in_takes_each_file_off_the_gfs_once_to_its_only_owner():
    description = describe("adhoc", n_files=512)
    run = AdHocRun(description, at(50))
    epochs, tables = list(run.epochs()), run.tables()
    stage_in = tables["stage_in"]
    assert stage_in["gfs_opens"].sum() == stage_in["lfs_opens"].sum() == 256
    assert stage_in["gfs_bytes"].sum() == stage_in["lfs_bytes"].sum() == 256 * 1000
    policies = [node_policy(description, at(50), (), node=node) for node in range(4)]
    owned = [set(one.files_of(node)) for node, one in enumerate(policies)]
    assert stage_in["lfs_opens"].tolist() == list(map(len, owned))
    assert len(set().union(*owned)) == sum(map(len, owned)) == 256
    for reads in epochs:
        assert sorted(reads.files) == list(range(512))
        decided = [
            policies[rank // 2].begin_read(file_id)
            for rank, file_id in zip(reads.rank_of, reads.files, strict=True)
        ]
        assert [place is Place.LFS for place in decided] == reads.on_lfs.tolist()
        assert [place is Place.PEER for place in decided] == reads.on_peer.tolist()
        assert (~reads.on_lfs & ~reads.on_peer).sum() == 256
        share = reads.on_lfs.sum() / 256
        assert abs(share - 1 / 4) <= 3.5 * np.sqrt(1 / 4 * 3 / 4 / 256)


def test_reads_from_peers_are_a_fifth_class_and_add_up():
    tables = simulate_run(describe("adhoc"), at(100))
    assert set(tables) == {"io_time", "epochs", "stage_in", "peers"}
    for name, table in tables.items():
        check_table(table, name)
    io_time, peers = tables["io_time"], tables["peers"]
    net = io_time[io_time["io_class"] == "net_read"]
    assert net["time_s"].to_numpy() == pytest.approx(peers["net_read_time_s"])
    assert (net["operations"].to_numpy() == peers["peer_files"]).all()
    assert (net["bytes"].to_numpy() == peers["peer_bytes"]).all()
    assert (io_time.groupby("epoch")["bytes"].sum() == 64 * 1000).all()
    assert "net_read" in set(break_down(io_time)["io_class"])
    epochs = tables["epochs"]
    assert (epochs["gfs_files"] == 0).all()
    both = epochs["lfs_files"].to_numpy() + peers["peer_files"]
    assert (both == epochs["samples"]).all()
    assert (tables["stage_in"]["stage_in_time_s"] > 0).all()


def test_files_of_random_places_are_copied_from_there():
    spread = TierModel(n_object_servers=4, request_s=4, placement="random")
    network, workload = Network(1, spread, LFS), Workload(40, 100)
    storage = PlacedStorage(network, workload, 1, 0, 1, seed=3)
    files, staged = np.arange(40), np.full(40, STAGED, np.int8)
    services, ends = np.random.default_rng(1), np.array([0, 40])
    copied = storage.run_epoch(files, ends, staged, services)
    none = np.zeros(40, bool)
    read = simulate_epoch(network, workload, files, none, services, seeds=(3, 0, 0))
    assert copied.busy_ns[1:5].tolist() == read.busy_ns[1:5].tolist()
    assert set(read.busy_ns[1:5].tolist()) != {40 * 10**9}  # as by their number


def test_pooled_lfs_serves_workers_whose_steps_meet():
    description = changed(
        describe("adhoc"),
        scenario={"loader": "pytorch"},
        loader={"workers": 2, "prefetch_factor": 1},
        training={
            "synchronise": "step",
            "compute_time_s": {
                "distribution": "normal",
                "mean_s": 0.01,
                "stdev_s": 0.003,
            },
        },
    )
    tables = simulate_run(description, at(50))
    for name, table in tables.items():
        check_table(table, name)
    epochs = tables["epochs"]
    assert epochs["samples"].sum() == 64 * 3
    assert epochs["utilisation_percent"].between(0, 100, inclusive="neither").all()


def test_nothing_staged_takes_no_time():
    tables = simulate_run(describe("adhoc"), at(0))
    assert (tables["stage_in"]["stage_in_time_s"] == 0).all()
    assert (tables["epochs"]["gfs_files"] == tables["epochs"]["samples"]).all()


# ---- refusals -----------------------------------------------------------------------


def test_reads_from_peers_without_a_network_are_refused():
    description = describe("adhoc")
    del description.system.devices["network"]
    with pytest.raises(ModelError, match="network: got none between nodes"):
        simulate_run(description, at(50))


def test_nodes_of_different_size_are_refused():
    with pytest.raises(ModelError, match="n_nodes: got 2, expected a divisor of 3"):
        PlacedStorage(Network(3, GFS, LFS), Workload(3, 100), 2, 1, 1)


def test_more_ranks_than_files_are_refused():
    with pytest.raises(ModelError, match=r"n_files: got 2, .* each of 3 ranks"):
        PlacedStorage(Network(3, GFS, LFS), Workload(2, 100), 3, 1, 1)


def test_times_without_end_are_refused():
    endless = TierModel(request_s=1e308)
    with pytest.raises(ModelError, match="times: got up to inf s, expected less than"):
        PlacedStorage(Network(1, endless, LFS), Workload(9, 100), 1, 1, 1)


def test_rank_without_files_to_stage_ends_at_once():
    storage = PlacedStorage(Network(2, GFS, LFS), Workload(2, 100), 1, 0, 1)
    epoch = storage.run_epoch(
        np.array([0]),
        np.array([0, 1, 1]),
        np.full(1, STAGED, np.int8),
        np.random.default_rng(1),
    )
    assert epoch.finished_s.tolist() == [1 + 4 + 0.5 + 1, 0]
    assert storage.copy_s[0, 0].tolist() == [1, 4, 0.5, 1]
