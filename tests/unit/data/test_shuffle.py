import numpy as np
import pytest
from descriptions import describe_scenario
from hypothesis import given
from hypothesis import strategies as st
from tierscope.data.shuffle import (
    epoch_files,
    epoch_order,
    process_share,
    run_order,
    stratified_shares,
)
from tierscope.policies import Pinning


def all_ranks(n_files, n_processes, **options):
    """Return the files of every rank in an epoch."""
    options = {"shuffle": "global", "seed": 1, "repetition": 0, "epoch": 0} | options
    return [
        epoch_files(n_files, rank, n_processes, **options)
        for rank in range(n_processes)
    ]


@given(
    n_files=st.integers(1, 300),
    n_processes=st.integers(1, 20),
    shuffle=st.sampled_from(["global", "local", "biased"]),
    epoch=st.integers(0, 5),
)
def test_every_file_is_read_once_an_epoch(n_files, n_processes, shuffle, epoch):
    ranks = all_ranks(n_files, n_processes, shuffle=shuffle, epoch=epoch)
    assert sorted(np.concatenate(ranks)) == list(range(n_files))
    lengths = [len(files) for files in ranks]
    assert max(lengths) - min(lengths) <= 1


def test_global_order_does_not_depend_on_the_number_of_processes():
    one, eight = (np.concatenate(all_ranks(96, n)) for n in (1, 8))
    assert (one == eight).all()


def test_global_shuffle_deals_files_anew_and_local_shuffle_does_not():
    def parts(shuffle, epoch):
        return [set(files) for files in all_ranks(96, 4, shuffle=shuffle, epoch=epoch)]

    assert parts("global", 0) != parts("global", 1)
    assert parts("local", 0) == parts("local", 1)
    first, second = (all_ranks(96, 4, shuffle="local", epoch=e)[0] for e in (0, 1))
    assert list(first) != list(second)


def test_biased_partition_cuts_the_list_of_files_and_reorders_each_part():
    first, second = (all_ranks(96, 4, shuffle="biased", epoch=e) for e in (0, 1))
    parts = [sorted(files) for files in first]
    assert parts == [list(range(start, start + 24)) for start in (0, 24, 48, 72)]
    assert parts == [sorted(files) for files in second]
    assert list(first[1]) != parts[1]
    assert list(first[1]) != list(second[1])


def test_repetitions_have_other_orders():
    first, second = (all_ranks(96, 1, repetition=r)[0] for r in (0, 1))
    assert list(first) != list(second)


@pytest.mark.parametrize(
    ("n_files", "cache_rate_percent", "n_pinned"),
    [(768, 0, 0), (768, 65, 499), (768, 100, 768), (16, 10, 2), (10, 5, 0)],
)
def test_pinning_holds_the_rounded_part(n_files, cache_rate_percent, n_pinned):
    assert Pinning(n_files, cache_rate_percent, seed=1).on_lfs().sum() == n_pinned


def test_higher_cache_rate_only_adds_files():
    lower, higher = (Pinning(768, rate, seed=1).on_lfs() for rate in (40, 60))
    assert (higher | lower == higher).all()
    assert not (Pinning(768, 40, seed=2).on_lfs() == lower).all()


def test_every_repetition_pins_a_part_of_its_own():
    first, second, higher = (
        Pinning(768, rate, seed=1, repetition=repetition).on_lfs()
        for rate, repetition in ((40, 0), (40, 1), (60, 1))
    )
    assert (first == Pinning(768, 40, seed=1).on_lfs()).all()
    assert not (first == second).all()
    assert higher[second].all()


def test_the_first_repetition_pins_what_the_seed_alone_says():
    stream = np.random.SeedSequence(1, spawn_key=(1,))
    order = np.random.default_rng(stream).permutation(768)
    assert Pinning(768, 1, seed=1).on_lfs().nonzero()[0].tolist() == sorted(order[:8])


@pytest.mark.parametrize("shuffle", ["global", "local", "biased"])
def test_order_of_all_processes_is_theirs_one_after_the_other(shuffle):
    options = {"shuffle": shuffle, "seed": 1, "repetition": 2, "epoch": 3}
    parts = all_ranks(20, 3, **options)
    assert epoch_order(20, 3, **options).tolist() == np.concatenate(parts).tolist()


@pytest.mark.parametrize("shuffle", ["global", "local"])
def test_strata_are_dealt_equally_in_every_epoch(shuffle):
    on_lfs = Pinning(96, 50, seed=1).on_lfs()
    arguments = {"shuffle": shuffle, "seed": 1, "repetition": 0}
    parts = {
        (rank, epoch): epoch_files(96, rank, 8, epoch=epoch, strata=on_lfs, **arguments)
        for rank in range(8)
        for epoch in range(3)
    }
    assert {int(on_lfs[part].sum()) for part in parts.values()} == {6}
    for epoch in range(3):
        files = np.concatenate([parts[rank, epoch] for rank in range(8)])
        assert sorted(files) == list(range(96))
        order = epoch_order(96, 8, epoch=epoch, strata=on_lfs, **arguments)
        assert order.tolist() == files.tolist()
    same = set(parts[3, 0]) == set(parts[3, 1])
    assert same == (shuffle == "local")
    assert parts[3, 0].tolist() != parts[3, 1].tolist()


@given(
    n_files=st.integers(1, 200),
    n_processes=st.integers(1, 20),
    held=st.integers(0, 100),
)
def test_strata_never_change_the_size_of_a_share(n_files, n_processes, held):
    on_lfs = Pinning(n_files, held, seed=1).on_lfs()
    shares = list(
        stratified_shares(np.arange(n_files), on_lfs, range(n_processes), n_processes)
    )
    assert sorted(np.concatenate(shares)) == list(range(n_files))
    for rank, share in enumerate(shares):
        wanted = process_share(n_files, rank, n_processes)
        assert len(share) == wanted.stop - wanted.start
    if n_files % n_processes == 0:
        n_held = [int(on_lfs[share].sum()) for share in shares]
        assert max(n_held) - min(n_held) <= (on_lfs.sum() % n_processes > 0)


def test_held_files_of_a_share_are_spread_over_its_order():
    on_lfs = Pinning(4096, 50, seed=1).on_lfs()
    part = epoch_files(
        4096, 1, 2, shuffle="global", seed=1, repetition=0, epoch=0, strata=on_lfs
    )
    assert 450 < on_lfs[part][:1024].sum() < 574


@pytest.mark.parametrize("shuffle", ["global", "local"])
def test_order_of_a_run_is_that_of_its_settings(shuffle):
    training = {"shuffle": shuffle, "seed": 3}
    system = {"n_nodes": 2, "processes_per_node": 2}
    run = describe_scenario(training=training, system=system, dataset={"n_files": 20})
    order, seeds = run_order(run, 1), {"repetition": 1, "epoch": 2, **training}
    assert order.of_all(2).tolist() == epoch_order(20, 4, **seeds).tolist()
    assert order.of_process(3, 2).tolist() == epoch_files(20, 3, 4, **seeds).tolist()
    on_lfs = Pinning(20, 50, seed=1).on_lfs()
    mine = epoch_files(20, 3, 4, strata=on_lfs, **seeds)
    assert order.of_process(3, 2, on_lfs).tolist() == mine.tolist()
