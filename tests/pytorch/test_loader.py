"""Loader `pytorch` with files, and beside the simulator where reads take time."""

import multiprocessing
import os
import time

import numpy as np
import pytest
from tierscope.benchmark.epoch import run_epoch
from tierscope.benchmark.loaders import make_loader
from tierscope.core.description import LoaderSettings
from tierscope.model.simulator.epoch import simulate_epoch
from tierscope.storage.clock import RealClock
from tierscope.storage.queueing_network import Network, TierModel, Workload

READ_S, BATCH_SIZE, N_BATCHES = 0.020, 4, 12
SLEEPS = [
    (workers, factor, step_s)
    for workers in (1, 2, 4)
    for factor in (1, 2)
    for step_s in (0.030, 0.100)  # a batch takes one worker 0.080 s
]


def loader(workers, factor=2, batch_size=5):
    return make_loader(
        "pytorch",
        batch_size=batch_size,
        workers=workers,
        prefetch_factor=factor,
        clock=RealClock(lambda: None),
    )


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_every_file_is_read_whole_and_workers_end_with_the_epoch(paths, workers):
    some = loader(workers)
    expected = [(5, sum(range(i + 1, i + 6))) for i in range(0, 20, 5)] + [(4, 90)]
    for _ in range(2):
        assert list(some.epoch(paths)) == expected
        assert multiprocessing.active_children() == []


@pytest.mark.parametrize("workers", [0, 2])
def test_process_without_files_has_an_empty_epoch(workers):
    assert list(loader(workers).epoch([])) == []


def test_all_workers_have_started_when_the_iteration_begins(paths):
    batches = iter(loader(3).epoch(paths))
    assert len(multiprocessing.active_children()) == 3
    assert len(list(batches)) == 5


def test_workers_end_with_an_iteration_that_is_given_up(paths):
    batches = iter(loader(2).epoch(paths))
    next(batches)
    del batches
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("workers", [0, 2])
def test_file_that_cannot_be_read_is_named_when_its_batch_is_received(paths, workers):
    os.unlink(paths[7])
    batches = iter(loader(workers).epoch(paths))
    assert next(batches) == (5, 15)
    with pytest.raises(FileNotFoundError) as error:
        next(batches)
    assert str(error.value) == f"[Errno 2] No such file or directory: '{paths[7]}'"
    assert multiprocessing.active_children() == []


def test_killed_worker_ends_the_epoch(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # nobody writes, so that the worker waits
    batches = iter(loader(1).epoch([str(pipe)]))
    (worker,) = multiprocessing.active_children()
    worker.kill()
    with pytest.raises(RuntimeError, match=f"DataLoader worker .*{worker.pid}"):
        next(batches)


def test_worker_that_hangs_ends_with_its_process(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read, write = os.pipe()
    if (process := os.fork()) == 0:
        batches = iter(loader(1).epoch([str(pipe)]))
        os.close(read)
        os._exit(0 if batches else 1)
    os.close(write)
    assert os.waitpid(process, 0)[1] == 0
    assert os.read(read, 1) == b""  # as soon as the worker has closed it, too
    os.close(read)


def test_epoch_has_the_start_and_the_end_of_workers_in_its_rest(paths):
    measured = run_epoch(loader(2).epoch(paths), RealClock(lambda: None))
    steps = measured.steps
    assert (measured.samples, measured.bytes) == (24, 300)
    total_ns = steps.compute_ns + steps.stall_ns + steps.rest_ns
    assert abs(measured.execution_time_s * 1e9 - total_ns) < 0.01 * total_ns


@pytest.fixture(scope="module")
def sleeping():
    """Return a dataset each of whose reads sleeps before."""
    from tierscope.benchmark.loaders.pytorch import Files

    class Sleeping(Files):
        def __getitem__(self, path):
            time.sleep(READ_S)
            return super().__getitem__(path)

    return Sleeping(buffer_bytes=4096)


def measured_s(dataset, paths, settings, step_s):
    """Return the time from the receipt of the first batch to the end of the last step.

    All workers have started then. They have not been ended, as persistent ones are not.
    """
    from tierscope.benchmark.loaders.pytorch import WorkerBatches

    numbers = [paths[i : i + BATCH_SIZE] for i in range(0, len(paths), BATCH_SIZE)]
    batches = iter(WorkerBatches(dataset, numbers, settings))
    next(batches)
    started_s = time.perf_counter()
    time.sleep(step_s)
    for _ in numbers[1:]:
        assert next(batches)[0] == BATCH_SIZE
        time.sleep(step_s)
    return time.perf_counter() - started_s


def simulated_s(n_files, settings, step_s):
    """Return the same of the simulator."""
    epoch = simulate_epoch(
        Network(1, TierModel(read_latency_s=READ_S), TierModel()),
        Workload(
            n_files,
            1,
            BATCH_SIZE,
            compute_time_s=step_s,
            workers=settings.workers,
            prefetch_factor=settings.prefetch_factor,
        ),
        np.arange(n_files),
        np.zeros(n_files, bool),
        np.random.default_rng(0),
    )
    steps = epoch.steps
    first_ns = steps.first_step_ns - steps.first_compute_ns
    return float(epoch.finished_ns[0] - first_ns[0]) / 1e9


@pytest.mark.parametrize(("workers", "factor", "step_s"), SLEEPS)
def test_reads_that_sleep_take_as_long_as_in_the_simulator(
    sleeping, tmp_path, workers, factor, step_s
):
    paths = [str(tmp_path / str(i)) for i in range(N_BATCHES * BATCH_SIZE)]
    for path in paths:
        with open(path, "wb") as file:
            file.write(b"1")
    started_s = time.perf_counter()
    assert [sleeping[path] for path in paths[:5]] == [1] * 5
    assert time.perf_counter() - started_s >= 5 * READ_S  # the reference has waited
    settings = LoaderSettings(workers=workers, prefetch_factor=factor)
    expected_s = simulated_s(len(paths), settings, step_s)
    # Other load only adds to sleeps, so the shortest of the times is the truest.
    found_s = min(measured_s(sleeping, paths, settings, step_s) for _ in range(3))
    words = f"{found_s:.4f} s, simulated {expected_s:.4f} s"
    print(f"{workers} x {factor}, step {step_s * 1e3:.0f} ms: {words}")
    assert found_s == pytest.approx(expected_s, rel=0.05)
