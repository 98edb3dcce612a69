"""Cache rates that nodes have room for."""

import numpy as np
import pytest
from tierscope.core.description import FileSizes
from tierscope.data.file_sizes import random_sizes
from tierscope.policies import Pinning, file_owners
from tierscope.policies.room import bytes_on_fullest, largest_rate_percent


@pytest.mark.parametrize("placement", ["pinning", "stratified-pinning"])
@pytest.mark.parametrize(
    ("room", "percent"), [(0, 0), (509, 50), (510, 51), (2e3, 100)]
)
def test_each_node_needs_room_for_all_pinned_files(placement, room, percent):
    found = largest_rate_percent(placement, 100, (10.0,), 4, room)
    assert found == percent


def test_a_placement_that_holds_nothing_has_rate_0():
    assert largest_rate_percent("none", 100, (10.0,), 4, 1e9) == 0


@pytest.mark.parametrize("seeds", [(0, 0), (3, 1)])
@pytest.mark.parametrize("sizes", [(7.0,), tuple(FileSizes(100.0, 40.0).values())])
def test_pooled_files_need_the_room_of_the_fullest_node(seeds, sizes):
    n_files, n_nodes = 1000, 8
    owners = file_owners(n_files, n_nodes)
    each = np.resize(sizes, FileSizes.N_SIZES)[random_sizes(n_files, seeds[0])]
    for rate in (0, 1, 37, 100):
        held = Pinning(n_files, rate, *seeds).on_lfs()
        needed = max(each[held & (owners == node)].sum() for node in range(n_nodes))
        found = bytes_on_fullest("adhoc", n_files, sizes, n_nodes, seeds)[rate]
        assert found == pytest.approx(needed)
        assert needed >= each[held].sum() / n_nodes
        arguments = "adhoc", n_files, sizes, n_nodes
        assert largest_rate_percent(*arguments, found + 1e-6, seeds) >= rate
        assert largest_rate_percent(*arguments, found - 1e-6, seeds) < rate


def test_pool_of_one_node_is_that_nodes_own_copy():
    pooled, pinned = (
        bytes_on_fullest(name, 50, (3.0,), 1) for name in ("adhoc", "pinning")
    )
    assert pooled.tolist() == pinned.tolist()
