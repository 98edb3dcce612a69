"""Simulated epochs in which nodes read from each other's LFS."""

from dataclasses import replace

import numpy as np
import pytest
from descriptions import changed, describe_scenario
from tierscope.core.description import ComputeTime, FileSizes
from tierscope.core.scenario import Point
from tierscope.data.file_sizes import random_sizes
from tierscope.model.simulator.epoch import KnownServers, Peers, simulate_epoch
from tierscope.model.simulator.reader_steps import FROM_GFS, FROM_LFS, FROM_PEER
from tierscope.model.simulator.run import planned_reads, workload_of
from tierscope.policies import file_owners, served_files
from tierscope.storage.queueing_network import (
    ModelError,
    Network,
    NodeLinks,
    TierModel,
    Workload,
    network_of,
)

GFS = TierModel(open_s=1, request_s=4)
LFS = TierModel(open_s=0.5, request_s=1, group_size=1)
LINKS = NodeLinks(latency_s=0.25, bandwidth_bytes_per_s=50)


def read(place, owners, n_nodes, n_threads=1, **changes):
    """Simulate reads of 100 bytes, of equally many files by each rank."""
    options = {"network": Network(n_nodes, GFS, LFS, LINKS), "batch_size": 1} | changes
    network, sizes = options.pop("network"), options.pop("sizes", None)
    peers = Peers(np.array(owners), n_nodes, n_threads)
    known = KnownServers(options.pop("servers", None), peers=peers)
    return simulate_epoch(
        network,
        Workload(len(place), 100, sizes=sizes, **options),
        np.arange(len(place)),
        np.array(place, np.int8),
        np.random.default_rng(1),
        known=known,
        seeds=(1, 0, 0),
    )


def read_of_first(n_threads=1, n_ranks=2):
    """Simulate one read of each rank, a node each; node 0 owns all files."""
    place = [FROM_GFS] + [FROM_PEER] * (n_ranks - 1)
    return read(place, [0] * n_ranks, n_ranks, n_threads)


# ---- cases that one can follow with a pencil ---------------------------------------


def test_read_from_a_peer_is_request_owners_lfs_and_both_links():
    epoch = read_of_first()
    # Request 0.25, LFS 0.5 + 1, bytes 2 (in while they go out), answer 0.25.
    assert epoch.instants_s[1].tolist() == [0, 0, 4, 4, 4]
    assert (epoch.peer_lfs_ns / 1e9).tolist() == [[0, 0], [1, 0.5]]


def test_without_the_class_of_the_network_only_the_owners_lfs_takes_time():
    network = Network(2, GFS, LFS, LINKS).without(["net_read"])
    epoch = read([FROM_GFS, FROM_PEER], [0, 0], 2, network=network)
    assert epoch.instants_s[1].tolist() == [0, 0, 1.5, 1.5, 1.5]
    assert Network(2, GFS, LFS, LINKS).without(["gfs_read"]).peers == LINKS


def test_owner_serves_so_many_requests_at_a_time():
    # One thread: the second begins when the bytes of the first are out, at 3.75.
    one = read_of_first(n_threads=1, n_ranks=4)
    assert one.finished_s[1:].tolist() == [4, 7.5, 11]
    # Three: the LFS has opened at .75, 1.25, 1.75 and read at 1.75, 2.75, 3.75; bytes
    # leave one after the other, from 1.75 on.
    three = read_of_first(n_threads=3, n_ranks=4)
    assert three.finished_s[1:].tolist() == [4, 6, 8]


def test_links_into_a_node_are_shared_by_its_ranks():
    links = NodeLinks(latency_s=0, bandwidth_bytes_per_s=50)
    place = [FROM_GFS] * 4 + [FROM_PEER] * 2  # both ranks of node 2, from 0 and 1
    network = Network(6, GFS, LFS, links)
    epoch = read(place, [0, 0, 0, 0, 0, 1], 3, 4, network=network)
    assert sorted(epoch.finished_s[4:]) == [1.5 + 2, 1.5 + 2 + 2]


def test_two_nodes_that_have_each_others_file_read_at_the_same_time():
    epoch = read([FROM_PEER] * 2, [1, 0], 2)
    assert epoch.finished_s.tolist() == [4, 4]
    assert epoch.busy_ns.tolist() == [0, 0, 5e8, 5e8, 1e9, 1e9]  # GFS, opens, reads


def test_workers_of_a_rank_read_from_peers_at_the_same_time():
    """Rank 0 reads both files of node 1, with two workers, in batches of one."""
    place, owners = [FROM_PEER] * 2 + [FROM_LFS] * 2, [1, 1, 1, 1]
    one, two = (
        read(place, owners, 2, 2, workers=workers, prefetch_factor=1)
        for workers in (1, 2)
    )
    # Rank 1 reads its own two files meanwhile.
    assert one.instants_s[:2, 0].tolist() == [0, one.instants_s[0, 4]]
    assert two.instants_s[:2, 0].tolist() == [0, 0]
    assert two.finished_s[0] < one.finished_s[0]


def test_ranks_that_meet_wait_for_the_one_that_reads_from_its_peer():
    """Rank 0 has its batches at once, rank 1 has its own only after 4 s each."""
    free = TierModel(group_size=1)
    links = NodeLinks(latency_s=0, bandwidth_bytes_per_s=25)
    network = Network(2, GFS, free, links)
    place = [FROM_LFS] * 2 + [FROM_PEER] * 2
    options = {"network": network, "compute_time_s": 1.0}
    alone, met = (
        read(place, [0] * 4, 2, in_steps=in_steps, **options)
        for in_steps in (False, True)
    )
    assert alone.finished_s.tolist() == [2, 10]
    assert met.finished_s.tolist() == [10, 10]
    # Rank 1 waits for each batch for 4 s, and computes for 1 s.
    assert (met.steps.stall_ns / 1e9).tolist() == [0, 8]


def test_steps_that_compute_by_chance_are_those_of_other_placements():
    options = {
        "compute_time_s": 3.0,
        "compute": ComputeTime("normal", 3.0, 1.0),
    }
    epoch = read([FROM_PEER] * 2, [1, 0], 2, **options)
    local = read([FROM_LFS] * 2, [1, 0], 2, **options)
    assert epoch.steps.compute_ns.tolist() == local.steps.compute_ns.tolist()
    assert len(set(epoch.steps.compute_ns.tolist())) == 2
    ends_ns = 4 * 10**9 + epoch.steps.compute_ns
    assert epoch.finished_ns.tolist() == ends_ns.tolist()


def test_links_take_the_time_of_each_files_size():
    sizes = FileSizes(1000.0, 300.0)
    free, n_files = TierModel(group_size=1), 40
    network = Network(2, GFS, free, NodeLinks(0.0, 50.0))
    place = [FROM_PEER] * 20 + [FROM_GFS] * 20
    epoch = read(place, [1] * n_files, 2, network=network, sizes=sizes)
    wanted = np.array(sizes.values())[random_sizes(n_files, 1)][:20] / 50
    assert (epoch.read_time_ns[:20] / 1e9).tolist() == pytest.approx(wanted)


def test_limits_and_observed_places_hold_for_files_of_the_gfs():
    gfs = TierModel(n_object_servers=2, limit_bytes_per_s=10.0)
    network = Network(2, gfs, LFS, LINKS)
    place = [FROM_GFS, FROM_PEER, FROM_GFS, FROM_GFS]
    epoch = read(place, [1] * 4, 2, network=network, servers=np.array([0, 0, 1, 1]))
    # Without credit a file of 100 bytes takes 10 s of its server.
    assert epoch.finished_s.tolist() == [10 + 4, 20]
    assert epoch.busy_ns[1:3].tolist() == [10e9, 20e9]


def test_random_places_of_files_are_those_of_other_placements():
    gfs = TierModel(n_object_servers=4, request_s=1, placement="random")
    network, place = Network(2, gfs, LFS, LINKS), [FROM_GFS] * 40
    pooled = read(place, [1] * 40, 2, network=network)
    files, none = np.arange(40), np.zeros(40, bool)
    services, seeds = np.random.default_rng(1), (1, 0, 0)
    arguments = network, Workload(40, 100), files, none, services
    plain = simulate_epoch(*arguments, seeds=seeds)
    assert pooled.busy_ns.tolist() == plain.busy_ns.tolist()
    assert len(set(pooled.busy_ns[1:5].tolist())) > 1  # not as by their number


def test_files_lie_on_the_devices_of_a_node_by_their_number():
    """Each rank of a node reads two files, 0 and 1, 2 and 3, with two workers."""
    lfs = replace(LFS, open_s=0, group_size=2)
    options = {"workers": 2, "prefetch_factor": 1}

    def end_s(n_devices):
        both = replace(lfs, n_object_servers=n_devices)
        network = Network(2, GFS, both, LINKS)
        return read([FROM_LFS] * 4, [0] * 4, 1, network=network, **options)

    assert end_s(1).execution_time_s == 4
    assert end_s(2).execution_time_s == 2
    assert end_s(2).busy_ns[-2:].tolist() == [2e9, 2e9]


def test_devices_of_a_node_are_a_key_of_the_system():
    one, three = (
        network_of(describe("pinning", **keys).system, 1)
        for keys in ({}, {"n_devices": 3})
    )
    assert one.lfs.n_object_servers == 1
    assert three == replace(one, lfs=replace(one.lfs, n_object_servers=3))


# ---- conservation ------------------------------------------------------------------

DEVICES = {
    "gfs": {
        "open_s": 0.001,
        "close_s": 0.0001,
        "metadata_latency_s": 0.002,
        "ost_bandwidth_bytes_per_s": 1e6,
        "read_latency_s": 0.001,
        "link_bytes_per_s": 1e7,
        "request_bytes": 1 << 20,
    },
    "lfs": {
        "request_bytes": 1 << 17,
        "request_s": 0.001,
        "latency_s": 0.0005,
        "processes_per_server": 2,
    },
    "network": {"latency_s": 1e-6, "bandwidth_bytes_per_s": 1e9},
}


def describe(policy, loader="pytorch", **lfs):
    """Return a scenario of 4 nodes of 2 processes with 3 workers each."""
    devices = DEVICES | {"lfs": DEVICES["lfs"] | lfs}
    description = describe_scenario(
        source="simulated",
        system={"n_nodes": 4, "processes_per_node": 2, "devices": devices},
        dataset={"n_files": 96, "file_size_bytes": 1000},
        loader={"workers": 3, "prefetch_factor": 2, "prefetch_batches": 2},
        training={"compute_time_s": 0.002, "synchronise": "step"},
        policy={"server_threads": 2, "mount": None},
    )
    return changed(description, scenario={"policy": policy, "loader": loader})


@pytest.mark.parametrize("loader", ["tensorflow", "pytorch"])
@pytest.mark.parametrize("rate", [0, 50, 100])
def test_each_file_is_read_once_from_where_its_placement_says(loader, rate):
    description, point = describe("adhoc", loader), Point(rate, 0)
    network, workload = network_of(description.system, 1), workload_of(description)
    owners, held = file_owners(96, 4), served_files(description, point)
    assert held.sum() == 96 * rate / 100
    for planned in planned_reads(description, point):
        reads = planned.simulate(network, workload)
        assert sorted(reads.files) == list(range(96))
        own = owners[reads.files] == reads.rank_of // 2
        assert np.array_equal(reads.on_lfs, held[reads.files] & own)
        assert np.array_equal(reads.on_peer, held[reads.files] & ~own)
        assert (np.diff(reads.epoch.instants_ns) >= 0).all()
        # An LFS serves each held file once, the GFS each of the others.
        n_held, busy_ns = held.sum(), reads.epoch.busy_ns
        assert busy_ns[-4:].sum() == n_held * 10**6
        assert busy_ns[-4:].tolist() == [
            10**6 * count for count in np.bincount(owners[held], minlength=4)
        ]
        assert busy_ns[1] == (96 - n_held) * 10**6


def test_pooled_and_pinned_files_of_one_node_take_equally_long():
    one = {"n_nodes": 1, "processes_per_node": 4}
    ends_ns = [
        planned.simulate(network_of(of.system, 1), workload_of(of)).epoch.finished_ns
        for of in (changed(describe(name), system=one) for name in ("adhoc", "pinning"))
        for planned in planned_reads(of, Point(50, 0), [0])
    ]
    assert ends_ns[0].tolist() == ends_ns[1].tolist()


# ---- refusals ----------------------------------------------------------------------


def test_reads_from_peers_need_a_network_and_nodes_of_one_size():
    with pytest.raises(ModelError, match="network: got none between nodes"):
        read([FROM_PEER] * 2, [0, 0], 2, network=Network(2, GFS, LFS))
    with pytest.raises(ModelError, match="n_nodes: got 2, expected a divisor of 3"):
        read([FROM_PEER] * 3, [0] * 3, 2, network=Network(3, GFS, LFS, LINKS))


def test_a_network_so_slow_that_times_would_not_be_exact_is_refused():
    slow = NodeLinks(latency_s=0, bandwidth_bytes_per_s=1e-6)
    with pytest.raises(ModelError, match="times: got up to"):
        read([FROM_PEER] * 2, [1, 0], 2, network=Network(2, GFS, LFS, slow))
