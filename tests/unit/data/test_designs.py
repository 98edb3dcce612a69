"""What some accelerators read: 4 processes a node, batches of 2 files of 1 GiB."""

import json
import math
from dataclasses import replace

import pytest
from descriptions import describe_scenario
from tierscope.core.description import FileSizes
from tierscope.data.costs import Cost, Unit
from tierscope.data.designs import Goal, Plan, Storage, Study
from tierscope.storage.queueing_network import network_of

GIB = 1 << 30
AS_IT_IS = Storage(cache_rate_percent=0)
DEVICES = {
    "gfs": {
        "open_s": 0.0,
        "close_s": 0.0,
        "metadata_latency_s": 0.0,
        "n_osts": 3,
        "ost_bandwidth_bytes_per_s": 1e9,
        "read_latency_s": 0.0,
        "link_bytes_per_s": 8e9,
        "request_bytes": 1 << 20,
    },
    "lfs": {
        "request_bytes": 1 << 18,
        "request_s": 0.0,
        "latency_s": 0.0,
        "processes_per_server": 8,
    },
}


def plan(grows=True, n_files=100, n_links=4, memory_gib=None, lfs_gib=None, steps=50):
    devices = DEVICES | {"simulation": {"gfs_links": n_links}}
    description = describe_scenario(
        source="simulated",
        system={"n_nodes": 8, "processes_per_node": 4, "devices": devices},
        dataset={"n_files": n_files, "file_size_bytes": GIB, "batch_size": 2},
        loader={"read_threads": 1, "prefetch_batches": 2, "buffer_bytes": 0},
    )
    memory_gib = 10.0 if grows and memory_gib is None else memory_gib
    return Plan(description, None, grows, steps, memory_gib, lfs_gib)


def test_numbers_are_powers_of_two_then_whole_nodes_then_the_most():
    assert plan().numbers(32) == [1, 2, 4, 8, 16, 32]
    assert plan().numbers(27) == [1, 2, 4, 8, 16, 24]
    assert plan().numbers(3) == [1, 2, 3]
    assert plan().numbers(1) == [1]


def test_a_growing_dataset_has_500_steps_or_5_times_the_memory():
    assert plan().n_files(3) == 500 * 2 * 3
    assert plan().n_steps(3) == 500
    assert plan(memory_gib=4000.0).n_files(3) == 5 * 4000
    assert plan(memory_gib=4000.0).n_files(5) == 2 * 5 * 4000  # on two nodes


def test_a_fixed_dataset_gives_fewer_steps_to_more_accelerators():
    found = plan(grows=False)
    assert [found.n_steps(n) for n in (1, 4, 16, 32)] == [50, 12, 3, 1]
    assert found.n_simulated_steps(4) == 12


def test_each_node_holds_all_pinned_files():
    assert plan().lfs_rate_percent(4, AS_IT_IS) is None
    grown = plan(lfs_gib=1000)
    assert grown.lfs_rate_percent(4, AS_IT_IS) == 25  # of 4000 files of 1 GiB
    assert grown.lfs_rate_percent(8, AS_IT_IS) == 12.5
    assert plan(grows=False, lfs_gib=1000).lfs_rate_percent(8, AS_IT_IS) == 100


def test_the_simulated_steps_are_a_dataset_of_their_own():
    found = plan(steps=10).described(8, AS_IT_IS)
    assert (found.system.n_nodes, found.system.n_processes) == (2, 8)
    assert found.dataset.n_files == 10 * 2 * 8
    assert plan().described(3, AS_IT_IS).system.n_processes == 3


@pytest.mark.parametrize(("n", "present"), [(1, 1), (8, 1), (12, 2), (32, 4), (64, 8)])
def test_links_and_servers_of_the_lfs_come_with_the_nodes(n, present):
    network = network_of(plan().described(n, AS_IT_IS).system, 3)
    assert (network.gfs.n_links, network.gfs.link_bytes_per_s) == (present, 2e9)
    assert network.gfs.n_object_servers == 3
    assert network.lfs.n_groups(n) == -(-n // 8)


def test_one_link_is_shared_by_all():
    network = network_of(plan(n_links=1).described(64, AS_IT_IS).system, 3)
    assert (network.gfs.n_links, network.gfs.link_bytes_per_s) == (1, 8e9)


def test_requests_are_those_of_the_smaller_ones():
    assert plan().n_requests(3) == 50 * 2 * 3 * (GIB >> 18)


def test_files_are_as_large_as_their_sizes_are_on_average():
    """Half of the sizes are normal, the others 1 GiB: their mean is 1.4 GiB."""
    sizes = FileSizes(GIB, GIB, GIB)
    found = replace(plan(memory_gib=4000.0, lfs_gib=4000), sizes=sizes)
    larger = 1 + 1 / math.sqrt(2 * math.pi)
    assert found.mean_file_bytes == pytest.approx(larger * GIB, rel=1e-3)
    assert found.n_files(1) == pytest.approx(5 * 4000 / larger, rel=1e-3)
    assert found.lfs_rate_percent(4, AS_IT_IS) == pytest.approx(20, rel=1e-3)
    n_requests = plan().n_requests(3)
    assert found.n_requests(3) == pytest.approx(larger * n_requests, rel=1e-3)


def test_a_plan_passes_through_json():
    given = Plan(plan().description, FileSizes(100, 20, 10), False, 30)
    found = Plan.from_json(json.loads(json.dumps(given.as_json())))
    assert found.as_json() == given.as_json()
    assert found.sizes == given.sizes
    assert found.described(8, AS_IT_IS) == given.described(8, AS_IT_IS)


def network_with(n=32, n_links=4, **chosen):
    described = plan(n_links=n_links).described(n, Storage(**chosen))
    return network_of(described.system, described.scenario.n_osts)


def test_a_storage_without_choices_is_that_of_the_system():
    assert network_with() == network_of(plan().machine, 1)


def test_servers_links_and_metadata_service_are_chosen():
    assert network_with(object_servers=7).gfs.n_object_servers == 7
    links = network_with(8, links=6).gfs
    assert (links.n_links, links.link_bytes_per_s) == (6, 2e9)  # one node uses them all
    more = network_with(8, n_links=1, links=2).gfs
    assert (more.n_links, more.link_bytes_per_s) == (2, 8e9)
    given = plan()
    gfs = {**DEVICES["gfs"], "open_s": 0.5, "close_s": 0.25}
    system = replace(given.machine, devices={**given.machine.devices, "gfs": gfs})
    given = replace(given, description=replace(given.description, system=system))
    devices = given.described(4, Storage(metadata_speed=2.0)).system.devices
    assert (devices["gfs"]["open_s"], devices["gfs"]["close_s"]) == (0.25, 0.125)


def test_the_cache_rate_follows_from_room_dataset_and_placement():
    """A node has one device a 8 processes, half of one: 1000 GiB of 4000 or 8000."""
    found = plan(lfs_gib=1000)

    def rates(n, **chosen):
        storage = Storage(**chosen)
        return found.lfs_rate_percent(n, storage), found.cache_rate_percent(n, storage)

    assert rates(4) == (25, 25)
    assert rates(8) == (12.5, 12)
    assert rates(8, lfs_devices=2) == (25, 25)
    assert rates(8, lfs_devices=2, lfs_gib=3000) == (37.5, 37)
    assert rates(4, placement="adhoc") == (25, 25)
    # Of 2000 files on two nodes the fuller one has a few more than 1000.
    assert rates(8, placement="adhoc") == (pytest.approx(24.1, abs=0.05), 24)
    assert rates(8, cache_rate_percent=80) == (12.5, 80)
    assert rates(8, placement="none", cache_rate_percent=80)[1] == 0
    assert plan().cache_rate_percent(8, Storage()) == 0  # no room is known
    pooled = found.described(8, Storage(placement="adhoc"))
    assert (pooled.scenario.policy, pooled.policy_options) == (
        "adhoc",
        {"server_threads": 8},
    )


def test_hardware_is_counted():
    found = plan(lfs_gib=1000)
    assert found.hardware(12, Storage(lfs_devices=3, metadata_speed=2.0)) == {
        "object_server": 1,
        "link": 2,
        "metadata_server": 2,
        "lfs_device": 2 * 3,
        "node": 3,
        "room_gib": 2 * 3 * 2000,  # a device of today has the room of two nodes
    }
    assert math.isnan(plan().hardware(12, Storage())["room_gib"])
    nothing = found.hardware(12, AS_IT_IS)  # on the LFS
    assert (nothing["lfs_device"], nothing["room_gib"]) == (0, 0)


@pytest.mark.parametrize(
    ("quantity", "met"),
    [("utilisation_percent", [True, True, False]), ("io_time_s", [False, True, True])],
)
def test_more_use_or_less_time_meets_a_goal(quantity, met):
    goal = Goal(quantity, 4.0)
    assert [goal.is_met(value) for value in (5.0, 4.0, 3.0)] == met


def test_a_study_passes_through_json():
    cost = Cost("EUR", 100.0, {"node": Unit(price=1.0)}, 2.0)
    study = Study(
        {"tiny": plan()},
        {"tiny": 1.0},
        {"tiny": Goal("epoch_time_s", 3.0)},
        (Storage(links=2), AS_IT_IS),
        (4, 8),
        cost=cost,
    )
    found = Study.from_json(json.loads(json.dumps(study.as_json())))
    assert found.as_json() == study.as_json()
    assert (found.storages, found.goals, found.cost) == (
        study.storages,
        study.goals,
        cost,
    )
