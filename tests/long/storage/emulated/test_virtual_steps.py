"""Workers and steps that wait for all: emulated equals simulated, to the nanosecond.

Three processes with unequal shares of 29 files make all epochs in one launch: each
begins with idle devices, as nobody makes a call at a barrier.
"""

import itertools
import json
from dataclasses import asdict

import numpy as np
import pytest
from long.storage.emulated.test_virtual_time import Launch, launch  # noqa: F401
from tierscope.core.description import ComputeTime
from tierscope.data.shuffle import process_share
from tierscope.model.simulator.epoch import simulate_epoch
from tierscope.storage.emulated.device import Device
from tierscope.storage.queueing_network import Network, TierModel, Workload

N_RANKS, N_FILES, BATCH, SIZE = 3, 29, 3, 1000  # 3, 4 and 4 steps
SAMPLE_S, SEEDS = 0.0007, (5, 0, 1)
GFS = {
    "open_s": 0.002,
    "close_s": 0.0005,
    "n_object_servers": 2,
    "request_bytes": 600,
    "bandwidth_bytes_per_s": 2e5,
    "read_latency_s": 0.001,
    "link_bytes_per_s": 5e5,
}
LFS = {"request_s": 0.003, "request_bytes": 600, "read_latency_s": 0.002}
LATENCY_S = 0.004
NETWORK = Network(
    N_RANKS,
    TierModel(n_links=1, open_latency_s=0.01, close_latency_s=0.01, **GFS),
    TierModel(group_size=N_RANKS, open_latency_s=LATENCY_S, **LFS),
    sample_s=SAMPLE_S,
)
FILES = np.random.default_rng(3).permutation(N_FILES)
ON_LFS = FILES % 5 < 2  # of each read
CODE = """
from tierscope.benchmark.loaders.workers import WorkerLoader
from tierscope.core.description import ComputeTime
from tierscope.data.steps import compute_times_ns

def epoch_of(files, on_lfs, load, compute, n_members):
    workers, depth = load["workers"], load["prefetch_batches"]
    if workers is None:
        clock.plan(len(files), SIZE, BATCH, depth, SAMPLE_S, meets=load["in_steps"])
        loader = PosixLoader(BATCH, LoaderSettings(1, depth, SIZE))
    else:
        factor, n_batches = load["prefetch_factor"], -(-len(files) // BATCH)
        clock.plan_batches(n_batches, workers, factor, SAMPLE_S)
        settings = LoaderSettings(0, 0, SIZE, workers, factor)
        loader = WorkerLoader(BATCH, settings, clock)
    tiers = ["lfs" if one else "gfs" for one in on_lfs]
    paths = [
        f"{folder}/{tier}.ep0/{file:07d}.tfrecord"
        for tier, file in zip(tiers, files)
    ]
    times_ns = compute_times_ns(ComputeTime(**compute), len(n_members), SEEDS, rank)
    meet = None
    if load["in_steps"]:
        meet = lambda step: clock.meet(step, n_members[step], None)
    found = run_epoch(loader.epoch(paths), clock, times_ns.tolist(), meet)
    return [round(found.execution_time_s * 1e9), *vars(found.steps).values()]

given = json.load(open(f"{folder}/cases.json"))
results = [epoch_of(*given["mine"][rank], *case) for case in given["cases"]]
print(json.dumps(results))
"""


def loads():
    """Return all ways to load, and whether processes meet in steps."""
    for in_steps in (False, True):
        for workers, factor in itertools.product([0, 1, 2, 4], [1, 2, 4]):
            yield {"workers": workers, "prefetch_factor": factor, "in_steps": in_steps}
        for prefetch in (0, 1, 2):
            yield {"workers": None, "prefetch_batches": prefetch, "in_steps": in_steps}


def computations(load):
    """Return compute times of 0, 0.5, 1 and 2 times the reads; one more is random."""
    read_s = simulate(load, ComputeTime()).execution_time_s * BATCH * N_RANKS / N_FILES
    yield from (ComputeTime(mean_s=factor * read_s) for factor in (0, 0.5, 1, 2))
    yield ComputeTime("normal", read_s, read_s / 2)


def simulate(load, compute):
    """Return the simulated epoch of a way to load and a compute time."""
    workload = Workload(
        N_FILES,
        SIZE,
        BATCH,
        SIZE,
        compute_time_s=compute.mean_s,
        compute=compute,
        **load,
    )
    generator = np.random.default_rng(0)
    return simulate_epoch(NETWORK, workload, FILES, ON_LFS, generator, seeds=SEEDS)


ONE_DISK_FAILS = """
from tierscope.benchmark.loaders.workers import WorkerLoader

def open_file(path, flags, real=os.open):
    if path.endswith("f5.bin"):
        raise OSError(5, "bad disk", path)
    return real(path, flags)

os.open = open_file
clock.plan_batches(8, 2, 2, 0.0)
loader = WorkerLoader(1, LoaderSettings(0, 0, 1000, 2, 2), clock)
paths = [f"{folder}/gfs.ep0/f{number}.bin" for number in range(8)]
try:
    run_epoch(loader.epoch(paths), clock)
except OSError as error:
    print(json.dumps([str(error), clock.describe_actors()]))
"""


@pytest.fixture
def devices(tmp_path):
    """Return GFS and LFS of the launch."""
    return [
        Device(("/gfs",), metadata_latency_s=0.01, **GFS),
        Device(("/lfs",), metadata_latency_s=LATENCY_S, **LFS),
    ]


def test_error_of_a_worker_is_raised_where_a_batch_is_awaited(
    launch,  # noqa: F811
    devices,
):
    ((error, actors),) = launch(1, *devices).run(ONE_DISK_FAILS)
    assert "bad disk" in error
    assert "rank 0 worker 1: running" in actors
    assert " of 8 batches" in actors


def test_emulated_epochs_equal_simulated_ones(launch, devices, tmp_path):  # noqa: F811
    one = launch(N_RANKS, *devices)
    for tier, number in itertools.product(("gfs", "lfs"), range(N_FILES)):
        (tmp_path / tier / f"{number:07d}.tfrecord").write_bytes(bytes(SIZE))
    shares = [process_share(N_FILES, rank, N_RANKS) for rank in range(N_RANKS)]
    n_steps = [-(-(share.stop - share.start) // BATCH) for share in shares]
    n_members = [sum(n > step for n in n_steps) for step in range(max(n_steps))]
    assert n_steps == [3, 4, 4]
    every = [(load, compute) for load in loads() for compute in computations(load)]
    cases = [
        ({"prefetch_batches": 0, **load}, asdict(compute), n_members)
        for load, compute in every
    ]
    mine = [(FILES[share].tolist(), ON_LFS[share].tolist()) for share in shares]
    (tmp_path / "cases.json").write_text(json.dumps({"mine": mine, "cases": cases}))
    constants = (
        f"SIZE, BATCH = {SIZE}, {BATCH}\nSAMPLE_S, SEEDS = {SAMPLE_S}, {SEEDS}\n"
    )
    by_rank = one.run(constants + CODE)
    for number, (load, compute) in enumerate(every):
        epoch = simulate(load, compute)
        parts = [one.tolist() for one in vars(epoch.steps).values()]
        took_ns = [int(epoch.finished_ns.max())] * N_RANKS
        expected = [list(one) for one in zip(took_ns, *parts, strict=True)]
        assert [of_rank[number] for of_rank in by_rank] == expected, (load, compute)
