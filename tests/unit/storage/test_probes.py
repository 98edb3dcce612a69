import os

import numpy as np
import pandas as pd
import pytest
from descriptions import describe_scenario
from tierscope.core.description import ProbeDescription
from tierscope.core.tables import check_table
from tierscope.model.calibration.probe_times import probe_times
from tierscope.storage.probes import (
    Client,
    Probe,
    Timing,
    choose_files,
    largest_probed,
    lfs_rate_percent,
    plan,
    probe_files,
    probe_row,
    why_not_probed,
)

DEVICES = {
    "n_processes": 4,  # of the modelled machine: as many as here, so nothing is scaled
    "gfs": {
        "open_s": 0.02,
        "close_s": 0.01,
        "metadata_latency_s": 0.5,
        "n_osts": 2,
        "ost_bandwidth_bytes_per_s": 1000,
        "read_latency_s": 0.25,
        "link_bytes_per_s": 4000,
        "request_bytes": 4000,
    },
    "lfs": {
        "request_bytes": 4000,
        "request_s": 0.125,
        "latency_s": 0.0625,
        "processes_per_server": 2,
    },
}


def describe(n_files=12, file_size_bytes=8000, buffer_bytes=4000):
    """Return four processes on two nodes, LFS servers of two processes."""
    return ProbeDescription.of(
        describe_scenario(
            **{
                "system": {
                    "name": "x",
                    "n_nodes": 2,
                    "processes_per_node": 2,
                    "emulation": {"processes_per_lfs_server": 2},
                    "devices": DEVICES,
                },
                "dataset": {"n_files": n_files, "file_size_bytes": file_size_bytes},
                "loader": {"buffer_bytes": buffer_bytes},
            }
        )
    )


def probe_of(description, name):
    return next(one for one in plan(description) if one.name == name)


class TestPlan:
    def test_both_tiers_are_opened_read_and_closed_by_all_and_by_one(self):
        names = [one.name for one in plan(describe())]
        of_a_tier = [
            "open_rate",
            "read_rate",
            "close_rate",
            "open_latency",
            "small_read_latency",
            "file_read_latency",
            "close_latency",
        ]
        assert names == [f"{tier}_{n}" for tier in ("gfs", "lfs") for n in of_a_tier]

    def test_calls_and_bytes(self):
        probe = probe_of(describe(), "gfs_read_rate")
        assert (probe.files_per_client, probe.n_operations) == (3, 4 * 3 * 2)
        assert probe.n_bytes == 12 * 8000
        probe = probe_of(describe(), "lfs_small_read_latency")
        assert (probe.n_clients, probe.n_operations, probe.n_bytes) == (1, 3 * 2, 12288)

    def test_large_files_are_read_in_part_by_all_and_whole_by_one(self):
        description = describe(8, 12 * 2**20, 256 * 1024)
        assert probe_of(description, "gfs_read_rate").file_bytes == 2 * 2**20
        alone = probe_of(description, "gfs_file_read_latency")
        assert (alone.files_per_client, alone.file_bytes) == (1, 12 * 2**20)

    def test_buffer_of_zero_reads_a_file_in_one_call(self):
        probe = probe_of(describe(buffer_bytes=0), "gfs_read_rate")
        assert probe.n_operations == 12


class TestFiles:
    def files(self, name, repeat, description):
        probe = probe_of(description, name)
        parts = [probe_files(description, probe, r, repeat) for r in range(4)]
        return np.concatenate(parts[: probe.n_clients]).tolist()

    def test_no_two_processes_share_a_file_and_repeats_take_others(self):
        description = describe(n_files=4 * 32 * 2)
        first, second, third = (
            self.files("gfs_open_rate", repeat, description) for repeat in range(3)
        )
        assert sorted(first) == list(range(128))
        assert sorted(second) == list(range(128, 256))
        assert third == first

    def test_processes_take_consecutive_files_at_a_time(self):
        probe = probe_of(describe(), "gfs_open_rate")
        at_once = [probe_files(describe(), probe, r, 0)[0] for r in range(4)]
        assert at_once == [0, 1, 2, 3]

    def test_single_client_takes_files_that_it_has_not_just_opened(self):
        description = describe(n_files=4 * 32 * 2)
        alone = self.files("gfs_open_latency", 0, description)
        assert not set(alone) & set(self.files("gfs_open_rate", 0, description))

    def test_local_files_are_the_same_in_every_repeat_and_this_processs_own(self):
        description = describe(n_files=4 * 32 * 2)
        alone = self.files("lfs_open_latency", 1, description)
        rate = probe_of(description, "lfs_open_rate")
        assert set(alone) <= set(probe_files(description, rate, 0, 0).tolist())

    def test_files_are_those_of_the_dataset(self):
        for n_files in (4, 7, 130, 1000):
            description = describe(n_files)
            for probe in plan(description):
                for repeat in range(5):
                    last = probe_files(description, probe, 3, repeat)[-1]
                    assert last < n_files


@pytest.mark.parametrize(("n_files", "percent"), [(4, 50), (12, 50), (6400, 1)])
def test_node_holds_the_files_of_its_two_processes(n_files, percent):
    assert lfs_rate_percent(describe(n_files)) == percent


class TestChosenFiles:
    @pytest.mark.parametrize(
        ("sizes", "n_processes", "ids", "size"),
        [
            ([7, 7, 7], 1, [0, 1, 2], 7),
            ([0, 10, 50, 10], 1, [1, 2, 3], 10),
            ([9, 1, 8, 2, 7], 1, [0, 2, 4], 7),
            ([9, 1, 8, 2, 7], 4, [0, 2, 3, 4], 2),
            ([2**23, 2**22, 2**23, 1], 1, [0, 1, 2], 2**22),
        ],
    )
    def test_half_of_the_files_or_one_for_each_process_are_as_large(
        self, sizes, n_processes, ids, size
    ):
        chosen = choose_files("mine", np.array(sizes), n_processes)
        assert sorted(chosen.file_ids.tolist()) == ids
        assert chosen.dataset.file_size_bytes == size
        assert chosen.dataset.n_files == len(ids)

    def test_neighbours_are_of_anywhere(self):
        file_ids = choose_files("mine", np.ones(1000, int), 1).file_ids
        assert sorted(file_ids.tolist()) == list(range(1000))
        assert np.abs(np.diff(file_ids)).mean() > 100

    def test_fewer_files_than_processes_are_not_probed(self):
        sizes = np.array([0, 5, 5])
        assert choose_files("mine", sizes, 3) is None
        assert why_not_probed(sizes, 3) == (
            "got 2 files that are not empty, expected at least 3, one for each process"
        )

    def test_no_dataset_needs_more_room_than_the_largest(self):
        largest = largest_probed("mine", 4)
        chosen = choose_files("mine", np.full(10**4, 2**30), 4).dataset
        for tier in ("gfs", "lfs"):
            used = [
                probe_of(describe(one.n_files, one.file_size_bytes, 0), name)
                for one in (largest, chosen)
                for name in (f"{tier}_read_rate",)
            ]
            assert used[0] == used[1]
            assert used[0].n_bytes == largest.n_files * largest.file_size_bytes


class TestClient:
    @pytest.fixture
    def client(self, tmp_path):
        paths = []
        for number in range(3):
            path = tmp_path / f"{number}"
            path.write_bytes(bytes(10))
            paths.append(str(path))
        ticks = iter(range(1000))
        return Client(paths, clock=lambda: next(ticks))

    def test_every_call_is_counted_and_timed(self, client):
        # Two ticks around the probe and two around each call.
        assert client.run(Probe("a_rate", "gfs", "open", 1, 3)) == Timing(0, 7, 3, 3, 0)
        read = Probe("b_rate", "gfs", "read", 1, 2, 10, 4)
        assert client.run(read) == Timing(8, 21, 6, 6, 20)
        n_open = len(os.listdir("/proc/self/fd"))
        assert client.run(Probe("c_rate", "gfs", "close", 1, 3)).n_operations == 3
        assert len(os.listdir("/proc/self/fd")) == n_open - 3

    def test_short_file_is_an_error(self, client):
        client.run(Probe("a_rate", "gfs", "open", 1, 1))
        with pytest.raises(OSError, match=r"got 10 bytes at 0 of .*, expected 11"):
            client.run(Probe("b_rate", "gfs", "read", 1, 1, 11, 20))
        client.run(Probe("c_rate", "gfs", "close", 1, 1))

    def test_pages_of_opened_files_can_be_given_up(self, client):
        client.run(Probe("a_rate", "gfs", "open", 1, 3))
        client.forget_pages()
        read = Probe("b_rate", "gfs", "read", 1, 3, 10, 10)
        assert client.run(read).n_bytes == 30
        client.run(Probe("c_rate", "gfs", "close", 1, 3))


@pytest.mark.parametrize(("one_clock", "time_s"), [(False, 5), (True, 7)])
def test_row_holds_the_slowest_client_and_the_mean_call(one_clock, time_s):
    probe = Probe("gfs_read_rate", "gfs", "read", 2, 1, 10, 10)
    timings = [Timing(1.0, 3.0, 1.0, 1, 10), Timing(3.0, 8.0, 4.0, 1, 10)]
    row = probe_row(probe, 1, timings, one_clock)
    keys = {"source": "emulated", "system": "x", "dataset": "tiny", "n_osts": 1}
    checked = check_table(pd.DataFrame([row | keys]), "probes").iloc[0]
    assert checked["time_s"] == time_s
    assert checked["mean_call_s"] == 2.5
    assert (checked["operations"], checked["bytes"], checked["n_clients"]) == (2, 20, 2)


def test_mean_call_is_exact_on_every_version_of_python():
    timings = [Timing(0.0, 0.1, 0.1, 1, 10)] * 10
    row = probe_row(Probe("gfs_open", "gfs", "open", 10, 1), 1, timings, False)
    assert row["mean_call_s"] == 0.1  # with sum it is 0.09999999999999999 on 3.11


class TestModel:
    """Twelve files of two read calls, four processes; nothing is scaled."""

    @pytest.fixture
    def times_s(self):
        return probe_times(describe(), n_osts=2)

    def test_operations_of_all_queue_at_the_metadata_server(self, times_s):
        # Three rounds of four, each held up by the latency of the one before.
        assert times_s["gfs_open_rate"] == pytest.approx(3 * 0.52 + 3 * 0.02)
        assert times_s["gfs_close_rate"] == pytest.approx(3 * 0.51 + 3 * 0.01)

    def test_operations_of_one_wait_for_nobody(self, times_s):
        assert times_s["gfs_open_latency"] == pytest.approx(3 * 0.52)
        assert times_s["gfs_close_latency"] == pytest.approx(3 * 0.51)
        assert times_s["lfs_open_latency"] == pytest.approx(3 * 0.0625)

    def test_reads_of_one_pass_server_link_and_latency(self, times_s):
        whole_s = 2 * (4 + 1 + 0.25)
        assert times_s["gfs_file_read_latency"] == pytest.approx(3 * whole_s)
        assert times_s["lfs_file_read_latency"] == pytest.approx(
            3 * 2 * (0.125 + 0.0625)
        )

    def test_reads_of_all_fill_the_object_servers(self, times_s):
        # 24 requests of 4 s on two servers, then the last's link and latency.
        assert times_s["gfs_read_rate"] == pytest.approx(48 + 1 + 0.25, abs=2)

    def test_reads_of_a_group_fill_its_local_server(self, times_s):
        assert times_s["lfs_read_rate"] == pytest.approx(12 * 0.125 + 0.0625)

    def test_closes_of_a_device_that_does_not_charge_them_take_no_time(self, times_s):
        assert times_s["lfs_close_rate"] == 0
