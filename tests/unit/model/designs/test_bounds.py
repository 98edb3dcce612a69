"""Bounds against simulations of small random cases, each whole."""

import random

import pytest
from descriptions import changed, describe_scenario
from small_designs import DEVICES, ON_GFS, plan
from tierscope.core.description import STEP, FileSizes
from tierscope.data.designs import Design, Plan, Storage
from tierscope.model.designs.bounds import bounds_of, by_bandwidth
from tierscope.model.designs.feeding import Trial, simulate_pace

SERVICES = [{}, {"service_distribution": "exponential"}]
SERVICES += [{"service_distribution": "lognormal", "service_cv": 1.5}]


def devices_of(draw):
    """Return devices of which some cost much, and some nothing."""

    def some(*values):
        return draw.choice(values)

    limit = {"limit_bytes_per_s": 2e6, "limit_credit_bytes": 1e6}
    return {
        "gfs": {
            "open_s": some(0.0, 1e-3, 2e-2),
            "close_s": some(0.0, 1e-2),
            "metadata_latency_s": some(0.0, 5e-2),
            "n_osts": 2,
            "ost_bandwidth_bytes_per_s": some(1e12, 3e6),
            "read_latency_s": some(0.0, 3e-2),
            "link_bytes_per_s": some(1e12, 4e6),
            "request_bytes": some(30_000, 200_000),
            "request_s": some(0.0, 5e-3),
            **some({}, {}, limit),
        },
        "lfs": {
            "request_bytes": some(50_000, 100_000),
            "request_s": some(0.0, 1e-2, 5e-2),
            "latency_s": some(0.0, 1e-2),
            "processes_per_server": some(1, 2, 4),
        },
        "network": {"latency_s": 1e-3, "bandwidth_bytes_per_s": some(1e6, 1e12)},
        "processor": {"sample_s": some(0.0, 2e-2)},
        "simulation": {
            **some(*SERVICES),
            "gfs_links": some(1, 2, 3),
            "lfs_spread_percent": some(0.0, 5.0),
        },
    }


def plan_of(draw):
    batch_size, steps = draw.choice([1, 3]), draw.choice([4, 20, 60])
    compute_time_s = draw.choice([0.01, 0.1, 0.4])
    if draw.random() < 0.3:
        varied = {"distribution": "normal", "mean_s": compute_time_s}
        compute_time_s = {**varied, "stdev_s": compute_time_s / draw.choice([2, 5])}
    described = describe_scenario(
        source="simulated",
        system={"n_nodes": 4, "processes_per_node": 2, "devices": devices_of(draw)},
        dataset={
            "n_files": 8 * batch_size * steps,
            "file_size_bytes": 100_000,
            "batch_size": batch_size,
        },
        training={
            "epochs": 1,
            "compute_time_s": compute_time_s,
            "synchronise": STEP,
            "shuffle": "global",
            "seed": draw.randrange(1000),
        },
        loader={
            "prefetch_batches": draw.choice([0, 2]),
            "workers": draw.choice([1, 2]),
            "prefetch_factor": 2,
            "buffer_bytes": draw.choice([0, 40_000]),
        },
    )
    loader = {"loader": draw.choice(["tensorflow", "pytorch"])}
    described = changed(described, scenario=loader)
    sizes = draw.choice([None, None, FileSizes(100_000, 40_000, 1000)])
    return Plan(described, sizes, False, 1000)


def design_of(draw):
    return Design(
        draw.choice([1, 2, 4, 8]),
        Storage(
            object_servers=draw.choice([None, 1, 5]),
            links=draw.choice([None, 2, 9]),
            metadata_speed=draw.choice([1.0, 3.0]),
            lfs_devices=draw.choice([None, 3]),
            placement=draw.choice(["none", "pinning", "stratified-pinning", "adhoc"]),
            cache_rate_percent=draw.choice([0, 30, 70, 100]),
        ),
    )


@pytest.mark.parametrize("seed", range(60))
def test_no_simulation_is_better_than_the_bounds(seed):
    draw = random.Random(seed)
    given, design = plan_of(draw), design_of(draw)
    best, found = bounds_of(given, design), simulate_pace(Trial(given, design, seed))
    rounding = 1 + 1e-6
    assert found.utilisation_percent <= best.utilisation_percent * rounding
    assert found.epoch_time_s * rounding >= best.epoch_time_s
    assert found.io_time_s * rounding >= best.io_time_s


@pytest.mark.parametrize(("n", "percent"), [(20, 50), (40, 25)])
def test_bounds_of_a_server_that_is_full_are_its_rate(n, percent):
    """It reads 100 files a second, and each accelerator takes ten."""
    best = bounds_of(plan(n_files=16_000, steps=10_000), Design(n, ON_GFS))
    assert best.utilisation_percent == pytest.approx(percent, rel=0.02)
    assert best.epoch_time_s == pytest.approx(160, rel=0.01)
    assert best.io_time_s == pytest.approx(16_000 / n / 100)


def test_what_is_not_simulated_may_be_a_little_better():
    whole, part = (
        bounds_of(plan(n_files=16_000, steps=steps), Design(20, ON_GFS))
        for steps in (10_000, 20)
    )
    assert part.epoch_time_s == pytest.approx(0.98 * whole.epoch_time_s)
    assert part.utilisation_percent == pytest.approx(whole.utilisation_percent / 0.98)


def test_bandwidth_is_that_of_both_tiers():
    """At 60 % on the LFS a server of 10 files a second each limits, else the GFS."""
    used = [
        by_bandwidth(plan(), Design(40, Storage(cache_rate_percent=rate)))
        for rate in (0, 60, 90, 100)
    ]
    percents = [one.utilisation_percent for one in used]
    assert percents == pytest.approx([25, 62.5, 100, 100])


def test_bandwidth_is_that_of_links_between_nodes_too():
    """Of 200 files that each of 40 nodes reads, 195 are of others, at one a second."""
    link = {"latency_s": 0.0, "bandwidth_bytes_per_s": 1e6}
    found = plan(devices=DEVICES | {"network": link})
    storage = Storage(cache_rate_percent=100, placement="adhoc")
    assert by_bandwidth(found, Design(40, storage)).io_time_s == pytest.approx(195)
