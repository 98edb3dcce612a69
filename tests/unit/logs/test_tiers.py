import pytest
from tierscope.core.validation import ConfigError
from tierscope.logs.tiers import (
    TierPrefix,
    in_order,
    prefixes_of,
    proposed_tiers,
    tiers_of,
)


def test_a_prefix_or_a_list_of_them_makes_a_tier():
    tiers = tiers_of({"gfs": ["/scratch/", "/work"], "lfs": "/local"})
    assert tiers == [
        TierPrefix("gfs", "/scratch"),
        TierPrefix("gfs", "/work"),
        TierPrefix("lfs", "/local"),
    ]
    assert prefixes_of(tiers) == {"gfs": ["/scratch", "/work"], "lfs": ["/local"]}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"gfs": "scratch"}, "tiers.gfs: got 'scratch', expected an absolute path"),
        ({"a": "/x", "b": "/x/"}, "tiers.b: got '/x', which tier a has, too"),
        ({"other": "/x"}, "got the name 'other', expected another one"),
    ],
)
def test_a_wrong_tier_is_refused(given, words):
    with pytest.raises(ConfigError, match=words):
        tiers_of(given)


def test_file_systems_of_one_kind_are_one_tier():
    mounts = {
        "/": "ext4",
        "/a": "lustre",
        "/b": "lustre",
        "/home": "nfs4",
        "/r": "tmpfs",
    }
    found = {tier.prefix: tier.name for tier in proposed_tiers(mounts)}
    assert found == {
        "/": "root",
        "/a": "lustre",
        "/b": "lustre",
        "/home": "nfs",
        "/r": "memory",
        "/dev/shm": "memory",
    }
    fuse = proposed_tiers({"/g": "fuse.glusterfs"})
    assert TierPrefix("glusterfs", "/g", "fuse.glusterfs") in fuse


def test_tiers_are_in_the_order_of_the_configuration_or_local_ones_last():
    assert in_order({"a", "z"}, tiers_of({"z": "/z", "a": "/a"})) == ["z", "a"]
    names = {"memory", "local", "nfs", "lustre"}
    assert in_order(names, "auto") == ["lustre", "nfs", "local", "memory"]
