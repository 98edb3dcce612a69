"""The storage that no model has: what its servers do, by hand, and what is usual."""

import numpy as np
import pytest
from descriptions import describe_scenario
from foreign import ForeignStorage, Plain, ServerCache, TokenBucket, UnequalServers
from tierscope.core.description import ProbeDescription
from tierscope.core.scenario import Point
from tierscope.model.calibration.probe_times import probe_times
from tierscope.model.simulator.run import class_times, simulate_reads

DEVICES = {
    "origin": "drawn",
    "gfs": {
        "n_osts": 4,
        "open_s": 1e-3,
        "close_s": 3e-4,
        "metadata_latency_s": 1e-3,
        "ost_bandwidth_bytes_per_s": 3.3e7,
        "read_latency_s": 5e-4,
        "link_bytes_per_s": 6.5e8,
        "request_bytes": 1048576,
    },
    "lfs": {
        "request_bytes": 131072,
        "request_s": 1.2e-3,
        "latency_s": 1e-4,
        "processes_per_server": 8,
    },
}


@pytest.fixture(scope="module")
def description():
    return describe_scenario(
        system={"processes_per_node": 8, "devices": DEVICES},
        dataset={"n_files": 48, "file_size_bytes": 131072},
        scenario={"n_osts": 4},
    )


@pytest.mark.parametrize("rate", [0, 50, 100])
def test_plain_storage_takes_the_simulators_time(description, rate):
    """Equal arrivals are served in another order, so times differ a little."""
    storage, point = ForeignStorage(description, Plain(4)), Point(rate, 0)
    pairs = zip(storage.run(point, 0), simulate_reads(description, point), strict=True)
    for foreign, ours in pairs:
        means_s = [class_times(one).mean(axis=0) for one in (foreign, ours)]
        assert means_s[0] == pytest.approx(means_s[1], rel=0.07)


def test_plain_probes_take_the_models_time(description):
    modelled = probe_times(ProbeDescription.of(description), 4)
    storage = ForeignStorage(description, Plain(4))
    for probe, repeat, time_s in storage.probe(0):
        if repeat == 0:
            assert time_s == pytest.approx(modelled[probe.name], rel=0.01)


def test_token_bucket_serves_at_the_limit_without_credit():
    bucket = TokenBucket(1, limit_bytes_per_s=10.0, credit_bytes=100.0)
    times_s, now_s = [], 0.0
    for _ in range(4):
        times_s.append(bucket.service_s(0, 0, 60, 1.0, now_s))
        now_s += times_s[-1]
    # 100 of credit; 40 + 10 earned in 1 s; then 60 at 10 a second.
    assert times_s == pytest.approx([1.0, 1.0, 6.0, 6.0])
    assert bucket.service_s(0, 0, 60, 1.0, now_s + 100) == 1.0  # full again


def test_server_cache_forgets_what_was_read_longest_ago():
    cache = ServerCache(1, n_kept=2, factor=0.5)
    read = [cache.service_s(0, file, 1, 1.0, 0.0) for file in (1, 2, 1, 3, 1, 2)]
    assert read == [1.0, 1.0, 0.5, 1.0, 0.5, 1.0]
    cache.forget()
    assert cache.service_s(0, 1, 1, 1.0, 0.0) == 1.0


def test_one_server_holds_more_files():
    servers = UnequalServers(4, 4000, 2.0, seed=1)
    held = np.bincount([servers.server_of(file) for file in range(4000)]) / 4000
    assert held == pytest.approx([0.5, 1 / 6, 1 / 6, 1 / 6], abs=0.03)
