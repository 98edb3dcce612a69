"""Pinning by bytes: what is held, and which cache rates a dataset can meet."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tierscope.policies.pinned_bytes import (
    coarse_rates_line,
    held_bytes,
    own_sizes,
    pinned_by_bytes,
    pinned_names,
    quota_of_bytes,
)
from tierscope.policies.pinning import Pinning, pinned_order

SIZES = st.lists(st.integers(0, 1 << 40), min_size=1, max_size=40).map(np.array)
RATES = st.integers(0, 100)
SEEDS = st.integers(0, 3)


@given(SIZES, RATES, RATES, SEEDS, SEEDS)
def test_higher_rate_holds_all_files_of_a_lower_one(sizes, one, other, seed, rep):
    low, high = (
        pinned_by_bytes(sizes, rate, seed, rep) for rate in sorted((one, other))
    )
    assert not (low & ~high).any()


@given(SIZES, RATES, SEEDS)
def test_files_are_held_until_the_next_does_not_fit(sizes, rate, seed):
    held = pinned_by_bytes(sizes, rate, seed, 0)
    order, total = pinned_order(len(sizes), seed, 0), int(sizes.sum())
    assert 100 * int(sizes[held].sum()) <= rate * total
    n_held = int(held.sum())
    assert sorted(order[:n_held]) == np.flatnonzero(held).tolist()
    if rate > 0 and n_held < len(sizes):
        with_next = int(sizes[order[: n_held + 1]].sum())
        assert 100 * with_next > rate * total


@given(SIZES, SEEDS)
def test_whole_rate_holds_all_and_none_holds_nothing(sizes, repetition):
    assert pinned_by_bytes(sizes, 100, 1, repetition).all()
    assert not pinned_by_bytes(sizes, 0, 1, repetition).any()


@given(st.integers(1, 8), RATES, SEEDS, SEEDS)
def test_files_of_one_size_are_held_as_by_pinning(hundreds, rate, seed, repetition):
    n_files = 100 * hundreds  # so that a whole number of files fits
    held = pinned_by_bytes(np.full(n_files, 5), rate, seed, repetition)
    assert held.tolist() == Pinning(n_files, rate, seed, repetition).on_lfs().tolist()


def test_bytes_beyond_64_bits_of_a_hundredth_are_summed():
    sizes = np.full(4, 1 << 60)
    assert pinned_by_bytes(sizes, 50, 1, 0).sum() == 2


@pytest.mark.parametrize(
    "sizes", [np.full(10, 7), np.full(3, 0), np.array([10, *[1] * 10])]
)
def test_dataset_of_enough_files_has_nothing_to_say(sizes):
    assert coarse_rates_line("mine", sizes, [0, 25, 50, 75, 100], 1, 2) is None


def test_few_files_meet_few_rates():
    line = coarse_rates_line("mine", np.full(3, 10), [0, 25, 50, 75, 100], 1, 2)
    assert line == (
        "Dataset mine: 3 files, the largest with 33.3 % of the bytes. The LFS holds "
        "whole files, so cache rates of 25 % hold 0 %, 50 % hold 33.3 %, 75 % hold "
        "66.7 % of the bytes. The dataset can meet 0, 34, 67 and 100 %; smaller files, "
        "such as shards, can meet any rate."
    )


def test_one_file_is_held_or_not():
    line = coarse_rates_line("mine", np.array([10]), [0, 50, 100], 1, 1)
    assert "1 file, the largest with 100 % of the bytes" in line
    assert "50 % hold 0 % of the bytes. The dataset can meet 0 and 100 %" in line


def test_huge_file_leaves_a_gap_between_the_rates_that_can_be_met():
    sizes = np.array([900, *[1] * 100])
    line = coarse_rates_line("mine", sizes, [1, 5, 50, 90, 95, 100], 1, 1)
    n_before = pinned_order(101, 1, 0).tolist().index(0)
    below, above = n_before // 10, (900 + n_before) // 10
    assert f"can meet 0 to {below + 1}" in line
    assert f", {above + 1} to 100 %" in line or f"and {above + 1} to 100 %" in line
    assert f"50 % hold {n_before / 10:.3g} %" in line


def test_held_bytes_of_several_orders_are_a_span():
    sizes = np.array([60, 30, 10])
    line = coarse_rates_line("mine", sizes, [50], 1, 6)
    assert "50 % hold 0 to 40 % of the bytes" in line


def test_rates_that_can_be_met_need_no_words():
    assert coarse_rates_line("mine", np.full(2, 10), [0, 50, 100], 1, 3) is None


# Three files; the second and the third have another name each.
LINKED = pd.DataFrame(
    {"size_bytes": [10, 20, 30, 20, 30], "same_as": [-1, -1, -1, 1, 2]}
)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rate", [0, 34, 50, 84, 100])
def test_names_of_one_file_are_pinned_together_and_its_bytes_count_once(rate, seed):
    held = pinned_names(LINKED, rate, seed, 0)
    assert held[[1, 2]].tolist() == held[[3, 4]].tolist()
    assert held_bytes(LINKED, held) <= rate * 60 / 100
    assert held.all() == (rate == 100)


def test_bytes_of_a_file_are_those_of_its_first_name():
    assert own_sizes(LINKED).tolist() == [10, 20, 30, 0, 0]
    assert quota_of_bytes(own_sizes(LINKED), 50) == 30
    assert held_bytes(LINKED, np.array([False, False, False, True, True])) == 50
