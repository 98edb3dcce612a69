"""Combinations of what may be chosen of a storage."""

import pytest
from tierscope.core.validation import ConfigError
from tierscope.data.designs import Storage
from tierscope.experiment.designs.storages import storages_of, values_of


def test_without_choices_the_storage_is_as_it_is():
    assert storages_of({}) == (Storage(),)


def test_all_combinations_are_made():
    links = {"from": 2, "to": 6, "step": 2}
    found = storages_of({"object_servers": [4, 2], "links": links})
    assert [(one.object_servers, one.links) for one in found] == [
        (2, 2),
        (2, 4),
        (2, 6),
        (4, 2),
        (4, 4),
        (4, 6),
    ]


def test_without_copies_devices_are_the_fewest():
    choices = {
        "placement": ["pinning", "none"],
        "lfs_devices": [2, 1],
        "cache_rates_percent": [0, 50],
    }
    found = storages_of(choices)
    rates = [(one.lfs_devices, one.cache_rate_percent) for one in found]
    assert rates == [(1, 0), (1, 0), (1, 50), (2, 50)]
    assert [one.placement for one in found] == ["none"] + ["pinning"] * 3


@pytest.mark.parametrize(
    ("choice", "values"),
    [
        ([3, 1], [3, 1]),
        ({"from": 1, "to": 2, "step": 0.25}, [1, 1.25, 1.5, 1.75, 2]),
        ({"from": 0.1, "to": 0.3, "step": 0.1}, pytest.approx([0.1, 0.2, 0.3])),
        ({"from": 1, "to": 6, "step": 4}, [1, 5]),
    ],
)
def test_a_range_has_both_ends(choice, values):
    assert values_of("links", choice) == values


@pytest.mark.parametrize(
    ("first", "last", "step"), [(2, 1, 1), (1, 1_000_000, 1), (0.001, 1000, 0.001)]
)
def test_a_range_is_neither_backward_nor_endless(first, last, step):
    with pytest.raises(ConfigError, match=r"links: got .* by .*, expected 1 to"):
        values_of("links", {"from": first, "to": last, "step": step})


def test_too_many_storages_are_refused_before_they_are_made():
    many = {"from": 1, "to": 10_000, "step": 1}
    with pytest.raises(ConfigError, match="got 100000000 storages, expected at most"):
        storages_of({"links": many, "object_servers": many})
