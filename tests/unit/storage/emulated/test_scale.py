from dataclasses import replace
from pathlib import Path

import pytest
from tierscope.experiment.system import read_system
from tierscope.storage.emulated.scale import (
    emulated_machine,
    free_tier,
    improve_tier,
    lfs_groups,
    modelled_machine,
    scale_gfs,
    scale_lfs,
)

GIB = 1024**3
SYSTEM = read_system("scale-model", Path(__file__).parents[4] / "resources/systems")
FUGAKU = modelled_machine(SYSTEM.devices, n_osts=60)


def one_prefix(ranks):
    return [f"/lfs/group{ranks.start}"]


def test_eight_processes_have_the_numbers_of_the_notes():
    # 3072 / 8 = 384.
    gfs = scale_gfs(FUGAKU, 8, ["/gfs"])
    (lfs,) = scale_lfs(FUGAKU, 8, lambda _: ["/lfs"])
    assert gfs.prefixes == ("/gfs",)
    assert gfs.open_s == pytest.approx(384 * 36.25e-6)
    assert gfs.close_s == pytest.approx(384 * 5e-6)
    assert gfs.metadata_latency_s == pytest.approx(6.8e-3)
    assert gfs.n_object_servers == 1
    assert gfs.request_s == 0
    assert gfs.bandwidth_bytes_per_s == pytest.approx(72 * GIB / 384)
    assert gfs.read_latency_s == 1.7e-3
    assert gfs.link_bytes_per_s == pytest.approx(46.4 * GIB / 384)
    assert lfs.prefixes == ("/lfs",)
    assert (lfs.open_s, lfs.close_s) == (0, 0)
    assert lfs.metadata_latency_s == 3.5e-3
    assert lfs.n_object_servers == 1
    assert lfs.request_bytes == 131072
    assert lfs.request_s == pytest.approx(8 * 1.125e-3)  # 64 / 8
    assert lfs.bandwidth_bytes_per_s is None
    assert lfs.read_latency_s == 3.5e-3
    assert lfs.link_bytes_per_s is None


@pytest.mark.parametrize(
    ("tier", "key", "value"),
    [("gfs", "limit_bytes_per_s", 1e8), ("lfs", "n_devices", 2)],
)
def test_what_only_a_simulation_knows_is_refused(tier, key, value):
    devices = {**SYSTEM.devices, tier: {**SYSTEM.devices[tier], key: value}}
    words = rf"devices\.{tier}\.{key}: got {value}, expected none: emulated"
    with pytest.raises(ValueError, match=words):
        modelled_machine(devices, n_osts=60)


def test_all_processes_are_the_modelled_machine():
    machine = FUGAKU
    gfs = scale_gfs(machine, 3072, ["/gfs"])
    lfs = scale_lfs(machine, 3072, one_prefix)
    assert gfs.open_s == 36.25e-6
    assert gfs.n_object_servers == 60
    assert gfs.bandwidth_bytes_per_s == pytest.approx(1.2 * GIB)
    assert len(lfs) == 48
    assert {device.request_s for device in lfs} == {1.125e-3}


@pytest.mark.parametrize(
    ("n_processes", "n_object_servers"), [(8, 1), (76, 1), (77, 2), (512, 10)]
)
def test_pool_of_osts_is_scaled_not_each_ost(n_processes, n_object_servers):
    gfs = scale_gfs(FUGAKU, n_processes, ["/gfs"])
    assert gfs.n_object_servers == n_object_servers
    total = gfs.n_object_servers * gfs.bandwidth_bytes_per_s
    assert total == pytest.approx(72 * GIB * n_processes / 3072)


def test_requests_of_a_pool_are_as_many_as_those_of_its_osts():
    machine = replace(FUGAKU, gfs=replace(FUGAKU.gfs, request_s=0.002))
    assert scale_gfs(machine, 3072, ["/gfs"]).request_s == pytest.approx(0.002)
    # One server for 8 of 3072 processes has a 384th of the pool's 60 / 0.002 s.
    per_s = 60 / 0.002 / 384
    assert scale_gfs(machine, 8, ["/gfs"]).request_s == pytest.approx(1 / per_s)


def test_one_ost_is_a_sixtieth_of_the_pool_and_the_same_metadata_server():
    machine = modelled_machine(SYSTEM.devices, n_osts=1)
    gfs = scale_gfs(machine, 8, ["/gfs"])
    sixty = scale_gfs(FUGAKU, 8, ["/gfs"])
    assert gfs.bandwidth_bytes_per_s == pytest.approx(1.2 * GIB / 384)
    assert 60 * gfs.bandwidth_bytes_per_s == pytest.approx(sixty.bandwidth_bytes_per_s)
    assert gfs.open_s == sixty.open_s


def test_last_group_is_smaller_and_its_ranks_keep_their_share():
    machine = FUGAKU
    assert lfs_groups(machine, 96) == [range(64), range(64, 96)]
    full, half = scale_lfs(machine, 96, one_prefix)
    assert full.prefixes == ("/lfs/group0",)
    assert half.prefixes == ("/lfs/group64",)
    assert half.request_s == pytest.approx(2 * full.request_s)
    assert half.read_latency_s == full.read_latency_s


def test_ranks_keep_their_share_of_a_server_whatever_their_number():
    service_s = {}
    for n_sharing in (4, 8, 64):
        emulation = {**SYSTEM.emulation, "processes_per_lfs_server": n_sharing}
        system = replace(SYSTEM, emulation=emulation)
        servers = scale_lfs(emulated_machine(system, 60), 8, one_prefix)
        assert len(servers) == max(1, 8 // n_sharing)
        service_s[n_sharing] = servers[0].request_s
    assert service_s[64] == service_s[8] == pytest.approx(service_s[4] / 2)
    assert service_s[8] == pytest.approx(8 * FUGAKU.lfs.request_s)


def test_group_of_virtual_nodes_is_one_device_with_their_directories():
    machine = replace(FUGAKU, lfs=replace(FUGAKU.lfs, processes_per_server=4))

    def directories(ranks):
        return [f"/lfs/node{rank // 2}" for rank in ranks[::2]]

    devices = scale_lfs(machine, 6, directories)
    assert [device.prefixes for device in devices] == [
        ("/lfs/node0", "/lfs/node1"),
        ("/lfs/node2",),
    ]


def test_no_processes_are_refused():
    with pytest.raises(ValueError, match="n_processes is 0, expected a number above 0"):
        scale_gfs(FUGAKU, 0, ["/gfs"])


def test_improved_class_takes_less_time_on_an_idle_device():
    gfs = scale_gfs(FUGAKU, 8, ["/gfs"])
    faster = improve_tier(gfs, "gfs", {"gfs_meta": 50, "lfs_read": 100})
    assert faster.open_s == pytest.approx(gfs.open_s / 1.5)
    assert faster.close_s == pytest.approx(gfs.close_s / 1.5)
    assert faster.metadata_latency_s == pytest.approx(gfs.metadata_latency_s / 1.5)
    assert faster.bandwidth_bytes_per_s == gfs.bandwidth_bytes_per_s
    assert faster.read_latency_s == gfs.read_latency_s
    faster = improve_tier(gfs, "gfs", {"gfs_read": 100})
    assert faster.open_s == gfs.open_s
    assert faster.bandwidth_bytes_per_s == pytest.approx(2 * gfs.bandwidth_bytes_per_s)
    assert faster.link_bytes_per_s == pytest.approx(2 * gfs.link_bytes_per_s)
    assert faster.read_latency_s == pytest.approx(gfs.read_latency_s / 2)
    (lfs,) = scale_lfs(FUGAKU, 8, lambda _: ["/lfs"])
    faster = improve_tier(lfs, "lfs", {"lfs_read": 50})
    assert faster.request_s == pytest.approx(lfs.request_s / 1.5)
    assert faster.bandwidth_bytes_per_s is None
    assert improve_tier(lfs, "lfs", {}) == lfs


def test_free_classes_cost_exactly_nothing_and_the_others_what_they_did():
    gfs = scale_gfs(FUGAKU, 8, ["/gfs"])
    free = free_tier(gfs, "gfs", ["gfs_read", "lfs_meta"])
    assert (free.request_s, free.read_latency_s) == (0, 0)
    assert (free.bandwidth_bytes_per_s, free.link_bytes_per_s) == (None, None)
    assert (free.open_s, free.close_s) == (gfs.open_s, gfs.close_s)
    assert free.metadata_latency_s == gfs.metadata_latency_s
    free = free_tier(gfs, "gfs", ["gfs_meta"])
    assert (free.open_s, free.close_s, free.metadata_latency_s) == (0, 0, 0)
    assert free.bandwidth_bytes_per_s == gfs.bandwidth_bytes_per_s
