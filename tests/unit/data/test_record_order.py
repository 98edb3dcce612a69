import numpy as np
import pytest
from descriptions import describe_scenario
from hypothesis import given
from hypothesis import strategies as st
from tierscope.core.lmdb_loaders import LOADERS, VARIANTS, optimisations_of
from tierscope.core.scenario import Dataset
from tierscope.data.lmdb.settings import lmdb_settings, steps_per_fetch
from tierscope.data.record_order import RecordOrder, first_records
from tierscope.data.shuffle import epoch_files

OFF = dict.fromkeys(("lmm", "dm", "dio", "prov", "coal", "stag"), False)
SECTION = {
    "order": "blocks",
    "records_per_commit": 16,
    "coalesced_bytes": 4 << 20,
    "stagger_size": 1,
    "fault_bytes": 131072,
    "lmdbio": OFF,
}


def order_of(n_records=64, order="blocks", block_records=16, **changes):
    values = {
        "n_records": n_records,
        "batch_size": 4,
        "n_nodes": 2,
        "processes_per_node": 2,
        "shuffle": "global",
        "seed": 1,
        "repetition": 0,
        "order": order,
        "block_records": block_records,
    }
    return RecordOrder(**(values | changes))


@given(
    n_records=st.integers(8, 200),
    batch_size=st.integers(1, 5),
    n_nodes=st.integers(1, 4),
    processes_per_node=st.integers(1, 3),
    shuffle=st.sampled_from(["global", "local"]),
    order=st.sampled_from(["blocks", "records"]),
    epoch=st.integers(0, 3),
    coalesced_bytes=st.integers(1, 40_000),
)
def test_every_record_is_read_by_exactly_one_process(
    n_records, batch_size, n_nodes, processes_per_node, epoch, coalesced_bytes, **others
):
    settings = lmdb_settings(
        "lmdb",
        SECTION | {"coalesced_bytes": coalesced_bytes},
        Dataset("tiny", n_records, 1000, batch_size),
        describe_scenario(
            system={"n_nodes": n_nodes, "processes_per_node": processes_per_node}
        ).system,
    )
    order = order_of(
        n_records,
        block_records=settings.block_records,
        batch_size=batch_size,
        n_nodes=n_nodes,
        processes_per_node=processes_per_node,
        **others,
    )
    parts = [
        order.of_process(rank, rank // processes_per_node, rank % processes_per_node, 0)
        for rank in range(n_nodes * processes_per_node)
    ]
    assert sorted(np.concatenate(parts)) == list(range(n_records))
    nodes = [rank // processes_per_node for rank in range(len(parts))]
    assert max(map(len, parts)) <= order.most_records
    reader = order.readers(nodes, epoch)
    assert (reader >= 0).all()
    part = order.of_process(len(parts) - 1, nodes[-1], processes_per_node - 1, epoch)
    assert set(np.flatnonzero(reader == len(parts) - 1)) == set(part.tolist())


def test_a_node_reads_a_block_in_steps_of_its_processes_batches():
    order = order_of(n_records=16)
    block = order_of(n_records=16, n_nodes=1)
    assert block.of_process(0, 0, 0, 0).tolist() == [0, 1, 2, 3, 8, 9, 10, 11]
    assert block.of_process(1, 0, 1, 0).tolist() == [4, 5, 6, 7, 12, 13, 14, 15]
    sizes = [len(order.of_process(rank, rank // 2, rank % 2, 0)) for rank in range(4)]
    assert sorted(sizes) == [0, 0, 8, 8]  # one block, so one node


def test_short_block_comes_last_on_its_node():
    order = order_of(n_records=70, n_nodes=1)
    for epoch in range(5):
        assert set(order.of_process(1, 0, 1, epoch)[-3:]) <= set(range(64, 70))


def test_blocks_are_dealt_anew_every_epoch_or_only_reordered():
    for shuffle, same in (("global", False), ("local", True)):
        order = order_of(n_records=640, shuffle=shuffle)
        sets = [frozenset(order.of_process(0, 0, 0, epoch)) for epoch in range(3)]
        assert (len(set(sets)) == 1) == same
        first, second = (order.of_process(0, 0, 0, epoch).tolist() for epoch in (0, 1))
        assert first != second


def test_order_of_records_is_that_of_the_files():
    order = order_of(order="records")
    files = epoch_files(64, 3, 4, shuffle="global", seed=1, repetition=0, epoch=2)
    assert order.of_process(3, 1, 1, 2).tolist() == files.tolist()


def test_first_records_are_on_the_lfs():
    assert first_records(10, 30).tolist() == [True] * 3 + [False] * 7
    assert not first_records(10, 0).any()
    assert first_records(10, 100).all()


def test_fetch_is_a_power_of_two_of_steps_and_no_more_than_there_are():
    # 8 records of 4 KiB a step are 32 KiB: 128 steps make 4 MiB.
    assert steps_per_fetch(10**6, 4096, 8, 2, 4 << 20) == 128
    assert steps_per_fetch(10**6, 4096, 8, 2, (4 << 20) + 1) == 256
    assert steps_per_fetch(32, 4096, 8, 2, 4 << 20) == 2
    # The paper's small files: a node's step of 48 is 6 MiB already.
    assert steps_per_fetch(589824, 131072, 48, 768, 4 << 20) == 1


def test_variants_add_up_and_lmdbio_has_the_switches():
    assert optimisations_of("lmdb", OFF) == ()
    assert optimisations_of("lmdbio", OFF | {"stag": True, "lmm": True}) == (
        "lmm",
        "stag",
    )
    for name, parts in VARIANTS.items():
        assert name == "-".join(["lmdbio" if parts else "lmdb", *parts])
    assert len(LOADERS) == 8


@pytest.mark.parametrize(("loader", "steps"), [("lmdb", 1), ("lmdbio", 2)])
def test_blocks_are_the_same_for_loaders_that_coalesce_and_that_do_not(loader, steps):
    config = SECTION | {"lmdbio": OFF | {"coal": True}}
    dataset = Dataset("tiny", 32, 4096, 4)
    system = describe_scenario(system={"n_nodes": 2, "processes_per_node": 2}).system
    settings = lmdb_settings(loader, config, dataset, system)
    assert settings.block_records == 16
    assert settings.steps_per_fetch == steps
    assert settings.order == "blocks"
