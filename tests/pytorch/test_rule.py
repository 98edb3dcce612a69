"""The rule of PyTorch's `DataLoader`, taken from what it does; orders, no times."""

import multiprocessing

import numpy as np
import pytest
from tierscope.model.simulator.epoch import simulate_epoch
from tierscope.storage.queueing_network import Network, TierModel, Workload

N_BATCHES = 17
CASES = [(0, 2), *((w, factor) for w in (1, 2, 4) for factor in (1, 2, 4))]
READ_S, STEP_S = 1, 1000


class Sampler:
    """Names the batches, and counts those that PyTorch has asked for."""

    def __init__(self):
        self.n_sent = 0

    def __iter__(self):
        for batch in range(N_BATCHES):
            self.n_sent += 1
            yield [batch]


class Batches:
    """A sample is the number of its batch, and who has read it."""

    def __getitem__(self, batch):
        from torch.utils.data import get_worker_info

        info = get_worker_info()
        return batch, None if info is None else info.id


class SecondFirst(Batches):
    """The first batch is read when the second one has been."""

    def __init__(self):
        self.second = multiprocessing.get_context("fork").Event()

    def __getitem__(self, batch):
        if batch == 0:
            self.second.wait()
        if batch == 1:
            self.second.set()
        return super().__getitem__(batch)


def received(dataset, workers, factor):
    """Return (batch, worker) as received, and how many batches were sent by then."""
    from torch.utils.data import DataLoader

    sampler = Sampler()
    loader = DataLoader(
        dataset,
        batch_sampler=sampler,
        num_workers=workers,
        prefetch_factor=factor if workers else None,
        multiprocessing_context="fork" if workers else None,
        collate_fn=lambda samples: samples[0],
    )
    results = [(*result, sampler.n_sent) for result in loader]
    batches, readers, sent = zip(*results, strict=True)
    return list(batches), list(readers), list(sent)


def read_by_the_end_of_steps(workers, factor):
    """Return how many batches the simulator has read when each long step ends."""
    epoch = simulate_epoch(
        Network(1, TierModel(read_latency_s=READ_S), TierModel()),
        Workload(
            N_BATCHES,
            1,
            compute_time_s=STEP_S,
            workers=workers,
            prefetch_factor=factor,
        ),
        np.arange(N_BATCHES),
        np.zeros(N_BATCHES, bool),
        np.random.default_rng(0),
    )
    read_s = 0 if workers else READ_S  # in each step but the first
    ends_s = READ_S + STEP_S + np.arange(N_BATCHES) * (STEP_S + read_s)
    assert ends_s[-1] == epoch.finished_s[0]
    return (epoch.instants_s[:, -1] <= ends_s[:, np.newaxis]).sum(axis=1).tolist()


@pytest.mark.parametrize(("workers", "factor"), CASES)
def test_batches_are_read_by_the_workers_in_turn_and_received_in_order(workers, factor):
    batches, readers, _ = received(Batches(), workers, factor)
    assert batches == list(range(N_BATCHES))
    assert readers == [b % workers if workers else None for b in range(N_BATCHES)]


@pytest.mark.parametrize(("workers", "factor"), CASES)
def test_as_many_batches_are_sent_before_a_step_as_the_simulator_reads_in_it(
    workers, factor
):
    *_, sent = received(Batches(), workers, factor)
    assert sent == read_by_the_end_of_steps(workers, factor)
    ahead = workers * factor
    assert sent == [min(b + 1 + ahead, N_BATCHES) for b in range(N_BATCHES)]


@pytest.mark.parametrize("workers", [2, 4])
def test_batch_that_is_ready_first_waits_for_those_before_it(workers):
    batches, readers, _ = received(SecondFirst(), workers, 1)
    assert batches == list(range(N_BATCHES))
    assert readers[:2] == [0, 1]
